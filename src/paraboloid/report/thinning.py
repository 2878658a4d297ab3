"""Fewer points where a picture cannot show them.

A line of thousands of points crosses a few hundred columns of the picture. In each column its first, lowest, highest
and last points draw the same line as all of them; a band is as wide as its widest place in the column. What is
downloaded and shown under the pointer are always the values themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = 220
Array = NDArray[np.floating[Any]]


def columns_of(x: Array) -> NDArray[np.int64] | None:
    """Each point's column of the picture; None if all points may stay, or must (x goes back and forth)."""
    if len(x) <= 4 * COLUMNS or not np.isfinite(x).all() or (np.diff(x) < 0).any() or x[0] == x[-1]:
        return None
    return np.minimum(((x - x[0]) / (x[-1] - x[0]) * COLUMNS).astype(np.int64), COLUMNS - 1)


def line(x: Array, y: Array) -> NDArray[np.int64]:
    """Indices of the points to draw; x as it lies on paper, that is, after the logarithm on a logarithmic axis."""
    columns = columns_of(x)
    if columns is None:
        return np.arange(len(x))
    keep: list[NDArray[np.int64]] = []
    for group in _groups(columns):
        heights = y[group]
        finite = group[np.isfinite(heights)]
        gap = group[~np.isfinite(heights)][:1]  # one is enough to interrupt the line
        extremes = finite[[np.argmin(y[finite]), np.argmax(y[finite])]] if len(finite) else finite
        keep += [finite[:1], extremes, finite[-1:], gap]
    return np.unique(np.concatenate(keep))


def band(x: Array, low: Array, high: Array) -> tuple[NDArray[np.int64], Array, Array]:
    """Indices of x to draw at, and the lowest and highest edge of each of their columns."""
    columns = columns_of(x)
    if columns is None:
        return np.arange(len(x)), low, high
    groups = _groups(columns)
    at = np.array([group[0] for group in groups] + [len(x) - 1])
    groups.append(groups[-1])
    lowest = np.array([np.fmin.reduce(low[group]) for group in groups])
    highest = np.array([np.fmax.reduce(high[group]) for group in groups])
    return at, lowest, highest


def _groups(columns: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return np.split(np.arange(len(columns)), np.flatnonzero(np.diff(columns)) + 1)
