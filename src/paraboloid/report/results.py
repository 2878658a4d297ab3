"""The results page of the documentation: measured beside published, generated from records only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from paraboloid.recipes.protocol import Recipe
from paraboloid.recipes.records import Record
from paraboloid.report import numbers
from paraboloid.report.verdicts import SYMBOLS, Entry, VerdictRow, verdict_rows

COMMAND = "paraboloid table --write docs/results.md"
LEAD = f"""# Results

`{COMMAND}` makes this page from the records in `records/`; it is not edited by hand.
Measured values are means over n repetitions ± their standard error. A claim is **confirmed** if the 95 % confidence
interval of the mean lies where the claim holds, **not confirmed** if the two are disjoint, **undecided** otherwise."""
HEADINGS = ("Claim", "Value", "Measured", "n", "Published", "Holds for", "Verdict")
RIGHT = {"Measured", "n"}


def results_page(entries: Sequence[Entry]) -> str:
    """The page as markdown, with one section for each record."""
    parts = [LEAD, _counts(entries), *(_section(*entry) for entry in entries)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counts(entries: Sequence[Entry]) -> str:
    rows = verdict_rows(entries)
    if not rows:
        return "No record has been compared with a published value yet."
    found = [(verdict, sum(row.verdict == verdict for row in rows)) for verdict in SYMBOLS]
    return f"{len(rows)} claims: " + ", ".join(f"{count} {verdict}" for verdict, count in found) + "."


def _section(recipe: Recipe, record: Record) -> str:
    card = recipe.card
    rows = verdict_rows([(recipe, record)])
    parts = [f"## {_line(card.title)}", f"{_line(card.claim)}\n({_line(card.source)})"]
    if record.state != "finished":
        reason = _line(record.reason) or "no reason was recorded"
        parts.append(f"> This run is not finished ({record.state}): {reason}")
    if rows:
        parts.append(_table(_cells(row) for row in rows))
    further = len(set(record.values) - {row.target.value for row in rows})
    if further:
        parts.append(f"The record holds {further} {'more ' if rows else ''}value{'s' * (further > 1)}.")
    differences = [f"- {_line(difference)}" for difference in card.differences] or ["- none that we know of"]
    parts.append("\n".join(["Differences from the source:", "", *differences]))
    parts.append(_origin(record))
    return "\n\n".join(parts)


def _cells(row: VerdictRow) -> tuple[str, ...]:
    """One text for each of HEADINGS."""
    verdict = f"{SYMBOLS[row.verdict]} {row.verdict}" + (f" ({_line(row.note)})" if row.note else "")
    n = str(row.n) if row.n else numbers.NOTHING
    claim = _line(row.statement) + (f" ({_line(row.target.source)})" if row.target.source else "")
    return claim, _code(row.target.value), row.measured, n, _line(row.published), row.interval, verdict


def _origin(record: Record) -> str:
    """Scale, version, commit, machine, date and time in one line."""
    origin = record.provenance
    machine = ", ".join(f"{_line(key)} {_line(str(value))}" for key, value in origin.machine.items())
    parts = [
        f"Scale {_line(record.scale)}",
        f"paraboloid {_line(origin.version)}" + (f" at {_code(origin.commit[:12])}" if origin.commit else ""),
        machine or "unknown machine",
        _line(origin.started[:10]) or "no date",
        numbers.duration(origin.seconds) + (f" in {origin.sessions} sessions" if origin.sessions > 1 else ""),
        f"config {_code(record.config_hash[:12])}",
    ]
    repeat = f"\n\n    {_one_line(origin.command)}" if origin.command else ""
    return f"<sub>{' · '.join(parts)}</sub>{repeat}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    rule = ["---:" if heading in RIGHT else "---" for heading in HEADINGS]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADINGS, rule, *rows))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _line(text: str) -> str:
    r"""One line in which nothing is markdown or HTML.

    >>> print(_line("a | <b>\n*c*"))
    a \| &lt;b&gt; \*c\*
    """
    text = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text)


def _code(text: str) -> str:
    """In code everything is literal except backticks, and the pipe where a table splits its rows."""
    return "`" + _one_line(text).replace("`", "'").replace("|", r"\|") + "`"
