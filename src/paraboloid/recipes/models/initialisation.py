"""How weights are drawn: every number of a new network comes from the generator that was given.

    he      N(0, 2 / fan_in), for ReLU: keeps the mean square from layer to layer
    glorot  U(±√(6 / (fan_in + fan_out))), for tanh and sigmoid

Biases start at zero, normalisations at one and zero. The fan of a convolution counts its whole kernel. PyTorch's
own constructors would draw from the global generator: here they run on the meta device, where nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

M = TypeVar("M", bound=nn.Module)

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


def activation_layer(name: str) -> nn.Module:
    """The layer of that name.

    >>> activation_layer("tanh")
    Tanh()
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"`activation` should be one of {', '.join(ACTIVATIONS)}; found {name!r}.")
    return ACTIVATIONS[name]()


def initialised(make: Callable[[], M], generator: torch.Generator, activation: str = "relu") -> M:
    """The network that `make` builds, on the generator's device, with weights drawn as the activation wants them.

    >>> layer = initialised(lambda: nn.Linear(1000, 1000), torch.Generator().manual_seed(0))
    >>> round(float(layer.weight.detach().var()) * 1000, 1), float(layer.bias.detach().abs().max())
    (2.0, 0.0)
    """
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"`generator` should be a torch.Generator, found {type(generator).__name__}. "
            "Make one by torch.Generator(device).manual_seed(seed)."
        )
    with torch.device("meta"):
        model = make()
    model.to_empty(device=generator.device)
    for name, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            _draw(name, module, generator, activation)
    return model


def _draw(name: str, module: nn.Module, generator: torch.Generator, activation: str) -> None:
    if isinstance(module, _BatchNorm):
        module.reset_parameters()  # draws nothing
        return
    if not isinstance(module, (nn.Linear, nn.Conv2d)):
        raise TypeError(f"{name} should be a Linear, a Conv2d or a batch norm; found {type(module).__name__}.")
    if activation == "relu":
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
    else:
        nn.init.xavier_uniform_(module.weight, generator=generator)
    if module.bias is not None:
        nn.init.zeros_(module.bias)
