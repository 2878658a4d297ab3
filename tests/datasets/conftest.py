"""A place of its own for the files of data sets, so that no test sees or changes the user's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from datasets.served import Web, edition_of, idx_pages, redirected, small_mnist, web
from paraboloid.datasets import files
from paraboloid.datasets.known import KNOWN
from paraboloid.datasets.sources import SOURCES


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no folder of data, and nothing remembered as checked."""
    monkeypatch.delenv("PARABOLOID_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PARABOLOID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "_CHECKED", {})
    return tmp_path / "cache" / "datasets"


@pytest.fixture
def served_mnist(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A web that sends a small MNIST, which is the one that is known."""
    arrays = small_mnist()
    with web() as served:
        served.pages |= idx_pages(arrays)
        monkeypatch.setitem(SOURCES, "mnist", redirected(SOURCES["mnist"], served.base))
        monkeypatch.setitem(KNOWN, "mnist", (edition_of(arrays),))
        yield served
