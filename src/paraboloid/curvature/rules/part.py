"""What a rule hands over: one use of one block of parameters, bound to one batch.

Gradients travel as stacks of K columns, one tensor per output of the node. ``low`` and ``high`` choose examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.split import RowSplit

NUMBERS_HELD = 4_000_000  # numbers in one chunk: large enough for fast products, small enough for the cache

Stacks = Sequence[Tensor]  # for each output of the node its gradients for K columns: (K, *shape)
Bases = tuple[Tensor | None, Tensor | None]  # eigenbases of the two sides of a block; None is the identity


class Part(ABC):
    """One use of a block; ``index`` holds the block's positions in the flat vector, in the block's own layout."""

    index: Tensor
    examples: int

    @abstractmethod
    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        """(K, high - low, *index.shape): each example's gradient of the block, for each column."""

    def total(self, stacks: Stacks, keep: Tensor) -> Tensor:
        """(*index.shape): the sum over examples of keep times gradient, for a stack of one column."""
        total = torch.zeros(self.index.shape, dtype=keep.dtype, device=keep.device)
        for low, high in self.chunks(1):
            part = self.gradients(stacks, low, high)[0]
            total += torch.tensordot(keep[low:high], part.to(keep.dtype), 1)
        return total

    def numbers(self, columns: int) -> int:
        """Numbers held for one example while its gradients are made."""
        return columns * self.index.numel()

    def chunks(self, columns: int) -> list[tuple[int, int]]:
        """Ranges of examples small enough to be held at once."""
        step = max(1, min(self.examples, NUMBERS_HELD // max(self.numbers(columns), 1)))
        return [(low, min(low + step, self.examples)) for low in range(0, self.examples, step)]


class MatrixPart(Part):
    """A use whose gradient is a sum over positions of g aᵀ: what Kronecker factors are made from.

    ``index`` is (outputs, inputs), with the bias as the last column where it is joint.
    """

    bias: bool = False
    split: RowSplit
    positions: int  # most positions of one example

    @abstractmethod
    def inputs(self, low: int, high: int) -> Tensor:
        """(b, T, inputs): the rows a of the examples low to high, without the constant of the bias."""

    @abstractmethod
    def outputs(self, stacks: Stacks, low: int, high: int) -> Tensor:
        """(K, b, T, outputs): the rows g."""

    @abstractmethod
    def add_inputs(self, moment: Moment, scale: Tensor | None = None) -> None:
        """Add Σ a aᵀ over all positions; ``scale`` has one factor of a for each example."""

    @abstractmethod
    def add_outputs(self, stacks: Stacks, moment: Moment) -> None:
        """Add Σ g gᵀ over all positions and columns."""

    @property
    @abstractmethod
    def positions_of(self) -> Tensor:
        """(examples,): how many positions each example has."""

    def extended(self, low: int, high: int) -> Tensor:
        """The rows with the bias' constant appended: [a; 1]."""
        rows = self.inputs(low, high)
        if not self.bias:
            return rows
        return torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], -1)

    def numbers(self, columns: int) -> int:
        outputs, inputs = self.index.shape
        return self.positions * (inputs + columns * outputs) + columns * outputs * inputs

    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        found = self.product(self.extended(low, high), self.outputs(stacks, low, high))
        return found.unflatten(1, (-1, self.index.shape[0])).transpose(0, 1)

    @staticmethod
    def product(inputs: Tensor, outputs: Tensor) -> Tensor:
        """(b, T, i) and (K, b, T, o) -> (b, K o, i): one product per example for all columns."""
        columns = outputs.permute(1, 0, 3, 2).flatten(1, 2)
        return columns @ inputs.to(columns.dtype)

    def reduced_inputs(self, low: int, high: int) -> Tensor:
        """(b, inputs): the sum of an example's rows [a; 1] over its positions."""
        rows = self.inputs(low, high).sum(1)
        if not self.bias:
            return rows
        return torch.cat([rows, self.positions_of[low:high, None].to(rows.dtype)], -1)

    def reduced_outputs(self, stacks: Stacks, low: int, high: int) -> Tensor:
        """(K, b, outputs): the sum of an example's rows g over its positions."""
        return self.outputs(stacks, low, high).sum(2)
