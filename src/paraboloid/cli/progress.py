"""Progress of a run: bars with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paraboloid.recipes.events import Event, Watch, nobody

EVERY = 10.0  # seconds between plain lines about one loop


@contextmanager
def watching(name: str, silent: bool = False) -> Iterator[Watch]:
    """Something to hand to a run while it lasts; it writes to the error stream, so results can be piped."""
    if silent:
        yield nobody
        return
    bars = _bars() if sys.stderr.isatty() else None
    if bars is None:
        yield PlainLines(name)
        return
    with bars:
        yield Bars(name, bars)


class PlainLines:
    """One line for each cell that ends, and one every ten seconds for a loop that lasts."""

    def __init__(self, name: str) -> None:
        self._name, self._start, self._last = name, time.monotonic(), time.monotonic()
        self._ended, self._count = 0, 0

    def __call__(self, event: Event) -> None:
        if event.kind == "cells":
            self._ended, self._count = event.done, event.count
            if event.done:
                self._say(f"{event.done} of {event.count} parts were there already")
        elif event.kind in ("finished", "skipped", "failed"):
            self._ended += 1
            reason = f": {event.text}" if event.text else ""
            self._say(f"{event.cell} {event.kind}{reason} ({self._ended} of {self._count})")
        elif event.kind == "step" and 0 < event.done < event.count and time.monotonic() - self._last > EVERY:
            self._say(" ".join(filter(None, (event.cell, event.label, f"{event.done} of {event.count}"))))

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"{self._name} {self._last - self._start:6.1f} s  {text}", file=sys.stderr, flush=True)


class Bars:
    """One bar for the cells of the run and one for each loop that is going on."""

    def __init__(self, name: str, bars: Any) -> None:
        self._name, self._bars = name, bars
        self._whole: Any = None
        self._loops: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        if event.kind == "cells":
            if self._whole is not None:
                self._bars.remove_task(self._whole)
            self._whole = self._bars.add_task(self._name, total=event.count, completed=event.done)
        elif event.kind == "step":
            if event.cell not in self._loops:
                self._loops[event.cell] = self._bars.add_task(event.cell or self._name)
            text = "  " + " ".join(filter(None, (event.cell, event.label)))
            task = self._loops[event.cell]
            if self._bars.tasks[self._bars.task_ids.index(task)].description != text:
                self._bars.reset(task)  # a new loop: the time left starts afresh
            self._bars.update(task, description=text, completed=event.done, total=event.count)
        elif event.kind in ("finished", "skipped", "failed"):
            self._close(event)

    def _close(self, event: Event) -> None:
        if event.cell in self._loops:
            self._bars.remove_task(self._loops.pop(event.cell))
        if self._whole is not None:
            self._bars.advance(self._whole)
        if event.kind != "finished":
            self._bars.console.print(f"{event.cell} {event.kind}: {event.text}", markup=False)


def _bars() -> Any | None:
    """Rich's progress bars on the error stream; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
