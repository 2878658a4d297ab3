"""Convolutions in one, two and three dimensions: strided, dilated, padded, grouped, transposed.

A transposed convolution is a convolution of its zero-inserted, padded input with the flipped kernel, so both
share one gather of patches. Patches are channels-last, (kernel, channels), and the block's index is laid out the
same way, so nothing is permuted afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from paraboloid.curvature.graph import Node, Use
from paraboloid.curvature.moments import Moment
from paraboloid.curvature.rules.autocorrelation import patch_moment, worthwhile
from paraboloid.curvature.rules.part import MatrixPart, Stacks
from paraboloid.curvature.rules.split import RowSplit
from paraboloid.curvature.rules.template import Bound, Template, row_owner

KINDS = frozenset({"Convolution"})
NARROW = 64  # channels up to which Σ g gᵀ of every frame is small beside the frame
Prepare = Callable[[Tensor], Tensor]
GATHERED = 1_000_000  # numbers gathered at once: stays in the cache


@dataclass(frozen=True)
class Window:
    """The geometry of one group's patches over an input that is already padded and channels-last."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    output: tuple[int, ...]

    def patches(self, data: Tensor) -> Tensor:
        """(n, *space, C) -> a strided view (n, *output, *kernel, C)."""
        strides = data.stride()
        space = strides[1:-1]
        sizes = (data.shape[0], *self.output, *self.kernel, data.shape[-1])
        steps = tuple(s * k for s, k in zip(space, self.stride, strict=True))
        jumps = tuple(s * k for s, k in zip(space, self.dilation, strict=True))
        return data.as_strided(sizes, (strides[0], *steps, *jumps, strides[-1]), data.storage_offset())


class PatchPart(MatrixPart):
    """Patches of the input beside positions of the output gradient, for one group of channels.

    ``image`` is the input as it was saved; ``prepare`` pads some of its frames and lays them out for the window, so
    that a padded copy is never held for longer than its chunk.
    """

    def __init__(
        self,
        image: Tensor,
        prepare: Prepare,
        window: Window,
        channels: slice,
        owner: Tensor,
        examples: int,
        index: Tensor,
        padding: tuple[int, int] | None = None,
    ):
        self.image, self.prepare, self.window, self.channels = image, prepare, window, channels
        self.index, self.examples, self.padding = index, examples, padding
        self.places, self.width = math.prod(window.output), math.prod(window.kernel) * image.shape[1]
        self.bias = index.shape[1] == self.width + 1
        self.split = RowSplit(owner, examples)
        self.positions = self.split.positions * self.places

    @property
    def positions_of(self) -> Tensor:
        return self.split.counts() * self.places

    def _gather(self, frames: Tensor) -> Tensor:
        return self.window.patches(self.prepare(frames)).reshape(-1, self.width)

    def inputs(self, low: int, high: int) -> Tensor:
        frames = self.split.take(self.image, 0, low, high).flatten(0, 1)
        return self._gather(frames).view(high - low, -1, self.width)

    def outputs(self, stacks: Stacks, low: int, high: int) -> Tensor:
        frames = self.split.take(stacks[0][:, :, self.channels], 1, low, high)  # (K, b, frames, o, *space)
        return frames.flatten(4).movedim(3, -1).flatten(2, 3)

    def add_inputs(self, moment: Moment, scale: Tensor | None = None) -> None:
        if self.padding is not None:
            self._add_correlation(moment, self.padding, scale)
            return
        step = max(1, GATHERED // max(self.places * self.width, 1))
        buffer = self.image.new_empty(min(step, len(self.image)) * self.places, self.width)
        scales = None if scale is None else self.split.spread(scale).repeat_interleave(self.places)
        for low in range(0, len(self.image), step):
            view = self.window.patches(self.prepare(self.image[low : low + step]))
            rows = buffer[: view.shape[0] * self.places]
            rows.view(view.shape).copy_(view)
            here = None if scales is None else scales[low * self.places : (low + len(view)) * self.places]
            moment.add_rows(rows, here)

    def _add_correlation(self, moment: Moment, padding: tuple[int, int], scale: Tensor | None) -> None:
        """The same without patches; with weights w the rows are √w a."""
        image = self.image
        each = image.new_ones(len(image)) if scale is None else self.split.spread(scale).to(image.dtype)
        scaled = image if scale is None else image * each[:, None, None, None]
        kernel = (self.window.kernel[0], self.window.kernel[1])
        sums = torch.einsum("n,nc...->c...", each, scaled)[None]  # Σ of patches = patches of Σ
        total = self._gather(sums).sum(0)
        moment.add_moment(patch_moment(scaled, kernel, padding), total, each.square().sum() * self.places)

    def add_outputs(self, stacks: Stacks, moment: Moment) -> None:
        for frames in stacks[0][:, :, self.channels].flatten(3):
            if frames.shape[1] <= NARROW:  # a product for each frame reads the gradients as they lie
                moment.add_moment(torch.bmm(frames, frames.mT).sum(0))
            else:
                moment.add_rows(frames.movedim(1, -1).reshape(-1, frames.shape[1]))

    def total(self, stacks: Stacks, keep: Tensor) -> Tensor:
        frames = stacks[0][0][:, self.channels].flatten(2)
        frames = frames * self.split.spread(keep)[:, None, None]
        total = frames.new_zeros(frames.shape[1], self.width)
        step = max(1, GATHERED // max(self.places * self.width, 1))
        for low in range(0, len(self.image), step):
            rows = frames[low : low + step].movedim(1, -1).reshape(-1, frames.shape[1])
            total.addmm_(rows.T, self._gather(self.image[low : low + step]).to(rows.dtype))
        return torch.cat([total, frames.sum((0, 2))[:, None]], 1) if self.bias else total


def templates(use: Use, slot: int, positions: Tensor) -> list[Template]:
    """One part for each group of channels."""
    node = use.node
    groups, transposed = node._saved_groups, node._saved_transposed
    found = []
    for group, part in enumerate(positions.unflatten(0, (groups, -1))):
        if transposed:  # stored (inputs, outputs, *kernel): read it as the convolution with the flipped kernel
            part = part.transpose(0, 1).flip(*range(2, part.dim()))
        index = part.movedim(1, -1).flatten(1)
        build = partial(_build, group=group)
        found.append(Template(use.number, slot, index, True, "convolution", build, partner=(use.number, group)))
    return found


def _build(bound: Bound, index: Tensor, group: int) -> PatchPart:
    node = bound.node
    owner = row_owner(bound.owners[0], [0])
    assert owner is not None and bound.owners[0] is not None
    space = bound.owners[0].shape[2:]
    weight = node._saved_weight
    groups = node._saved_groups
    image = node._saved_input.detach()
    width = image.shape[1] // groups
    image = image[:, group * width : (group + 1) * width]
    kernel = tuple(weight.shape[2:])
    stride = (1,) * len(kernel) if node._saved_transposed else tuple(node._saved_stride)
    window = Window(kernel, stride, tuple(node._saved_dilation), tuple(space))
    geometry = Geometry.of(node)
    if node._saved_transposed:
        prepare = partial(_inserted, geometry=geometry, kernel=kernel, space=tuple(space))
    else:
        prepare = partial(_padded, padding=geometry.padding)
    outputs = bound.owners[0].shape[1] // groups
    channels = slice(group * outputs, (group + 1) * outputs)
    padding = _correlated(node, image, kernel)
    return PatchPart(image, prepare, window, channels, owner, bound.examples, index, padding)


def _correlated(node: Node, image: Tensor, kernel: tuple[int, ...]) -> tuple[int, int] | None:
    """The padding, where an autocorrelation is cheaper than patches (measured on a CPU)."""
    strides = {*node._saved_stride, *node._saved_dilation}
    padding = tuple(node._saved_padding)
    if node._saved_transposed or strides != {1} or image.device.type != "cpu":
        return None
    return padding if worthwhile(image.shape, kernel, padding) else None  # type: ignore[return-value]


def owned(use: Use, slot: int, bound: Bound) -> bool:
    """Whether every frame of the output belongs to one example."""
    return row_owner(bound.owners[0], [0]) is not None


@dataclass(frozen=True)
class Geometry:
    """What a node saved of a convolution's arguments."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, node: Node) -> Geometry:
        return cls(tuple(node._saved_stride), tuple(node._saved_padding), tuple(node._saved_dilation))


def _padded(frames: Tensor, padding: Sequence[int]) -> Tensor:
    """Frames with zeros around them, channels last."""
    wide = F.pad(frames, [p for pad in reversed(padding) for p in (pad, pad)])
    return wide.movedim(1, -1).contiguous()


def _inserted(frames: Tensor, geometry: Geometry, kernel: Sequence[int], space: Sequence[int]) -> Tensor:
    """Frames with stride - 1 zeros between their pixels, padded so that output t reads the patch at t."""
    reach = [d * (k - 1) for d, k in zip(geometry.dilation, kernel, strict=True)]
    before = [r - p for r, p in zip(reach, geometry.padding, strict=True)]
    sizes = [out + r for out, r in zip(space, reach, strict=True)]
    wide = frames.new_zeros(len(frames), *sizes, frames.shape[1])
    taken, placed = [slice(None)], [slice(None)]
    for size, start, step, room in zip(frames.shape[2:], before, geometry.stride, sizes, strict=True):
        first = max(0, -(start // step))  # the first pixel that lies inside, where padding cuts some off
        count = max(0, min(size, -((start - room) // step)) - first)
        taken.append(slice(first, first + count))
        begin = start + first * step
        placed.append(slice(begin, begin + max((count - 1) * step + 1, 0), step))
    wide[tuple(placed)] = frames.movedim(1, -1)[tuple(taken)]
    return wide
