"""AlexNet for 32×32, of the covariance-noise paper, which prints no layers.

The ImageNet network does not fit: two pixels a side would be left for its second pooling. Read as a small network in
its manner, common on CIFAR: 64@5×5, 64@5×5, each with 3×3 max-pooling of stride 2, then 384 and 192 units.
"""

from __future__ import annotations

import torch
from torch import nn

from paraboloid.recipes.models.initialisation import initialised
from paraboloid.recipes.models.norms import norm_layer


def alexnet(
    *, outputs: int = 10, width: int = 64, norm: str = "batch", ghost: int = 0, generator: torch.Generator
) -> nn.Sequential:
    """Norms, in front of every ReLU, are our reading too: the paper trains large batches with Ghost BatchNorm.

    >>> alexnet(outputs=100, generator=torch.Generator().manual_seed(0))(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """

    def convolution(before: int) -> list[nn.Module]:
        layer = nn.Conv2d(before, width, 5, padding=2, bias=norm == "none")
        return [layer, norm_layer(norm, width, ghost), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]

    def dense(before: int, after: int) -> list[nn.Module]:
        layer = nn.Linear(before, after, bias=norm == "none")
        return [layer, norm_layer(norm, after, ghost, images=False), nn.ReLU()]

    def layers() -> nn.Sequential:
        body = [*convolution(3), *convolution(width), nn.Flatten()]
        hidden = [*dense(64 * width, 6 * width), *dense(6 * width, 3 * width)]
        return nn.Sequential(*body, *hidden, nn.Linear(3 * width, outputs))

    return initialised(layers, generator)
