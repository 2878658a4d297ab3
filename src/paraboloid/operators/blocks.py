"""`BlockDiagonal`: operators on disjoint sets of positions of the flat vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.diagonal import Diagonal

Index = Tensor | slice
REST = "(rest)"


@dataclass(frozen=True)
class Block:
    """`operator` acts on the positions `index` (a LongTensor or a slice), in the index's order.

    >>> Block("layer", slice(0, 2), Diagonal(torch.ones(2))).name
    'layer'
    """

    name: str
    index: Index
    operator: LinearOperator


class BlockDiagonal(LinearOperator):
    """Blocks on disjoint positions of (size,); positions in no block are zero rows.

    >>> A = BlockDiagonal(3, [Block("a", torch.tensor([2, 0]), Diagonal(torch.tensor([5.0, 7.0])))])
    >>> A.diagonal().tolist(), (A + 1).diagonal().tolist()
    ([7.0, 0.0, 5.0], [8.0, 1.0, 6.0])
    """

    def __init__(self, size: int, blocks: Sequence[Block], *, check: bool = True) -> None:
        if not blocks:
            raise ValueError("a BlockDiagonal should have at least one block, found none.")
        first = blocks[0].operator
        self.size, self.dtype, self.device = size, first.dtype, first.device
        self.psd = all(block.operator.psd for block in blocks)
        if not check:  # positions that are known to be disjoint: reading them all costs as much as a product
            self.blocks = tuple(blocks)
            return
        self.blocks = tuple(_normalised(block, size, self.device) for block in blocks)
        for block in self.blocks:
            _check_block(block, first)
        self._check_disjoint()

    def parts(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "names": [block.name for block in self.blocks],
            "indices": [block.index for block in self.blocks],
            "operators": [block.operator for block in self.blocks],
        }

    @classmethod
    def rebuild(cls, size: int, names: list[str], indices: list[Index], operators: list[LinearOperator]) -> Self:
        return cls(size, [Block(*triple) for triple in zip(names, indices, operators, strict=True)])

    def multiply(self, X: Tensor) -> Tensor:
        Y = torch.zeros_like(X)
        for block in self.blocks:
            Y[block.index] = block.operator.multiply(X[block.index])
        return Y

    def to_dense(self) -> Tensor:
        matrix = torch.zeros(self.size, self.size, dtype=self.dtype, device=self.device)
        for block in self.blocks:
            rows = positions(block.index, self.size, self.device)
            matrix[rows[:, None], rows] = block.operator.to_dense()
        return matrix

    @property
    def covered(self) -> int:
        """How many positions lie in a block."""
        return sum(block.operator.size for block in self.blocks)

    @cached_property
    def rest(self) -> Tensor:
        """The positions in no block, ascending."""
        free = torch.ones(self.size, dtype=torch.bool, device=self.device)
        for block in self.blocks:
            free[block.index] = False
        return free.nonzero()[:, 0]

    @property
    def indices(self) -> list[Index]:
        """The positions of every block."""
        return [block.index for block in self.blocks]

    @property
    def operators(self) -> list[LinearOperator]:
        """The operator of every block."""
        return [block.operator for block in self.blocks]

    def map(self, change: Callable[[LinearOperator], LinearOperator]) -> BlockDiagonal:
        """The same positions with changed operators."""
        changed = [Block(b.name, b.index, change(b.operator)) for b in self.blocks]
        return BlockDiagonal(self.size, changed, check=False)

    def filled(self, c: float) -> BlockDiagonal:
        """With a further block cI on the positions that are in none, so that every position is in one."""
        if self.covered == self.size:
            return self
        fill = torch.full((1,), c, dtype=self.dtype, device=self.device).expand(len(self.rest))
        return BlockDiagonal(self.size, [*self.blocks, Block(REST, self.rest, Diagonal(fill, psd=c >= 0))])

    def same_partition(self, other: BlockDiagonal) -> bool:
        """Whether the blocks of both sit on the same positions in the same order."""
        return len(self.blocks) == len(other.blocks) and all(
            _same(p, q) for p, q in zip(self.indices, other.indices, strict=True)
        )

    def damped(self, d: float, norm: str = "trace") -> BlockDiagonal:
        """Factored damping of the Kronecker blocks (O.15), + d for all others and for uncovered positions.

        >>> A = BlockDiagonal(2, [Block("a", slice(0, 1), Diagonal(torch.ones(1)))])
        >>> A.damped(0.5).diagonal().tolist()
        [1.5, 0.5]
        """

        def change(operator: LinearOperator) -> LinearOperator:
            damp = getattr(operator, "damped", None)
            return operator + d if damp is None else damp(d, norm)

        return self.map(change).filled(d)

    def _check_disjoint(self) -> None:
        if self.covered > self.size or self.covered + len(self.rest) != self.size:
            raise ValueError(
                f"the blocks should lie on disjoint positions of a vector of size {self.size}; found "
                f"{self.covered} positions in blocks and {len(self.rest)} in none: some are in two blocks."
            )


def positions(index: Index, size: int, device: torch.device) -> Tensor:
    """An index as a LongTensor."""
    return torch.arange(size, device=device)[index] if isinstance(index, slice) else index


def _normalised(block: Block, size: int, device: torch.device) -> Block:
    """Slices with explicit ends; tensors long and on the device; numbers within the vector."""
    index = block.index
    if isinstance(index, slice):
        start, stop, step = index.indices(size)
        if step != 1 or (index.stop or 0) > size:
            raise ValueError(
                f"block {block.name!r}: the slice should have step 1 and end within {size}, found {index}."
            )
        return Block(block.name, slice(start, max(start, stop)), block.operator)
    if index.dtype != torch.long or index.ndim != 1:
        raise TypeError(
            f"block {block.name!r}: the index should be a slice or a LongTensor (n,), found {index.dtype} "
            f"{tuple(index.shape)}."
        )
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= size):
        raise ValueError(
            f"block {block.name!r}: positions should lie in 0..{size - 1}, found {int(index.min())}.."
            f"{int(index.max())}."
        )
    return Block(block.name, index.to(device), block.operator)


def _check_block(block: Block, first: LinearOperator) -> None:
    index = block.index
    count = index.stop - index.start if isinstance(index, slice) else index.numel()
    if count != block.operator.size:
        raise ValueError(
            f"block {block.name!r} has {count} positions and an operator of size {block.operator.size}; "
            "the two should agree."
        )
    if (block.operator.dtype, block.operator.device) != (first.dtype, first.device):
        raise ValueError(
            f"block {block.name!r}: blocks should agree in dtype and device, found "
            f"{block.operator.dtype} on {block.operator.device} beside {first.dtype} on {first.device}. "
            "Use `.to(...)`."
        )


def _same(p: Index, q: Index) -> bool:
    if isinstance(p, slice) or isinstance(q, slice):
        return isinstance(p, slice) and isinstance(q, slice) and p == q
    return p is q or torch.equal(p, q)
