"""What a run leaves behind: a record, one compact JSON file.

The report and docs/results.md are made from records only, so whatever they show was measured by a run that can
be named: its config, its code, its data, its machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from paraboloid.recipes.files import make_folder, read_json
from paraboloid.recipes.refused import Refused
from paraboloid.recipes.summary import Summary
from paraboloid.spaces import storage

FORMAT = 1
State = Literal["finished", "failed", "interrupted", "running"]


@dataclass(frozen=True)
class Cell:
    """One part of a run (a seed, a split, a point of a grid) and what became of it."""

    name: str
    state: Literal["finished", "skipped", "failed"]
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from."""

    version: str  # of paraboloid
    commit: str  # of the source tree, "" where it is none; "+" marks changes on top of it
    source: str  # sha256 over the package's files
    data: Mapping[str, str] = field(default_factory=dict)  # data set -> digest of its arrays
    machine: Mapping[str, Any] = field(default_factory=dict)  # processor, cores, threads, device, memory, system
    versions: Mapping[str, str] = field(default_factory=dict)  # python, torch, numpy, …
    started: str = ""  # ISO 8601, UTC
    seconds: float = 0.0  # of all sessions together
    sessions: int = 1  # how often the run was resumed, plus one
    command: str = ""


@dataclass(frozen=True)
class Record:
    """One run's results with everything needed to believe them or to repeat them."""

    recipe: str
    scale: str  # "smoke", "laptop", "paper", with "+" if a key was changed
    config: Mapping[str, Any]
    config_hash: str
    provenance: Provenance
    state: State = "finished"
    reason: str = ""  # why it is not finished
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    cells: Sequence[Cell] = ()

    @property
    def name(self) -> str:
        """What its file and its section are called."""
        return f"{self.recipe}-{self.scale}"

    def summary(self, value: str) -> Summary | None:
        """Mean, standard error and n of a value; None where the run has not got it."""
        repetitions = self.values.get(value)
        return Summary.of(repetitions) if repetitions else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON with the number of its format."""
        return {"format": FORMAT} | asdict(self)

    @classmethod
    def from_json(cls, found: Any, where: Path) -> Record:
        """The record that a file holds; one of a newer format or of another shape is refused."""
        if not isinstance(found, dict) or not isinstance(found.get("format"), int):
            raise Refused(f"{where} should be a record of a run, which says its format; found none.")
        if found["format"] > FORMAT:
            raise Refused(
                f"{where} was written by a newer paraboloid (format {found['format']}; this one reads up to {FORMAT}). "
                "Update paraboloid to read it."
            )
        parts = {key: value for key, value in found.items() if key != "format"}
        try:
            parts["provenance"] = Provenance(**parts["provenance"])
            parts["cells"] = [Cell(**cell) for cell in parts["cells"]]
            return cls(**parts)
        except (KeyError, TypeError) as error:
            raise Refused(f"{where} is not a whole record: {error}. Restore it, or record the run again.") from None


def read(path: Path) -> Record:
    """The record in one file."""
    return Record.from_json(read_json(path), path)


def read_all(folder: Path) -> list[Record]:
    """All records of a folder, by name."""
    if not folder.is_dir():
        raise Refused(
            f"there is no folder of records {folder}; run and record a recipe first, or name one by --records."
        )
    return [read(path) for path in sorted(folder.glob("*.json"))]


def write(folder: Path, record: Record) -> Path:
    """Keep a finished run's record; the file is named after the recipe and the scale."""
    if record.state != "finished":
        raise Refused(
            f"only finished runs are recorded; {record.name} is {record.state}: {record.reason or 'resume it'}."
        )
    if folder.exists() and not folder.is_dir():
        raise Refused(f"--records should name a folder, found the file {folder}.")
    make_folder(folder)
    path = folder / f"{record.name}.json"
    with storage.replacing(path) as temporary:
        temporary.write_text(compact(record.to_json()) + "\n", encoding="utf-8")
    return path


def compact(value: Any, indent: str = "") -> str:
    """JSON with one line for each list of numbers, so that a record can be read and compared by lines.

    >>> print(compact({"a": [0.1, 2], "b": {"c": None}}))
    {
     "a": [0.1, 2],
     "b": {
      "c": null
     }
    }
    """
    if isinstance(value, Mapping) and value:
        lines = [f"{indent} {json.dumps(str(key))}: {compact(inner, indent + ' ')}" for key, inner in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and any(isinstance(inner, Mapping) for inner in value):
        return "[\n" + ",\n".join(f"{indent} {compact(inner, indent + ' ')}" for inner in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)
