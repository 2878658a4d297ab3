"""From the network into the cache: whole and checked, or not at all."""

import hashlib
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy.io import savemat

from datasets.served import edition_of, redirected, small_mnist
from paraboloid.datasets import DatasetAltered, DatasetMissing, catalogue, mnist
from paraboloid.datasets.download import fetch, obtain
from paraboloid.datasets.editions import Array, Edition, sha256
from paraboloid.datasets.files import checked
from paraboloid.datasets.known import KNOWN
from paraboloid.datasets.sources import SOURCES, Source


def left_in(cache):
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def test_a_download_is_loaded_as_it_was_sent(served_mnist, cache):
    data, sent = mnist(), small_mnist()
    assert np.array_equal(data.train.x[:, 0].numpy(), sent["x_train"])
    assert data.test.y.tolist() == sent["y_test"].tolist()
    assert left_in(cache) == ["mnist.npz"]


def test_what_is_in_the_cache_is_not_downloaded_again(served_mnist, cache):
    first = mnist()
    asked = len(served_mnist.asked)
    assert mnist().digest == first.digest
    assert catalogue.get("mnist") == cache / "mnist.npz"
    assert len(served_mnist.asked) == asked == 4


def test_progress_counts_the_bytes_of_each_file_up_to_its_length(served_mnist):
    calls = []
    obtain("mnist", lambda done, total: calls.append((done, total)))
    ends = [total for done, total in calls if done == total]
    assert ends == [len(served_mnist.pages[path]) for path in served_mnist.asked]


def test_a_download_that_ends_early_is_said_and_leaves_nothing(served_mnist, cache):
    served_mnist.cut.add("/t10k-images.gz")
    with pytest.raises(DatasetMissing, match=r"t10k-images.gz: the download ended after \d+ of \d+ bytes"):
        mnist()
    assert left_in(cache) == []


def test_a_page_that_is_not_there_is_said_with_both_ways_out(served_mnist, cache):
    del served_mnist.pages["/train-labels.gz"]
    with pytest.raises(DatasetMissing, match="the server answered 404 Not Found") as raised:
        mnist()
    assert "paraboloid data get mnist" in str(raised.value)
    assert "put the file mnist.npz into a folder, and set the environment variable PARABOLOID_DATA" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 3
    assert left_in(cache) == []


def test_no_network_is_said_at_once(cache, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
    monkeypatch.setitem(SOURCES, "mnist", redirected(SOURCES["mnist"], closed))
    with pytest.raises(DatasetMissing, match="the network does not reach it"):
        mnist()
    assert left_in(cache) == []


def test_a_server_that_says_nothing_is_not_waited_for_longer_than_the_timeout(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(OSError, match="timed out"):
            fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/x", tmp_path / "x", timeout=0.2)


def test_the_network_is_not_touched_if_it_is_forbidden(served_mnist):
    with pytest.raises(DatasetMissing, match="it was not to be downloaded"):
        mnist(download=False)
    assert served_mnist.asked == []


def test_other_numbers_than_the_known_ones_are_refused_and_not_kept(served_mnist, cache, monkeypatch):
    other = small_mnist()
    other["x_train"][0, 0, 0] ^= 1
    found = sha256(other["x_train"])
    expected = sha256(small_mnist()["x_train"])
    monkeypatch.setitem(KNOWN, "mnist", (edition_of(other),))
    with pytest.raises(DatasetAltered, match=f"array x_train should have sha256 {found}, found {expected}"):
        mnist()
    assert left_in(cache) == []


@pytest.mark.parametrize("garbage", [b"", b"<html>not here</html>", b"\x1f\x8b\x08 cut"], ids=["empty", "html", "gzip"])
def test_a_page_of_another_kind_is_refused_and_not_kept(served_mnist, cache, garbage):
    served_mnist.pages["/train-images.gz"] = garbage
    with pytest.raises(DatasetAltered, match=r"sent cannot be read as mnist: .* Nothing was kept"):
        mnist()
    assert left_in(cache) == []


def test_an_interrupted_download_leaves_nothing_and_can_be_repeated(served_mnist, cache):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain("mnist", interrupt)
    assert left_in(cache) == []
    assert len(mnist().train) == 5


def test_downloads_at_the_same_time_do_not_disturb_each_other(served_mnist, cache):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: obtain("mnist"), range(8)))
    assert set(paths) == {cache / "mnist.npz"}
    assert left_in(cache) == ["mnist.npz"]
    assert checked("mnist").edition.name == "small"


def test_a_cache_that_cannot_be_written_is_said(cache, monkeypatch, tmp_path):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("PARABOLOID_CACHE", str(tmp_path / "a file"))
    with pytest.raises(DatasetMissing, match="the cache .* cannot be written"):
        mnist()


@pytest.fixture
def served_svhn(served_mnist, tmp_path, monkeypatch):
    """A small SVHN whose pixels only the container vouches for."""
    draws = np.random.default_rng(1)
    shapes, md5 = {}, {}
    for part, num in (("train", 4), ("test", 2)):
        file = f"{part}_32x32.mat"
        labels = np.arange(10, 10 - num, -1, dtype=np.uint8)[:, None]
        savemat(tmp_path / file, {"X": draws.integers(0, 256, (32, 32, 3, num)).astype(np.uint8), "y": labels})
        served_mnist.pages[f"/{file}"] = (tmp_path / file).read_bytes()
        md5[file] = hashlib.md5(served_mnist.pages[f"/{file}"]).hexdigest()
        shapes[f"x_{part}"] = Array((num, 32, 32, 3), "|u1")
        shapes[f"y_{part}"] = Array((num,), "|u1", sha256(labels[:, 0] % 10))
    source = SOURCES["svhn"]
    urls = {file: f"{served_mnist.base}/{file}" for file in source.urls}
    monkeypatch.setitem(SOURCES, "svhn", Source(urls, source.convert, md5))
    monkeypatch.setitem(KNOWN, "svhn", (Edition("whole", shapes),))
    return served_mnist


def test_a_known_container_vouches_for_pixels_of_which_no_digest_is_known(served_svhn, cache):
    assert checked("svhn").arrays["y_train"].tolist() == [0, 9, 8, 7]
    assert left_in(cache) == ["svhn.npz", "svhn.receipt.json"]
    assert checked("svhn").edition.name == "whole"


def test_without_the_receipt_of_a_download_such_pixels_are_refused(served_svhn, cache, tmp_path, monkeypatch):
    obtain("svhn")
    elsewhere = tmp_path / "elsewhere"
    cache.rename(elsewhere)
    monkeypatch.setenv("PARABOLOID_DATA", str(elsewhere))
    with pytest.raises(DatasetAltered, match="array x_train cannot be checked: no digest is known"):
        checked("svhn")


def test_pixels_that_changed_after_the_receipt_are_refused(served_svhn, cache):
    arrays = dict(checked("svhn").arrays)
    arrays["x_test"] = 255 - arrays["x_test"]
    np.savez(cache / "svhn.npz", **arrays)
    with pytest.raises(DatasetAltered, match="array x_test should have sha256"):
        checked("svhn")


def test_another_container_than_the_known_one_is_refused(served_svhn, cache):
    served_svhn.pages["/test_32x32.mat"] += b" "
    with pytest.raises(DatasetAltered, match=r"test_32x32.mat should send a file of md5 [0-9a-f]{32}, found"):
        checked("svhn")
    assert left_in(cache) == []


def test_every_source_has_digests_and_every_address_is_an_ordinary_one():
    assert set(SOURCES) == set(KNOWN)
    addresses = [url for source in SOURCES.values() for url in source.urls.values()]
    assert all(re.match(r"https?://[a-z0-9.-]+/", url) for url in addresses)


def test_a_loaded_picture_is_a_byte_and_a_label_an_integer(served_mnist):
    data = mnist(validation=2)
    assert (data.train.x.dtype, data.train.y.dtype) == (torch.uint8, torch.int64)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [3, 2, 3]
