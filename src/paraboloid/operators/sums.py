"""`Sum`, `Shifted` and `Scaled`: combinations that no single structure can hold.

They are what is left when `algebra.py` found nothing simpler: cA is Scaled only for products, A + cI is
Shifted for Kronecker, low-rank, dense, sums and products.
"""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor

from paraboloid.operators.base import LinearOperator, check_partner
from paraboloid.operators.rectangular import sum_of


class Sum(LinearOperator):
    """A₁ + A₂ + …, of one size, dtype and device.

    >>> import torch; from paraboloid.operators.kronecker import Kronecker
    >>> K = Kronecker(torch.ones(2), torch.ones(2))
    >>> len((K + 2 * K).terms), float((K + 2 * K).trace())
    (2, 12.0)
    """

    def __init__(self, *terms: LinearOperator) -> None:
        if not terms:
            raise ValueError("a Sum should have at least one term, found none.")
        for term in terms[1:]:
            check_partner(terms[0], term)
        self.terms = terms
        self.size, self.dtype, self.device = terms[0].size, terms[0].dtype, terms[0].device
        self.psd = all(term.psd for term in terms)
        self.by_products = any(term.by_products for term in terms)

    def parts(self) -> dict[str, Any]:
        return {"terms": list(self.terms)}

    @classmethod
    def rebuild(cls, terms: list[LinearOperator]) -> Self:
        return cls(*terms)

    def multiply(self, X: Tensor) -> Tensor:
        return sum_of(term.multiply(X) for term in self.terms)

    def to_dense(self) -> Tensor:
        return sum_of(term.to_dense() for term in self.terms)


class Shifted(LinearOperator):
    """A + cI. With c < 0 nothing is known about its signs.

    >>> import torch; from paraboloid.operators.lowrank import LowRank
    >>> A = LowRank(torch.tensor([[1.0], [0.0]])) + 1
    >>> type(A).__name__, A.solve(torch.tensor([2.0, 1.0])).tolist()
    ('Shifted', [1.0, 1.0])
    """

    def __init__(self, operator: LinearOperator, c: float) -> None:
        self.operator, self.c = operator, float(c)
        self.size, self.dtype, self.device = operator.size, operator.dtype, operator.device
        self.psd, self.by_products = operator.psd and self.c >= 0, operator.by_products

    def parts(self) -> dict[str, Any]:
        return {"operator": self.operator, "c": self.c}

    def multiply(self, X: Tensor) -> Tensor:
        return self.operator.multiply(X) + self.c * X

    def to_dense(self) -> Tensor:
        matrix = self.operator.to_dense().clone()
        matrix.diagonal().add_(self.c)
        return matrix


class Scaled(LinearOperator):
    """cA.

    >>> from paraboloid.operators.matrixfree import MatrixFree
    >>> (2 * MatrixFree(3, lambda X: X)).dense().diagonal().tolist()
    [2.0, 2.0, 2.0]
    """

    def __init__(self, operator: LinearOperator, c: float) -> None:
        self.operator, self.c = operator, float(c)
        self.size, self.dtype, self.device = operator.size, operator.dtype, operator.device
        self.psd, self.by_products = operator.psd and self.c >= 0, operator.by_products

    def parts(self) -> dict[str, Any]:
        return {"operator": self.operator, "c": self.c}

    def multiply(self, X: Tensor) -> Tensor:
        return self.c * self.operator.multiply(X)

    def to_dense(self) -> Tensor:
        return self.c * self.operator.to_dense()
