"""`Inverse`: A⁻¹ where it has no structure of its own; a product with it is a solve with A."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator


class Inverse(LinearOperator):
    """A⁻¹, applied by `A.solve`.

    >>> import torch; from paraboloid.operators.lowrank import LowRank
    >>> A = LowRank(torch.tensor([[1.0], [0.0]])) + 1
    >>> (A.inverse() @ torch.tensor([2.0, 1.0])).tolist(), A.inverse().diagonal().tolist()
    ([1.0, 1.0], [0.5, 1.0])
    """

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.size, self.dtype, self.device = operator.size, operator.dtype, operator.device
        self.psd, self.by_products = operator.psd, operator.by_products

    def parts(self) -> dict[str, Any]:
        return {"operator": self.operator}

    def multiply(self, X: Tensor) -> Tensor:
        return verbs.solve(self.operator, X, None)
