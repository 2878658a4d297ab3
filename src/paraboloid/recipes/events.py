"""What a run tells whoever watches it: cells that begin and end, steps of loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["cells", "started", "step", "finished", "skipped", "failed"]


@dataclass(frozen=True)
class Event:
    """`cell` is "" for the run itself; `done` of `count` are steps (or cells, for the kind "cells")."""

    kind: Kind
    cell: str = ""
    label: str = ""
    done: int = 0
    count: int = 0
    text: str = ""


Watch = Callable[[Event], None]


def nobody(event: Event) -> None:
    """Nobody watches."""


class Throttled:
    """Passes steps on at most ten times a second; the last step of a loop always."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._next = watch, 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if event.kind == "step" and event.done < event.count and now < self._next:
            return
        self._next = now + 0.1
        self._watch(event)
