"""Claims beside measurements: one row for each target of each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paraboloid.recipes.protocol import Recipe, Target, Verdict
from paraboloid.recipes.records import Record
from paraboloid.recipes.summary import Summary, verdict
from paraboloid.report import numbers

Entry = tuple[Recipe, Record]
# worst first, as a reader wants them when sorting
SEVERITY: dict[Verdict, int] = {"not confirmed": 0, "undecided": 1, "confirmed": 2}
_UNFINISHED = {"failed": "the run failed", "interrupted": "the run was interrupted", "running": "still running"}
SYMBOLS: dict[Verdict, str] = {"confirmed": "✓", "not confirmed": "✗", "undecided": "?"}


@dataclass(frozen=True)
class VerdictRow:
    """What was claimed and what came out, ready to be printed; `summary` and `target` hold the numbers."""

    recipe: str
    title: str
    scale: str
    statement: str
    published: str
    measured: str
    n: int
    interval: str
    verdict: Verdict
    note: str  # why there is no verdict, where the reason is not the numbers
    target: Target
    summary: Summary | None

    HEADINGS = ("recipe", "scale", "statement", "published", "measured", "n", "holds for", "verdict")

    @property
    def cells(self) -> tuple[str, ...]:
        """One text for each of HEADINGS."""
        mark = f"{SYMBOLS[self.verdict]} {self.verdict}" + (f" ({self.note})" if self.note else "")
        n = str(self.n) if self.n else numbers.NOTHING
        return self.title, self.scale, self.statement, self.published, self.measured, n, self.interval, mark


def verdict_rows(entries: Sequence[Entry]) -> list[VerdictRow]:
    """The rows in the order of the entries and of their targets.

    Only a finished run confirms or refutes: the values of a broken one are shown, and its verdict is "undecided".
    """
    return [_row(recipe, record, target) for recipe, record in entries for target in recipe.targets]


def _row(recipe: Recipe, record: Record, target: Target) -> VerdictRow:
    summary = record.summary(target.value)
    if record.state != "finished":
        found, note = "undecided", _UNFINISHED[record.state]
    elif summary is None:
        found, note = "undecided", f"the record has no value {target.value!r}"
    else:
        found, note = verdict(summary, target), "one repetition has no error" if summary.n == 1 else ""
    return VerdictRow(
        recipe=recipe.name,
        title=recipe.card.title,
        scale=record.scale,
        statement=target.statement,
        published=target.published,
        measured=numbers.measured(summary),
        n=summary.n if summary else 0,
        interval=numbers.interval(target.low, target.high),
        verdict=found,
        note=note,
        target=target,
        summary=summary,
    )
