"""A surface as colours with contour lines.

Each value of the grid is one cell, whose edges lie half way to its neighbours on the axis as drawn. The colours are one
small embedded image, so their size does not grow with the grid; the contours stay lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paraboloid.recipes.figures import Axis, Surface
from paraboloid.report import canvas
from paraboloid.report.stage import MARGINS, Stage
from paraboloid.report.values import Array, array, finite_on, frame, jsonable, printable

RESOLUTION = 110  # dots per inch of the embedded image, at 72 units of the picture per inch
CONTOURS = 7
BAR, GAP, BAR_LABELS = 10.0, 10.0, 58.0  # the colour bar beside the axes: its width, the gaps, its numbers
MAP = "viridis"  # even steps of lightness, also for colour-blind readers


def draw(surface: Surface, stage: Stage) -> tuple[str, dict[str, Any], int]:
    """The drawing, its data, and how many values a logarithmic scale cannot show."""
    xs, ys, z = _checked(surface)
    shown = finite_on(Axis("", surface.scale), z)
    hidden = int((np.isfinite(z) & ~shown).sum())
    left, right, top, bottom = MARGINS
    with canvas.canvas(*stage.size, (left, right + GAP + BAR + BAR_LABELS, top, bottom)) as sheet:
        axes = sheet.axes
        axes.set_title(printable(surface.title))
        axes.grid(False)
        axes.set_xscale(surface.x.scale)
        axes.set_yscale(surface.y.scale)
        axes.set_xlim(*_edges(xs, surface.x)[[0, -1]])
        axes.set_ylim(*_edges(ys, surface.y)[[0, -1]])
        canvas.label_axis(axes.xaxis, printable(surface.x.label), surface.x.scale)
        canvas.label_axis(axes.yaxis, printable(surface.y.label), surface.y.scale)
        sheet.fit()
        if shown.any():
            _paint(sheet, surface, (xs, ys, np.ma.masked_where(~shown, z)))
        else:
            axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color=canvas.SOFT)
        data = {"kind": "surface", **frame(sheet, surface.x, surface.y)}
        text = sheet.svg(RESOLUTION)
    data |= {
        "label": printable(surface.label),
        "xs": jsonable(xs),
        "ys": jsonable(ys),
        "z": [jsonable(row) for row in z],
    }
    return text, data, hidden


def _paint(sheet: canvas.Canvas, surface: Surface, grid: tuple[Any, Any, Any]) -> None:
    xs, ys, z = grid
    axes = sheet.axes
    log = surface.scale == "log"
    low, high = float(z.min()), float(z.max())
    if low == high:  # a flat surface still needs two ends of its scale
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    norm = sheet.norm(low, high, log)
    edges = _edges(xs, surface.x), _edges(ys, surface.y)
    mesh = axes.pcolormesh(*edges, z, cmap=MAP, norm=norm, rasterized=True)
    heights = np.linspace(0, 1, CONTOURS + 2)[1:-1]
    levels = [float(norm.inverse(height)) for height in heights]
    if min(z.shape) > 1:
        # light lines on dark ground and dark lines on light ground
        colours = ["#ffffff" if height < 0.55 else "#000000" for height in heights]
        axes.contour(xs, ys, z, levels=levels, colors=colours, linewidths=0.8, alpha=0.6)
    box = axes.get_position()
    place = (box.x1 + GAP / sheet.width, box.y0, BAR / sheet.width, box.height)
    bar = sheet.figure.colorbar(mesh, cax=sheet.figure.add_axes(place))
    bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    canvas.label_axis(bar.ax.yaxis, printable(surface.label), surface.scale)


def _checked(surface: Surface) -> tuple[Array, ...]:
    xs, ys = array(surface.xs), array(surface.ys)
    widths = {len(row) for row in surface.z}
    if len(surface.z) != len(ys) or widths != {len(xs)} or not len(xs):
        raise ValueError(
            f"the surface {surface.title!r} should have a row of z for each of its {len(ys)} ys and a column for "
            f"each of its {len(xs)} xs; found {len(surface.z)} rows of {sorted(widths)} columns."
        )
    for name, axis, grid in (("xs", surface.x, xs), ("ys", surface.y, ys)):
        if not finite_on(axis, grid).all() or (np.diff(grid) <= 0).any():
            raise ValueError(
                f"the {name} of the surface {surface.title!r} should be finite and ascend"
                f"{', from above 0' if axis.scale == 'log' else ''}; found {grid.tolist()}. Sort them, with z."
            )
    return xs, ys, np.stack([array(row) for row in surface.z])


def _edges(centres: Array, axis: Axis) -> Array:
    """One edge more than centres, half way between them on paper."""
    places = np.log10(centres) if axis.scale == "log" else centres
    if len(places) == 1:
        edges = np.array([places[0] - 0.5, places[0] + 0.5])
    else:
        middles = (places[1:] + places[:-1]) / 2
        edges = np.concatenate([[2 * places[0] - middles[0]], middles, [2 * places[-1] - middles[-1]]])
    return 10**edges if axis.scale == "log" else edges
