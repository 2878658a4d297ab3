"""What a rule says about a use before it has seen a batch: which positions it touches and how to bind it.

Templates hold no node and no tensor of a batch, so a layout can keep them for the next batch of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from paraboloid.curvature.graph import Node
from paraboloid.curvature.ownership import Owners
from paraboloid.curvature.rules.part import Part


@dataclass(frozen=True)
class Bound:
    """A use met in one batch: its node, the owners of its output gradients, the number of examples."""

    node: Node
    owners: Sequence[Owners | None]
    examples: int


@dataclass(frozen=True)
class Template:
    """One part of a use. ``matrix`` says that it makes Kronecker factors (its ``index`` is then outputs × inputs)."""

    use: int
    slot: int
    index: Tensor
    matrix: bool
    rule: str
    build: Callable[[Bound, Tensor], Part]
    partner: tuple[int, int] | None = None  # (use, group) of the matrix whose outputs this vector is the bias of

    def bind(self, bound: Bound, index: Tensor | None = None) -> Part:
        return self.build(bound, self.index if index is None else index)


def row_owner(owners: Owners | None, axes: Sequence[int]) -> Tensor | None:
    """The owner of each row, where the rows run over ``axes``; None where a row has more than one owner."""
    if owners is None:
        return None
    axes = [axis % len(owners.shape) for axis in axes]
    lead = [owners.shape[axis] for axis in axes]
    for axis in axes:
        if axis in owners.axes:
            view = [1] * len(axes)
            view[axes.index(axis)] = -1
            return owners.axes[axis].view(view).expand(lead).reshape(-1)
    if owners.elements is None:
        return None
    rest = [axis for axis in range(len(owners.shape)) if axis not in axes]
    lines = owners.elements.permute(*axes, *rest).reshape(-1, max(1, owners.elements.numel() // _product(lead)))
    high = lines.max(1).values.long()
    same = (lines == high[:, None]) | (lines < 0)
    return high if bool(same.all()) else None


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return max(total, 1)
