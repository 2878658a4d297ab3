"""Any other node: it is called itself, with the gradients of one example at a time. Slow and exact."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from paraboloid.curvature.graph import Node, Use
from paraboloid.curvature.rules.part import Part, Stacks
from paraboloid.curvature.rules.template import Bound, Template


class CalledPart(Part):
    """The operand's gradient from the node's own backward."""

    def __init__(self, bound: Bound, slot: int, index: Tensor):
        self.node, self.slot, self.index, self.examples = bound.node, slot, index, bound.examples
        self.owner = [None if o is None else o.of_elements() for o in bound.owners]

    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        columns = range(stacks[0].shape[0])
        return torch.stack(
            [torch.stack([self._one(stacks, k, example) for example in range(low, high)]) for k in columns]
        )

    def _one(self, stacks: Stacks, column: int, example: int) -> Tensor:
        gradients = [
            stack[column] if owner is None else stack[column] * (owner == example)
            for stack, owner in zip(stacks, self.owner, strict=True)
        ]
        found = call(self.node, gradients)[self.slot]
        if found is None:
            return stacks[0].new_zeros(self.index.shape)
        return found.detach().sum_to_size(self.index.shape)


def call(node: Node, gradients: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The node's backward: one gradient for each of its inputs."""
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        found = node.apply(*gradients)
    else:
        found = node(*gradients)
    return found if isinstance(found, tuple) else (found,)


def templates(use: Use, slot: int, positions: Tensor) -> list[Template]:
    """One template for the operand as it is."""
    return [Template(use.number, slot, positions, False, f"{use.kind} itself", partial(_build, slot=slot))]


def _build(bound: Bound, index: Tensor, slot: int) -> CalledPart:
    return CalledPart(bound, slot, index)
