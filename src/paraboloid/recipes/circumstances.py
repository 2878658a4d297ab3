"""How a run is carried out, as opposed to what it computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Circumstances:
    """Of these, only the device and the threads of a cell may change a digit; a run is resumed under the same two."""

    device: str = "cpu"
    jobs: int = 1  # cells side by side
    threads: int = 1  # of each cell
    checkpoint_seconds: float = 60.0
    recipe: str = ""  # where worker processes find the recipe: a module's name or a file
