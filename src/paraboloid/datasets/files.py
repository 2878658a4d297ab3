"""The arrays of a data set, from the first place that has its file, and never unchecked.

A check reads every byte; it is done once per process for a file that keeps its path, size and time of change.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paraboloid.datasets.download import Progress, missing, obtain, receipt_of
from paraboloid.datasets.editions import Edition, recognise
from paraboloid.datasets.errors import DatasetAltered
from paraboloid.datasets.known import KNOWN
from paraboloid.datasets.places import TEXTS, find, way_to_get

_CHECKED: dict[tuple[str, int, int], Edition] = {}


@dataclass(frozen=True)
class Checked:
    """The arrays of a file, and the edition that they were recognised as.

    For instance:

        files.checked("mnist").arrays["x_train"].shape
    """

    path: Path
    arrays: dict[str, np.ndarray]
    edition: Edition


def checked(name: str, download: bool = True, progress: Progress | None = None) -> Checked:
    """The arrays of a data set: from PARABOLOID_DATA, else the cache, else (if `download`) the network.

    For instance:

        files.checked("mnist", download=False).edition.name
    """
    place = find(name)
    if place is not None and place.path is not None:
        return read(name, place.path)
    if not download:
        raise missing(name, "no file of it was found, and it was not to be downloaded")
    return read(name, obtain(name, progress))


def read(name: str, path: Path) -> Checked:
    """The checked arrays of one file; DatasetAltered if it is another file than it should be.

    For instance:

        files.read("mnist", Path("data/mnist.npz")).edition.name
    """
    status = path.stat()
    arrays = _arrays(name, path)
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns)
    if key not in _CHECKED:
        edition = recognise(arrays, KNOWN[name], receipt_of(path))
        if isinstance(edition, str):
            raise DatasetAltered(
                f"{path} is not the file that it should be: {edition}. Nothing of it is used. Delete it and get it "
                f"again:    {way_to_get(name)}"
            )
        _CHECKED[key] = edition
    return Checked(path, arrays, _CHECKED[key])


def _arrays(name: str, path: Path) -> dict[str, np.ndarray]:
    if name in TEXTS:
        return {"text": np.frombuffer(path.read_bytes(), np.uint8)}
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, OSError, KeyError, TypeError, zlib.error, zipfile.BadZipFile) as error:
        raise DatasetAltered(
            f"{path} is not a whole .npz file ({error}): it was cut short, or is of another kind. Delete it and get it "
            f"again:    {way_to_get(name)}"
        ) from error
