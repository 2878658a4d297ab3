"""Figures as data: what is drawn, not how.

A recipe returns figures, the report draws them: as pictures, as values under the pointer, and as CSV. A series
is named after its method, and a method has one colour and one dash wherever it appears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Numbers = Sequence[float]
Scale = Literal["linear", "log"]


@dataclass(frozen=True)
class Series:
    """One method's values over x, with a band (standard errors, quantiles) where there is one.

    `mark` says how: a line through the values, points, or a step function.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    mark: Literal["line", "points", "steps"] = "line"


@dataclass(frozen=True)
class Axis:
    """What an axis shows, in which unit, on which scale."""

    label: str
    scale: Scale = "linear"


@dataclass(frozen=True)
class Panel:
    """Series over common axes, with the levels that a reader compares them to (name, height)."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    levels: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Bars:
    """One bar for each label and series: ``values[name][i]`` belongs to ``labels[i]``, ± ``errors[name][i]``."""

    title: str
    labels: Sequence[str]
    y: Axis
    values: Mapping[str, Numbers]
    errors: Mapping[str, Numbers] | None = None


@dataclass(frozen=True)
class Surface:
    """Heights over a grid: ``z[row][column]`` lies at (x[column], y[row]); drawn as colours with contour lines."""

    title: str
    x: Axis
    y: Axis
    xs: Numbers
    ys: Numbers
    z: Sequence[Numbers]
    label: str = ""
    scale: Scale = "linear"


@dataclass(frozen=True)
class Figure:
    """Panels side by side under one caption; `name` is unique in its recipe and names the downloads."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel | Bars | Surface]
