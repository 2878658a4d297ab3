"""The parts of a run that do not depend on one another, each in its own folder.

A cell that has ended left ``result.json`` and is not run again, unless it failed. A cell that raises does not stop
the others: its reason is kept, and the run ends as failed when they are done. Each cell begins with the global
generators in a state that its config decides, since Dropout and data libraries draw from them.
"""

from __future__ import annotations

import json
import random
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy
import torch

from paraboloid.recipes.config import as_json, digest
from paraboloid.recipes.events import Event, Watch
from paraboloid.recipes.files import make_folder, read_json, write_json
from paraboloid.recipes.locks import Lock
from paraboloid.recipes.log import Log, Skip
from paraboloid.recipes.records import Cell
from paraboloid.recipes.refused import UNAVAILABLE
from paraboloid.recipes.stopping import Interrupted
from paraboloid.spaces.randomness import preserved_random_state
from paraboloid.spaces.storage import NotWritten

PATIENCE = 10.0  # seconds that a cell waits for the last breath of a worker whose run was killed


class CellLog(Log, Protocol):
    """A log that belongs to one folder."""

    data: dict[str, str]

    @property
    def seconds(self) -> float: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Task:
    """One cell to run: the function, its config, its folder, its name."""

    function: Callable[[Any, Log], dict[str, Any]]
    config: Any
    folder: Path
    name: str

    def outcome(self) -> dict[str, Any] | None:
        """What an earlier session left of it; None if it has to run (again)."""
        path = self.folder / "result.json"
        if not path.exists():
            return None
        outcome = read_json(path)
        return None if outcome["state"] == "failed" else outcome


class CellsFailed(Exception):
    """Some cells raised; the others have ended and are kept."""

    def __init__(self, failed: Sequence[Cell]) -> None:
        reasons = "; ".join(f"{cell.name}: {cell.reason}" for cell in failed)
        super().__init__(f"{len(failed)} cell{'s' * (len(failed) > 1)} failed. {reasons}")


def tasks_of(function: Callable[[Any, Log], dict[str, Any]], configs: Sequence[Any], folder: Path) -> list[Task]:
    """One task for each config, in a folder that the function, the config's name and its digest give."""
    tasks = []
    for config, name in zip(configs, names_of(configs), strict=True):
        readable = re.sub(r"[^A-Za-z0-9=.,+-]+", "_", f"{function.__name__} {name}")[:80]
        tasks.append(Task(function, config, folder / "cells" / f"{readable}-{digest(config)[:8]}", name))
    return tasks


def names_of(configs: Sequence[Any]) -> list[str]:
    """What tells each config from the others: its seed, and the keys in which they differ.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Config:
    ...     lr: float
    ...     seeds: tuple[int, ...]
    >>> names_of([Config(0.1, (0,)), Config(0.2, (0,))])
    ['lr 0.1, seed 0', 'lr 0.2, seed 0']
    """
    tables = [as_json(config) for config in configs]
    names = []
    for table in tables:
        parts = [f"{key} {value}" for key, value in table.items() if key != "seeds" and _varies(key, tables)]
        parts += [f"seed {seed}" for seed in table.get("seeds", [])]
        names.append(", ".join(parts) or "all")
    return names


def _varies(key: str, tables: Sequence[dict[str, Any]]) -> bool:
    return any(table[key] != tables[0][key] for table in tables)


def run_task(task: Task, make_log: Callable[[Path, str], CellLog], watch: Watch, device: torch.device) -> None:
    """Run the cell and leave its ``result.json``."""
    make_folder(task.folder)
    lock = Lock(task.folder, PATIENCE)
    try:
        watch(Event("started", task.name))
        log = make_log(task.folder, task.name)
        try:
            with decided_draws(task.config, device):
                outcome = _outcome(task, log)
            outcome |= {"name": task.name, "seconds": round(log.seconds, 3), "data": log.data}
            write_json(task.folder / "result.json", outcome)
        finally:
            log.close()
    finally:
        lock.release()
    watch(Event(outcome["state"], task.name, text=outcome["reason"]))


@contextmanager
def decided_draws(config: Any, device: torch.device | str) -> Iterator[None]:
    """The global generators of torch, numpy and Python begin where the config says; afterwards they are as before."""
    before = numpy.random.get_state(), random.getstate()
    seed = int(digest(config)[:15], 16)
    try:
        with preserved_random_state(device):
            torch.manual_seed(seed)
            numpy.random.seed(seed % 2**32)
            random.seed(seed)
            yield
    finally:
        numpy.random.set_state(before[0])
        random.setstate(before[1])


def reason_of(error: Exception) -> str:
    """Its kind and its message in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def keep_traceback(folder: Path) -> None:
    """``error.txt``, where there is room: it must not hide the error it tells of."""
    with suppress(OSError):
        (folder / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")


def _outcome(task: Task, log: CellLog) -> dict[str, Any]:
    try:
        result = task.function(task.config, log)
        # through JSON at once, so that a resumed run sees what an uninterrupted one sees
        return {"state": "finished", "reason": "", "result": json.loads(json.dumps(result))}
    except Skip as reason:
        return {"state": "skipped", "reason": str(reason), "result": None}
    except (Interrupted, NotWritten, *UNAVAILABLE):
        raise
    except Exception as error:
        keep_traceback(task.folder)
        return {"state": "failed", "reason": reason_of(error), "result": None}


def results_of(tasks: Sequence[Task], data: dict[str, str]) -> list[Any]:
    """The results in order, None where skipped; notes the data they come from; raises if a cell failed."""
    outcomes = [read_json(task.folder / "result.json") for task in tasks]
    for outcome in outcomes:
        data.update(outcome["data"])
    failed = [as_cell(outcome) for outcome in outcomes if outcome["state"] == "failed"]
    if failed:
        raise CellsFailed(failed)
    return [outcome["result"] for outcome in outcomes]


def as_cell(outcome: dict[str, Any]) -> Cell:
    """A cell's ``result.json`` as the record has it."""
    return Cell(outcome["name"], outcome["state"], outcome["seconds"], outcome["reason"])


def cells_below(folder: Path) -> list[Cell]:
    """All cells that have ended in this run so far."""
    return [as_cell(read_json(path)) for path in sorted(folder.glob("cells/*/result.json"))]
