"""Matrix products of a parameter with data: Addmm, Mm, Bmm, Mv.

A linear layer y = a Wᵀ has the gradient Σ g aᵀ over its rows. Which operand holds the parameter, and whether the
product is batched, changes where rows and columns are read, nothing else.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from paraboloid.curvature.graph import Node, Use, kind
from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.rules.split import RowSplit
from paraboloid.curvature.rules.template import Bound, Template, row_owner

KINDS = frozenset({"Addmm", "Mm", "Bmm", "Mv"})


class RowsPart(MatrixPart):
    """Rows of data beside rows of gradients."""

    def __init__(self, data: Tensor, pick, owner: Tensor, examples: int, index: Tensor):
        self.data, self.pick, self.index, self.examples = data, pick, index, examples
        self.bias = index.shape[1] == data.shape[1] + 1
        self.split = RowSplit(owner, examples)
        self.positions = self.split.positions

    @property
    def positions_of(self) -> Tensor:
        return self.split.counts()

    def inputs(self, low: int, high: int) -> Tensor:
        return self.split.take(self.data, 0, low, high)

    def outputs(self, stacks: Stacks, low: int, high: int) -> Tensor:
        return self.split.take(self.pick(stacks[0]), 1, low, high)

    def add_inputs(self, moment: Moment, scale: Tensor | None = None) -> None:
        moment.add_rows(self.data, None if scale is None else self.split.spread(scale))

    def add_outputs(self, stacks: Stacks, moment: Moment) -> None:
        for rows in self.pick(stacks[0]):
            moment.add_rows(rows)

    def total(self, stacks: Stacks, keep: Tensor) -> Tensor:
        rows = self.pick(stacks[0])[0] * self.split.spread(keep)[:, None]
        part = rows.T @ self.data.to(rows.dtype)
        return torch.cat([part, rows.sum(0)[:, None]], 1) if self.bias else part


def templates(use: Use, slot: int, positions: Tensor) -> list[Template]:
    """The parts of a matrix product whose operand in ``slot`` comes from these positions."""
    name = use.kind
    if name == "Bmm":
        return _batched(use, slot, positions)
    if name == "Mv":
        if slot != 1:
            return []
        return [Template(use.number, slot, positions[None, :], True, "matrix product", _build_vector)]
    if name == "Addmm" and slot == 0:
        return []
    on_right = slot == (2 if name == "Addmm" else 1)
    index = positions.T if on_right else positions
    build = partial(_build, on_right=on_right)
    return [Template(use.number, slot, index, True, "matrix product", build, partner=(use.number, 0))]


def _build(bound: Bound, index: Tensor, on_right: bool) -> RowsPart:
    node = bound.node
    owner = row_owner(bound.owners[0], [0 if on_right else 1])
    assert owner is not None
    data = _other(node, on_right)
    scale = getattr(node, "_saved_alpha", 1) if kind(node) == "Addmm" else 1
    return RowsPart(
        data if on_right else data.T,
        partial(_pick, on_right=on_right, scale=scale),
        owner,
        bound.examples,
        index,
    )


def _pick(stack: Tensor, on_right: bool, scale: float) -> Tensor:
    rows = stack if on_right else stack.mT
    return rows if scale == 1 else rows * scale


def _other(node: Node, on_right: bool) -> Tensor:
    """The operand that holds the data, detached from the graph."""
    if kind(node) == "Addmm":
        saved = node._saved_mat1 if on_right else node._saved_mat2
    else:
        saved = node._saved_self if on_right else node._saved_mat2
    return saved.detach()


def _build_vector(bound: Bound, index: Tensor) -> RowsPart:
    owner = row_owner(bound.owners[0], [0])
    assert owner is not None
    return RowsPart(bound.node._saved_self.detach(), _column, owner, bound.examples, index)


def _column(stack: Tensor) -> Tensor:
    return stack.unsqueeze(-1)


def _batched(use: Use, slot: int, positions: Tensor) -> list[Template]:
    """One part for each distinct matrix in the batch: the heads of an einsum, or one matrix for all slices."""
    groups: dict[bytes, list[int]] = {}
    for number, slab in enumerate(positions):
        groups.setdefault(slab.cpu().numpy().tobytes(), []).append(number)
    found = []
    for numbers in groups.values():
        slab = positions[numbers[0]]
        index = slab.T if slot == 1 else slab
        build = partial(_build_batched, on_right=slot == 1, slices=tuple(numbers))
        found.append(Template(use.number, slot, index, True, "matrix product", build))
    return found


def _build_batched(bound: Bound, index: Tensor, on_right: bool, slices: tuple[int, ...]) -> RowsPart:
    owners = bound.owners[0]
    assert owners is not None
    chosen = torch.tensor(slices, device=index.device)
    row_axis = 1 if on_right else 2
    owner = row_owner(owners, [0, row_axis])
    assert owner is not None
    owner = owner.view(owners.shape[0], -1)[chosen].reshape(-1)
    data = _other(bound.node, on_right)[chosen]
    data = (data if on_right else data.mT).flatten(0, 1)
    return RowsPart(data, partial(_pick_batched, on_right=on_right, chosen=chosen), owner, bound.examples, index)


def _pick_batched(stack: Tensor, on_right: bool, chosen: Tensor) -> Tensor:
    rows = stack.index_select(1, chosen)
    return (rows if on_right else rows.mT).flatten(1, 2)


def owned(use: Use, slot: int, bound: Bound) -> bool:
    """Whether every row of the product belongs to one example."""
    name = use.kind
    owners = bound.owners[0]
    if name == "Bmm":
        return row_owner(owners, [0, 1 if slot == 1 else 2]) is not None
    on_right = name == "Mv" or slot == (2 if name == "Addmm" else 1)
    return row_owner(owners, [0 if on_right else 1]) is not None
