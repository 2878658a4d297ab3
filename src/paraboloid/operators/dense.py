"""`Dense`: a symmetric matrix written out."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.decompositions import Eigen, symmetric_eigen


class Dense(LinearOperator):
    """The matrix (P, P) itself. It has to be symmetric; only `psd=False` lets it be indefinite.

    >>> import torch
    >>> A = Dense(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    >>> A.eigenvalues().tolist(), float(A.trace()), float(A.frobenius()) ** 2
    ([1.0, 3.0], 4.0, 10.000000000000002)
    """

    def __init__(self, matrix: Tensor, psd: bool = True) -> None:
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"`matrix` should be square, (P, P), found {tuple(matrix.shape)}.")
        require_floating("matrix", matrix)
        self.matrix, self.psd = matrix, psd
        self.size, self.dtype, self.device = matrix.shape[0], matrix.dtype, matrix.device

    def parts(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "psd": self.psd}

    def multiply(self, X: Tensor) -> Tensor:
        return self.matrix @ X

    def to_dense(self) -> Tensor:
        return self.matrix

    @cached_property
    def eigen(self) -> Eigen:
        """Eigenvalues (P,), ascending, float64, clamped at 0 if `psd`; and the orthogonal basis (P, P)."""
        return symmetric_eigen(self.matrix, self.psd)


def require_floating(name: str, tensor: Tensor) -> None:
    """Raise unless the tensor is real and floating."""
    if not tensor.is_floating_point():
        raise TypeError(f"`{name}` should be a real floating tensor, found {tensor.dtype}. Convert it by `.to(...)`.")
