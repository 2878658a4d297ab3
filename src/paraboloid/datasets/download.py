"""From the network into the cache: fetched, converted, checked, and only then put under the name that is read.

Everything happens in a folder of its own inside the cache, which is removed whatever happens; the finished file is
renamed into place. So an interrupted download leaves nothing behind that could be read, and two at once do not disturb
each other.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from paraboloid.datasets.editions import recognise, sha256
from paraboloid.datasets.errors import DatasetAltered, DatasetMissing
from paraboloid.datasets.known import KNOWN
from paraboloid.datasets.places import MADE_INTO, TEXTS, cache_folder, file_name, way_to_get
from paraboloid.datasets.sources import SOURCES, Source
from paraboloid.spaces.storage import replacing

CHUNK = 1 << 18
TIMEOUT = 10.0
Progress = Callable[[int, int | None], None]


def obtain(name: str, progress: Progress | None = None) -> Path:
    """Download a data set into the cache and give the path of its file; `progress(bytes done, bytes in all)` is called
    for each downloaded file from 0 on, with None where the server does not say how many there are.

        obtain("mnist", progress=lambda done, total: print(done, total))
    """
    source, folder = SOURCES[name], cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        workplace = tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}.")
    except OSError as error:
        raise missing(name, f"the cache {folder} cannot be written ({error})") from error
    with workplace as place:
        for file, url in source.urls.items():
            try:
                fetch(url, Path(place) / file, progress)
            except (OSError, http.client.HTTPException) as error:
                raise missing(name, f"{url}: {_reason(error)}") from error
        arrays = _converted(name, source, Path(place))
        receipt = {key: sha256(array) for key, array in arrays.items()} if source.md5 else {}
        edition = recognise(arrays, KNOWN[name], receipt)
        if isinstance(edition, str):
            raise DatasetAltered(
                f"what {', '.join(source.urls.values())} sent is not {name}: {edition}. Nothing was kept. If the "
                f"source has changed for good, put a known {file_name(name)} into a folder and set "
                "PARABOLOID_DATA to it."
            )
    return _kept(name, arrays, receipt)


def missing(name: str, reason: str) -> DatasetMissing:
    """The error for a data set that is not here: why, and the two ways to get it.

    >>> print(missing("mnist", "the network is down"))
    The data set mnist is not on this machine: the network is down.
    Either download it where there is a network:    paraboloid data get mnist
    or put the file mnist.npz into a folder, and set the environment variable PARABOLOID_DATA to it.
    """
    return DatasetMissing(
        f"The data set {MADE_INTO.get(name, name)} is not on this machine: {reason}.\n"
        f"Either download it where there is a network:    {way_to_get(name)}\n"
        f"or put the file {file_name(name)} into a folder, and set the environment variable PARABOLOID_DATA to it."
    )


def fetch(url: str, target: Path, progress: Progress | None = None, timeout: float = TIMEOUT) -> None:
    """Write what `url` sends to `target`; OSError if it ends early. `timeout` is for each answer, not for the whole.

    For instance:

        fetch("https://example.org/a.gz", Path("a.gz"))
    """
    request = urllib.request.Request(url, headers={"User-Agent": "paraboloid"})
    with urllib.request.urlopen(request, timeout=timeout) as answer, open(target, "wb") as file:
        said = answer.headers.get("Content-Length")
        total, done = int(said) if said else None, 0
        while chunk := answer.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    if total is not None and done != total:
        raise OSError(f"the download ended after {done} of {total} bytes")


def receipt_of(path: Path) -> dict[str, str]:
    """The digests that were written when a file came into the cache in a container that is known; mostly none.

    >>> receipt_of(Path("nowhere.npz"))
    {}
    """
    slip = path.with_suffix(".receipt.json")
    return json.loads(slip.read_text()) if path.parent == cache_folder() and slip.is_file() else {}


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"the network does not reach it ({error.reason})"
    return str(error) or type(error).__name__


def _converted(name: str, source: Source, place: Path) -> dict[str, np.ndarray]:
    for file, expected in source.md5.items():
        found = hashlib.md5((place / file).read_bytes(), usedforsecurity=False).hexdigest()
        if found != expected:
            raise DatasetAltered(
                f"{source.urls[file]} should send a file of md5 {expected}, found {found}. Nothing was "
                "kept: get it again."
            )
    try:
        return source.convert(place)
    except (ValueError, LookupError, EOFError, OSError, zlib.error, tarfile.TarError, zipfile.BadZipFile) as error:
        raise DatasetAltered(
            f"what {', '.join(source.urls.values())} sent cannot be read as {name}: {error}. Nothing was kept: "
            "get it again."
        ) from error


def _kept(name: str, arrays: dict[str, np.ndarray], receipt: dict[str, str]) -> Path:
    path = cache_folder() / file_name(name)
    if receipt:
        with replacing(path.with_suffix(".receipt.json")) as temporary:
            temporary.write_text(json.dumps(receipt))
    with replacing(path) as temporary:
        if name in TEXTS:
            temporary.write_bytes(arrays["text"].tobytes())
        else:
            with temporary.open("wb") as file:  # savez would add an ending to a path
                # savez's stub does not know that any mapping of arrays may be spread here
                np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    return path
