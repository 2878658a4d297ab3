"""Values of a figure on their way into a picture and into the page's data."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paraboloid.recipes.figures import Axis
from paraboloid.report.canvas import Canvas

DIGITS = 7  # as many as float32 holds; the record has all of them
Array = NDArray[np.floating[Any]]


def array(values: Sequence[float]) -> Array:
    """
    >>> array([1, None, float("inf")]).tolist()
    [1.0, nan, inf]
    """
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def finite_on(axis: Axis, values: Array) -> NDArray[np.bool_]:
    """Which values the axis can show; a logarithmic one shows positive values only."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(values) & ((values > 0) | (axis.scale != "log"))


def floor_of(axis: Axis, parts: Iterable[Array]) -> float:
    """What edges are raised to before they are drawn: half the smallest positive value of a logarithmic axis.

    A bar there has no zero to stand on, and a band may reach below it.

    >>> floor_of(Axis("y", "log"), [array([-1, 0.5]), array([2])]), floor_of(Axis("y"), [])
    (0.25, -inf)
    """
    if axis.scale != "log":
        return -math.inf
    return min((float(part[finite_on(axis, part)].min(initial=math.inf)) for part in parts), default=2.0) / 2


def jsonable(values: Iterable[float]) -> list[float | int | str | None]:
    """Rounded numbers; JSON has no infinity and no NaN, so the one becomes a word and the other null.

    >>> jsonable([0.1 + 0.2, 3.0, float("inf"), float("nan")])
    [0.3, 3, 'inf', None]
    """
    return [_jsonable(float(value)) for value in values]


def _jsonable(value: float) -> float | int | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def printable(text: str) -> str:
    """Without control characters, which neither XML nor a reader knows what to do with.

    >>> printable("a" + chr(7) + "b" + chr(10) + "c")
    'ab c'
    """
    return "".join(" " if c in "\n\t" else c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def frame(sheet: Canvas, x: Axis, y: Axis) -> dict[str, Any]:
    """What turns a value into a place of the picture: the box of the axes, and the values at its edges."""
    return {
        "width": sheet.width,
        "height": sheet.height,
        "box": sheet.box(),
        "x": _axis(x, sheet.axes.get_xlim()),
        "y": _axis(y, sheet.axes.get_ylim()),
    }


def _axis(axis: Axis, limits: tuple[float, float]) -> dict[str, Any]:
    edges = [math.log10(edge) for edge in limits] if axis.scale == "log" else [float(edge) for edge in limits]
    return {"label": printable(axis.label), "log": axis.scale == "log", "from": edges[0], "to": edges[1]}
