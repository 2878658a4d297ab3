"""Fewer points, the same picture."""

import numpy as np
import pytest

from paraboloid.report import thinning

NOISE = np.random.default_rng(0).standard_normal(5000)
EVEN = np.linspace(0.0, 1.0, 5000)


def columns(x):
    return np.minimum(((x - x[0]) / (x[-1] - x[0]) * thinning.COLUMNS).astype(int), thinning.COLUMNS - 1)


def test_a_short_line_keeps_all_its_points():
    assert thinning.line(EVEN[:500], NOISE[:500]).tolist() == list(range(500))


def test_a_long_line_keeps_the_ends_and_the_extremes_of_every_column():
    keep = thinning.line(EVEN, NOISE)
    assert len(keep) <= 4 * thinning.COLUMNS
    assert {0, 4999} <= set(keep.tolist())
    everywhere = columns(EVEN)
    for column in range(thinning.COLUMNS):
        inside, kept = NOISE[everywhere == column], NOISE[keep[everywhere[keep] == column]]
        assert (inside.min(), inside.max(), inside[0], inside[-1]) == (kept.min(), kept.max(), kept[0], kept[-1])


def test_a_gap_stays_a_gap():
    y = NOISE.copy()
    y[2000:2300] = np.nan
    kept = y[thinning.line(EVEN, y)]
    assert np.isnan(kept).any()
    assert np.nanmax(kept) == np.nanmax(y)


@pytest.mark.parametrize("x", [np.sin(40 * EVEN), np.zeros(5000), np.where(EVEN > 0.5, np.nan, EVEN)])
def test_a_line_whose_columns_are_unclear_keeps_all_its_points(x):
    assert len(thinning.line(x, NOISE)) == 5000


def test_a_thinned_band_holds_every_value_of_its_column():
    at, low, high = thinning.band(EVEN, NOISE - 1, NOISE + 1)
    everywhere = columns(EVEN)
    assert len(at) == thinning.COLUMNS + 1 and at[0] == 0 and at[-1] == 4999
    for column in range(thinning.COLUMNS):
        assert low[column] == (NOISE[everywhere == column] - 1).min()
        assert high[column] == (NOISE[everywhere == column] + 1).max()
