"""What a zoo entry is: a name, a builder, data for any batch size, and how its outputs are read."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

Draw = Callable[[torch.Generator, int], Tensor]


@dataclass(frozen=True)
class Case:
    """One small float64 network with data.

    `build()` gives the same network at every call and leaves the global random state alone. `batch(n)` gives
    `(inputs, targets)`, the inputs a tuple, for any n (default `size`). `terms` says what the likelihood's
    factors are: "one" per example, "tokens" (N, T, C) or "pixels" (N, C, H, W). `covered` holds facts:
    `frozen`, `unused` (names of parameters), `tied` (a second name -> the first), `functorch=False` (has an
    operation that torch.func cannot transform), `layout="TN"` (axis 0 is not the example inside the net),
    `padding` (a parameter and its row that is a constant whatever it holds), `second_order=False`
    (PyTorch has no second derivative), `fused_weight_norm` (PyTorch's is wrong: see `oracles.plain_kernels`).
    `reason` is filled where the network must be refused.
    """

    name: str
    build: Callable[[], nn.Module]
    draws: tuple[Draw, ...]
    target: Draw
    likelihood: str = "categorical"
    terms: str = "one"
    size: int = 4
    covered: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""

    def batch(self, n: int | None = None) -> tuple[tuple[Tensor, ...], Tensor]:
        """Inputs (a tuple) and targets of n examples, the same at every call."""
        n = self.size if n is None else n
        generator = torch.Generator().manual_seed(zlib.crc32(self.name.encode()) + n)
        return tuple(draw(generator, n) for draw in self.draws), self.target(generator, n)

    def __repr__(self) -> str:
        return f"Case({self.name})"


def case(name: str, factory: Callable[[], nn.Module], *draws: Draw, target: Draw, **rest) -> Case:
    """A case whose network is made by `factory`, filled from a private generator and put in eval mode
    (`training=True` leaves it in training mode)."""
    training = rest.pop("training", False)
    return Case(name, lambda: seeded(factory, name).train(training), draws, target, **rest)


def seeded(factory: Callable[[], nn.Module], name: str) -> nn.Module:
    """A float64 module with every parameter and random buffer drawn from a generator private to the name."""
    with torch.random.fork_rng(devices=[]):
        model = factory().double()
    fill(model, torch.Generator().manual_seed(zlib.crc32(name.encode())))
    return model


@torch.no_grad()
def fill(model: nn.Module, generator: torch.Generator) -> None:
    """Draw parameters of a sensible size: matrices by fan-in, vectors near 0 (biases) or near 1 (scales)."""
    for name, tensor in model.named_parameters():
        noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        if tensor.ndim > 1:
            tensor.copy_(noise / max(1, tensor[0].numel()) ** 0.5)
        else:
            tensor.copy_(0.3 * noise + (1.0 if name.endswith(("weight", "scale")) else 0.0))
    for name, tensor in model.named_buffers():
        if name.endswith("running_mean"):
            tensor.copy_(0.3 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype))
        elif name.endswith("running_var"):
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype))
        elif name.endswith(("._u", "._v")):
            noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            tensor.copy_(noise / noise.norm())


def reals(*shape: int) -> Draw:
    """Standard normal numbers."""
    return lambda g, n: torch.randn(n, *shape, generator=g, dtype=torch.float64)


def labels(classes: int, *shape: int) -> Draw:
    """Integers below `classes`: class labels or tokens."""
    return lambda g, n: torch.randint(classes, (n, *shape), generator=g)


def labels_with_gaps(classes: int, *shape: int) -> Draw:
    """Labels of which some are -100 (never all of them)."""

    def draw(g: torch.Generator, n: int) -> Tensor:
        y = torch.randint(classes, (n, *shape), generator=g)
        y.view(-1)[1::3] = -100
        return y

    return draw


def bits(*shape: int) -> Draw:
    """Zeros and ones, as floating numbers."""
    return lambda g, n: torch.randint(2, (n, *shape), generator=g).double()


def counts(*shape: int) -> Draw:
    """Small counts, as floating numbers."""
    return lambda g, n: torch.randint(5, (n, *shape), generator=g).double()


def headed(body: nn.Module, shape: tuple[int, ...], classes: int = 3) -> nn.Module:
    """The body, flattened, and a Linear to the classes."""
    with torch.no_grad():
        width = body.eval()(torch.zeros(1, *shape)).numel()
    return nn.Sequential(body, nn.Flatten(), nn.Linear(width, classes))
