"""From a structure's name to running sums over a network's blocks, and from the sums to one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock, Capture
from paraboloid.curvature.columns import Columns
from paraboloid.curvature.kronecker import KroneckerSum
from paraboloid.curvature.layout import Block
from paraboloid.curvature.options import Options
from paraboloid.curvature.refusals import bad_parameter, not_finite
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.sums import BlockSum, GramSum, SquareSum
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block as OperatorBlock
from paraboloid.operators.blocks import BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.spaces.params import Params

MEMORY = 4 * 2**30  # bytes of sums that are held without asking
BUDGET = 1  # activations of the batch that columns held together may take


@dataclass(frozen=True)
class Item:
    """A running sum and the numbers of the blocks that feed it."""

    name: str
    total: BlockSum
    blocks: tuple[int, ...]


class Assembly:
    """The running sums of one structure."""

    def __init__(self, options: Options, params: Params, blocks: Sequence[Block], dtype: torch.dtype):
        self.options, self.params, self.blocks = options, params, tuple(blocks)
        self.dtype, self.device = dtype, blocks[0].index.device
        self.items = self._items()

    def _items(self) -> list[Item]:
        structure = self.options.structure
        if structure == "dense":
            self._require(self.params.numel, "dense")
            everything = torch.arange(self.params.numel, device=self.device)
            return [Item("all", GramSum(everything, self.dtype), tuple(range(len(self.blocks))))]
        if structure == "block":
            return [self._layer(name, numbers) for name, numbers in _layers(self.blocks).items()]
        return [self._item(number, block) for number, block in enumerate(self.blocks)]

    def _item(self, number: int, block: Block) -> Item:
        name, structure = "+".join(block.names), self.options.structure
        if structure != "diagonal" and block.matrix:
            if self.options.sharing == "reduce" and any(source.swapped for source in block.sources):
                raise ValueError(
                    f"sharing='reduce' has no meaning for {name!r}, which is used both as it is and transposed. Use "
                    "sharing='expand'."
                )
            self._require(max(block.index.shape), structure)
            return Item(name, KroneckerSum(block, self.options.sharing, self.dtype), (number,))
        if structure != "diagonal" and block.index.numel() <= self.options.max_block:
            return Item(name, GramSum(block.positions, self.dtype), (number,))
        return Item(name, SquareSum(block.index.shape, block.positions, self.dtype), (number,))

    def _layer(self, name: str, numbers: list[int]) -> Item:
        names = {own for number in numbers for own in self.blocks[number].names}
        pieces = [self.params.slices[own] for own in self.params.names if own in names]
        positions = torch.cat([torch.arange(p.start, p.stop, device=self.device) for p in pieces])
        self._require(len(positions), "block")
        return Item(name, GramSum(positions, self.dtype), tuple(numbers))

    def _require(self, size: int, what: str) -> None:
        needed, budget = size**2 * self.dtype.itemsize, self.options.memory or MEMORY
        if needed > budget:
            raise MemoryError(
                f"structure={what!r} needs a ({size}, {size}) matrix of {needed:.3g} bytes, allowed are {budget:.3g}. "
                "Use structure='diagonal', 'lowrank' or 'products', choose fewer parameters with params=, or raise "
                "memory=."
            )

    def add(self, capture: Capture, bound: Sequence[BoundBlock], columns: Columns) -> None:
        """Add one batch."""
        weights = example_weights(capture)
        fed = [[bound[number] for number in item.blocks] for item in self.items]
        for item, blocks in zip(self.items, fed, strict=True):
            item.total.begin(blocks, weights)
        group: list[Tensor] = []
        size = self._group(capture, bound, columns.count)
        for column in columns:
            group.append(column)
            if len(group) == size:
                self._feed(fed, capture.gradients(group))
                group = []
        if group:
            self._feed(fed, capture.gradients(group))
        for item, blocks in zip(self.items, fed, strict=True):
            item.total.end(blocks)

    def _feed(self, fed: Sequence[Sequence[BoundBlock]], stacks: Sequence[Stacks]) -> None:
        for item, blocks in zip(self.items, fed, strict=True):
            item.total.add(blocks, stacks)

    def _group(self, capture: Capture, bound: Sequence[BoundBlock], columns: int) -> int:
        """Columns whose gradients are held together: more than one only where patches are shared among them."""
        shared = [
            part.positions > 1
            for item in self.items
            if isinstance(item.total, SquareSum)
            for number in item.blocks
            for part, _ in bound[number].parts
            if isinstance(part, MatrixPart)
        ]
        if not any(shared):
            return 1
        held = sum(torch.Size(meta.shape).numel() for node in capture.nodes for meta in node._input_metadata)
        numbers = BUDGET * capture.graph.activations()
        if self.options.memory is not None:
            numbers = self.options.memory // self.dtype.itemsize
        groups = -(-columns // max(1, numbers // max(held, 1)))
        return -(-columns // max(groups, 1))  # groups of one size

    def require_finite(self) -> None:
        """Raise with the layer's name if a sum holds NaN or inf."""
        for item in self.items:
            for tensor in item.total.sums().values():
                if not bool(torch.isfinite(tensor.sum())):
                    raise not_finite(self._first_bad(item))

    def _first_bad(self, item: Item) -> str:
        """The parameter if the item is a matrix over several layers, else the item's name."""
        if not isinstance(item.total, GramSum):
            return item.name
        flat = torch.zeros(self.params.numel, dtype=self.dtype, device=self.device)
        flat[item.total.positions] = item.total.sums()["gram"].diagonal()
        return bad_parameter(self.params, flat) or item.name

    def operator(self, count: float) -> LinearOperator:
        """The average over the data."""
        parts = [(item.name, item.total.positions, item.total.operator(count)) for item in self.items]
        size = self.params.numel
        if self.options.structure == "diagonal":
            diagonal = torch.zeros(size, dtype=self.dtype, device=self.device)
            for _, positions, operator in parts:
                diagonal[positions] = operator.diagonal()
            return Diagonal(diagonal)
        if self.options.structure == "dense" and isinstance(parts[0][2], Dense):
            return parts[0][2]
        return BlockDiagonal(size, [OperatorBlock(*part) for part in parts], check=False)


def _layers(blocks: Sequence[Block]) -> dict[str, list[int]]:
    """Numbers of the blocks of each module; blocks that share a parameter stay together."""
    owner: dict[str, str] = {}
    layers: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        homes = {owner.get(name, name.rpartition(".")[0]) for name in block.names}
        home = min(homes)
        for other in homes - {home}:
            layers.setdefault(home, []).extend(layers.pop(other, []))
            owner.update({name: home for name, old in owner.items() if old == other})
        owner.update(dict.fromkeys(block.names, home))
        layers.setdefault(home, []).append(number)
    return layers


def example_weights(capture: Capture) -> Tensor | None:
    """One weight per example: the mean of its terms' weights, 0 if all of them were ignored; None if all are 1."""
    terms = capture.terms
    if terms.weights is None and terms.complete:
        return None
    count = torch.bincount(terms.example, minlength=terms.examples)
    if terms.weights is None:
        return (count > 0).to(terms.outputs.dtype)
    total = torch.zeros(terms.examples, dtype=terms.weights.dtype, device=terms.weights.device)
    return total.index_add_(0, terms.example, terms.weights) / count.clamp_min(1)
