"""Parts that are chosen by content do not depend on the order of a file."""

import numpy as np
import pytest
import torch

from datasets.served import edition_of, small_mnist
from paraboloid.datasets import cifar10, mnist
from paraboloid.datasets.editions import Edition
from paraboloid.datasets.images import by_content, parted_by_content
from paraboloid.datasets.known import KNOWN, OFFICIAL


@pytest.fixture
def pictures():
    """Twelve pictures, of which the last four are copies of the first four."""
    different = np.random.default_rng(0).integers(0, 256, (8, 3, 3)).astype(np.uint8)
    return np.concatenate([different, different[:4]])


def test_parts_by_content_are_the_same_in_every_order(pictures):
    labels = np.arange(12) % 8
    order = np.random.default_rng(1).permutation(12)

    def digest(x, y):
        return parted_by_content("a", x, y, 7, classes=(), note="", device="cpu").digest

    assert digest(pictures, labels) == digest(pictures[order], labels[order])


def test_equal_pictures_stay_together(pictures):
    order = by_content(pictures)
    ordered = pictures[order.numpy()]
    places = {}
    for place, picture in enumerate(ordered):
        places.setdefault(picture.tobytes(), []).append(place)
    assert sorted(map(len, places.values())) == [1] * 4 + [2] * 4
    assert all(found[-1] - found[0] == len(found) - 1 for found in places.values())


def validation_of(arrays, name, folder, monkeypatch):
    monkeypatch.setenv("PARABOLOID_DATA", str(folder))
    known = edition_of(arrays)
    monkeypatch.setitem(KNOWN, "mnist", (Edition(name, known.arrays),))
    np.savez(folder / "mnist.npz", **arrays)
    return mnist(validation=2)


def test_an_official_file_gives_its_last_images_for_validation(cache, tmp_path, monkeypatch):
    arrays = small_mnist()
    data = validation_of(arrays, OFFICIAL, tmp_path, monkeypatch)
    assert np.array_equal(data.validation.x[:, 0].numpy(), arrays["x_train"][3:])
    assert data.validation.y.tolist() == [1, 5]


def test_a_file_in_another_order_gives_the_same_validation_whatever_its_order(cache, tmp_path, monkeypatch):
    arrays = small_mnist()
    first = validation_of(arrays, "another", tmp_path, monkeypatch)
    for key in ("x_train", "y_train"):
        arrays[key] = arrays[key][::-1].copy()
    second = validation_of(arrays, "another", tmp_path, monkeypatch)
    assert first.digest == second.digest
    assert "ordered by the sha256" in first.note
    joined = torch.cat([first.train.y, first.validation.y])
    assert sorted(joined.tolist()) == [1, 1, 3, 4, 5]


def test_colours_become_planes_and_rows_stay_rows(cache, tmp_path, monkeypatch):
    draws = np.random.default_rng(0)
    arrays = {f"x_{part}": draws.integers(0, 256, (4, 3, 5, 3)).astype(np.uint8) for part in ("train", "test")}
    arrays |= {f"y_{part}": np.arange(4, dtype=np.uint8) for part in ("train", "test")}
    arrays["class_names"] = np.array(list("abcd"))
    monkeypatch.setenv("PARABOLOID_DATA", str(tmp_path))
    monkeypatch.setitem(KNOWN, "cifar10", (edition_of(arrays),))
    np.savez(tmp_path / "cifar10.npz", **arrays)
    data = cifar10()
    assert (data.train.x.shape, data.train.x.is_contiguous()) == ((4, 3, 3, 5), True)
    for channel in range(3):
        assert np.array_equal(data.train.x[:, channel].numpy(), arrays["x_train"][..., channel])
    assert data.classes == ("a", "b", "c", "d")
    assert data.normalise.mean.shape == (3, 1, 1)
