"""Operands that are a constant multiple of a stored matrix, c W: the rule of W, with gradients times c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.part import MatrixPart, Part, Stacks
from paraboloid.curvature.rules.template import Bound, Template


class ScaledPart(MatrixPart):
    """A matrix part whose output gradients are multiplied by c."""

    def __init__(self, inner: MatrixPart, scale: float):
        self.inner, self.scale = inner, scale
        self.index, self.examples, self.bias = inner.index, inner.examples, inner.bias
        self.positions, self.split = inner.positions, inner.split

    @property
    def positions_of(self) -> Tensor:
        return self.inner.positions_of

    def inputs(self, low: int, high: int) -> Tensor:
        return self.inner.inputs(low, high)

    def outputs(self, stacks: Stacks, low: int, high: int) -> Tensor:
        return self.scale * self.inner.outputs(stacks, low, high)

    def add_inputs(self, moment: Moment, scale: Tensor | None = None) -> None:
        self.inner.add_inputs(moment, scale)

    def add_outputs(self, stacks: Stacks, moment: Moment) -> None:
        self.inner.add_outputs([self.scale * stack for stack in stacks], moment)

    def total(self, stacks: Stacks, keep: Tensor) -> Tensor:
        return self.scale * self.inner.total(stacks, keep)


def scaled(templates: Sequence[Template], scale: float) -> list[Template]:
    """The templates of c W from those of W; none where a rule has no matrix to scale."""
    if scale == 1:
        return list(templates)
    if not all(template.matrix and template.rule != "lookup" for template in templates):
        return []
    return [replace(t, build=partial(_build, build=t.build, scale=scale), partner=None) for t in templates]


def _build(bound: Bound, index: Tensor, build, scale: float) -> Part:
    inner = build(bound, index)
    assert isinstance(inner, MatrixPart)
    return ScaledPart(inner, scale)
