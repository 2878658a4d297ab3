"""Means, errors and verdicts against closed forms and scipy's Student distribution."""

import math
import statistics

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from paraboloid.recipes.protocol import Target
from paraboloid.recipes.summary import Summary, verdict


def half_width(n: int) -> float:
    """Of the interval of mean 0 and standard error 1: the quantile itself."""
    return Summary(0.0, 1.0, n).interval[1]


@pytest.mark.parametrize("degrees", range(1, 201))
def test_the_interval_has_the_quantile_of_student_for_every_number_of_repetitions(degrees):
    exact = scipy.stats.t.ppf(0.975, degrees)
    # beyond 30 degrees the expansion stops after 1/ν²; its next term is below 4/ν³
    tolerance = 1e-6 if degrees <= 30 else 4 / degrees**3
    assert half_width(degrees + 1) == pytest.approx(exact, abs=tolerance)
    assert Summary(2.0, 0.5, degrees + 1).interval == pytest.approx((2 - exact / 2, 2 + exact / 2), abs=tolerance)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_mean_and_standard_error_are_those_of_the_textbook(values):
    found = Summary.of(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(statistics.fmean(values), rel=1e-12, abs=1e-9)
    assert found.standard_error == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)), rel=1e-9, abs=1e-9)


def test_a_closed_form():
    found = Summary.of([0.0, 1.0])
    assert (found.mean, found.standard_error, found.n) == (0.5, 0.5, 2)
    assert found.interval == pytest.approx((0.5 - 6.3531, 0.5 + 6.3531), abs=1e-4)


def test_small_differences_of_large_numbers_are_not_lost():
    assert Summary.of([1e8 + 1, 1e8 + 2, 1e8 + 3]).standard_error == pytest.approx(1 / math.sqrt(3), rel=1e-12)


def test_one_repetition_has_no_error_and_an_unbounded_interval():
    found = Summary.of([3.0])
    assert (found.mean, found.n) == (3.0, 1)
    assert math.isnan(found.standard_error)
    assert found.interval == (-math.inf, math.inf)


def test_no_repetition_is_refused():
    with pytest.raises(ValueError, match="at least one repetition"):
        Summary.of([])


@pytest.mark.parametrize(
    "values", [[math.nan, 1.0], [math.inf, 1.0], [math.inf, -math.inf], [math.inf] * 3, [1e200, -1e200], [1.7e308] * 2]
)
def test_what_diverged_is_summarised_without_an_error_and_decides_nothing_false(values):
    found = Summary.of(values)
    assert found.n == len(values)
    assert verdict(found, Target("x", "x is small", "", low=-1.0, high=1.0)) != "confirmed"


def test_what_is_not_a_number_is_undecided():
    for low, high in ((-math.inf, math.inf), (0.0, 1.0)):
        assert verdict(Summary.of([math.nan, 1.0]), Target("x", "", "", low, high)) == "undecided"


# mean, standard error, n; the interval is mean ± 2.776 · error for n = 5
VERDICTS = {
    "inside": ((0.5, 0.01, 5), (0.0, 1.0), "confirmed"),
    "inside, open above": ((0.5, 0.01, 5), (0.0, math.inf), "confirmed"),
    "inside, open below": ((0.5, 0.01, 5), (-math.inf, 1.0), "confirmed"),
    "above": ((1.5, 0.01, 5), (0.0, 1.0), "not confirmed"),
    "below": ((-0.5, 0.01, 5), (0.0, 1.0), "not confirmed"),
    "over the upper border": ((1.0, 0.01, 5), (0.0, 1.0), "undecided"),
    "over the lower border": ((0.0, 0.01, 5), (0.0, 1.0), "undecided"),
    "wider than the claim": ((0.5, 1.0, 5), (0.0, 1.0), "undecided"),
    "just inside": ((0.5, 0.18, 5), (0.0, 1.0), "confirmed"),
    "just not": ((0.5, 0.181, 5), (0.0, 1.0), "undecided"),
    "just outside": ((1.5, 0.18, 5), (0.0, 1.0), "not confirmed"),
    "no longer outside": ((1.5, 0.181, 5), (0.0, 1.0), "undecided"),
    "one repetition inside": ((0.5, math.nan, 1), (0.0, 1.0), "undecided"),
    "one repetition outside": ((9.0, math.nan, 1), (0.0, 1.0), "undecided"),
    "zero error on the upper border": ((1.0, 0.0, 3), (0.0, 1.0), "confirmed"),
    "zero error on the lower border": ((0.0, 0.0, 3), (0.0, 1.0), "confirmed"),
    "zero error on a point": ((1.0, 0.0, 3), (1.0, 1.0), "confirmed"),
    "zero error beside a point": ((1.0 + 1e-9, 0.0, 3), (1.0, 1.0), "not confirmed"),
    "an error around a point": ((1.0, 1e-9, 3), (1.0, 1.0), "undecided"),
    "no number": ((math.nan, math.nan, 3), (0.0, 1.0), "undecided"),
    "infinite": ((math.inf, math.nan, 3), (0.0, math.inf), "undecided"),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_verdict_compares_the_two_intervals(case):
    numbers, (low, high), expected = VERDICTS[case]
    assert verdict(Summary(*numbers), Target("x", "a claim", "", low, high)) == expected
