"""The log that writes: metrics, checkpoints and artefacts of one run, or of one cell of it, in one folder.

A loop leaves ``loop-<number>.safetensors``: everything it keeps, the position of the metrics stream, and how many
steps are done. Resuming looks for the last such file, cuts the stream back to its position and goes on, so that
metrics equal those of a run that was never interrupted. Loops are numbered as they begin; one that had ended is not
repeated but set to its final state. One that was left by `break` is repeated from its own last file, if there is one:
what it writes stands in the stream already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from paraboloid.recipes import checkpoints
from paraboloid.recipes.cells import results_of, run_task, tasks_of
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.events import Event, Throttled, Watch, nobody
from paraboloid.recipes.files import make_folder
from paraboloid.recipes.log import Identified, Log
from paraboloid.recipes.stopping import Stop
from paraboloid.recipes.streams import Stream
from paraboloid.recipes.workers import Pool
from paraboloid.spaces import storage

C = TypeVar("C")


@dataclass
class RunLog:
    """A `Log` over one folder: what an earlier session left there is found when it is made, and gone on with."""

    folder: Path
    circumstances: Circumstances = field(default_factory=Circumstances)
    watch: Watch = nobody
    stop: Stop = field(default_factory=Stop)
    cell: str = ""
    data: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.device = torch.device(self.circumstances.device)
        self._throttled = Throttled(self.watch)
        self._looping = False
        self._begun = 0  # loops so far
        self._ended: list[tuple[Path, dict[str, Tensor], dict[str, Any]]] = []  # final states not yet on the disk
        self._saved = time.monotonic()
        self._sweep()
        self._positions = self._resumable()
        self._last = max(self._positions, default=-1)  # the loop that was going on when the last session ended
        where = tuple(self._positions[self._last]["stream"]) if self._positions else (0, 0, 0.0)
        self._stream = Stream(self.folder, where)

    @property
    def seconds(self) -> float:
        """Time spent here over all sessions, as far as checkpoints tell."""
        return self._stream.seconds

    def close(self) -> None:
        """Give the files back."""
        self._stream.close()

    def __call__(self, **values: Any) -> None:
        # before the loop that goes on, the recipe says again what the stream already holds
        if self._begun > self._last:
            self._stream.write(values)

    def uses(self, data: Identified) -> None:
        self.data[data.name] = data.digest

    def keep(self, name: str, tensors: Mapping[str, Tensor], **about: Any) -> None:
        folder = self.folder / "artefacts"
        make_folder(folder)
        storage.save(folder / f"{name}.safetensors", tensors, about)

    def map(self, cell: Callable[[C, Log], dict[str, Any]], configs: Sequence[C]) -> list[dict[str, Any] | None]:
        tasks = tasks_of(cell, configs, self.folder)
        waiting = list({task.folder: task for task in tasks if task.outcome() is None}.values())  # twins run once
        self.watch(Event("cells", done=len(tasks) - len(waiting), count=len(tasks)))
        if len(waiting) > 1 and self.circumstances.jobs > 1:
            Pool(waiting, self.circumstances, RunLog, self.watch, self.stop).run()
        else:
            for task in waiting:
                run_task(task, self._below, self.watch, self.device)
                self.stop.check()
        return results_of(tasks, self.data)

    def _below(self, folder: Path, cell: str) -> RunLog:
        """The log of one cell in this process."""
        return RunLog(folder, self.circumstances, self.watch, self.stop, cell)

    def loop(self, count: int, label: str = "", **kept: Any) -> Iterator[int]:
        if self._looping:
            raise RuntimeError(
                f"the loop {label!r} begins inside another one: loops that resume do not nest. Use range() inside."
            )
        number, self._begun = self._begun, self._begun + 1
        path = self.folder / f"loop-{number}.safetensors"
        start = self._resume(number, path, count, label, kept)
        self._looping = True
        try:
            for step in range(start, count):
                self._throttled(Event("step", self.cell, label, step, count))
                yield step
                self._between_steps(path, label, step + 1, count, kept)
        finally:
            self._looping = False
        self._throttled(Event("step", self.cell, label, count, count))
        if start < count:
            self._ended.append((path, *checkpoints.packed(kept, self._position(label, count, count))))

    def _resume(self, number: int, path: Path, count: int, label: str, kept: Mapping[str, Any]) -> int:
        """Restore what a former session left of this loop; the step to go on with."""
        if number not in self._positions:
            return 0
        position = self._positions[number]
        if (position["label"], position["count"]) != (label, count):
            raise ValueError(
                f"{path} belongs to a loop {position['label']!r} of {position['count']} steps, found one called "
                f"{label!r} of {count}: the recipe has changed since. Start the run anew."
            )
        return checkpoints.restore(path, kept)["done"]

    def _between_steps(self, path: Path, label: str, done: int, count: int, kept: Mapping[str, Any]) -> None:
        due = time.monotonic() - self._saved >= self.circumstances.checkpoint_seconds
        if not (due or self.stop.signum is not None):
            return
        for ended, tensors, metadata in self._ended:
            storage.save(ended, tensors, metadata)
        self._ended.clear()
        checkpoints.write(path, kept, self._position(label, done, count))
        self._saved = time.monotonic()
        self.stop.check()

    def _position(self, label: str, done: int, count: int) -> dict[str, Any]:
        return {"label": label, "done": done, "count": count, "stream": self._stream.position()}

    def _sweep(self) -> None:
        """Half-written files of sessions that were killed: ours, and safetensors' own."""
        for pattern in (".*.part", ".tmp*", "artefacts/.*.part", "artefacts/.tmp*"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def _resumable(self) -> dict[int, dict[str, Any]]:
        """Loops by their number -> where their checkpoints stand."""
        found = {int(path.stem.partition("-")[2]): path for path in self.folder.glob("loop-*.safetensors")}
        return {number: checkpoints.read_position(path) for number, path in sorted(found.items())}
