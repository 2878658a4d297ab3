"""What a recipe may say while it runs: numbers, progress, states to resume from, files, and cells to run side by side.

A recipe is a plain function of its config and a log. It never learns where it runs, is drawn or is stored: the
same function takes the log below, which keeps everything in memory, or the one that writes a run's directory
(`paraboloid.recipes.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

C = TypeVar("C")
Value = float | int | str | bool | None | Tensor


class Skip(Exception):
    """Raised by a cell that has no result for a reason worth reading ("diverged at step 12"): not a failure."""


class Identified(Protocol):
    """Data with a name and a digest of its arrays, as `paraboloid.datasets` returns it."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str: ...


class Log(Protocol):
    """The one thing besides its config that a recipe is given."""

    @property
    def device(self) -> torch.device:
        """Where tensors should live."""
        ...

    def __call__(self, **values: Value) -> None:
        """One line of the metrics stream. Times do not belong there: the log keeps them itself."""
        ...

    def loop(self, count: int, label: str = "", **kept: Any) -> Iterator[int]:
        """0, 1, …, count − 1, showing progress; goes on where an earlier run stopped.

        `kept` are the things that change in the loop: modules, optimisers and whatever else has `state_dict` and
        `load_state_dict`, generators, and tensors, lists and dictionaries, which are filled in place. They are
        restored before the first step and saved between steps. Loops follow one another but do not nest.
        """
        ...

    def map(self, cell: Callable[[C, Log], dict[str, Any]], configs: Sequence[C]) -> list[dict[str, Any] | None]:
        """``cell(config, log)`` for each config, side by side where the machine allows; None where a cell was skipped.

        `cell` stands at the top level of its module and returns what JSON can hold. A cell that is finished is not
        run again when the run resumes.
        """
        ...

    def uses(self, data: Identified) -> None:
        """Note which data the numbers come from."""
        ...

    def keep(self, name: str, tensors: Mapping[str, Tensor], **about: Any) -> None:
        """A file of tensors that belongs to the run, ``artefacts/<name>.safetensors``."""
        ...


@dataclass
class MemoryLog:
    """Everything in memory, one cell after the other: for tests, notebooks and one's own scripts.

    >>> log = MemoryLog()
    >>> for step in log.loop(2):
    ...     log(step=step, loss=1 / (1 + step))
    >>> log.lines
    [{'step': 0, 'loss': 1.0}, {'step': 1, 'loss': 0.5}]
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    lines: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    def __call__(self, **values: Value) -> None:
        self.lines.append(plain(values))

    def loop(self, count: int, label: str = "", **kept: Any) -> Iterator[int]:
        yield from range(count)

    def map(self, cell: Callable[[C, Log], dict[str, Any]], configs: Sequence[C]) -> list[dict[str, Any] | None]:
        results: list[dict[str, Any] | None] = []
        for config in configs:
            try:
                results.append(cell(config, self))
            except Skip as reason:
                self.skipped.append(str(reason))
                results.append(None)
        return results

    def uses(self, data: Identified) -> None:
        self.data[data.name] = data.digest

    def keep(self, name: str, tensors: Mapping[str, Tensor], **about: Any) -> None:
        self.files[name] = dict(tensors)


def plain(values: Mapping[str, Value]) -> dict[str, Any]:
    """A line as JSON can hold it: a tensor with one element counts as its number."""
    return {name: value.item() if isinstance(value, Tensor) else value for name, value in values.items()}
