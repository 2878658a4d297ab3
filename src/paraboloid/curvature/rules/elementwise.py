"""Uses whose gradient is the output's gradient times a known tensor, summed over what was broadcast.

Additions (biases, class tokens, position tables), multiplications (learned scales), concatenations, and the affine
parts of the normalisation layers. They have no Kronecker factors: their blocks are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from paraboloid.curvature.graph import Node, Use, kind
from paraboloid.curvature.ownership import Owners
from paraboloid.curvature.rules.part import Part, Stacks
from paraboloid.curvature.rules.split import RowSplit
from paraboloid.curvature.rules.template import Bound, Template

Effect = Callable[[Node, int, Tensor], Tensor]


def _scaled(node: Node, g: Tensor, name: str) -> Tensor:
    scale = getattr(node, name, 1)
    return g if scale == 1 else g * scale


def _mul(node: Node, slot: int, g: Tensor) -> Tensor:
    return g * (node._saved_other if slot == 0 else node._saved_self)


def _layer_norm(node: Node, slot: int, g: Tensor) -> Tensor:
    return g if slot == 2 else g * (node._saved_input - node._saved_result1) * node._saved_result2


def _group_norm(node: Node, slot: int, g: Tensor) -> Tensor:
    if slot == 2:
        return g
    data = node._saved_input
    grouped = data.reshape(data.shape[0], node._saved_group, -1)
    return g * ((grouped - node._saved_result1[..., None]) * node._saved_result2[..., None]).view_as(data)


def _batch_norm(node: Node, slot: int, g: Tensor) -> Tensor:
    """Evaluation mode, or instance norm, which arrives here with statistics of its own."""
    if slot == 2:
        return g
    shape = [1, -1] + [1] * (g.dim() - 3)
    eps = node._saved_eps if kind(node) == "NativeBatchNorm" else node._saved_epsilon
    if node._saved_running_mean is None or node._saved_training:
        mean, rstd = node._saved_result1, node._saved_result2
    else:
        mean, rstd = node._saved_running_mean, (node._saved_running_var + eps).rsqrt()
    return g * ((node._saved_input - mean.view(shape)) * rstd.view(shape))


def _cat_range(node: Node, slot: int, axis: int) -> tuple[int, int]:
    """Where an operand of a concatenation begins, and its size."""
    sizes = [source._input_metadata[port].shape[axis] for source, port in node.next_functions[: slot + 1]]
    return sum(sizes[:-1]), sizes[-1]


def _cat(node: Node, slot: int, g: Tensor) -> Tensor:
    axis = node._saved_dim % (g.dim() - 1)
    return g.narrow(axis + 1, *_cat_range(node, slot, axis))


EFFECTS: dict[str, Effect] = {
    "Add": lambda node, slot, g: g if slot == 0 else _scaled(node, g, "_saved_alpha"),
    "Sub": lambda node, slot, g: g if slot == 0 else -_scaled(node, g, "_saved_alpha"),
    "Mul": _mul,
    "Addmm": lambda node, slot, g: _scaled(node, g, "_saved_beta"),
    "Convolution": lambda node, slot, g: g,
    "NativeLayerNorm": _layer_norm,
    "NativeGroupNorm": _group_norm,
    "NativeBatchNorm": _batch_norm,
    "CudnnBatchNorm": _batch_norm,
    "FusedRmsNorm": lambda node, slot, g: g * node._saved_input * node._saved_result1,
    "PreluKernel": lambda node, slot, g: g * node._saved_self.clamp_max(0),
    "Cat": _cat,
}
CHANNELS = frozenset({"Convolution", "NativeGroupNorm", "NativeBatchNorm", "CudnnBatchNorm"})


def applies(use: Use, slot: int) -> bool:
    """Whether this operand is used element by element."""
    name = use.kind
    if name in ("Convolution", "NativeLayerNorm", "NativeGroupNorm", "NativeBatchNorm", "CudnnBatchNorm"):
        return slot == 2 or (slot == 1 and name != "Convolution")
    return name in EFFECTS and (name != "Addmm" or slot == 0) and (name != "PreluKernel" or slot == 1)


class VectorPart(Part):
    """An operand's gradient, element by element: summed where positions repeat, sorted by example.

    ``places`` has one entry per axis of the output, of size 1 where the operand is broadcast; ``axis`` is the one
    along which the examples change.
    """

    def __init__(self, effect, axis: int, owner: Tensor, places: Tensor, examples: int, index: Tensor):
        self.effect, self.axis, self.index, self.examples = effect, axis, index, examples
        self.split = RowSplit(owner, examples)
        self.kept = [k for k in range(places.dim()) if places.shape[k] > 1 and k != axis]
        self.shared = places.shape[axis] == 1  # every example reads the same positions
        self.places = places.movedim(axis, 0).reshape(places.shape[axis], -1)
        whole = torch.arange(index.numel(), device=index.device)
        self.ordered = self.shared and torch.equal(self.places[0], whole)

    def gradients(self, stacks: Stacks, low: int, high: int) -> Tensor:
        effect = self.effect(stacks[0]).movedim(self.axis + 1, 1)
        drop = [k for k in range(2, effect.dim()) if self._source(k - 2) not in self.kept]
        effect = effect.sum(drop) if drop else effect
        rows = self.split.take(effect.flatten(2) if self.kept else effect.unsqueeze(-1), 1, low, high)
        if self.ordered:
            return rows.sum(2)
        if self.shared:
            flat, places = rows.sum(2), self.places.expand(high - low, -1)
        else:
            flat, places = rows.flatten(2), self.split.take(self.places, 0, low, high).flatten(1)
        out = flat.new_zeros(*flat.shape[:2], self.index.numel())
        return out.scatter_add_(2, places.expand(flat.shape), flat)

    def _source(self, number: int) -> int:
        """The output's axis that stands at this number once the examples' axis has moved to the front."""
        return number if number < self.axis else number + 1

    def numbers(self, columns: int) -> int:
        return columns * max(self.index.numel(), self.split.rows // max(self.examples, 1))


def templates(use: Use, slot: int, positions: Tensor) -> list[Template]:
    """The vector of an element-wise operand; a convolution's bias is split into its groups of channels."""
    if use.kind == "Convolution":
        groups = use.node._saved_groups
        return [
            _template(use, slot, part, (group, groups), (use.number, group))
            for group, part in enumerate(positions.unflatten(0, (groups, -1)))
        ]
    even = use.kind == "Addmm" and getattr(use.node, "_saved_alpha", 1) == getattr(use.node, "_saved_beta", 1)
    partner = (use.number, 0) if even and positions.dim() == 1 else None
    return [_template(use, slot, positions, (0, 1), partner)]


def _template(use: Use, slot: int, positions: Tensor, group: tuple[int, int], partner) -> Template:
    index, places = local_places(positions)
    build = partial(_build, slot=slot, places=places, group=group)
    return Template(use.number, slot, index, False, "element-wise", build, partner)


def local_places(positions: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct positions, in order of first appearance where none repeats, and each element's place among them."""
    core = positions
    for axis in range(positions.dim()):
        first = core.narrow(axis, 0, min(1, core.shape[axis]))
        if bool((core == first).all()):
            core = first
    index = core.reshape(-1)
    if len(torch.unique(index)) != len(index):
        index = torch.unique(index)
    order = torch.argsort(index)
    places = order[torch.searchsorted(index[order], core.contiguous())]
    return index, places


def _build(bound: Bound, index: Tensor, slot: int, places: Tensor, group: tuple[int, int]) -> VectorPart:
    owners, node = bound.owners[0], bound.node
    assert owners is not None
    rank = len(owners.shape)
    lead = [1, -1] + [1] * (rank - 2) if kind(node) in CHANNELS else [1] * (rank - places.dim()) + list(places.shape)
    places = places.reshape(lead)
    axis = owner_axis(owners, places)
    owner = owners.axes[axis]
    if kind(node) == "Cat" and axis == node._saved_dim % rank:
        owner = owner.narrow(0, *_cat_range(node, slot, axis))
    return VectorPart(partial(_effect, node, slot, group), axis, owner, places, bound.examples, index)


def owner_axis(owners: Owners, places: Tensor) -> int:
    """The axis along which examples change; one that the parameter does not vary along, if there is a choice."""
    shared = [axis for axis in owners.axes if places.shape[axis] == 1]
    return shared[0] if shared else next(iter(owners.axes))


@torch.no_grad()  # what a node saved may belong to the graph
def _effect(node: Node, slot: int, group: tuple[int, int], stack: Tensor) -> Tensor:
    effect = EFFECTS[kind(node)](node, slot, stack)
    number, groups = group
    return effect if groups == 1 else effect.chunk(groups, 2)[number]


def owned(use: Use, slot: int, bound: Bound) -> bool:
    """Whether one axis of the output says which example an element belongs to."""
    return bound.owners[0] is not None and bool(bound.owners[0].axes)
