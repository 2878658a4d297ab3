"""How a number is written, on the page, in markdown and on a terminal.

A measurement shows two digits of its standard error, and its mean down to the same decimal place:

    0.69683 ± 0.00124  ->  0.6968 ± 0.0012
    1.234e-7 ± 5e-9    ->  (1.234 ± 0.050) × 10⁻⁷
"""

from __future__ import annotations

import math

from paraboloid.recipes.summary import Summary

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EM DASH}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FIXED = (-4, 6)  # powers of ten that are written out; beyond them a factor 10ⁿ is easier to read than zeros
_LONGEST = 9  # digits of a mean in front of the first digit of its error


def power(exponent: int) -> str:
    """
    >>> power(-7)
    '10⁻⁷'
    """
    return "10" + str(exponent).translate(_RAISED)


def number(value: float, digits: int = 6) -> str:
    """A number without an error, to so many digits and without trailing zeros.

    >>> number(-0.25), number(1234567890.0, 3), number(math.inf)
    ('−0.25', '1.23 × 10⁹', '∞')
    """
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return _signed("∞" if value > 0 else "-∞")
    exponent = _exponent(value, digits)
    if value != 0 and not _FIXED[0] <= exponent < _FIXED[1]:
        mantissa = _trimmed(f"{value:.{digits - 1}e}".partition("e")[0])
        return _signed(f"{mantissa} × {power(exponent)}")
    return _signed(_trimmed(f"{value:.{max(digits - 1 - exponent, 0)}f}"))


def measured(summary: Summary | None) -> str:
    """Mean ± standard error; the mean alone where there is one repetition, a dash where there is none.

    >>> measured(Summary(0.69683, 0.00124, 5)), measured(Summary(0.5, math.nan, 1)), measured(None)
    ('0.6968 ± 0.0012', '0.5', '—')
    >>> measured(Summary(-1.234e-7, 5e-9, 3))
    '(−1.234 ± 0.050) × 10⁻⁷'
    """
    if summary is None:
        return NOTHING
    mean, error, factor = _parts_of(summary)
    if error == NOTHING:
        return f"{mean}{factor}"
    return f"({mean} ± {error}){factor}" if factor else f"{mean} ± {error}"


def mean_and_error(summary: Summary | None) -> tuple[str, str]:
    """The same digits for two columns of a table.

    >>> mean_and_error(Summary(0.4, 0.0396, 4)), mean_and_error(Summary(12.5, math.nan, 1))
    (('0.400', '0.040'), ('12.5', '—'))
    """
    if summary is None:
        return NOTHING, NOTHING
    mean, error, factor = _parts_of(summary)
    return f"{mean}{factor}", error if error == NOTHING else f"{error}{factor}"


def _parts_of(summary: Summary) -> tuple[str, str, str]:
    """Mean, error and the power of ten that belongs to both."""
    mean, error = summary.mean, summary.standard_error
    if not math.isfinite(mean) or not math.isfinite(error):
        return number(mean), NOTHING, ""
    if error < abs(mean) * 10.0**-_LONGEST or error == 0:
        return number(mean, _LONGEST + 1), number(error, 2), ""
    scale = _exponent(max(abs(mean), error), 2)
    if _FIXED[0] <= scale < _FIXED[1]:
        return *_pair(mean, error, 0), ""
    return *_pair(mean, error, scale), f" × {power(scale)}"


def _pair(mean: float, error: float, scale: int) -> tuple[str, str]:
    """Both in units of 10^scale, down to the second digit of the error, or to units where that lies above them."""
    decimals = max(1 - _exponent(error, 2) + scale, 0)
    # powers of ten below 1e-308 have lost digits: a subnormal mean is written in units that are exact
    unit = 10.0 ** max(scale, -307)
    return _signed(f"{mean / unit:.{decimals}f}"), f"{error / unit:.{decimals}f}"


def interval(low: float, high: float) -> str:
    """Where a claim holds.

    >>> interval(0.68, 0.71), interval(-math.inf, 1e-9), interval(0.0, math.inf), interval(1.0, 1.0)
    ('0.68 to 0.71', '≤ 1 × 10⁻⁹', '≥ 0', '= 1')
    """
    if low == high:
        return f"= {number(low, 12)}"
    if math.isinf(low) and math.isinf(high):
        return "any value"
    if math.isinf(low):
        return f"≤ {number(high, 12)}"
    if math.isinf(high):
        return f"≥ {number(low, 12)}"
    return f"{number(low, 12)} to {number(high, 12)}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.25), duration(59.7), duration(83.0), duration(7500.0), duration(200000.0)
    ('0.25 s', '1 min', '1 min 23 s', '2 h 5 min', '2 d 8 h')
    """
    if seconds < 59.5:
        return f"{number(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _spelled((minutes, "min"), (rest, "s"))
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 24:
        return _spelled((hours, "h"), (minutes, "min"))
    days, hours = divmod(round(seconds / 3600), 24)
    return _spelled((days, "d"), (hours, "h"))


def _spelled(*parts: tuple[int, str]) -> str:
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _exponent(value: float, digits: int) -> int:
    """The power of ten of the first digit, after rounding: 9.96 has 1 to two digits, 9.94 has 0."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2]) if value else 0


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _signed(text: str) -> str:
    """A true minus sign, and none in front of a zero."""
    if text.startswith("-") and not text.strip("-0."):
        return text[1:]
    return text.replace("-", MINUS)
