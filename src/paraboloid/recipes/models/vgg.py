"""VGG16 for 32×32, of the covariance-noise paper, which prints no layers.

Read as the thirteen 3×3 convolutions of VGG16, each with a norm, and one linear layer: after five poolings a single
pixel is left, and the two hidden layers behind it, most of the ImageNet network's weights, are left out.
A convolution in front of a norm has no bias, because the norm would take it away.
"""

from __future__ import annotations

import torch
from torch import nn

from paraboloid.recipes.models.initialisation import initialised
from paraboloid.recipes.models.norms import norm_layer

STAGES = ((1, 1), (2, 2), (4, 4, 4), (8, 8, 8), (8, 8, 8))  # channels in units of the width


def vgg16(
    *, outputs: int = 10, width: int = 64, norm: str = "batch", ghost: int = 0, generator: torch.Generator
) -> nn.Sequential:
    """VGG16; the channels of its stages are 1, 2, 4, 8 and 8 times the width.

    >>> vgg16(width=4, generator=torch.Generator().manual_seed(0)).eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def layers() -> nn.Sequential:
        found: list[nn.Module] = []
        before = 3
        for stage in STAGES:
            for units in stage:
                after = units * width
                found += [nn.Conv2d(before, after, 3, padding=1, bias=norm == "none")]
                found += [norm_layer(norm, after, ghost), nn.ReLU()]
                before = after
            found.append(nn.MaxPool2d(2))
        return nn.Sequential(*found, nn.Flatten(), nn.Linear(before, outputs))

    return initialised(layers, generator)
