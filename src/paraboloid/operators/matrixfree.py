"""`MatrixFree`: a symmetric matrix known by its products alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator


class MatrixFree(LinearOperator):
    """`multiply` maps a block (P, K) to A X (P, K) and has to be linear and symmetric.

    >>> A = MatrixFree(2, lambda X: 3 * X)
    >>> (A @ torch.ones(2)).tolist(), A.dense().tolist()
    ([3.0, 3.0], [[3.0, 0.0], [0.0, 3.0]])
    """

    by_products = True

    def __init__(
        self,
        size: int,
        multiply: Callable[[Tensor], Tensor],
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        psd: bool = True,
    ) -> None:
        self.size, self.function, self.dtype = size, multiply, dtype or torch.get_default_dtype()
        self.device, self.psd = torch.empty(0, device=device).device, psd  # "cuda" is "cuda:0" on tensors

    def parts(self) -> dict[str, Any]:
        raise TypeError(
            "a MatrixFree operator is a function: it can be neither moved nor saved. "
            "Save its `dense()` matrix, or a low-rank operator made of its `top_eigenpairs`."
        )

    @property
    def nbytes(self) -> int:
        """0: nothing is held."""
        return 0

    def multiply(self, X: Tensor) -> Tensor:
        Y = self.function(X)
        if Y.shape != X.shape:
            raise ValueError(
                f"the `multiply` of a MatrixFree operator should map {tuple(X.shape)} to the same shape, "
                f"found {tuple(Y.shape)}. It is always given a block (P, K)."
            )
        return Y
