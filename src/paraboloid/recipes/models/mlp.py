"""Fully connected networks: classifiers, regressors, the autoencoder and the mixture's encoder.

All take examples of any shape, flattened, and give logits or means: the output layer has no activation. ReLU layers
start as He's, tanh and sigmoid layers as Glorot's (the reference that the thesis names for its autoencoders).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from paraboloid.recipes.models.initialisation import activation_layer, initialised
from paraboloid.recipes.models.norms import norm_layer

CODE = (1000, 500, 250, 30)


def mlp(
    widths: Sequence[int],
    *,
    activation: str = "relu",
    norm: str = "none",
    ghost: int = 0,
    dropout: float = 0.0,
    generator: torch.Generator,
) -> nn.Sequential:
    """Linear layers of these widths, inputs first; norm, activation and dropout after each but the last.

    >>> network = mlp((784, 100, 10), generator=torch.Generator().manual_seed(0))
    >>> network(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    if len(widths) < 2:
        raise ValueError(f"`widths` should go from the inputs to the outputs, two at least; found {tuple(widths)}.")

    def layers() -> nn.Sequential:
        found: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths[:-1]):
            linear = nn.Linear(before, after, bias=norm == "none")  # a norm would take a bias away
            found += [linear, norm_layer(norm, after, ghost, images=False)]
            found += [activation_layer(activation), nn.Dropout(dropout) if dropout else nn.Identity()]
        found.append(nn.Linear(widths[-2], widths[-1]))
        return nn.Sequential(*(layer for layer in found if not isinstance(layer, nn.Identity)))

    return initialised(layers, generator, activation)


def autoencoder(inputs: int = 784, *, activation: str = "sigmoid", generator: torch.Generator) -> nn.Sequential:
    """inputs-1000-500-250-30-250-500-1000-inputs, of the thesis, section 4.5.1; logits of the pixels.

    The activation is not printed there. The code of 30 units passes through it like every hidden layer.

    >>> network = autoencoder(20, generator=torch.Generator().manual_seed(0))
    >>> network(torch.zeros(2, 20)).shape
    torch.Size([2, 20])
    """
    return mlp((inputs, *CODE, *reversed(CODE[:-1]), inputs), activation=activation, generator=generator)


def mixture_encoder(inputs: int = 784, *, activation: str = "sigmoid", generator: torch.Generator) -> nn.Sequential:
    """inputs-1000-500-250-30-3, of the thesis, section 4.5.3: the logits of the weight and of two classifiers.

    >>> network = mixture_encoder(20, generator=torch.Generator().manual_seed(0))
    >>> network(torch.zeros(2, 20)).shape
    torch.Size([2, 3])
    """
    return mlp((inputs, *CODE, 3), activation=activation, generator=generator)


def toy_network(*, activation: str = "tanh", generator: torch.Generator) -> nn.Sequential:
    """1-7-7-1, of the thesis, section 5.2.1: 78 parameters. The activation is not printed; tanh is ours.

    >>> sum(p.numel() for p in toy_network(generator=torch.Generator()).parameters())
    78
    """
    return mlp((1, 7, 7, 1), activation=activation, generator=generator)


def griewank_network(*, activation: str = "relu", generator: torch.Generator) -> nn.Sequential:
    """2-100-100-1: "3-layer neural network with 100 hidden units", read as three layers of weights.

    Of the paper on batch-norm preconditioning, section 3, which counts layers by their weights: so there are two
    hidden layers, each of 100 units. The activation is ours.

    >>> sum(p.numel() for p in griewank_network(generator=torch.Generator()).parameters())
    10501
    """
    return mlp((2, 100, 100, 1), activation=activation, generator=generator)
