"""Which rule serves which kind of node."""

from __future__ import annotations

from torch import Tensor

from paraboloid.curvature.graph import Use
from paraboloid.curvature.rules import convolution, elementwise, generic, lookup, matrix
from paraboloid.curvature.rules.template import Bound, Template


def templates(use: Use, slot: int, positions: Tensor, bound: Bound) -> list[Template]:
    """The templates of one operand: by the rule of its node, or by the node itself where no rule applies."""
    for rule in (matrix, lookup):
        if use.kind in rule.KINDS and (found := rule.templates(use, slot, positions)) and rule.owned(use, slot, bound):
            return found
    if use.kind in convolution.KINDS and slot == 1 and convolution.owned(use, slot, bound):
        return convolution.templates(use, slot, positions)
    if elementwise.applies(use, slot) and elementwise.owned(use, slot, bound):
        return elementwise.templates(use, slot, positions)
    return generic.templates(use, slot, positions)
