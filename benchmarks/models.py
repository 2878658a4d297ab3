"""Five networks with synthetic data: what every task is measured on.

    M   784-1024-1024-10, ReLU                        512 examples    1.86 M parameters
    L   LeNet-like: two 5×5 convolutions, 10 classes  128 examples    62 k
    A   autoencoder 784-1000-500-250-30-…, sigmoid    512 examples    2.84 M
    R   ResNet-20 on 32×32×3, 10 classes               64 examples    0.27 M
    T   GPT: 3 layers, width 96, 4 heads, 96 words     16 × 64 tokens 0.36 M

R's BatchNorm is in evaluation mode; its affine parameters, and T's LayerNorms and embeddings, are frozen,
since most of the compared libraries cannot treat them. No layer works in place, for the same reason.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Problem:
    """A model, one batch, and the loss that goes with them."""

    key: str
    model: nn.Module
    x: Tensor
    y: Tensor
    likelihood: str
    vector: Tensor = field(init=False)

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        direction = torch.randn(sum(p.numel() for p in self.parameters()), generator=generator)
        self.vector = (direction / direction.norm()).to(self.x.device)

    def parameters(self) -> list[nn.Parameter]:
        """What is differentiated, in the model's order."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def named_parameters(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def split(self, flat: Tensor) -> list[Tensor]:
        """A flat vector cut into the shapes of the parameters."""
        parts = flat.split([p.numel() for p in self.parameters()])
        return [part.view_as(p) for part, p in zip(parts, self.parameters(), strict=True)]

    def loss(self, outputs: Tensor) -> Tensor:
        """The mean over terms of −log p."""
        if self.likelihood == "bernoulli":
            return F.binary_cross_entropy_with_logits(outputs, self.y, reduction="sum") / len(outputs)
        return F.cross_entropy(outputs.flatten(0, -2), self.y.flatten())

    def forward_backward(self) -> Tensor:
        """The unit of every figure: mean loss and the gradients of all parameters."""
        loss = self.loss(self.model(self.x))
        torch.autograd.grad(loss, self.parameters())
        return loss.detach()

    def copied(self) -> Problem:
        """The same problem with a model of its own, for libraries that change the model."""
        return Problem(self.key, copy.deepcopy(self.model), self.x, self.y, self.likelihood)


def mlp(batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    sizes = (784, 1024, 1024)
    hidden = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(1024, 10))
    return model, torch.rand(batch, 784), torch.randint(10, (batch,))


def lenet(batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
    return model, torch.rand(batch, 1, 28, 28), torch.randint(10, (batch,))


def autoencoder(batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    sizes = (784, 1000, 500, 250, 30, 250, 500, 1000, 784)
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Sigmoid()]
    x = torch.randint(2, (batch, 784)).float()
    return nn.Sequential(*layers[:-1]), x, x.clone()


class Residual(nn.Module):
    """Two 3×3 convolutions around a shortcut that pads with zero channels."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(out)
        self.stride, self.extra = stride, out - channels

    def forward(self, x: Tensor) -> Tensor:
        h = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))
        return F.relu(h + shortcut)


def resnet(batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    channels = 16
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        for block in range(3):
            layers.append(Residual(channels, out, stride if block == 0 else 1))
            channels = out
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return model, torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))


class Block(nn.Module):
    """Causal self-attention and a two-layer network, each after a LayerNorm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.feed(x)


class GPT(nn.Module):
    """A small causal language model over 96 words."""

    def __init__(self, words: int = 96, tokens: int = 64, width: int = 96, layers: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embedding(x) + self.position.weight[: x.shape[1]]
        return self.head(self.norm(self.blocks(h)))


def gpt(batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    return GPT(), torch.randint(96, (batch, 64)), torch.randint(96, (batch, 64))


BUILDERS: dict[str, tuple[Callable[[int], tuple[nn.Module, Tensor, Tensor]], int]] = {
    "M": (mlp, 512),
    "L": (lenet, 128),
    "A": (autoencoder, 512),
    "R": (resnet, 64),
    "T": (gpt, 16),
}
FROZEN = (nn.BatchNorm2d, nn.LayerNorm, nn.Embedding)


def problem(key: str, device: str = "cpu", batch: int | None = None) -> Problem:
    """The model of that letter, the same weights and data every time."""
    builder, usual = BUILDERS[key]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x, y = builder(batch or usual)
    model.eval().to(device)
    for module in model.modules():
        if isinstance(module, FROZEN):
            module.requires_grad_(False)
    return Problem(key, model, x.to(device), y.to(device), "bernoulli" if key == "A" else "categorical")
