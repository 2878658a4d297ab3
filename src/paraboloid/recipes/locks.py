"""One writer per folder. The operating system gives the lock back when its process ends, however it ends."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import IO

from paraboloid.recipes.refused import Refused
from paraboloid.spaces.storage import NotWritten

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lock:
    """Held from construction until `release`; another process waits `patience` seconds and is then refused."""

    def __init__(self, folder: Path, patience: float = 0.0) -> None:
        try:
            self._file = (folder / "lock").open("wb")
        except OSError as error:
            raise NotWritten.because(folder / "lock", error) from error
        deadline = time.monotonic() + patience
        while True:
            try:
                _take(self._file)
                return
            except OSError:
                if time.monotonic() >= deadline:
                    self._file.close()
                    raise Refused(
                        f"another run is writing into {folder}: wait for it, stop it, or give this one its own --out."
                    ) from None
                time.sleep(0.05)

    def release(self) -> None:
        """Give the folder back."""
        self._file.close()
