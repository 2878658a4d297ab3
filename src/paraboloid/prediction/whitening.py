"""From gradients of a block of parameters to covariances of outputs under that block's precision (P.4).

A whitening maps the gradients J_k of output k to S_k with S_k · S_l = J_k P⁻¹ J_lᵀ. Where P is diagonal in a Kronecker
product of two bases, gradients are rotated and divided; elsewhere they go through a root of P⁻¹.

Symbols
    K    outputs (columns)     b    examples of a chunk
    D    (K, b, o, i)          gradients in the block's own layout
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.sums import example_rows, in_basis, rotated
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import BlockDiagonal, positions
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker


class Whitening(ABC):
    """Adds its block's share of the covariance of the outputs."""

    @abstractmethod
    def covariances(self, stacks: Sequence[Stacks], columns: int) -> Iterator[tuple[int, int, Tensor]]:
        """(low, high, (high − low, K, K)) for ranges of examples."""


@dataclass(frozen=True)
class Rotation(Whitening):
    """P = (U ⊗ V) diag(s) (U ⊗ V)ᵀ on one block of the network; None is the identity (P.4)."""

    block: BoundBlock
    left: Tensor | None
    right: Tensor | None
    values: Tensor  # (a, b) for bases of sizes a and b, or the block's shape

    @cached_property
    def _scale(self) -> Tensor:
        """1/√s, for all terms of a batch."""
        return self.values.rsqrt()

    def covariances(self, stacks: Sequence[Stacks], columns: int) -> Iterator[tuple[int, int, Tensor]]:
        part, swapped = self.block.parts[0]
        alone = len(self.block.parts) == 1 and not swapped and self.values.shape == self.block.block.index.shape
        if alone and isinstance(part, MatrixPart) and part.positions == 1:
            yield 0, part.examples, self._separable(part, stacks[self.block.uses[0]])
            return
        for low, high in self.block.chunks(columns):
            # bases act on the flat block: a dense block (P, 1) of a matrix is as good as a product of two
            found = self.block.gradients(stacks, low, high).flatten(2).unflatten(2, self.values.shape)
            rows = rotated(found, (self.left, self.right)).mul_(self._scale.to(found.dtype)).flatten(2)
            yield low, high, torch.einsum("kbx,lbx->bkl", rows, rows)

    def _separable(self, part: MatrixPart, stack: Stacks) -> Tensor:
        """One position an example: D = g aᵀ, so Σ ĝ_k ĝ_l â² / s takes two small products (P.5)."""
        g = in_basis(part.outputs(stack, 0, part.examples)[:, :, 0], self.left)
        a = in_basis(part.extended(0, part.examples)[:, 0].to(g.dtype), self.right)
        weights = a.square() @ self._scale.square().to(g.dtype).mT
        return torch.einsum("kbo,lbo->bkl", g * weights, g)  # two operands: a third could be met in a bad order


@dataclass(frozen=True)
class Rooted(Whitening):
    """Any precision on any positions, by a root of its inverse."""

    bound: Sequence[BoundBlock]
    where: Tensor  # positions of the flat vector, in the precision's order
    precision: LinearOperator

    @cached_property
    def _ascending(self) -> Tensor:
        """All positions of the blocks: one of them may reach beyond the precision's, its bias lying in another."""
        return torch.cat([self.where, *(block.block.positions for block in self.bound)]).unique()

    @cached_property
    def _place(self) -> Tensor:
        """Where the precision's positions stand among them."""
        return torch.searchsorted(self._ascending, self.where)

    def covariances(self, stacks: Sequence[Stacks], columns: int) -> Iterator[tuple[int, int, Tensor]]:
        whiten = self.precision.inverse_root().T
        low = 0
        for rows in example_rows(self.bound, stacks, self._ascending):
            high = low + len(rows) // columns
            mine = rows[:, self._place].mT.to(self.precision.dtype).contiguous()
            white = (whiten @ mine).unflatten(1, (columns, -1))
            yield low, high, torch.einsum("xkb,xlb->bkl", white, white)
            low = high


def whitenings(precision: LinearOperator, bound: Sequence[BoundBlock]) -> list[Whitening]:
    """One for each block of the precision; together they cover every parameter that the outputs depend on."""
    if isinstance(precision, Diagonal):
        return [Rotation(block, None, None, precision.vector[block.block.index]) for block in bound]
    if not isinstance(precision, BlockDiagonal):
        everything = torch.arange(precision.size, device=precision.device)
        return [Rooted(bound, everything, precision)]
    found: list[Whitening] = []
    for block in precision.blocks:
        where = positions(block.index, precision.size, precision.device)
        own = next((b for b in bound if _same_positions(b, where)), None)
        if own is not None and isinstance(block.operator, Diagonal | EigenKronecker):
            found.append(_rotation(block.operator, own))
        else:
            found += _rooted(block.operator, where, bound, precision.size)
    return found


def _same_positions(block: BoundBlock, where: Tensor) -> bool:
    return len(where) == block.block.index.numel() and torch.equal(block.block.positions, where)


def _rotation(operator: Diagonal | EigenKronecker, block: BoundBlock) -> Whitening:
    if isinstance(operator, EigenKronecker):
        return Rotation(block, operator.left_basis, operator.right_basis, operator.values)
    return Rotation(block, None, None, operator.vector.view(block.block.index.shape))


def _rooted(operator: LinearOperator, where: Tensor, bound: Sequence[BoundBlock], size: int) -> list[Whitening]:
    """Over the blocks of the network that meet these positions; none where the outputs do not depend on them."""
    inside = torch.zeros(size, dtype=torch.bool, device=where.device)
    inside[where] = True
    used = [b for b in bound if bool(inside[b.block.positions].any())]
    return [Rooted(used, where, operator)] if used else []
