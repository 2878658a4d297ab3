"""Lines, steps and points over common axes, with bands and levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from paraboloid.recipes.figures import Panel, Series
from paraboloid.report import canvas, thinning
from paraboloid.report.stage import MARGINS, Stage
from paraboloid.report.values import Array, array, finite_on, floor_of, frame, jsonable, printable

LINE_GAP = 14.0  # between names beside lines


def draw(panel: Panel, stage: Stage) -> tuple[str, dict[str, Any], int]:
    """The drawing, its data, and how many values a logarithmic axis cannot show."""
    left, right, top, bottom = MARGINS
    if stage.keys:
        right += 22 + canvas.LETTER * max(len(one.name) for one in panel.series)
    with canvas.canvas(*stage.size, (left, right, top, bottom)) as sheet:
        axes = sheet.axes
        axes.set_title(printable(panel.title))
        hidden = _set_scales(axes, panel)
        floor = floor_of(
            panel.y, (array(part) for s in panel.series for part in (s.y, s.low, s.high) if part is not None)
        )
        for series in panel.series:
            _draw_series(axes, panel, series, stage, floor)
        _set_limits(axes, panel)
        canvas.label_axis(axes.xaxis, printable(panel.x.label), panel.x.scale)
        canvas.label_axis(axes.yaxis, printable(panel.y.label), panel.y.scale)
        sheet.fit()
        for name, height in panel.levels:
            _write_level(axes, panel, printable(name), height)
        if stage.keys:
            _write_keys(sheet, panel, stage)
        data = {"kind": "panel", **frame(sheet, panel.x, panel.y), **_series_data(panel, stage)}
        return sheet.svg(), data, hidden


def _set_scales(axes: Any, panel: Panel) -> int:
    """Scales first, since bands and margins depend on them; returns how many values have no logarithm."""
    axes.set_xscale(panel.x.scale)
    axes.set_yscale(panel.y.scale)
    hidden = 0
    for series in panel.series:
        x, y = _checked(panel, series)
        known = np.isfinite(x) & np.isfinite(y)
        hidden += int((known & ~_visible(panel, series)).sum())
    return hidden


def _checked(panel: Panel, series: Series) -> tuple[Array, Array]:
    lengths = {part: len(values) for part in ("x", "y", "low", "high") if (values := getattr(series, part)) is not None}
    if len(set(lengths.values())) > 1 or (series.low is None) != (series.high is None):
        found = ", ".join(f"{length} {part}" for part, length in lengths.items())
        raise ValueError(
            f"the series {series.name!r} of the panel {panel.title!r} should have as many y (and low and high, both or "
            f"neither) as x; found {found}."
        )
    return array(series.x), array(series.y)


def _draw_series(axes: Any, panel: Panel, series: Series, stage: Stage, floor: float) -> None:
    x, y = _checked(panel, series)
    style = stage.style(series.name)
    paper = np.log10(np.where(finite_on(panel.x, x), x, np.nan)) if panel.x.scale == "log" else x
    look: dict[str, Any] = dict(color=style.placeholder, gid=stage.group(series.name))
    if series.low is not None and series.high is not None:
        low, high = np.maximum(array(series.low), floor), np.maximum(array(series.high), floor)
        if series.mark == "points":
            axes.vlines(x, low, high, linewidth=1.2, alpha=0.6, **look)
        else:
            at, low, high = thinning.band(paper, low, high)
            step = "post" if series.mark == "steps" else None
            axes.fill_between(x[at], low, high, step=step, alpha=0.16, linewidth=0, **look)
    if series.mark != "points":
        keep = thinning.line(paper, y)
        drawstyle = "steps-post" if series.mark == "steps" else "default"
        axes.plot(x[keep], y[keep], linestyle=style.dash, linewidth=1.8, drawstyle=drawstyle, **look)
    if series.mark == "points" or len(x) == 1:  # a line of one point would be invisible
        size = 6 if len(x) < 60 else 4
        axes.plot(x, y, linestyle="", marker=style.marker, markersize=size, markeredgewidth=0, **look)


def _visible(panel: Panel, series: Series) -> Any:
    return finite_on(panel.x, array(series.x)) & finite_on(panel.y, array(series.y))


def _set_limits(axes: Any, panel: Panel) -> None:
    """As the values are, and the levels inside; a panel without a value says so."""
    for _, height in panel.levels:
        if finite_on(panel.y, array([height]))[0]:
            axes.axhline(height, color=canvas.SOFT, linewidth=1.1, linestyle=(0, (2, 3)), zorder=1.5)
    if any(_visible(panel, series).any() for series in panel.series):
        return
    axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=canvas.SOFT)
    for set_limits, axis in ((axes.set_xlim, panel.x), (axes.set_ylim, panel.y)):
        set_limits((1.0, 10.0) if axis.scale == "log" else (0.0, 1.0))


def _write_level(axes: Any, panel: Panel, name: str, height: float) -> None:
    """The level's name above it, at the end where the curves leave more room."""
    if not finite_on(panel.y, array([height]))[0]:
        return
    reach = min(canvas.LETTER * len(name) / axes.bbox.width, 0.5)
    middle = axes.transData.transform((1, height))[1] + 0.5 * canvas.FONT
    room = {"left": np.inf, "right": np.inf}
    for series in panel.series:
        seen = _visible(panel, series)
        points = axes.transData.transform(np.column_stack([array(series.x)[seen], array(series.y)[seen]]))
        across = (points[:, 0] - axes.bbox.x0) / axes.bbox.width
        for side, near in (("left", across < reach), ("right", across > 1 - reach)):
            room[side] = min([room[side], *np.abs(points[near, 1] - middle)])
    side, x, shift = ("left", 0, 4) if room["left"] > room["right"] else ("right", 1, -2)
    where = dict(xy=(x, height), xycoords=("axes fraction", "data"), xytext=(shift, 3), textcoords="offset points")
    axes.annotate(name, ha=side, va="bottom", color=canvas.SOFT, fontsize=canvas.FONT - 1, gid="level", **where)


def _write_keys(sheet: canvas.Canvas, panel: Panel, stage: Stage) -> None:
    """A dash of the line and its name, at the height where the line ends, moved apart where they would touch."""
    _, top, right, bottom = sheet.box()
    floor, ceiling = sheet.height - bottom + 4, sheet.height - top - 4
    ends = []
    for series in panel.series:
        seen = _visible(panel, series)
        last = (array(series.x)[seen][-1], array(series.y)[seen][-1]) if seen.any() else None
        height = float(sheet.axes.transData.transform(last)[1]) if last else floor
        ends.append((min(max(height, floor), ceiling), series.name))
    ends.sort()
    for height, (_, name) in zip(_apart([height for height, _ in ends], ceiling), ends, strict=True):
        style, y = stage.style(name), height / sheet.height
        x = [(right + 6) / sheet.width, (right + 22) / sheet.width]
        number = stage.names.index(name)
        # the dash carries the colour, the name stays in ink: colours that differ well are too pale for small letters
        sheet.segment(x, [y, y], color=style.placeholder, linewidth=2.2, linestyle=style.dash, gid=f"dash-{number}")
        sheet.figure.text(x[1] + 5 / sheet.width, y, printable(name), va="center_baseline", gid=f"key-{number}")


def _apart(heights: list[float], ceiling: float) -> list[float]:
    """Ascending heights, at least a line apart, the highest at or below the ceiling."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + LINE_GAP) if placed else height)
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], ceiling)
        ceiling = placed[i] - LINE_GAP
    return placed


def _series_data(panel: Panel, stage: Stage) -> dict[str, Any]:
    """Values of all series; an x that several series share is written once."""
    abscissae: list[list[Any]] = []
    listed = []
    for series in panel.series:
        x = jsonable(array(series.x))
        if x not in abscissae:
            abscissae.append(x)
        entry: dict[str, Any] = {"series": stage.names.index(series.name), "x": abscissae.index(x)}
        for part in ("y", "low", "high"):
            if (values := getattr(series, part)) is not None:
                entry[part] = jsonable(array(values))
        listed.append(entry)
    return {"xs": abscissae, "list": listed}
