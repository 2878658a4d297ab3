"""Two networks that are one function of the same numbers, and where the numbers of one lie in the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from case_record import seeded


@dataclass(frozen=True)
class Match:
    """Some parameters of the left network and the parameters of the right one that they are.

    Flattened one after the other, each by rows: `right = scale * left[index]` (index None: all, in order).
    So a block of the left operator, `left[index][:, index]`, is `scale²` times the block of the right one.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    index: Tensor | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class Equivalence:
    """Networks whose Kronecker blocks must agree, match by match.

    `copies`: several matches name the same left parameters, and the right ones are copies, one for each use on
    the left; then the statistics are summed (expand: A-sums over all uses divided by N times all positions,
    G-sums by the number of terms). `by_hooks`: the right network is made of `nn.Linear` alone, the example
    first, so that `kronecker_oracle` gives its factors without the library.
    """

    name: str
    left: Callable[[], nn.Module]
    right: Callable[[], nn.Module]
    matches: tuple[Match, ...]
    inputs: tuple[Tensor, ...]
    targets: Tensor
    likelihood: str = "categorical"
    right_inputs: tuple[Tensor, ...] | None = None
    by_hooks: bool = True
    copies: bool = False

    def build(self) -> tuple[nn.Module, nn.Module]:
        """Both networks (float64, eval mode), the right one with the numbers of the left one."""
        left = seeded(self.left, self.name).eval()
        right = seeded(self.right, self.name).eval()
        for match in self.matches:
            flat = flat_of(left, match.left)
            unflatten_into(right, match.right, match.scale * (flat if match.index is None else flat[match.index]))
        return left, right

    def both_inputs(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The inputs of the left and of the right network."""
        return self.inputs, self.inputs if self.right_inputs is None else self.right_inputs

    def __repr__(self) -> str:
        return f"Equivalence({self.name})"


def flat_of(model: nn.Module, names: tuple[str, ...]) -> Tensor:
    """Parameters as one detached vector."""
    return torch.cat([model.get_parameter(name).detach().reshape(-1) for name in names])


@torch.no_grad()
def unflatten_into(model: nn.Module, names: tuple[str, ...], flat: Tensor) -> None:
    """Writes a vector into parameters; the sizes must agree."""
    sizes = [model.get_parameter(name).numel() for name in names]
    for name, part in zip(names, flat.split(sizes), strict=True):
        model.get_parameter(name).copy_(part.view_as(model.get_parameter(name)))


def same(*names: str) -> Match:
    """Parameters of the same names and shapes on both sides."""
    return Match(names, names)


def layer(left: str, right: str | None = None, bias: bool = True) -> Match:
    """A layer's weight, with its bias, under two prefixes, stored alike."""
    ends = (".weight", ".bias") if bias else (".weight",)
    return Match(tuple(left + end for end in ends), tuple((right or left) + end for end in ends))


def places(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Positions of the elements of several tensors in their common flat vector, in their shapes."""
    made, start = [], 0
    for shape in shapes:
        count = torch.Size(shape).numel()
        made.append(torch.arange(start, start + count).reshape(shape))
        start += count
    return made


def chosen(*parts: Tensor) -> Tensor:
    """An index from pieces of `places`, each by rows."""
    return torch.cat([part.reshape(-1) for part in parts])


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers of a private generator."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def draw_labels(classes: int, *shape: int, seed: int = 1) -> Tensor:
    """Labels of a private generator."""
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(seed))
