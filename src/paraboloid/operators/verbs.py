"""The verbs of the algebra: one table per question, one row per structure.

A structure's own file says what it *is* (its parts and how it multiplies); the rule files say what is *done*
with it: `algebra.py` (add, shift, scale), `factorise.py`, `solve.py`, `root.py`, `logdet.py`,
`trace.py` and `spectrum.py`. A rule file enters its rows with `@verb.register`; the row of the most special
class answers, so a structure without a row of its own gets the one of `LinearOperator`, the last resort.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from torch import Tensor


def _no_rule(verb: str, operator: object) -> TypeError:
    return TypeError(f"`{verb}` is asked of a LinearOperator, found {type(operator).__name__}.")


@singledispatch
def add(A: Any, B: Any) -> Any:
    """A + B."""
    raise _no_rule("add", A)


@singledispatch
def merge(A: Any, B: Any) -> Any:
    """A + B as one structure, or None where only a `Sum` can hold both."""
    raise _no_rule("merge", A)


@singledispatch
def shift(A: Any, c: float) -> Any:
    """A + cI."""
    raise _no_rule("shift", A)


@singledispatch
def scale(A: Any, c: float) -> Any:
    """cA."""
    raise _no_rule("scale", A)


@singledispatch
def factorise(A: Any) -> Any:
    """A `Factorisation` of A, the source of solve, logdet and both roots; None without a closed form."""
    raise _no_rule("factorise", A)


@singledispatch
def solve(A: Any, X: Tensor, tolerance: float | None) -> Tensor:
    """A⁻¹X for a block (P, K)."""
    raise _no_rule("solve", A)


@singledispatch
def logdet(A: Any) -> Tensor:
    """log det A, a float64 scalar."""
    raise _no_rule("logdet", A)


@singledispatch
def root(A: Any) -> Any:
    """A `Root` R with R Rᵀ = A."""
    raise _no_rule("root", A)


@singledispatch
def inverse_root(A: Any) -> Any:
    """A `Root` R with R Rᵀ = A⁻¹."""
    raise _no_rule("inverse_root", A)


@singledispatch
def inverse(A: Any) -> Any:
    """A⁻¹ as an operator."""
    raise _no_rule("inverse", A)


@singledispatch
def trace(A: Any) -> Tensor:
    """tr A, a float64 scalar."""
    raise _no_rule("trace", A)


@singledispatch
def diagonal(A: Any) -> Tensor:
    """diag A, (P,)."""
    raise _no_rule("diagonal", A)


@singledispatch
def inner(A: Any, B: Any) -> Tensor | None:
    """tr(AB), a float64 scalar; None where this row cannot say."""
    raise _no_rule("inner", A)


@singledispatch
def eigenvalues(A: Any) -> Tensor:
    """All P eigenvalues, ascending, float64."""
    raise _no_rule("eigenvalues", A)


@singledispatch
def top_eigenpairs(A: Any, k: int, generator: Any) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues, descending, and their vectors (P, k)."""
    raise _no_rule("top_eigenpairs", A)
