"""`Kronecker`: G ⊗ A acting on the rows-first flattening of an (a, b) matrix.

The factors are small operators themselves, `Dense` or `Diagonal`, so whatever they know (a factorisation, an
eigenbasis) the product knows.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.rectangular import multiply_pair

Factor = Dense | Diagonal


class Kronecker(LinearOperator):
    """G ⊗ A; left G (a, a), or (a,) for a diagonal one; right A (b, b) or (b,). P = a·b (O.1).

    >>> K = Kronecker(torch.tensor([2.0, 3.0]), torch.eye(2))
    >>> K.dense().diagonal().tolist(), float(K.trace())
    ([2.0, 2.0, 3.0, 3.0], 10.0)
    """

    def __init__(self, left: Tensor | Factor, right: Tensor | Factor) -> None:
        self.factors = as_factor(left), as_factor(right)
        G, A = self.factors
        if G.dtype != A.dtype or G.device != A.device:
            raise ValueError(
                f"the factors should agree in dtype and device, found {G.dtype} on {G.device} and "
                f"{A.dtype} on {A.device}. Use `.to(...)`."
            )
        self.size, self.dtype, self.device = G.size * A.size, G.dtype, G.device
        self.psd = G.psd and A.psd

    @property
    def left(self) -> Tensor:
        """G, as given: (a, a) or (a,)."""
        return stored(self.factors[0])

    @property
    def right(self) -> Tensor:
        """A, as given: (b, b) or (b,)."""
        return stored(self.factors[1])

    @property
    def sizes(self) -> tuple[int, int]:
        """(a, b)."""
        return self.factors[0].size, self.factors[1].size

    def parts(self) -> dict[str, Any]:
        return {"left": self.factors[0], "right": self.factors[1]}

    def multiply(self, X: Tensor) -> Tensor:
        G, A = self.factors
        return multiply_pair(G.multiply, A.multiply, self.sizes, X)

    def to_dense(self) -> Tensor:
        G, A = self.factors
        return torch.kron(G.to_dense().contiguous(), A.to_dense().contiguous())

    def damped(self, d: float, norm: str = "trace") -> Kronecker:
        """(G + √d/ω I) ⊗ (A + ω√d I), ω = √(‖A‖/‖G‖): stays Kronecker, over-damps G ⊗ A + dI (O.15).

        `norm`: "trace", "frobenius" or "spectral", each per dimension, so that the identity has norm 1.

        >>> K = Kronecker(torch.ones(2), torch.full((3,), 4.0)).damped(1.0)
        >>> K.left.tolist(), K.right.tolist()
        ([1.5, 1.5], [6.0, 6.0, 6.0])
        """
        if not (math.isfinite(d) and d >= 0):
            raise ValueError(f"the damping should be a finite number ≥ 0, found {d}.")
        G, A = self.factors
        omega = balance(normalised_norm(A, norm), normalised_norm(G, norm))
        return Kronecker(plus(G, d**0.5 / omega), plus(A, d**0.5 * omega))


OMEGA_LIMIT = 1e6


def balance(norm_A: float, norm_G: float) -> float:
    """ω = √(norm_A / norm_G), 1 where one of them vanishes, kept within [1e-6, 1e6]."""
    if not (norm_A > 0 and norm_G > 0):
        return 1.0
    return min(max(math.sqrt(norm_A / norm_G), 1 / OMEGA_LIMIT), OMEGA_LIMIT)


def normalised_norm(F: Factor, norm: str) -> float:
    """A norm of a factor in which the identity has norm 1."""
    if norm == "trace":
        return float(F.trace()) / F.size
    if norm == "frobenius":
        return float(F.frobenius()) / math.sqrt(F.size)
    if norm == "spectral":
        return float(F.eigen.values.abs().max())
    raise ValueError(f'`norm` should be "trace", "frobenius" or "spectral", found {norm!r}.')


def plus(F: Factor, c: float) -> Factor:
    """F + cI, written out."""
    if isinstance(F, Diagonal):
        return Diagonal(F.vector + c, F.psd)
    matrix = F.matrix.clone()
    matrix.diagonal().add_(c)
    return Dense(matrix, F.psd)


def as_factor(part: Tensor | Factor) -> Factor:
    """A tensor (n,) or (n, n) as the operator it stands for."""
    if isinstance(part, (Dense, Diagonal)):
        return part
    if not isinstance(part, Tensor) or part.ndim not in (1, 2):
        found = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
        raise ValueError(f"a Kronecker factor is a matrix (n, n) or a diagonal (n,), found {found}.")
    return Diagonal(part) if part.ndim == 1 else Dense(part)


def stored(F: Factor) -> Tensor:
    """The tensor inside a factor."""
    return F.vector if isinstance(F, Diagonal) else F.matrix
