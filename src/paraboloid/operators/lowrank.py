"""`LowRank`: U diag(w) Uᵀ with few columns, and its thin eigendecomposition."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.decompositions import Eigen, symmetric_eigen
from paraboloid.operators.dense import require_floating


class LowRank(LinearOperator):
    """U diag(w) Uᵀ with factor U (P, r) and weights w (r,), ones if None.

    >>> A = LowRank(torch.tensor([[1.0], [2.0]]), torch.tensor([3.0]))
    >>> A.dense().tolist(), A.rank
    ([[3.0, 6.0], [6.0, 12.0]], 1)
    """

    def __init__(self, factor: Tensor, weights: Tensor | None = None, psd: bool = True) -> None:
        if factor.ndim != 2:
            raise ValueError(f"`factor` should have shape (P, r), found {tuple(factor.shape)}.")
        require_floating("factor", factor)
        if weights is None:
            weights = factor.new_ones(1).expand(factor.shape[1])
        if weights.shape != factor.shape[1:]:
            raise ValueError(
                f"`weights` should have one entry per column of the factor, ({factor.shape[1]},), "
                f"found {tuple(weights.shape)}."
            )
        self.factor, self.weights, self.psd = factor, weights, psd
        self.size, self.dtype, self.device = factor.shape[0], factor.dtype, factor.device

    @property
    def rank(self) -> int:
        """Number of columns r (the matrix may have lower rank)."""
        return self.factor.shape[1]

    def parts(self) -> dict[str, Any]:
        return {"factor": self.factor, "weights": self.weights, "psd": self.psd}

    def multiply(self, X: Tensor) -> Tensor:
        return self.factor @ (self.weights[:, None] * (self.factor.mT @ X))

    def to_dense(self) -> Tensor:
        return (self.factor * self.weights) @ self.factor.mT

    @cached_property
    def eigen(self) -> Eigen:
        """Thin: min(P, r) eigenvalues, ascending, float64; orthonormal basis (P, min(P, r)) (O.8).

        By QR, not by the Gram matrix UᵀU, which would square the condition number.
        """
        Q, R = torch.linalg.qr(self.factor.double())
        values, V = symmetric_eigen((R * self.weights.double()) @ R.mT, self.psd)
        return Eigen(values, (Q @ V).to(self.dtype))
