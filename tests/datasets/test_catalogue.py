"""Reaching data sets by name."""

import re
import subprocess
import sys

import pytest

from datasets.served import small_mnist
from paraboloid import datasets
from paraboloid.datasets import DatasetAltered, DatasetMissing, catalogue
from paraboloid.datasets.catalogue import CATALOGUE, available, check, entry, get, load
from paraboloid.datasets.known import KNOWN
from paraboloid.datasets.places import file_name


def test_every_line_is_filled_and_its_file_is_known():
    for name, listed in CATALOGUE.items():
        assert name == listed.name == listed.function.__name__
        assert listed.summary and listed.source and listed.licence and listed.megabytes > 0
        assert listed.file is None or listed.file in KNOWN
        assert listed.function.__doc__, name
    assert {listed.file for listed in CATALOGUE.values()} - {None} == set(KNOWN)


def test_every_data_set_is_a_function_of_the_room():
    assert all(getattr(datasets, name) is listed.function for name, listed in CATALOGUE.items())


@pytest.mark.parametrize("name", [name for name, listed in CATALOGUE.items() if listed.simulated])
def test_a_simulated_set_needs_no_file(cache, name):
    assert available(name).kind == "simulated"
    assert check(name).edition == "simulated"
    assert get(name) is None
    assert not cache.exists()


@pytest.mark.parametrize("name", [name for name, listed in CATALOGUE.items() if listed.file])
def test_a_set_whose_file_is_nowhere_would_come_from_the_network(cache, name):
    assert (available(name).kind, available(name).path) == ("online", None)
    with pytest.raises(DatasetMissing, match="is not on this machine: no file of it was found") as raised:
        check(name)
    assert f"put the file {file_name(CATALOGUE[name].file)} into a folder" in str(raised.value)
    command = re.search(r"paraboloid data get (\w+)", str(raised.value))
    assert CATALOGUE[command[1]].file == CATALOGUE[name].file


def test_get_fetches_once_and_check_verifies(served_mnist, cache):
    calls = []
    assert get("mnist", lambda done, total: calls.append(done)) == cache / "mnist.npz"
    assert calls
    assert str(available("mnist")) == f"cache: {cache / 'mnist.npz'}"
    assert (check("mnist").path, check("mnist").edition) == (cache / "mnist.npz", "small")
    assert len(load("mnist", validation=1).validation) == 1
    path = cache / "mnist.npz"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DatasetAltered, match="mnist.npz is not a whole .npz file"):
        check("mnist")


def test_two_sets_of_one_file_share_it(served_mnist, cache):
    assert get("projected_mnist") == get("mnist") == cache / "mnist.npz"
    projected = load("projected_mnist", train=4)
    assert (projected.train.x.shape, projected.test.x.shape) == ((4, 10), (3, 10))
    assert projected.train.y.tolist() == small_mnist()["y_train"][:4].tolist()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("mnits", "mnist"), ("fashion-mnist", "fashion_mnist"), ("cifar", "cifar10"), ("shakespeare", "")],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong, right):
    with pytest.raises(
        ValueError, match=f"there is no data set '{wrong}'; did you mean .*{right}.* All names: mnist, "
    ):
        entry(wrong)


def test_a_name_that_is_near_to_nothing_is_answered_with_all_names():
    with pytest.raises(ValueError, match=r"there is no data set 'qqqqqq'\. All names: mnist, "):
        load("qqqqqq")


def test_digits_are_asked_of_scikit_learn():
    assert available("digits").kind == "scikit-learn"
    assert check("digits").edition == "scikit-learn"


def test_importing_the_room_imports_no_optional_library():
    code = "import sys, paraboloid.datasets; print({'sklearn', 'scipy'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_a_library_that_is_not_there_is_named_with_the_way_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"digits come with scikit-learn, .* `pip install scikit-learn`"):
        load("digits")
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r"a.mat is a MATLAB file, .* `pip install scipy`"):
        datasets.formats.matlab(tmp_path / "a.mat")


def test_the_names_of_needed_files_are_those_of_the_known_digests():
    assert {name.partition(".")[0] for name in catalogue.needed_files()} == set(KNOWN)
