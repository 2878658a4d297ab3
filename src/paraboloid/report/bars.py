"""Bars side by side, with their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from paraboloid.recipes.figures import Axis, Bars
from paraboloid.report import canvas
from paraboloid.report.stage import MARGINS, Stage
from paraboloid.report.values import Array, array, finite_on, floor_of, frame, jsonable, printable

LONGEST_LABEL = 24  # characters of a label under bars; what is longer is cut in the picture only


def draw(bars: Bars, stage: Stage) -> tuple[str, dict[str, Any], int]:
    """The drawing, its data, and how many values a logarithmic axis cannot show."""
    _check(bars)
    labels = [printable(label) for label in bars.labels]
    with canvas.canvas(*stage.size, MARGINS) as sheet:
        axes = sheet.axes
        axes.set_title(printable(bars.title))
        axes.set_yscale(bars.y.scale)
        axes.grid(axis="x", visible=False)
        wide = 0.8 / max(len(bars.values), 1)
        floor = floor_of(bars.y, map(array, bars.values.values()))
        listed = []
        for place, name in enumerate(bars.values):
            at = np.arange(len(labels)) - 0.4 + wide * (place + 0.5)
            listed.append(_draw_bars(axes, bars, name, stage, (at, wide), floor))
        axes.set_xlim(-0.6, max(len(labels), 1) - 0.4)
        _write_labels(axes, labels, stage.size[0] - sum(MARGINS[:2]))
        canvas.label_axis(axes.yaxis, printable(bars.y.label), bars.y.scale)
        sheet.fit()
        data = {"kind": "bars", **frame(sheet, Axis(""), bars.y), "labels": labels, "list": listed}
        text = sheet.svg()
    heights = np.concatenate([array(values) for values in bars.values.values()] or [np.zeros(0)])
    return text, data, int((np.isfinite(heights) & ~finite_on(bars.y, heights)).sum())


def _draw_bars(
    axes: Any, bars: Bars, name: str, stage: Stage, place: tuple[Array, float], floor: float
) -> dict[str, Any]:
    """The bars of one series; returns its data."""
    at, wide = place
    heights, group, colour = array(bars.values[name]), stage.group(name), stage.style(name).placeholder
    shown = finite_on(bars.y, heights)
    base = max(floor, 0.0)
    for x, height in zip(at[shown], heights[shown], strict=True):
        bar = axes.bar(x, height - base, wide * 0.88, base, color=colour, alpha=0.85, linewidth=0)
        bar.patches[0].set_gid(group)
    entry = {"series": stage.names.index(name), "at": jsonable(at), "y": jsonable(heights)}
    if bars.errors is not None and name in bars.errors:
        errors = array(bars.errors[name])
        entry |= {"low": jsonable(heights - errors), "high": jsonable(heights + errors)}
        axes.vlines(
            at, np.maximum(heights - errors, floor), heights + errors, colors=canvas.INK, linewidth=1.3, gid=group
        )
    return entry


def _write_labels(axes: Any, labels: list[str], width: float) -> None:
    """Slanted where they would touch."""
    short = [label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…" for label in labels]
    axes.set_xticks(range(len(short)), short)
    if any(canvas.LETTER * len(label) > width / len(short) for label in short):
        for text in axes.get_xticklabels():
            text.set(rotation=30, ha="right", rotation_mode="anchor")


def _check(bars: Bars) -> None:
    for name, values in [*bars.values.items(), *(bars.errors or {}).items()]:
        if name not in bars.values or len(values) != len(bars.labels):
            raise ValueError(
                f"the bars {name!r} of {bars.title!r} should have one value for each of the {len(bars.labels)} labels; "
                f"found {len(values)}{'' if name in bars.values else ' errors and no values'}."
            )
