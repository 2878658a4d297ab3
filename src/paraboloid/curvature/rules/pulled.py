"""Operands that are some function of their leaves (weight norm, a merged low-rank update): pulled back by autograd.

Also the adapter that lays any part out as the flat vector of one parameter.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from paraboloid.curvature.graph import Operand
from paraboloid.curvature.rules.part import Part, Stacks


class PulledPart(Part):
    """The gradient of one leaf behind an operand, from the parts that give the operand's own gradient."""

    def __init__(self, inner: Part, operand: Operand, tensors: Mapping[str, Tensor], leaf: str, index: Tensor):
        self.inner, self.operand, self.tensors = inner, operand, tensors
        self.number, self.index, self.examples = operand.leaves.index(leaf), index, inner.examples

    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        inner = self.inner.gradients(stacks, low, high)
        lead = inner.shape[:2]
        flat = _scattered(inner.flatten(2), self.inner.index.reshape(-1), self.operand.shape.numel())
        batch = flat.reshape(-1, *self.operand.shape)
        pulled = self.operand.pull(batch, self.tensors, is_grads_batched=True)[self.number]
        return pulled.reshape(*lead, -1)

    def numbers(self, columns: int) -> int:
        return self.inner.numbers(columns) + columns * self.index.numel()


class FlatPart(Part):
    """A part laid out as the flat vector of one parameter; what belongs to other parameters is dropped."""

    def __init__(self, inner: Part, index: Tensor):
        self.inner, self.index, self.examples = inner, index, inner.examples
        first, size = int(index[0]), len(index)
        local = inner.index.reshape(-1) - first
        self.local = torch.where((local >= 0) & (local < size), local, size)

    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        inner = self.inner.gradients(stacks, low, high).flatten(2)
        return _scattered(inner, self.local, len(self.index) + 1)[..., :-1]

    def total(self, stacks: Stacks, keep: Tensor) -> Tensor:
        inner = self.inner.total(stacks, keep).reshape(1, 1, -1)
        return _scattered(inner, self.local, len(self.index) + 1)[0, 0, :-1]

    def numbers(self, columns: int) -> int:
        return self.inner.numbers(columns) + columns * self.index.numel()


def _scattered(flat: Tensor, places: Tensor, size: int) -> Tensor:
    """(K, b, n) values summed into (K, b, size) at places that may repeat."""
    return flat.new_zeros(*flat.shape[:2], size).index_add_(2, places, flat)
