"""Kronecker factors of a block: G ⊗ A from the rows g and a of its uses.

``expand`` treats every position as an example of its own (C.4); ``reduce`` averages the inputs and sums the
gradients over an example's positions first (C.5). All uses of a block are further positions. A block that is also
used transposed (an embedding tied to the head) has factors of either orientation; its operator is the Kronecker
product nearest to the sum of both (C.6).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock
from paraboloid.curvature.layout import Block
from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.sums import BlockSum
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.nearest import nearest_kronecker


class Factors:
    """Sums of both factors over the uses of one orientation, and the number of rows that the inputs' sum is over."""

    def __init__(self, block: Block, swapped: bool, sharing: str, dtype: torch.dtype):
        self.sharing, device = sharing, block.index.device
        rules = {source.template.rule for source in block.sources if source.swapped == swapped}
        outputs, inputs = reversed(block.index.shape) if swapped else block.index.shape
        onehot = rules == {"lookup"} and sharing == "expand"
        self.inputs = Moment(inputs - int(block.bias), dtype, device, bias=block.bias, onehot=onehot)
        self.outputs = Moment(outputs, dtype, device)
        self.rows = torch.zeros((), dtype=torch.float64, device=device)

    def sums(self) -> dict[str, Tensor]:
        return {"inputs": self.inputs.values, "outputs": self.outputs.values, "rows": self.rows}

    def read(self, count: float) -> tuple[Tensor, Tensor]:
        """(G, A), averages over terms and over rows."""
        each = torch.where(self.rows > 0, self.rows.reciprocal(), 0.0)  # without any row: a factor of zeros
        return self.outputs.full() / count, self.inputs.full() * each.to(self.inputs.values.dtype)

    def begin(self, parts: Sequence[MatrixPart], weights: Tensor | None) -> None:
        scale = None if weights is None else weights.sqrt()
        if self.sharing == "reduce":
            self._begin_reduced(parts, scale)
            return
        for part in parts:
            own = scale
            if own is None and not part.split.whole:  # rows that nobody owns are left out, as weights leave them out
                own = self.rows.new_ones(part.examples)
            part.add_inputs(self.inputs, own)
            counts = part.positions_of
            self.rows += counts.sum() if own is None else (counts * own.square()).sum()

    def _begin_reduced(self, parts: Sequence[MatrixPart], scale: Tensor | None) -> None:
        total = sum(part.reduced_inputs(0, part.examples) for part in parts)
        counts = sum(part.positions_of for part in parts)
        assert isinstance(total, Tensor) and isinstance(counts, Tensor)
        mean = total / counts.clamp_min(1)[:, None].to(total.dtype)
        self.rows += len(mean) if scale is None else scale.square().sum()
        self.inputs.add_whole_rows(mean, scale)

    def add(self, parts: Sequence[MatrixPart], stacks: Sequence[Stacks]) -> None:
        if self.sharing == "reduce":
            sums = [part.reduced_outputs(stack, 0, part.examples) for part, stack in zip(parts, stacks, strict=True)]
            self.outputs.add_rows(torch.stack(sums).sum(0).flatten(0, 1))
            return
        for part, stack in zip(parts, stacks, strict=True):
            part.add_outputs(stack, self.outputs)


class KroneckerSum(BlockSum):
    """The factors of a block, for each orientation that it is used in."""

    def __init__(self, block: Block, sharing: str, dtype: torch.dtype):
        super().__init__(block.positions)
        orientations = sorted({source.swapped for source in block.sources})
        self.sides = {swapped: Factors(block, swapped, sharing, dtype) for swapped in orientations}

    def sums(self) -> dict[str, Tensor]:
        return {
            f"transposed {name}" if swapped else name: tensor
            for swapped, factors in self.sides.items()
            for name, tensor in factors.sums().items()
        }

    def operator(self, count: float) -> Kronecker:
        found = []
        for swapped, factors in self.sides.items():
            G, A = factors.read(count)
            found.append(Kronecker(A, G) if swapped else Kronecker(G, A))
        return found[0] if len(found) == 1 else nearest_kronecker(found)

    def begin(self, bound: Sequence[BoundBlock], weights: Tensor | None) -> None:
        for swapped, factors in self.sides.items():
            factors.begin(_parts(bound[0], swapped), weights)

    def add(self, bound: Sequence[BoundBlock], stacks: Sequence[Stacks]) -> None:
        (block,) = bound
        for swapped, factors in self.sides.items():
            uses = [use for (_, turned), use in zip(block.parts, block.uses, strict=True) if turned == swapped]
            factors.add(_parts(block, swapped), [stacks[use] for use in uses])


def _parts(block: BoundBlock, swapped: bool) -> list[MatrixPart]:
    found = [part for part, turned in block.parts if turned == swapped]
    assert all(isinstance(part, MatrixPart) for part in found)
    return found  # type: ignore[return-value]
