"""The shape of a recipe: one file, one claim.

A recipe is a module with

    CARD       what is claimed, by whom, what it costs, and where we differ
    Config     a frozen dataclass; its defaults are the source's own setting
    SCALES     three configs: "smoke" (seconds), "laptop" (minutes on two cores), "paper" (the source's, for a GPU)
    run        run(config, log) -> Results
    TARGETS    what the source says, as intervals
    figures    figures(results) -> list of Figure

and nothing else that the frame looks at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from paraboloid.recipes.figures import Figure
from paraboloid.recipes.log import Log

SCALE_NAMES = ("smoke", "laptop", "paper")
Verdict = Literal["confirmed", "not confirmed", "undecided"]


@dataclass(frozen=True)
class Card:
    """The claim card that opens a recipe."""

    title: str
    source: str  # "thesis, section 3.6, equation (3.39)"
    claim: str  # one or two sentences, in our words
    reported: str  # what the source prints
    cost: Mapping[str, str]  # by scale: "40 s on two cores"
    differences: Sequence[str] = ()  # every difference of set-up, and why


@dataclass(frozen=True)
class Target:
    """A published value or statement about one of the results, as the interval in which it holds."""

    value: str  # a name in Results.values
    statement: str  # "all entries of the two matrices agree"
    published: str  # as it is printed: "69.68 %", "≤ N·dim(h)"
    low: float = -math.inf
    high: float = math.inf
    source: str = ""  # table, figure, page


@dataclass(frozen=True)
class Results:
    """What a run found.

    `values` maps a name to one number per repetition (seed, split, draw): mean, standard error and n follow.
    `tables` maps a name to columns of equal length, for the figures.
    """

    values: Mapping[str, Sequence[float]]
    tables: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)


def by_seed(config: Any) -> list[Any]:
    """The config once for each of its seeds, for `Log.map`; a cell reads ``(seed,) = config.seeds``."""
    return [replace(config, seeds=(seed,)) for seed in config.seeds]


@dataclass(frozen=True)
class Recipe:
    """A recipe's module, with its parts checked and named."""

    name: str
    card: Card
    config: Any
    scales: Mapping[str, Any]
    run: Callable[[Any, Log], Results]
    targets: Sequence[Target]
    figures: Callable[[Results], Sequence[Figure]]

    @classmethod
    def of(cls, module: ModuleType) -> Recipe:
        """The recipe that a module holds; what is missing or of a wrong kind is named."""
        name = Path(module.__file__ or module.__name__).stem
        for part in ("CARD", "Config", "SCALES", "run", "TARGETS", "figures"):
            if not hasattr(module, part):
                raise TypeError(f"the recipe {name} should define {part}; {module.__file__} does not. {_SHAPE}")
        if not is_dataclass(module.Config) or not module.Config.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise TypeError(f"{name}.Config should be a frozen dataclass: write @dataclass(frozen=True) above it.")
        if "seeds" not in {field.name for field in fields(module.Config)}:
            raise TypeError(f"{name}.Config should say which seeds are run: add `seeds: tuple[int, ...] = (0, 1, 2)`.")
        missing = [scale for scale in SCALE_NAMES if scale not in module.SCALES]
        if missing or len(module.SCALES) != len(SCALE_NAMES):
            found = ", ".join(module.SCALES) or "none"
            raise TypeError(f"{name}.SCALES should have the keys {', '.join(SCALE_NAMES)}; found {found}.")
        return cls(name, module.CARD, module.Config, module.SCALES, module.run, module.TARGETS, module.figures)


_SHAPE = "CONTRIBUTING.md, 'a recipe', shows a whole one."
