"""Ctrl-C and SIGTERM: a run ends between two steps, saved, and goes on when the same command is given again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(Exception):
    """The run was asked to stop and is saved; `signum` says by which signal."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class Stop:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self.signum: int | None = None

    def check(self) -> None:
        """Raise where stopping is safe."""
        if self.signum is not None:
            raise Interrupted(self.signum)

    def request(self, signum: int, frame: FrameType | None = None) -> None:
        """The first signal is a request; a second one ends the step at once, unsaved since the last checkpoint."""
        if self.signum is not None:
            raise KeyboardInterrupt
        self.signum = signum


@contextmanager
def listening(stop: Stop) -> Iterator[None]:
    """Signals become requests while the block runs; afterwards they mean what they meant before."""
    before = {signum: signal.signal(signum, stop.request) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
