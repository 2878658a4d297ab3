"""Lookups: a row of the stored table for each index, as if by one-hot rows that are never made."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from paraboloid.curvature.graph import Node, Use, kind, padding_of
from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.rules.split import RowSplit
from paraboloid.curvature.rules.template import Bound, Template, row_owner

KINDS = frozenset({"Embedding", "IndexSelect"})


class LookupPart(MatrixPart):
    """Indices beside rows of gradients; the block is (width, rows of the table)."""

    def __init__(self, indices: Tensor, padding: int, owner: Tensor, examples: int, index: Tensor):
        self.indices, self.index, self.examples = indices, index, examples
        self.kept = indices != padding
        self.split = RowSplit(owner, examples)
        self.positions = self.split.positions

    @property
    def positions_of(self) -> Tensor:
        return self.split.counts()

    @property
    def table(self) -> int:
        return self.index.shape[1]

    def _rows(self, stack: Tensor) -> Tensor:
        rows = stack.flatten(1, -2)
        return torch.where(self.kept[:, None], rows, torch.zeros((), dtype=rows.dtype, device=rows.device))

    def inputs(self, low: int, high: int) -> Tensor:
        rows = len(self.indices)
        onehot = torch.zeros(rows, self.table, dtype=torch.float64, device=self.indices.device)
        onehot[torch.arange(rows, device=onehot.device), self.indices] = self.kept.to(onehot.dtype)
        return self.split.take(onehot, 0, low, high)

    def outputs(self, stacks: Stacks, low: int, high: int) -> Tensor:
        return self.split.take(self._rows(stacks[0]), 1, low, high)

    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        rows = self.outputs(stacks, low, high)  # (K, b, T, width)
        where = self.split.take(self.indices, 0, low, high)  # (b, T)
        out = rows.new_zeros(*rows.shape[:2], self.table, rows.shape[-1])
        out.scatter_add_(2, where[None, :, :, None].expand(rows.shape), rows)
        return out.mT

    def total(self, stacks: Stacks, keep: Tensor) -> Tensor:
        rows = self._rows(stacks[0])[0] * self.split.spread(keep)[:, None]
        return rows.new_zeros(self.table, rows.shape[1]).index_add_(0, self.indices, rows).T

    def add_inputs(self, moment: Moment, scale: Tensor | None = None) -> None:
        weights = None if scale is None else self.split.spread(scale).square()[self.kept]
        moment.add_counts(torch.bincount(self.indices[self.kept], weights, minlength=self.table))

    def add_outputs(self, stacks: Stacks, moment: Moment) -> None:
        for rows in self._rows(stacks[0]):
            moment.add_rows(rows)

    def squares(self, stacks: Stacks) -> Tensor:
        """Σ squared gradients, without a table for each example: equal words of one example are summed first."""
        pairs, place = torch.unique(self.split.owner * self.table + self.indices, return_inverse=True)
        total = stacks[0].new_zeros(self.index.shape)
        for rows in self._rows(stacks[0]):
            sums = rows.new_zeros(len(pairs), rows.shape[1]).index_add_(0, place, rows)
            total.index_add_(1, pairs % self.table, sums.square_().T)
        return total


def templates(use: Use, slot: int, positions: Tensor) -> list[Template]:
    """The table of a lookup, transposed: outputs are its columns, inputs its rows."""
    node = use.node
    if slot != 0 or positions.dim() != 2:
        return []
    if use.kind == "Embedding" and node._saved_scale_grad_by_freq:
        return []
    if use.kind == "IndexSelect" and node._saved_dim != 0:
        return []
    return [Template(use.number, slot, positions.T, True, "lookup", partial(_build))]


def _indices(node: Node) -> tuple[Tensor, int]:
    if kind(node) == "IndexSelect":
        return node._saved_index.reshape(-1), -1
    return node._saved_indices.reshape(-1), padding_of(node)


def _build(bound: Bound, index: Tensor) -> LookupPart:
    owner = _owner(bound)
    assert owner is not None
    indices, padding = _indices(bound.node)
    return LookupPart(indices, padding, owner, bound.examples, index)


def _owner(bound: Bound) -> Tensor | None:
    owners = bound.owners[0]
    return None if owners is None else row_owner(owners, list(range(len(owners.shape) - 1)))


def owned(use: Use, slot: int, bound: Bound) -> bool:
    """Whether every looked-up row belongs to one example."""
    return _owner(bound) is not None
