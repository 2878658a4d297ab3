"""Kronecker factors of a block: G ⊗ A from the rows g and a of its uses.

``expand`` treats every position as an example of its own (C.4); ``reduce`` averages the inputs and sums the
gradients over an example's positions first (C.5). All uses of a block are further positions. Where a block is also
used transposed (an embedding tied to the head), a row statistic of one use is a column statistic of the other: both
sides then pool over uses, positions and columns (C.6).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock
from paraboloid.curvature.layout import Block
from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.lookup import LookupPart
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.sums import BlockSum
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.kronecker import Kronecker


class KroneckerSum(BlockSum):
    """Sums of both factors, and the number of rows that the inputs' sum is over."""

    def __init__(self, block: Block, sharing: str, dtype: torch.dtype):
        super().__init__(block.positions)
        self.sharing, device = sharing, block.index.device
        self.pooled = any(source.swapped for source in block.sources)
        lookups = {source.swapped for source in block.sources if source.template.rule == "lookup"}
        products = {source.swapped for source in block.sources if source.template.rule != "lookup"}
        onehot = bool(lookups) and not products and len(lookups) == 1 and sharing == "expand"
        outputs, inputs = block.index.shape
        self.inputs = Moment(inputs - int(block.bias), dtype, device, bias=block.bias, onehot=onehot)
        self.outputs = Moment(outputs, dtype, device)
        self.rows = torch.zeros((), dtype=torch.float64, device=device)
        self._columns = 1

    def sums(self) -> dict[str, Tensor]:
        return {"inputs": self.inputs.values, "outputs": self.outputs.values, "rows": self.rows}

    def factors(self, count: float) -> tuple[Tensor, Tensor]:
        """(G, A), averages over terms and over rows."""
        rows = float(self.rows)
        return self.outputs.full() / count, self.inputs.full() / (rows if rows else 1.0)

    def operator(self, count: float) -> LinearOperator:
        return Kronecker(*self.factors(count))

    def begin(self, bound: Sequence[BoundBlock], columns: int, weights: Tensor | None) -> None:
        (block,) = bound
        self._columns = columns if self.pooled else 1
        scale = None if weights is None else weights.sqrt()
        if self.sharing == "reduce":
            self._begin_reduced(block, scale)
            return
        for part, swapped in _matrices(block):
            root = self._scaled(scale, part.examples, self._columns)
            part.add_inputs(self.outputs if swapped else self.inputs, root)
            counts = part.positions_of if isinstance(part, LookupPart) or scale is not None else None
            self.rows += self._columns * (part.rows if counts is None else _weighted(counts, scale))

    def _scaled(self, scale: Tensor | None, examples: int, columns: int) -> Tensor | None:
        if columns == 1:
            return scale
        ones = self.inputs.values.new_ones(examples) if scale is None else scale
        return ones * columns**0.5

    def _begin_reduced(self, block: BoundBlock, scale: Tensor | None) -> None:
        total, counts = None, None
        for part, _ in _matrices(block):
            sums = part.reduced_inputs(0, part.examples)
            total = sums if total is None else total + sums
            counts = part.positions_of if counts is None else counts + part.positions_of
        assert total is not None and counts is not None
        mean = total / counts.clamp_min(1)[:, None].to(total.dtype)
        self.rows += len(mean) if scale is None else float(scale.square().sum())
        if not self.inputs.bias:
            self.inputs.add_rows(mean, scale)
            return
        whole = Moment(mean.shape[1], self.inputs.values.dtype, mean.device)
        whole.add_rows(mean, scale)
        self.inputs.values += whole.values

    def add(self, bound: Sequence[BoundBlock], stacks: Sequence[Stacks]) -> None:
        (block,) = bound
        if self.sharing == "reduce":
            total = None
            for (part, _), use in zip(_matrices(block), block.uses, strict=True):
                sums = part.reduced_outputs(stacks[use], 0, part.examples)
                total = sums if total is None else total + sums
            assert total is not None
            self.outputs.add_rows(total.flatten(0, 1))
            return
        for (part, swapped), use in zip(_matrices(block), block.uses, strict=True):
            part.add_outputs(stacks[use], self.inputs if swapped else self.outputs)


def _matrices(block: BoundBlock) -> list[tuple[MatrixPart, bool]]:
    found = [(part, swapped) for part, swapped in block.parts if isinstance(part, MatrixPart)]
    assert len(found) == len(block.parts)
    return found


def _weighted(counts: Tensor, scale: Tensor | None) -> float:
    return float(counts.sum() if scale is None else (counts * scale.square()).sum())
