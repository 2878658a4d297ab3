"""The wide residual network of the thesis, section 5.2.4: depth 6n + 4, three stages of n blocks, for 32×32.

The thesis has three blocks a stage, which is depth 22, and width 8 (four blocks would be depth 28). A block is
norm-ReLU-conv-norm-ReLU-dropout-conv. The thesis replaces the 1×1 convolutions of stride 2 by 2×2 ones: read as
those of the two shortcuts that change the resolution; the branches go down by their 3×3 convolution of stride 2, and
the first shortcut, which only changes the channels, stays 1×1.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paraboloid.recipes.models.initialisation import initialised
from paraboloid.recipes.models.norms import norm_layer


class WideBlock(nn.Module):
    """Two convolutions behind their norms; where shape changes, the shortcut starts behind the first norm and ReLU.

    >>> block = WideBlock(4, 8, stride=2)
    >>> block(torch.ones(2, 4, 6, 6)).shape
    torch.Size([2, 8, 3, 3])
    """

    def __init__(self, before: int, after: int, stride: int, dropout: float = 0.0, ghost: int = 0) -> None:
        super().__init__()
        self.norm1, self.norm2 = norm_layer("batch", before, ghost), norm_layer("batch", after, ghost)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.dropout = nn.Dropout(dropout)
        # kernel and stride agree: 1×1 where the resolution stays, 2×2 where it halves
        self.shortcut = None if before == after else nn.Conv2d(before, after, stride, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        branch = self.conv2(self.dropout(F.relu(self.norm2(self.conv1(active)))))
        return branch + (x if self.shortcut is None else self.shortcut(active))


def wide_resnet(
    depth: int = 22,
    width: int = 8,
    *,
    outputs: int = 100,
    dropout: float = 0.0,
    ghost: int = 0,
    generator: torch.Generator,
) -> nn.Sequential:
    """A wide residual network; the original's dropout on CIFAR is 0.3, which the thesis says it takes over.

    >>> network = wide_resnet(10, 1, generator=torch.Generator().manual_seed(0)).eval()
    >>> network(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    blocks, remainder = divmod(depth - 4, 6)
    if remainder or blocks < 1:
        raise ValueError(f"`depth` should be 6n + 4, as 16, 22 or 28; found {depth}.")

    def layers() -> nn.Sequential:
        found: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False)]
        before = 16
        for index, after in enumerate((16 * width, 32 * width, 64 * width)):
            for number in range(blocks):
                found.append(WideBlock(before, after, 2 if index and not number else 1, dropout, ghost))
                before = after
        head = [norm_layer("batch", before, ghost), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*found, *head, nn.Linear(before, outputs))

    return initialised(layers, generator)
