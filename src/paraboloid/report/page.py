"""The report: one HTML file that needs nothing else, neither a server nor a network.

Everything that comes from records is text: the template escapes it, the data for the script are JSON without any
character that could end their element, and the page's own policy lets no other script run than the one written here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from paraboloid.recipes.protocol import Recipe
from paraboloid.recipes.records import Cell, Record
from paraboloid.recipes.summary import Summary
from paraboloid.report import numbers, palette, strips
from paraboloid.report.plots import Plot, figures_of, plots_of
from paraboloid.report.verdicts import SEVERITY, Entry, VerdictRow, verdict_rows
from paraboloid.spaces import storage

ASSETS = files("paraboloid.report") / "assets"


@dataclass(frozen=True)
class Section:
    """One record on the page."""

    id: str
    recipe: Recipe
    record: Record
    rows: Sequence[VerdictRow]
    values: Sequence[tuple[str, Summary | None]]
    plots: Sequence[Plot]
    problem: str  # why figures are missing
    unfinished: Sequence[Cell]  # cells with a reason
    finished: int


def write(path: str | os.PathLike[str], entries: Sequence[Entry], title: str = "Results") -> Path:
    """Write the report of these records to `path`, as a whole or not at all."""
    text = html(entries, title)
    with storage.replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return Path(path)


def html(entries: Sequence[Entry], title: str = "Results") -> str:
    """The page as text; the same records give the same text."""
    galleries = [figures_of(entry) for entry in entries]
    slots = palette.slots_of(figure for gallery in galleries for figure in gallery.figures)
    sections = []
    for number, (entry, gallery, name) in enumerate(zip(entries, galleries, _ids(entries), strict=True)):
        plots, problem = plots_of(entry, gallery, slots, f"r{number}")
        sections.append(_section(name, entry, plots, problem))
    script = _asset("script.js")
    environment = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "number": numbers.number,
        "mean_and_error": numbers.mean_and_error,
        "duration": numbers.duration,
        "json": embedded,
        "svg": Markup,  # only for what paraboloid.report.svg has written
        "strip": strips.strip,
    }
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rows = [(section, row) for section in sections for row in section.rows]
    return environment.from_string(_asset("template.html.j2")).render(
        title=title,
        sections=sections,
        rows=rows,
        counts={verdict: sum(row.verdict == verdict for _, row in rows) for verdict in reversed(SEVERITY)},
        severity=SEVERITY,
        dates=dates([record for _, record in entries]),
        versions=versions([record for _, record in entries]),
        style=Markup(_asset("style.css").replace("/* series */", _series_colours())),
        script=Markup(script),
        script_digest=digest,
    )


def embedded(value: Any) -> Markup:
    """JSON that may stand inside a script element: nothing in it can close the element or open a comment.

    >>> print(embedded("</script>"))
    "\\u003c/script\\u003e"
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(re.sub(r"[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text))


def dates(records: Sequence[Record]) -> str:
    """The first and the last day on which these runs were started."""
    days = sorted({record.provenance.started[:10] for record in records} - {""})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "no date"


def versions(records: Sequence[Record]) -> Mapping[str, str]:
    """Each package with all versions that were used, paraboloid first."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        for name, version in {"paraboloid": record.provenance.version, **record.provenance.versions}.items():
            found.setdefault(name, {})[version] = None
    return {name: ", ".join(used) for name, used in found.items()}


def _section(name: str, entry: Entry, plots: Sequence[Plot], problem: str) -> Section:
    recipe, record = entry
    finished = sum(cell.state == "finished" for cell in record.cells)
    return Section(
        id=name,
        recipe=recipe,
        record=record,
        rows=verdict_rows([entry]),
        values=[(value, record.summary(value)) for value in record.values],
        plots=plots,
        problem=problem,
        unfinished=[cell for cell in record.cells if cell.state != "finished"],
        finished=finished,
    )


def _ids(entries: Sequence[Entry]) -> list[str]:
    """A fragment for each section: the record's name in plain characters, numbered where two are equal."""
    ids: list[str] = []
    for _, record in entries:
        plain = "record-" + (re.sub(r"[^A-Za-z0-9_-]+", "-", record.name).strip("-") or "unnamed")
        name, count = plain, 1
        while name in ids:
            count += 1
            name = f"{plain}-{count}"
        ids.append(name)
    return ids


def _series_colours() -> str:
    return "\n".join(f"  --s{i}: light-dark({light}, {dark});" for i, (light, dark) in enumerate(palette.COLOURS))


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
