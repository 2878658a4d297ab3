"""The papers' networks by name, so that a recipe's config can say which one it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from paraboloid.recipes.models.alexnet import alexnet
from paraboloid.recipes.models.lenet import five_sets_lenet, lenet, strided_network
from paraboloid.recipes.models.mlp import autoencoder, griewank_network, mixture_encoder, mlp, toy_network
from paraboloid.recipes.models.resnet import resnet
from paraboloid.recipes.models.vgg import vgg16
from paraboloid.recipes.models.wide_resnet import wide_resnet


@dataclass(frozen=True)
class Architecture:
    """A builder with a paper's options, the shape of one example and the number of outputs.

    >>> network = table()["lenet"].build(torch.Generator().manual_seed(0), norm="batch")
    >>> network(torch.zeros(2, *table()["lenet"].shape)).shape
    torch.Size([2, 10])
    """

    builder: Callable[..., nn.Module]
    shape: tuple[int, ...]
    outputs: int
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, generator: torch.Generator, **options: Any) -> nn.Module:
        """The network, drawn from the generator; further options replace the paper's."""
        return self.builder(**{**self.options, **options}, generator=generator)


def table() -> dict[str, Architecture]:
    """Name -> architecture. The network with several heads stands for its first task.

    >>> sum(p.numel() for p in table()["mnist-100"].build(torch.Generator()).parameters())
    89610
    """
    digit, image = (1, 28, 28), (3, 32, 32)
    return {
        "autoencoder": Architecture(autoencoder, digit, 784),
        "mixture": Architecture(mixture_encoder, digit, 3),
        "toy": Architecture(toy_network, (1,), 1),
        "griewank": Architecture(griewank_network, (2,), 1),
        "projected-40": Architecture(mlp, (10,), 10, {"widths": (10, 40, 10)}),
        "mnist-100": Architecture(mlp, digit, 10, {"widths": (784, 100, 100, 10)}),
        "mnist-1024": Architecture(mlp, digit, 10, {"widths": (784, 1024, 1024, 10)}),
        "strided": Architecture(strided_network, digit, 10),
        "lenet": Architecture(lenet, digit, 10),
        "five-sets": Architecture(_first_task, image, 10),
        "alexnet": Architecture(alexnet, image, 10),
        "vgg16": Architecture(vgg16, image, 10),
        "resnet20-bias": Architecture(resnet, image, 100, {"depth": 20, "outputs": 100, "bias": True}),
        "resnet20": Architecture(resnet, image, 10, {"depth": 20}),
        "resnet44": Architecture(resnet, image, 10, {"depth": 44}),
        "resnet44x2": Architecture(resnet, image, 100, {"depth": 44, "outputs": 100, "width": 32}),
        "wide-resnet22-8": Architecture(wide_resnet, image, 100, {"depth": 22, "width": 8}),
    }


def _first_task(*, generator: torch.Generator) -> nn.Module:
    return five_sets_lenet(tasks=1, generator=generator).task(0)
