"""Residual networks of depth 6n + 2 for 32×32: three stages of n blocks, with one, two and four times the width.

A block is conv-norm-ReLU-conv-norm, plus its input, ReLU. Where a stage begins, the input passes every second pixel
and its new channels are zero (`shortcut="pad"`, without parameters, which the original network has on CIFAR and
our reading of the covariance-noise paper), or a 1×1 convolution of stride 2 with a norm (`shortcut="project"`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paraboloid.recipes.models.initialisation import initialised
from paraboloid.recipes.models.norms import norm_layer


class Pad(nn.Module):
    """Every second pixel, and zeros for the channels that are new: a shortcut without parameters.

    >>> Pad(4)(torch.ones(1, 2, 4, 4)).sum((0, 2, 3))
    tensor([0., 4., 4., 0.])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        new = self.channels - x.shape[1]
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, new // 2, new - new // 2))


class Block(nn.Module):
    """Two convolutions and a shortcut.

    >>> Block(nn.Identity(), nn.Identity())(torch.ones(1))
    tensor([2.])
    """

    def __init__(self, branch: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch, self.shortcut = branch, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.branch(x) + self.shortcut(x))


def resnet(
    depth: int = 20,
    *,
    outputs: int = 10,
    width: int = 16,
    shortcut: str = "pad",
    bias: bool = False,
    norm: str = "batch",
    ghost: int = 0,
    generator: torch.Generator,
) -> nn.Sequential:
    """A residual network; `bias` gives biases to its convolutions.

    The network for batch-norm preconditioning has biases, and with shortcuts that pad its depth of 20 has the 19
    convolutions that are printed. Whether it has norms is not: with them it is the usual ResNet-20, but a norm
    takes away the bias in front of it, whose gradient is then zero up to rounding, and the condition number of the
    squared gradients of [b, w] that the paper draws is nearly infinite. Both can be had. Without norms
    (`norm="none"`) the last convolution of each branch starts smaller by √(number of blocks), or the signal would
    double in every block.

    >>> network = resnet(8, generator=torch.Generator().manual_seed(0))
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    blocks, remainder = divmod(depth - 2, 6)
    if remainder or blocks < 1:
        raise ValueError(f"`depth` should be 6n + 2, as 20, 32 or 44; found {depth}.")
    if shortcut not in ("pad", "project"):
        raise ValueError(f'`shortcut` should be "pad" or "project"; found {shortcut!r}.')

    def convolved(before: int, after: int, kernel: int, stride: int) -> list[nn.Module]:
        layer = nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=bias)
        return [layer] if norm == "none" and not ghost else [layer, norm_layer(norm, after, ghost)]

    def block(before: int, after: int) -> Block:
        stride = 1 if before == after else 2
        branch = nn.Sequential(*convolved(before, after, 3, stride), nn.ReLU(), *convolved(after, after, 3, 1))
        if before == after:
            return Block(branch, nn.Identity())
        return Block(branch, Pad(after) if shortcut == "pad" else nn.Sequential(*convolved(before, after, 1, 2)))

    def layers() -> nn.Sequential:
        found = [*convolved(3, width, 3, 1), nn.ReLU()]
        before = width
        for stage in (width, 2 * width, 4 * width):
            for _ in range(blocks):
                found.append(block(before, stage))
                before = stage
        return nn.Sequential(*found, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, outputs))

    model = initialised(layers, generator)
    if norm == "none":
        _shrink_branches(model)
    return model


@torch.no_grad()
def _shrink_branches(model: nn.Module) -> None:
    branches = [block.branch for block in model.modules() if isinstance(block, Block)]
    for branch in branches:
        last = [module for module in branch.modules() if isinstance(module, nn.Conv2d)][-1]
        last.weight.div_(len(branches) ** 0.5)
