"""A file is the one that is known, or it is refused by name."""

import os

import numpy as np
import pytest

from datasets.served import edition_of, small_mnist
from paraboloid.datasets import DatasetAltered, files
from paraboloid.datasets.editions import Array, Edition, recognise, set_digest, sha256
from paraboloid.datasets.known import KNOWN


@pytest.fixture
def folder(cache, tmp_path, monkeypatch):
    """A folder of data with a small mnist.npz, which is the one that is known."""
    monkeypatch.setenv("PARABOLOID_DATA", str(tmp_path))
    monkeypatch.setitem(KNOWN, "mnist", (edition_of(small_mnist()),))
    np.savez(tmp_path / "mnist.npz", **small_mnist())
    return tmp_path


def shuffled():
    arrays = small_mnist()
    order = np.array([2, 0, 1, 4, 3])
    return arrays | {"x_train": arrays["x_train"][order], "y_train": arrays["y_train"][order]}


def test_the_digest_of_an_array_is_that_of_its_rows_in_order():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert sha256(array) == sha256(np.asfortranarray(array)) != sha256(array.T)


def test_the_digest_of_a_set_knows_which_label_belongs_to_which_picture():
    arrays, other = small_mnist(), shuffled()
    digest = set_digest(arrays["x_train"], arrays["y_train"])
    assert set_digest(other["x_train"], other["y_train"]) == digest
    assert set_digest(other["x_train"], arrays["y_train"]) != digest


def test_another_order_is_recognised_by_the_digest_of_the_set():
    arrays, known = small_mnist(), edition_of(small_mnist())
    loose = {name: Array(a.shape, a.dtype) if "train" in name else a for name, a in known.arrays.items()}
    sets = {"train": set_digest(arrays["x_train"], arrays["y_train"])}
    any_order = Edition("any order", loose, sets)
    assert recognise(arrays, [known, any_order]) is known
    assert recognise(shuffled(), [known, any_order]) is any_order
    mislabelled = shuffled() | {"y_train": arrays["y_train"]}
    assert "x_train should have sha256" in str(recognise(mislabelled, [known, any_order]))
    assert "x_train and y_train should have set digest" in str(recognise(mislabelled, [any_order]))


@pytest.mark.parametrize("name", sorted(small_mnist()))
def test_one_changed_byte_of_any_array_is_found(folder, name):
    arrays = small_mnist()
    arrays[name].flat[-1] ^= 1
    np.savez(folder / "mnist.npz", **arrays)
    expected, found = sha256(small_mnist()[name]), sha256(arrays[name])
    message = f"mnist.npz is not the file that it should be: array {name} should have sha256 {expected}, found {found}"
    with pytest.raises(DatasetAltered, match=message) as raised:
        files.checked("mnist")
    assert "Delete it and get it again:    paraboloid data get mnist" in str(raised.value)


def test_an_array_of_another_shape_or_type_is_refused_by_name(folder):
    np.savez(folder / "mnist.npz", **small_mnist() | {"y_test": np.zeros(3, np.int64)})
    with pytest.raises(DatasetAltered, match=r"array y_test should be \(3,\) \|u1, found \(3,\) <i8"):
        files.checked("mnist")
    np.savez(folder / "mnist.npz", **small_mnist() | {"y_test": np.zeros(4, np.uint8)})
    with pytest.raises(DatasetAltered, match=r"array y_test should be \(3,\) \|u1, found \(4,\) \|u1"):
        files.checked("mnist")


def test_an_array_that_is_missing_or_foreign_is_refused(folder):
    np.savez(folder / "mnist.npz", **small_mnist() | {"extra": np.zeros(1)})
    with pytest.raises(DatasetAltered, match=r"should hold the arrays .*, found \['extra', 'x_test'"):
        files.checked("mnist")
    np.savez(folder / "mnist.npz", x=np.zeros(1))
    with pytest.raises(DatasetAltered, match=r"found \['x'\]"):
        files.checked("mnist")


@pytest.mark.parametrize("kept", [0, 1, 100, 2000, -1])
def test_a_file_that_was_cut_short_is_refused_by_name(folder, kept):
    path = folder / "mnist.npz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DatasetAltered, match=r"mnist.npz is not a whole .npz file"):
        files.checked("mnist")


def test_a_file_of_another_kind_is_refused(folder):
    np.save(folder / "other.npy", np.zeros(3))
    (folder / "other.npy").rename(folder / "mnist.npz")
    with pytest.raises(DatasetAltered, match="is not a whole .npz file"):
        files.checked("mnist")


def test_nothing_is_unpickled(folder):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(folder / "sprung"),)

    np.savez(folder / "mnist.npz", **small_mnist() | {"x_train": np.array([Trap()], object)})
    with pytest.raises(DatasetAltered, match="is not a whole .npz file"):
        files.checked("mnist")
    assert not (folder / "sprung").exists()


def test_the_folder_comes_before_the_cache_and_the_cache_before_the_network(folder, cache):
    cache.mkdir(parents=True)
    np.savez(cache / "mnist.npz", **small_mnist())
    assert files.checked("mnist").path == folder / "mnist.npz"
    (folder / "mnist.npz").unlink()
    assert files.checked("mnist").path == cache / "mnist.npz"


def test_a_file_is_checked_once_and_again_only_when_it_changes(folder, monkeypatch):
    checks = []
    monkeypatch.setattr(files, "recognise", lambda *asked: checks.append(1) or recognise(*asked))
    for _ in range(3):
        files.checked("mnist")
    assert len(checks) == 1
    os.utime(folder / "mnist.npz", ns=(1, 1))
    files.checked("mnist")
    assert len(checks) == 2


def test_no_edition_leaves_an_array_without_a_digest_but_the_official_house_numbers():
    loose = {
        (name, edition.name, array)
        for name, editions in KNOWN.items()
        for edition in editions
        for array, expected in edition.arrays.items()
        if expected.sha256 is None and array.partition("_")[2] not in edition.sets
    }
    official = "the official files, in their order"
    assert loose == {("svhn", official, "x_train"), ("svhn", official, "x_test")}
