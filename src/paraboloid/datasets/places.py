"""Where the files of data sets lie: a folder of the user's, then the cache.

A file is called NAME.npz (tinyshakespeare: .txt). The folder is named by the environment variable PARABOLOID_DATA, the
cache by PARABOLOID_CACHE; without it, the cache is where the system keeps such things.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

TEXTS = {"tinyshakespeare"}
# files that are not called like the data set that is made of them
MADE_INTO = {"adult": "census", "olivetti_faces": "olivetti"}


@dataclass(frozen=True)
class Place:
    """Where a data set would come from: "folder", "cache", "online", "simulated", "scikit-learn" or "nowhere".

    >>> str(Place("online"))
    'online'
    """

    kind: str
    path: Path | None = None

    def __str__(self) -> str:
        return self.kind if self.path is None else f"{self.kind}: {self.path}"


def file_name(name: str) -> str:
    """The name of the file that holds a data set.

    >>> file_name("mnist")
    'mnist.npz'
    """
    return f"{name}.txt" if name in TEXTS else f"{name}.npz"


def way_to_get(name: str) -> str:
    """The command that downloads a file.

    >>> way_to_get("adult")
    'paraboloid data get census'
    """
    return f"paraboloid data get {MADE_INTO.get(name, name)}"


def data_folder() -> Path | None:
    """The folder that PARABOLOID_DATA names, if it is set.

    For instance:

        export PARABOLOID_DATA=path/to/a/folder/with/npz/files
    """
    named = os.environ.get("PARABOLOID_DATA")
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """Where downloads are kept: PARABOLOID_CACHE, else the system's place for caches.

    >>> isinstance(cache_folder(), Path)
    True
    """
    named = os.environ.get("PARABOLOID_CACHE")
    return Path(named).expanduser() / "datasets" if named else _system_cache() / "paraboloid" / "datasets"


def _system_cache() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path.home() / ".cache"


def find(name: str) -> Place | None:
    """The file of a data set, if there is one: first in the folder, then in the cache.

    >>> find("no such data set") is None
    True
    """
    folder = data_folder()
    if folder is not None and (folder / file_name(name)).is_file():
        return Place("folder", folder / file_name(name))
    cached = cache_folder() / file_name(name)
    return Place("cache", cached) if cached.is_file() else None
