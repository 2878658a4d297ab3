"""docs/benchmarks.md, written from a record: nothing on that page is typed by hand."""

from __future__ import annotations

from typing import Any

from models import __doc__ as MODELS
from tasks import OURS, TASKS

HEAD = """# Benchmarks

Written by `./x bench` from `{source}`; do not edit.

{machine}. {versions}. Measured on {date}.

A figure is **time in units of one forward + backward** of the model over the same batch (fb), measured in the
same process and interleaved with it, as a ratio of medians; in brackets the megabytes that the call holds at
its peak beyond those before it, each in a process of its own. Every call is one complete computation on one
batch, float32, random weights, and ends in a number, so that nothing can stay lazy. Smaller is better; the best
time of a row is bold. A ratio is good to about 10 %.
"""


def megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} MB"


def cell(record: dict[str, Any] | None, best: float | None) -> str:
    """A ratio with its memory, or a dash; reasons stand below the table."""
    if record is None or "ratio" not in record:
        return "–"
    ratio = f"{record['ratio']:.3g}"
    ratio = f"**{ratio}**" if record["ratio"] == best else ratio
    memory = record.get("megabytes")
    return ratio if memory is None else f"{ratio} ({memory:.0f})"


def table(rows: dict[str, dict[str, dict[str, Any]]], libraries: list[str]) -> list[str]:
    """Models down, libraries across."""
    lines = ["| | " + " | ".join(libraries) + " | fb |", "|---|" + "---|" * (len(libraries) + 1)]
    for model, records in rows.items():
        ratios = [r["ratio"] for r in records.values() if "ratio" in r]
        best = min(ratios, default=None)
        unit = next((r for r in records.values() if "fb_ms" in r), {})
        cells = [cell(records.get(library), best) for library in libraries]
        anchor = f"{unit['fb_ms']:.3g} ms, {megabytes(unit.get('fb_megabytes'))}" if unit else "–"
        lines.append(f"| {model} | " + " | ".join(cells) + f" | {anchor} |")
    return lines


def remarks(rows: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Who is missing where, and why; who gave another number."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for model, records in rows.items():
        for library, record in records.items():
            why = record.get("reason")
            if abs(record.get("quotient", 1.0) - 1) > 1e-3:
                why = f"its number is {record['quotient']:.3g} times that of {record['compared']}"
            if why:
                reasons.setdefault((library, why), []).append(model)
    return [f"- {library} on {', '.join(models)}: {why}" for (library, why), models in reasons.items()]


def render(record: dict[str, Any], source: str) -> str:
    """The whole page."""
    machine = record["machine"]
    text = [
        HEAD.format(
            source=source,
            machine=f"{machine['processor']}, {machine['threads']} threads, {machine['device']}",
            versions=", ".join(f"{name} {version}" for name, version in record["versions"].items()),
            date=record["date"],
        )
    ]
    _, listing, remark = (MODELS or "").strip().split("\n\n")
    text.append(f"```text\n{listing}\n```\n\n{remark}\n")
    for name, task in TASKS.items():
        rows: dict[str, dict[str, dict[str, Any]]] = {}
        for entry in record["results"]:
            if entry["task"] == name:
                rows.setdefault(entry["model"], {})[entry["library"]] = entry
        if not rows:
            continue
        libraries = [library for library in task.contenders if any(library in row for row in rows.values())]
        libraries.sort(key=lambda library: library != OURS)
        text.append(f"## {task.title}\n\n`{name}`. {task.note}".rstrip() + "\n")
        text.append("\n".join(table(rows, libraries)) + "\n")
        notes = remarks(rows)
        if notes:
            text.append("\n".join(notes) + "\n")
    return "\n".join(text)
