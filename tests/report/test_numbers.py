"""Numbers as they are written: what is read back is what was measured, to the digits shown."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paraboloid.recipes.summary import Summary
from paraboloid.report import numbers

SIZES = st.floats(1e-12, 1e12)
SIGNED = st.tuples(SIZES, st.sampled_from([-1.0, 1.0])).map(math.prod)
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def read(text: str) -> float:
    """A number as a reader reads it."""
    mantissa, _, raised = text.replace("−", "-").partition(" × 10")
    return float(mantissa) * 10.0 ** int(raised.translate(RAISED) or 0)


def read_pair(text: str) -> tuple[str, str, float]:
    """Mean and error as digits, and their common factor."""
    inner = re.fullmatch(r"\(?([−\d.]+) ± ([\d.]+)(?:\) × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", text)
    assert inner, text
    factor = 10.0 ** int(inner[3].translate(RAISED)) if inner[3] else 1.0
    return inner[1].replace("−", "-"), inner[2], factor


@given(SIGNED, st.floats(1e-6, 1e3))
def test_a_measurement_is_right_to_half_a_unit_of_its_last_digit(mean, relative):
    error = abs(mean) * relative
    shown_mean, shown_error, factor = read_pair(numbers.measured(Summary(mean, error, 5)))
    decimals = len(shown_error.partition(".")[2])
    half = 0.5 * 10.0**-decimals * factor * (1 + 1e-6)
    assert abs(float(shown_mean) * factor - mean) <= half
    assert abs(float(shown_error) * factor - error) <= half


@given(SIGNED, st.floats(1e-6, 1e3))
def test_mean_and_error_end_at_the_same_decimal_place(mean, relative):
    shown_mean, shown_error, _ = read_pair(numbers.measured(Summary(mean, abs(mean) * relative, 5)))
    assert len(shown_mean.partition(".")[2]) == len(shown_error.partition(".")[2])


@given(SIGNED, st.floats(1e-6, 0.5))
def test_an_error_below_ten_units_has_two_digits(mean, relative):
    _, shown_error, _ = read_pair(numbers.measured(Summary(mean, abs(mean) * relative, 5)))
    digits = shown_error.replace(".", "").lstrip("0")
    assert len(digits) == 2 or ("." not in shown_error and len(digits) >= 2)


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (0.5, 0.0996, "0.50 ± 0.10"),  # the error gains a digit by rounding
        (0.9999, 0.0123, "1.000 ± 0.012"),
        (-0.001, 0.5, "0.00 ± 0.50"),  # no minus in front of a zero
        (12345.0, 678.0, "12345 ± 678"),
        (1.0, 0.0, "1 ± 0"),
        (1.0, 1e-17, "1 ± 1 × 10⁻¹⁷"),
        (0.0, 0.0, "0 ± 0"),
        (3e-9, 4e-10, "(3.00 ± 0.40) × 10⁻⁹"),
        (5e-324, 5e-324, "(0.0 ± 0.0) × 10⁻³²⁴"),
        (math.inf, math.nan, "∞"),
    ],
)
def test_a_measurement_is_written_as(mean, error, text):
    assert numbers.measured(Summary(mean, error, 4)) == text


@given(SIGNED, st.integers(2, 12))
def test_a_number_is_right_to_its_digits(value, digits):
    assert read(numbers.number(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


@given(SIGNED)
def test_columns_of_a_table_show_what_the_sentence_shows(mean):
    summary = Summary(mean, abs(mean) / 7, 3)
    parts = [read(part) for part in numbers.mean_and_error(summary)]
    shown_mean, shown_error, factor = read_pair(numbers.measured(summary))
    assert parts == pytest.approx([float(shown_mean) * factor, float(shown_error) * factor])


def test_intervals_say_which_side_is_open():
    assert numbers.interval(-math.inf, math.inf) == "any value"
    assert numbers.interval(-math.inf, -0.5) == "≤ −0.5"
    assert numbers.interval(0.123456789, math.inf) == "≥ 0.123456789"
    assert numbers.interval(2.0, 2.0) == "= 2"


def test_durations_never_show_sixty_of_anything():
    for tenth in range(0, 40000, 7):
        text = numbers.duration(tenth / 10)
        assert "60" not in re.findall(r"\d+", text), text
