"""From an operand back to the stored parameters.

Most operands are a parameter seen through views (a transpose, a slice, an expansion, a concatenation): every
element of the operand is a copy, or one and the same multiple, of one stored element, and the operand is described
by *where* each one comes from: positions in the flat vector. Anything else (weight normalisation, a merged low-rank
update) is some function of its leaves, whose pull-back autograd knows.

The positions come from the graph as well. The pull-back L^T is linear in the operand's gradient u, so the
derivative of (L^T u) . n in u is L n: the stored numbers n as the operand sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.curvature.graph import LEAF, Operand, kind, topological

DIGIT = 128  # positions travel as digits that bfloat16 holds exactly


# nodes that move elements about whatever the elements are: by shapes, or by indices that are part of a layout's key
MOVES = frozenset(
    "Alias AsStrided Cat Clone Diagonal Embedding Expand Flip Movedim Narrow Permute Repeat ReshapeAlias Roll Select "
    "Slice Split SplitWithSizes Squeeze Stack SwapAxes T ToCopy Transpose Unbind Unfold Unsqueeze UnsafeSplit "
    "UnsafeView View".split()
)


@dataclass(frozen=True)
class Selection:
    """Where the elements of an operand come from in the flat vector, and the factor that all of them carry."""

    positions: Tensor
    scale: float


def is_view(operand: Operand) -> bool:
    """Whether there are only moves between the operand and the stored parameters."""
    return all(node.name() == LEAF or kind(node) in MOVES for node in topological(operand.edge[0]))


def selection(operand: Operand, tensors: Mapping[str, Tensor], offsets: Mapping[str, int]) -> Selection | None:
    """Positions in the flat vector of each element of the operand, or None if it is no selection."""
    plain = _plain_positions(operand, tensors, offsets)
    if plain is not None:
        return Selection(plain, 1.0)
    leaves = [tensors[name] for name in operand.leaves]
    forward = _forward(operand, tensors)
    if forward is None:
        return None
    ones = forward([torch.ones_like(leaf) for leaf in leaves])
    scale = float(ones.reshape(-1)[0]) if ones.numel() else 1.0
    if scale == 0 or not bool((ones == scale).all()):
        return None
    numbers = [
        offsets[name] + torch.arange(leaf.numel(), device=leaf.device).view(leaf.shape)
        for name, leaf in zip(operand.leaves, leaves, strict=True)
    ]
    positions = _read(forward, numbers, leaves, scale)
    if positions is None or not _copies(forward, positions, numbers, leaves, scale):
        return None
    return Selection(positions, scale)


def _plain_positions(operand: Operand, tensors: Mapping[str, Tensor], offsets: Mapping[str, int]) -> Tensor | None:
    """The two operands that nearly all layers have, a stored tensor and its transpose, without asking the graph."""
    node = operand.edge[0]
    turned = kind(node) == "T" and node.next_functions[0][0].name() == LEAF
    if not (operand.is_leaf or turned):
        return None
    (name,) = operand.leaves
    tensor, start = tensors[name], offsets[name]
    positions = torch.arange(start, start + tensor.numel(), device=tensor.device).view(tensor.shape)
    return positions.T if turned else positions


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


def _read(forward, numbers: list[Tensor], leaves: list[Tensor], scale: float) -> Tensor | None:
    largest = max(int(n.max()) for n in numbers if n.numel())
    positions, place = None, 1
    while place <= largest or positions is None:
        digit = forward([(n // place % DIGIT).to(leaf.dtype) for n, leaf in zip(numbers, leaves, strict=True)])
        digit = digit.double() / scale
        rounded = digit.round()
        off = (rounded - digit).abs() > _rounding(leaves, scale) * rounded.abs()
        if bool(off.any()) or bool((rounded < 0).any()) or bool((rounded >= DIGIT).any()):
            return None
        positions = (0 if positions is None else positions) + rounded.long() * place
        place *= DIGIT
    return positions


def _copies(forward, positions: Tensor, numbers: list[Tensor], leaves: list[Tensor], scale: float) -> bool:
    """A pseudo-random value for each stored element must arrive unchanged but for the factor: no sums."""
    values = [((n % 1009) ** 2 * 31 % 127).to(leaf.dtype) for n, leaf in zip(numbers, leaves, strict=True)]
    table = torch.zeros(
        1 + max(int(n.max()) for n in numbers if n.numel()), dtype=torch.double, device=leaves[0].device
    )
    for n, v in zip(numbers, values, strict=True):
        table[n.reshape(-1)] = v.reshape(-1).double()
    if bool((positions >= len(table)).any()):
        return False
    expected = table[positions]
    seen = forward(values).double() / scale
    return bool(((seen - expected).abs() <= _rounding(leaves, scale) * expected).all())


def _rounding(leaves: list[Tensor], scale: float) -> float:
    """Nothing for a plain copy; what one multiplication may lose for a scaled one."""
    return 0.0 if scale == 1 else 2 * max(torch.finfo(leaf.dtype).eps for leaf in leaves)
