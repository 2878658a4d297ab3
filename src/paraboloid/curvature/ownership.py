"""Whose row is it? The owner of every element of a node's output gradient, asked of the graph.

A cotangent v is pulled back, and v with example n multiplied by 2^(d-th base-4 digit of n), one backward a
digit. Powers of two commute with rounding, so wherever an element belongs to one example, log2 of the ratio is
that digit to the last bit; an element whose ratio is no such power mixes examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paraboloid.curvature.graph import Node, pull

BASE = 4
NOBODY = -1  # the owner of an element that is zero
FEW = 4_000_000  # numbers that are held without a thought
TOLERANCE = 0.1  # digits are whole numbers: kernels that sum in another order each time move them by less


@dataclass
class Owners:
    """Owners of one output gradient, kept as one short map per axis where that is all there is to know."""

    shape: torch.Size
    examples: int
    axes: dict[int, Tensor] = field(default_factory=dict)  # axis -> owner of each of its positions
    elements: Tensor | None = None  # kept only where no axis decides
    complete: bool = True  # every position's owner is known, also where this batch's gradient is zero

    def of_elements(self) -> Tensor:
        """The owner of every element, in the gradient's shape."""
        if self.elements is not None:
            return self.elements
        if not self.axes:
            raise ValueError("Nobody owns this gradient: it is zero for every example.")
        axis, owner = next(iter(self.axes.items()))
        view = [1] * len(self.shape)
        view[axis] = -1
        return owner.view(view).expand(self.shape)


def find_owners(
    rows: Tensor, example: Tensor, examples: int, nodes: Sequence[Node], generator: torch.Generator
) -> list[Sequence[Owners | None] | None]:
    """For each node a list over its outputs (None where no gradient arrives); None for a node that mixes examples."""
    cotangent = torch.randn(rows.shape, generator=generator, dtype=rows.dtype, device=rows.device)
    found: list[Sequence[Owners | None] | None] = []
    for some in _held_together(nodes):
        found += _owners_of(rows, cotangent, example, examples, some)
    return found


def _held_together(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Runs of nodes whose gradients are few enough to be held at once."""
    sizes = [sum(torch.Size(meta.shape).numel() for meta in node._input_metadata) for node in nodes]
    most = max(FEW, sum(sizes) // 3)
    some: list[Node] = []
    numbers = 0
    for node, size in zip(nodes, sizes, strict=True):
        if some and numbers + size > most:
            yield some
            some, numbers = [], 0
        some.append(node)
        numbers += size
    if some:
        yield some


def _owners_of(
    rows: Tensor, cotangent: Tensor, example: Tensor, examples: int, nodes: Sequence[Node]
) -> list[Sequence[Owners | None] | None]:
    base = pull(rows, nodes, cotangent)
    codes = [
        [None if g is None else torch.zeros(g.shape, dtype=torch.int32, device=g.device) for g in gs] for gs in base
    ]
    mixed = [False] * len(nodes)
    place = 1
    while place < examples or place == 1:
        digit = example // place % BASE
        scaled = cotangent * torch.exp2(digit.to(rows.dtype)).view(-1, *[1] * (rows.dim() - 1))
        pulled = pull(rows, nodes, scaled)
        for k, gs in enumerate(base):
            hs, pulled[k] = pulled[k], ()  # let go of as soon as it was read
            for j, (g, h) in enumerate(zip(gs, hs, strict=True)):
                code = codes[k][j]
                if g is not None and h is not None and code is not None and not mixed[k]:
                    found, pure = _digits(g, h)
                    code += found * place
                    mixed[k] = not pure
        place *= BASE
    return [None if m else _summaries(gs, cs, examples) for m, gs, cs in zip(mixed, base, codes, strict=True)]


def _digits(g: Tensor, h: Tensor) -> tuple[Tensor, bool]:
    """log2 of h / g where g is not zero, and whether every one of them is a digit."""
    zero = g == 0
    working = torch.promote_types(g.dtype, torch.float32)
    ratio = (h.to(working) / g.to(working)).masked_fill_(zero, 1.0)
    pure = bool(torch.isfinite(ratio).all()) and bool((ratio > 0).all()) and not bool((zero & (h != 0)).any())
    if not pure:
        return torch.zeros(g.shape, dtype=torch.int32, device=g.device), False
    exponent = ratio.log2_()
    digit = exponent.round()
    pure = bool(((exponent - digit).abs_() <= TOLERANCE).all()) and digit.min() >= 0 and digit.max() < BASE
    return digit.to(torch.int32), bool(pure)


def _summaries(
    gs: Sequence[Tensor | None], codes: Sequence[Tensor | None], examples: int
) -> list[Owners | None] | None:
    found: list[Owners | None] = []
    for g, code in zip(gs, codes, strict=True):
        if g is None or code is None:
            found.append(None)
            continue
        owner = torch.where(g == 0, NOBODY, code)
        if int(owner.max() if owner.numel() else NOBODY) >= examples:
            return None
        found.append(_summary(owner, examples))
    return found


def _summary(owner: Tensor, examples: int) -> Owners:
    known: dict[int, Tensor] = {}
    unsure: dict[int, Tensor] = {}
    for axis in range(owner.dim()):
        lines = owner.movedim(axis, 0).reshape(owner.shape[axis], -1)
        if lines.shape[1] == 0:
            continue
        high = lines.max(1).values
        low = torch.where(lines == NOBODY, examples, lines).min(1).values
        if bool(((high == low) | (high == NOBODY)).all()):
            owners, filled = _fill(high.long(), examples)
            (known if filled else unsure)[axis] = owners
    if not known and not unsure:
        return Owners(owner.shape, examples, {}, owner, complete=False)
    # Two axes that both decide agree for this batch by the accident of its zeros: use them, do not remember them.
    complete = len(known) == 1 or examples == 1
    return Owners(owner.shape, examples, known or unsure, None, complete and bool(known))


def _fill(owner: Tensor, examples: int) -> tuple[Tensor, bool]:
    """Positions without a gradient in this batch take the owner of the regular layout that the others follow."""
    unknown = owner == NOBODY
    if not bool(unknown.any()):
        return owner, True
    positions = torch.arange(len(owner), device=owner.device)
    if len(owner) % examples == 0 and not bool(unknown.all()):
        layouts = (positions // (len(owner) // examples), positions % examples)
        fits = [layout for layout in layouts if bool((unknown | (layout == owner)).all())]
        if fits and all(torch.equal(layout, fits[0]) for layout in fits):
            return fits[0], True
    return owner, False
