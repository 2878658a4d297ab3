"""Tables on a terminal: rich where it is installed and somebody looks, aligned columns where the output is piped."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from paraboloid.recipes.protocol import Recipe
from paraboloid.recipes.records import Record
from paraboloid.report.numbers import measured
from paraboloid.report.verdicts import verdict_rows

WIDEST = 48  # characters of a cell in plain output


def print_record(recipe: Recipe, record: Record) -> None:
    """A run's state, its values where no claim is about them, and its verdicts."""
    origin = record.provenance
    sessions = f" in {origin.sessions} sessions" if origin.sessions > 1 else ""
    print(
        f"\n{recipe.card.title}\n{recipe.name}, {record.scale}: {record.state} after {origin.seconds:.0f} s{sessions}"
    )
    if record.reason:
        print(f"  {record.reason}")
    for cell in record.cells:
        if cell.state != "finished":
            print(f"  {cell.name} {cell.state}: {cell.reason}")
    claimed = {target.value for target in recipe.targets}
    rest = {name: record.summary(name) for name in record.values if name not in claimed}
    if rest:
        print_table(("value", "measured", "n"), [(name, measured(s), str(s.n)) for name, s in rest.items() if s])
    if record.values:
        rows = [(row.statement, row.published, row.measured, row.cells[-1]) for row in verdict_rows([(recipe, record)])]
        print_table(("claim", "published", "measured", "verdict"), rows)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under headings."""
    print()
    if sys.stdout.isatty() and _rich(headings, rows):
        return
    cells = [[_short(cell) for cell in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(headings, *cells, strict=True)]
    for line in (headings, ["-" * width for width in widths], *cells):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _rich(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(width=max(60, shutil.get_terminal_size().columns)).print(table)
    return True


def _short(text: str) -> str:
    return textwrap.shorten(text, WIDEST, placeholder=" …") if len(text) > WIDEST else text
