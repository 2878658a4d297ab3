"""`Diagonal`: a diagonal matrix by its entries, and the identity, which needs one number only."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.decompositions import Eigen
from paraboloid.operators.dense import require_floating


class Diagonal(LinearOperator):
    """diag(vector), vector (P,).

    >>> A = Diagonal(torch.tensor([1.0, 4.0]))
    >>> float(A.logdet()), A.inverse().diagonal().tolist()
    (1.3862943611198906, [1.0, 0.25])
    """

    def __init__(self, vector: Tensor, psd: bool = True) -> None:
        if vector.ndim != 1:
            raise ValueError(f"`vector` should have shape (P,), found {tuple(vector.shape)}.")
        require_floating("vector", vector)
        self.vector, self.psd = vector, psd
        self.size, self.dtype, self.device = vector.shape[0], vector.dtype, vector.device

    def parts(self) -> dict[str, Any]:
        return {"vector": self.vector, "psd": self.psd}

    def multiply(self, X: Tensor) -> Tensor:
        return self.vector[:, None] * X

    def to_dense(self) -> Tensor:
        return torch.diag(self.vector)

    @property
    def constant(self) -> bool:
        """Whether this is known to be a multiple of the identity, one number in memory."""
        return self.vector.stride(0) == 0 and self.size > 0

    @cached_property
    def eigen(self) -> Eigen:
        """Its entries as float64, in their order, with the identity as basis."""
        values = self.vector.double()
        return Eigen(values.clamp_min(0) if self.psd else values, None)


def identity(size: int, dtype: torch.dtype | None = None, device: torch.device | str = "cpu") -> Diagonal:
    """The identity as an operator, whatever the size one number in memory.

    >>> float((3 * identity(4)).trace())
    12.0
    """
    one = torch.ones(1, dtype=dtype, device=device)
    return Diagonal(one.expand(size))
