"""Small convolutional networks: two LeNets, the one with several heads, and the strided network of 3,490 weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from paraboloid.recipes.models.initialisation import initialised
from paraboloid.recipes.models.norms import norm_layer


def lenet(
    *, channels: int = 1, outputs: int = 10, norm: str = "none", ghost: int = 0, generator: torch.Generator
) -> nn.Sequential:
    """The LeNet of the covariance-noise paper, for 28×28; it prints no layers but cites LeNet-5.

    Its layers 6@5×5 (padding 2), 16@5×5, 120, 84, with today's ReLU and 2×2 max-pooling: 61,706 parameters. A norm,
    if any, follows the convolutions.

    >>> lenet(generator=torch.Generator().manual_seed(0))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def convolved(before: int, after: int, padding: int) -> list[nn.Module]:
        layer = nn.Conv2d(before, after, 5, padding=padding, bias=norm == "none")
        return [layer, norm_layer(norm, after, ghost), nn.ReLU(), nn.MaxPool2d(2)]

    def layers() -> nn.Sequential:
        body = [*convolved(channels, 6, 2), *convolved(6, 16, 0), nn.Flatten()]
        dense = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)]
        return nn.Sequential(*body, *dense)

    return initialised(layers, generator)


class MultiHead(nn.Module):
    """One body, and a last layer for each task.

    >>> model = five_sets_lenet(generator=torch.Generator().manual_seed(0))
    >>> x = torch.zeros(2, 3, 32, 32)
    >>> torch.equal(model(x, 3), model.task(3)(x))
    True
    """

    def __init__(self, body: nn.Module, heads: Sequence[nn.Module]) -> None:
        super().__init__()
        self.body, self.heads = body, nn.ModuleList(heads)

    def forward(self, x: Tensor, task: int) -> Tensor:
        return self.heads[task](self.body(x))

    def task(self, task: int) -> nn.Sequential:
        """The network of one task, as a view: it shares its parameters, and names the body's alike for all tasks."""
        if not 0 <= task < len(self.heads):
            raise ValueError(f"`task` should be from 0 to {len(self.heads) - 1}, found {task}.")
        return nn.Sequential(self.body, self.heads[task])


def five_sets_lenet(*, tasks: int = 5, outputs: int = 10, generator: torch.Generator) -> MultiHead:
    """The network of the thesis, section 5.4.3, for 32×32×3: 20@5×5, 50@5×5, each with 2×2 max-pooling, 500, heads.

    The padding is not printed: none here, so that 1,250 numbers reach the hidden layer.

    >>> len(five_sets_lenet(generator=torch.Generator().manual_seed(0)).heads)
    5
    """

    def layers() -> MultiHead:
        convolutions = [
            nn.Conv2d(3, 20, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        body = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(1250, 500), nn.ReLU())
        return MultiHead(body, [nn.Linear(500, outputs) for _ in range(tasks)])

    return initialised(layers, generator)


def strided_network(*, generator: torch.Generator) -> nn.Sequential:
    """Three 3×3 convolutions of stride 2 and ten channels for 28×28, no biases: 3,490 weights.

    Of the paper on natural gradients as samplers, section 6.3. Padding 1 leaves 14, 7 and 4 pixels a side, which is
    what the printed 1,600 weights of the last layer need. ReLU is taken over from the paper's other network.

    >>> sum(p.numel() for p in strided_network(generator=torch.Generator()).parameters())
    3490
    """

    def layers() -> nn.Sequential:
        found: list[nn.Module] = []
        for channels in (1, 10, 10):
            found += [nn.Conv2d(channels, 10, 3, stride=2, padding=1, bias=False), nn.ReLU()]
        return nn.Sequential(*found, nn.Flatten(), nn.Linear(160, 10, bias=False))

    return initialised(layers, generator)
