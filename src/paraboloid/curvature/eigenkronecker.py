"""Corrected eigenvalues: in the eigenbasis of G ⊗ A, the exact second moments of the gradients (C.7).

The factors need one pass over the data and the corrections a second, for the basis has to be known. Any orthogonal
basis is valid and keeps the trace exact, so further data only add to the corrections.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paraboloid.curvature.assembly import Assembly, Item
from paraboloid.curvature.kronecker import KroneckerSum
from paraboloid.curvature.sums import SquareSum
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.decompositions import symmetric_eigen
from paraboloid.operators.eigenkronecker import EigenKronecker


class CorrectedSum(SquareSum):
    """Σ squared gradients in a Kronecker product of eigenbases."""

    def operator(self, count: float) -> LinearOperator:
        left, right = self.bases
        return EigenKronecker(left, right, self.squares / count)


class EigenAssembly(Assembly):
    """Corrections for the matrix blocks; other blocks are summed exactly, as by any structure."""

    def __init__(self, factors: Assembly, count: float):
        self._factors, self._count = factors, count
        super().__init__(factors.options, factors.params, factors.blocks, factors.dtype)

    def _items(self) -> list[Item]:
        return [self._corrected(item) for item in self._factors.items]

    def _corrected(self, item: Item) -> Item:
        (number,) = item.blocks
        if not isinstance(item.total, KroneckerSum):
            return self._item(number, self.blocks[number])
        factors = item.total.operator(self._count)
        bases = (eigenbasis(factors.left), eigenbasis(factors.right))
        block = self.blocks[number]
        return Item(item.name, CorrectedSum(block.index.shape, block.positions, self.dtype, bases), (number,))

    def bases(self) -> Sequence[Tensor | None]:
        """All bases, in the order of the blocks."""
        return [basis for item in self.items if isinstance(item.total, CorrectedSum) for basis in item.total.bases]


def eigenbasis(factor: Tensor) -> Tensor | None:
    """Eigenvectors in columns; None (the standard basis) for a factor that is diagonal already."""
    return None if factor.dim() == 1 else symmetric_eigen(factor, psd=True).basis


def same_bases(one: EigenAssembly, other: EigenAssembly) -> bool:
    """Whether the corrections of both mean the same."""
    return all(
        (p is None and q is None) or (p is not None and q is not None and torch.equal(p, q))
        for p, q in zip(one.bases(), other.bases(), strict=True)
    )
