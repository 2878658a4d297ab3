"""From repetitions to a number with an error, and from a number to a verdict.

A claim is an interval. The measured mean has a 95 % confidence interval (Student's t with n − 1 degrees of freedom):

    mean ± t · s/√n

The claim is confirmed if the whole confidence interval lies in the claim's, not confirmed if the two are disjoint, and
undecided otherwise. One repetition has no error and decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from paraboloid.recipes.protocol import Target, Verdict

# 97.5 % quantiles of Student's t for 1, 2, … 30 degrees of freedom; beyond, the first terms of its expansion in 1/ν
_QUANTILES = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
    *(2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272),
)
_NORMAL = 1.959963985


@dataclass(frozen=True)
class Summary:
    """Mean over n repetitions and its standard error (NaN where n = 1)."""

    mean: float
    standard_error: float
    n: int

    @classmethod
    def of(cls, repetitions: Sequence[float]) -> Summary:
        """
        >>> Summary.of([1.0, 2.0, 3.0])
        Summary(mean=2.0, standard_error=0.5773502691896257, n=3)
        """
        n = len(repetitions)
        if n == 0:
            raise ValueError("a value needs at least one repetition; found none.")
        if n == 1:
            return cls(float(repetitions[0]), math.nan, 1)
        try:
            mean = math.fsum(repetitions) / n
            variance = math.fsum((x - mean) ** 2 for x in repetitions) / (n - 1)
        except (OverflowError, ValueError):  # something diverged: squares beyond 1e308, or infinities of both signs
            return cls(sum(repetitions) / n, math.inf, n)
        return cls(mean, math.sqrt(variance / n), n)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the mean; unbounded where n = 1."""
        if self.n == 1:
            return -math.inf, math.inf
        reach = _quantile(self.n - 1) * self.standard_error
        return self.mean - reach, self.mean + reach


def _quantile(degrees: int) -> float:
    if degrees <= len(_QUANTILES):
        return _QUANTILES[degrees - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def verdict(summary: Summary, target: Target) -> Verdict:
    """
    >>> verdict(Summary(0.2, 0.01, 5), Target("x", "x is positive", "> 0", low=0.0))
    'confirmed'
    """
    low, high = summary.interval
    if not math.isfinite(summary.mean):
        return "undecided"
    if target.low <= low and high <= target.high:
        return "confirmed"
    if high < target.low or low > target.high:
        return "not confirmed"
    return "undecided"
