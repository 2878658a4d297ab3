"""The metrics stream: one JSON object per line, and beside it the clock.

Metrics hold nothing that depends on the machine's speed, so that a resumed run writes the same bytes as one that was
never interrupted; the seconds at which lines were written go to a file of their own.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from paraboloid.recipes.log import Value, plain
from paraboloid.recipes.refused import Refused
from paraboloid.spaces.storage import NotWritten


class Stream:
    """Appends lines to ``metrics.jsonl`` and their times to ``clock.jsonl``.

    A position is (bytes of metrics, bytes of the clock, seconds so far); what was written after it is dropped.
    """

    def __init__(self, folder: Path, position: tuple[int, int, float] = (0, 0, 0.0)) -> None:
        self._paths = folder / "metrics.jsonl", folder / "clock.jsonl"
        self._before, self._start = position[2], time.monotonic()
        try:
            self._files = self._open(position)
        except OSError as error:
            raise NotWritten.because(folder / "metrics.jsonl", error) from error

    def _open(self, position: tuple[int, int, float]) -> tuple[BinaryIO, ...]:
        for path, size in zip(self._paths, position, strict=False):
            path.touch()
            if path.stat().st_size < size:
                raise Refused(
                    f"{path} should hold at least {size} bytes, as its checkpoint says, but has {path.stat().st_size}: "
                    "it was changed from outside. Begin anew by --restart."
                )
            os.truncate(path, int(size))
        return tuple(cast(BinaryIO, path.open("ab", buffering=0)) for path in self._paths)

    @property
    def seconds(self) -> float:
        """Time spent in this part of the run, over all sessions."""
        return self._before + time.monotonic() - self._start

    def write(self, values: Mapping[str, Value]) -> None:
        """One line."""
        _append(self._files[0], json.dumps(plain(values)))
        _append(self._files[1], json.dumps(round(self.seconds, 3)))

    def position(self) -> tuple[int, int, float]:
        """Where the stream stands, flushed to the disk so that a checkpoint may point to it."""
        for file in self._files:
            os.fsync(file.fileno())
        return self._files[0].tell(), self._files[1].tell(), self.seconds

    def close(self) -> None:
        """Nothing is buffered; only the handles are given back."""
        for file in self._files:
            file.close()


def read(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a metrics stream; a last line that was cut off is left out."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _append(file: Any, text: str) -> None:
    data = (text + "\n").encode()
    try:
        # one call: where the disk fills, part of a line may stand at the end, which resuming cuts off
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise NotWritten.because(file.name, error) from error
