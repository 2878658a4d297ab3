"""Eigendecompositions that do not lie, and the error for what cannot be inverted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

DOUBLE_UP_TO = 2048


class SingularError(RuntimeError):
    """The operator has no inverse, or none that its precision can tell.

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> Diagonal(torch.tensor([1.0, 0.0])).solve(torch.ones(2))
    Traceback (most recent call last):
    paraboloid.operators.decompositions.SingularError: the operator is singular ... Add damping, for example `A + 1e-3`.
    """


class Eigen(NamedTuple):
    """Eigenvalues (n,) in float64 and their orthonormal vectors (P, n); None is the identity basis."""

    values: Tensor
    basis: Tensor | None


def symmetric_eigen(matrix: Tensor, psd: bool) -> Eigen:
    """Ascending eigenvalues, clamped at 0 if `psd`, and the basis in the matrix's dtype.

    Runs in float64 up to 2,048 rows. `eigh` returns finite nonsense for matrices that hold a NaN, so that is
    asked first.

    >>> symmetric_eigen(torch.eye(2), psd=True).values
    tensor([1., 1.], dtype=torch.float64)
    """
    require_finite(matrix)
    working = matrix.double() if matrix.shape[0] <= DOUBLE_UP_TO else matrix
    values, basis = torch.linalg.eigh(working)
    values = values.double()
    return Eigen(values.clamp_min(0) if psd else values, basis.to(matrix.dtype))


def require_finite(matrix: Tensor) -> None:
    """Raise if the matrix holds a NaN or an infinity."""
    if not torch.isfinite(matrix.sum(dtype=torch.float64)):
        raise ValueError(
            f"a matrix {tuple(matrix.shape)} to be factorised should be finite, found NaN or inf in it. "
            "Look at the data or the gradients that it was made of."
        )


def singular(smallest: float, largest: float) -> SingularError:
    """The error for an operator whose spectrum reaches zero."""
    return SingularError(
        f"the operator is singular to working precision: its smallest |eigenvalue| is {smallest:.3g}, "
        f"its largest {largest:.3g}. Add damping, for example `A + 1e-3`."
    )


def indefinite(verb: str, smallest: float) -> SingularError:
    """The error for a verb that only exists for definite operators."""
    return SingularError(
        f"`{verb}` needs a positive definite operator, found an eigenvalue {smallest:.3g}. "
        f"Add damping of more than {abs(smallest):.3g}."
    )
