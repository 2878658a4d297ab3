"""From an operand back to the stored parameters.

Most operands are a parameter seen through views (a transpose, a slice, an expansion, a concatenation): every
element of the operand is a copy of one stored element, and the operand is described by *where* each one comes
from: positions in the flat vector. Anything else (weight normalisation, a merged low-rank update) is some function
of its leaves, whose pull-back autograd knows.

The positions come from the graph as well. The pull-back L^T is linear in the operand's gradient u, so the
derivative of (L^T u) . n in u is L n: the stored numbers n as the operand sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from paraboloid.curvature.graph import LEAF, Operand, kind, topological

CONSTANT = -1  # the position of an element that is no parameter (a frozen part of a concatenation)
DIGIT = 128  # positions travel as digits that bfloat16 holds exactly


# nodes that move elements about by shapes alone, whatever the elements are
MOVES = frozenset(
    "Alias AsStrided Cat Clone Diagonal Expand Flip Movedim Narrow Permute Repeat ReshapeAlias Roll Select Slice Split "
    "SplitWithSizes Squeeze Stack SwapAxes T ToCopy Transpose Unbind Unfold Unsqueeze UnsafeSplit "
    "UnsafeView View".split()
)


def is_view(operand: Operand) -> bool:
    """Whether there are only moves between the operand and the stored parameters."""
    return all(node.name() == LEAF or kind(node) in MOVES for node in topological(operand.edge[0]))


def selection(operand: Operand, tensors: Mapping[str, Tensor], offsets: Mapping[str, int]) -> Tensor | None:
    """Positions in the flat vector of each element of the operand, or None if it is no selection."""
    if operand.is_leaf:
        (name,) = operand.leaves
        tensor = tensors[name]
        return offsets[name] + torch.arange(tensor.numel(), device=tensor.device).view(operand.shape)
    leaves = [tensors[name] for name in operand.leaves]
    forward = _forward(operand, tensors)
    if forward is None:
        return None
    ones = forward([torch.ones_like(leaf) for leaf in leaves])
    constant = ones == 0
    if not bool((constant | (ones == 1)).all()):
        return None
    numbers = [
        offsets[name] + torch.arange(leaf.numel(), device=leaf.device).view(leaf.shape)
        for name, leaf in zip(operand.leaves, leaves, strict=True)
    ]
    positions = _read(forward, numbers, leaves)
    if positions is None or not _copies(forward, positions, numbers, leaves, constant):
        return None
    return torch.where(constant, CONSTANT, positions)


def _forward(operand: Operand, tensors: Mapping[str, Tensor]):
    """The linear map L of the operand's derivative, as a function of one tensor per leaf; None where it has none."""
    leaves = [tensors[name] for name in operand.leaves]
    dtype = operand.edge[0]._input_metadata[operand.edge[1]].dtype
    u = torch.zeros(operand.shape, dtype=dtype, device=leaves[0].device, requires_grad=True)
    pulled = operand.pull(u, tensors, create_graph=True)
    if not any(g.requires_grad for g in pulled):
        return None

    def forward(values: list[Tensor]) -> Tensor:
        kept = [(g, v.to(g.dtype)) for g, v in zip(pulled, values, strict=True) if g.requires_grad]
        outputs, cotangents = [g for g, _ in kept], [v for _, v in kept]
        (seen,) = torch.autograd.grad(outputs, [u], cotangents, retain_graph=True, allow_unused=True)
        return torch.zeros_like(u) if seen is None else seen.detach()

    return forward


def _read(forward, numbers: list[Tensor], leaves: list[Tensor]) -> Tensor | None:
    largest = max(int(n.max()) for n in numbers if n.numel())
    positions, place = None, 1
    while place <= largest or positions is None:
        digit = forward([(n // place % DIGIT).to(leaf.dtype) for n, leaf in zip(numbers, leaves, strict=True)])
        rounded = digit.round()
        if not bool((rounded == digit).all()) or bool((rounded < 0).any()) or bool((rounded >= DIGIT).any()):
            return None
        positions = (0 if positions is None else positions) + rounded.long() * place
        place *= DIGIT
    return positions


def _copies(forward, positions: Tensor, numbers: list[Tensor], leaves: list[Tensor], constant: Tensor) -> bool:
    """A pseudo-random value for each stored element must arrive unchanged: no sums, no scales."""
    values = [(n * 7919 % 127).to(leaf.dtype) for n, leaf in zip(numbers, leaves, strict=True)]
    table = torch.zeros(1 + max(int(n.max()) for n in numbers if n.numel()), dtype=leaves[0].dtype)
    table = table.to(leaves[0].device)
    for n, v in zip(numbers, values, strict=True):
        table[n.reshape(-1)] = v.reshape(-1)
    expected = torch.where(constant, 0.0, table[positions.clamp(0, len(table) - 1)])
    return bool((forward(values) == expected).all())
