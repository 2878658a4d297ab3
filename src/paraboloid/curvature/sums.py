"""Running sums of one block over batches. They hold sums and counts; division happens when an operator is read.

Every kind of sum is a dictionary of tensors, so merging, exponential averaging and saving are written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock
from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.lookup import LookupPart
from paraboloid.curvature.rules.part import Bases, MatrixPart, Stacks
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal


class BlockSum(ABC):
    """Sums over data for some positions of the flat vector."""

    def __init__(self, positions: Tensor):
        self.positions = positions

    def begin(self, bound: Sequence[BoundBlock], weights: Tensor | None) -> None:
        """Once a batch, before its columns: what does not depend on them."""

    @abstractmethod
    def add(self, bound: Sequence[BoundBlock], stacks: Sequence[Stacks]) -> None:
        """Once for each group of columns."""

    def end(self, bound: Sequence[BoundBlock]) -> None:
        """Once a batch, after its columns."""

    @abstractmethod
    def sums(self) -> dict[str, Tensor]:
        """The running sums, to be changed in place."""

    @abstractmethod
    def operator(self, count: float) -> LinearOperator:
        """The average as an operator on this block's positions."""

    def scale(self, factor: float) -> None:
        """Multiply everything summed so far."""
        for tensor in self.sums().values():
            tensor.mul_(factor)

    def merge(self, other: Self) -> None:
        """Add another's sums."""
        for mine, theirs in zip(self.sums().values(), other.sums().values(), strict=True):
            mine.add_(theirs)

    def load(self, sums: Mapping[str, Tensor]) -> None:
        """Take over saved sums."""
        for name, tensor in self.sums().items():
            tensor.copy_(sums[name])


class SquareSum(BlockSum):
    """Σ squared gradients, in the standard basis or in a Kronecker product of two bases."""

    def __init__(self, shape: torch.Size, positions: Tensor, dtype: torch.dtype, bases: Bases = (None, None)):
        super().__init__(positions)
        self.squares = torch.zeros(shape, dtype=dtype, device=positions.device)
        self.bases = bases
        self._pending: Tensor | None = None

    def sums(self) -> dict[str, Tensor]:
        return {"squares": self.squares}

    def operator(self, count: float) -> LinearOperator:
        return Diagonal(self.squares.reshape(-1) / count)

    def add(self, bound: Sequence[BoundBlock], stacks: Sequence[Stacks]) -> None:
        (block,) = bound
        part, swapped = block.parts[0]
        alone = len(block.parts) == 1 and not swapped
        stack = stacks[block.uses[0]]
        if alone and isinstance(part, LookupPart) and self.bases == (None, None):
            self.squares += part.squares(stack)
        elif alone and isinstance(part, MatrixPart) and part.positions == 1:
            self._defer(part, stack)
        elif alone and isinstance(part, MatrixPart):
            for low, high in block.chunks(_columns(stack)):
                outputs = part.outputs(stack, low, high)
                if self.bases == (None, None):
                    self._add_plain(part, part.inputs(low, high), outputs)
                else:
                    self._add_squared(part.extended(low, high), outputs)
        else:
            for low, high in block.chunks(_columns(stack)):
                found = rotated(block.gradients(stacks, low, high), self.bases)
                self.squares += found.square_().sum((0, 1)).to(self.squares.dtype)

    def _defer(self, part: MatrixPart, stack: Stacks) -> None:
        """One position an example: squares are summed over columns first, and one product follows (C.8)."""
        rows = in_basis(part.outputs(stack, 0, part.examples)[:, :, 0], self.bases[0])
        total = rows.square().sum(0)
        self._pending = total if self._pending is None else self._pending.add_(total)

    def end(self, bound: Sequence[BoundBlock]) -> None:
        if self._pending is None:
            return
        part = bound[0].parts[0][0]
        assert isinstance(part, MatrixPart)
        inputs = in_basis(part.extended(0, part.examples)[:, 0].to(self._pending.dtype), self.bases[1])
        self.squares.addmm_(self._pending.T.to(self.squares.dtype), inputs.square().to(self.squares.dtype))
        self._pending = None

    def _add_plain(self, part: MatrixPart, inputs: Tensor, outputs: Tensor) -> None:
        """In the standard basis a bias needs no column of ones: its gradient is the sum of g."""
        found = MatrixPart.product(inputs, outputs).unflatten(1, (outputs.shape[0], -1))
        self.squares[:, : inputs.shape[-1]] += found.square_().sum((0, 1)).to(self.squares.dtype)
        if part.bias:
            self.squares[:, -1] += outputs.sum(2).square_().sum((0, 1)).to(self.squares.dtype)

    def _add_squared(self, inputs: Tensor, outputs: Tensor) -> None:
        """Rotate whichever is smaller on each side, the rows or the gradients made from them."""
        left, right = self.bases
        columns, _, positions, width = outputs.shape
        inputs = inputs.to(outputs.dtype)
        rows_first = positions < columns * width
        left_first = positions < inputs.shape[-1]
        inputs = in_basis(inputs, right) if rows_first else inputs
        outputs = in_basis(outputs, left) if left_first else outputs
        found = MatrixPart.product(inputs, outputs)
        found = found if rows_first else in_basis(found, right)
        found = found.unflatten(1, (columns, width))
        if left is not None and not left_first:
            found = left.T.to(found.dtype) @ found
        self.squares += found.square_().sum((0, 1)).to(self.squares.dtype)


def rotated(gradients: Tensor, bases: Bases) -> Tensor:
    """U_Gᵀ D U_A for every gradient D; a fresh tensor."""
    left, right = bases
    found = in_basis(gradients, right)
    return found.clone() if left is None else left.T.to(found.dtype) @ found


def in_basis(rows: Tensor, basis: Tensor | None) -> Tensor:
    """Rows by their coordinates in an orthogonal basis; None is the standard one."""
    return rows if basis is None else rows @ basis.to(rows.dtype)


def _columns(stack: Stacks) -> int:
    return stack[0].shape[0]


class GramSum(BlockSum):
    """Σ x xᵀ of gradients x over any set of blocks: exact, with a square of the size to hold."""

    def __init__(self, positions: Tensor, dtype: torch.dtype):
        super().__init__(positions)
        self.moment = Moment(len(positions), dtype, positions.device)

    def sums(self) -> dict[str, Tensor]:
        return {"gram": self.moment.values}

    def operator(self, count: float) -> LinearOperator:
        return Dense(self.moment.full() / count)

    def add(self, bound: Sequence[BoundBlock], stacks: Sequence[Stacks]) -> None:
        for rows in example_rows(bound, stacks, self.positions):
            self.moment.add_rows(rows)


def example_rows(bound: Sequence[BoundBlock], stacks: Sequence[Stacks], positions: Tensor):
    """Chunks of rows: for each column and example its gradient at the given positions."""
    columns = max(_columns(stacks[block.uses[0]]) for block in bound)
    ranges = max((block.chunks(columns) for block in bound), key=len)
    place = [torch.searchsorted(positions, block.block.positions) for block in bound]
    for low, high in ranges:
        first = bound[0].gradients(stacks, low, high)
        rows = first.new_zeros(columns * (high - low), len(positions))
        for number, (block, where) in enumerate(zip(bound, place, strict=True)):
            found = first if number == 0 else block.gradients(stacks, low, high)
            rows[:, where] = found.reshape(len(rows), -1).to(rows.dtype)
        yield rows
