"""Settings in which one Kronecker product is the exact Gauss-Newton block, each group with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case_layers import NaturalGaussian, mlp
from case_record import seeded
from curvature.function_pairs import linear, low_rank_by_hand, net, row_blocks
from curvature.pairs import chosen, draw, draw_labels, places
from curvature.sequence_pairs import Recurrent

BOTH = ("expand", "reduce")


@dataclass(frozen=True)
class Block:
    """A block of the flat vector: some parameters one after the other, all elements or those of an index."""

    names: tuple[str, ...]
    index: Tensor | None = None


@dataclass(frozen=True)
class Exact:
    """A network with data for which every block in `blocks` is one Kronecker product, exactly, with every
    sharing in `sharings`. Blocks that are not listed need not be."""

    name: str
    factory: Callable[[], nn.Module]
    blocks: tuple[Block, ...]
    inputs: tuple[Tensor, ...]
    targets: Tensor
    likelihood: str = "categorical"
    sharings: tuple[str, ...] = BOTH

    def build(self) -> nn.Module:
        """The network, float64, in eval mode, the same at every call."""
        return seeded(self.factory, self.name).eval()

    def __repr__(self) -> str:
        return f"Exact({self.name})"


def joint(*prefixes: str) -> tuple[Block, ...]:
    """One block for each layer: weight and bias."""
    return tuple(Block((f"{prefix}.weight", f"{prefix}.bias")) for prefix in prefixes)


def alone(*names: str) -> tuple[Block, ...]:
    """One block for each parameter."""
    return tuple(Block((name,)) for name in names)


class Located(nn.Module):
    """A convolution whose output is read at every location: (N, T, C), or flattened (N, T C)."""

    def __init__(self, conv: nn.Module, flat: bool) -> None:
        super().__init__()
        self.conv, self.flat = conv, flat

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv(x).flatten(2).mT
        return out.flatten(1) if self.flat else out


class Pooled(nn.Module):
    """A layer, the mean or sum over its positions, a Linear: no activation."""

    def __init__(self, inner: nn.Module, width: int, mean: bool, channels_last: bool) -> None:
        super().__init__()
        self.inner, self.head, self.mean, self.last = inner, nn.Linear(width, 2), mean, channels_last

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        x = x.flatten(1, -2) if self.last else x.flatten(2).mT
        return self.head(x.mean(1) if self.mean else x.sum(1))


class Single(nn.Module):
    """One layer, tanh, a Linear on everything."""

    def __init__(self, inner: nn.Module, width: int) -> None:
        super().__init__()
        self.inner, self.head = inner, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(x)).flatten(1))


class OneToken(nn.Module):
    """Self-attention on one token: its value and output projections alone have gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.attend(x, x, x, need_weights=False)[0]).flatten(1))


def einsum_once(m, x):
    return m.second(torch.einsum("btd,dc->btc", x, m.mix).tanh().mean(1))


def linear_many(m, x):
    return m.second(F.linear(torch.tanh(m.first(x)), m.mix))


# ---- one example, one position: Σ_k vec(c âᵀ)vec(c âᵀ)ᵀ = (Σ_k ccᵀ) ⊗ ââᵀ, any network, any loss ----

ONE = draw_labels(3, 1)
LAYERS = joint("0", "2")


def _one_conv(name: str, conv: Callable[[], nn.Module], width: int, *shape: int) -> Exact:
    blocks = (*joint("inner"), *joint("head"))
    return Exact(f"one_example_{name}", lambda: Single(conv(), width), blocks, (draw(1, *shape),), ONE)


def _groups(groups: int, *shape: int) -> tuple[Block, ...]:
    weight, bias = places(shape, shape[:1])
    names = ("inner.weight", "inner.bias")
    parts = zip(weight.chunk(groups), bias.chunk(groups), strict=True)
    return tuple(Block(names, chosen(w, b)) for w, b in parts)


def _gated(kind: str) -> Exact:
    states = tuple(draw(1, 1, 2, seed=seed) for seed in range(5, 7 if kind == "LSTM" else 6))
    blocks = tuple(Block((f"net.weight_{side}_l0", f"net.bias_{side}_l0")) for side in ("ih", "hh"))
    inputs = (draw(1, 1, 2), *states)
    return Exact(f"one_step_{kind.lower()}", lambda: Recurrent(kind, False), (*blocks, *joint("head")), inputs, ONE)


def _rows(cut: slice) -> Block:
    weight, bias = places((5, 3), (5,))
    return Block(("both.weight", "both.bias"), chosen(weight[cut], bias[cut]))


X1 = draw(1, 4)
ONE_POSITION = [
    Exact("one_example_softmax", lambda: mlp(4, 5, 3), LAYERS, (X1,), ONE),
    Exact("one_example_relu", lambda: mlp(4, 6, 5, 3, activation=nn.ReLU), joint("0", "2", "4"), (X1,), ONE),
    Exact("one_example_bernoulli", lambda: mlp(4, 5, 3), LAYERS, (X1,), torch.ones(1, 3).double(),
          "bernoulli"),
    Exact("one_example_poisson", lambda: mlp(4, 5, 3), LAYERS, (X1,), torch.ones(1, 3).double(), "poisson"),
    Exact("one_example_natural", NaturalGaussian, joint("net.0", "net.2"), (draw(1, 3),), draw(1, 1),
          "heteroscedastic"),
    Exact("one_example_no_bias", lambda: mlp(4, 5, 3, bias=False), alone("0.weight", "2.weight"), (X1,), ONE),
    Exact("one_example_embedding", lambda: Single(nn.Embedding(5, 3), 3),
          (*alone("inner.weight"), *joint("head")), (torch.tensor([[2]]),), ONE),
    _one_conv("conv1d", lambda: nn.Conv1d(2, 3, 3), 3, 2, 3),
    _one_conv("conv2d", lambda: nn.Conv2d(2, 3, (3, 2), padding=(0, 1), dilation=(1, 3)), 3, 2, 3, 2),
    _one_conv("conv3d", lambda: nn.Conv3d(2, 2, (1, 2, 2), stride=2), 2, 2, 1, 3, 2),
    _one_conv("conv_transpose2d", lambda: nn.ConvTranspose2d(3, 2, 1), 2, 3, 1, 1),
    Exact("one_example_grouped", lambda: Single(nn.Conv1d(4, 4, 3, groups=2), 4),
          (*_groups(2, 4, 2, 3), *joint("head")), (draw(1, 4, 3),), ONE),
    Exact("one_example_depthwise", lambda: Single(nn.Conv2d(3, 3, 2, groups=3), 3),
          (*_groups(3, 3, 1, 2, 2), *joint("head")), (draw(1, 3, 2, 2),), ONE),
    Exact("one_example_attention", OneToken,
          (Block(("attend.in_proj_weight", "attend.in_proj_bias")), *joint("attend.out_proj", "head")),
          (draw(1, 1, 4),), ONE),
    Exact("one_example_einsum", net(einsum_once, mix=(4, 5), second=linear(5, 3)),
          (*alone("mix"), *joint("second")), (draw(1, 1, 4),), ONE),
    Exact("one_example_low_rank",
          net(low_rank_by_hand, base=linear(4, 5), A=(2, 4), B=(5, 2), second=linear(5, 3)),
          (*joint("base", "second"), *alone("A", "B")), (X1,), ONE),
    Exact("one_example_row_blocks", net(row_blocks, both=linear(3, 5), head=linear(5, 3)),
          (_rows(slice(0, 2)), _rows(slice(2, 5)), *joint("head")), (draw(1, 3), draw(1, 3, seed=1)), ONE),
    *[_gated(kind) for kind in ("RNN", "GRU", "LSTM")],
]  # fmt: skip

# ---- the Jacobian behind the layer does not depend on the example: G factors out of the mean ----

MANY = draw(7, 4)
CONSTANT = [
    Exact("deep_linear_gaussian", lambda: mlp(4, 4, 4, 3, activation=nn.Identity), joint("0", "2", "4"),
          (MANY,), draw(7, 3, seed=1), "gaussian"),
    Exact("deep_linear_mse", lambda: mlp(4, 5, 2, activation=nn.Identity), LAYERS, (MANY,),
          draw(7, 2, seed=1), "mse"),
    Exact("deep_linear_no_bias", lambda: mlp(4, 5, 2, activation=nn.Identity, bias=False),
          alone("0.weight", "2.weight"), (MANY,), draw(7, 2, seed=1), "gaussian"),
    Exact("last_layer_gaussian", lambda: mlp(4, 5, 2), joint("2"), (MANY,), draw(7, 2, seed=1), "gaussian"),
    Exact("last_layer_mse", lambda: mlp(4, 5, 5, 3, activation=nn.ReLU), joint("4"), (MANY,),
          draw(7, 3, seed=1), "mse"),
    Exact("last_matrix_gaussian", net(linear_many, first=linear(4, 5), mix=(3, 5), second=linear(3, 2)),
          (*alone("mix"), *joint("second")), (MANY,), draw(7, 2, seed=1), "gaussian"),
    Exact("last_layer_tokens", lambda: mlp(4, 5, 2), joint("2"), (draw(3, 4, 4),), draw(3, 4, 2, seed=1),
          "gaussian", ("expand",)),
]  # fmt: skip

# ---- expand: a loss at every location, with the same curvature everywhere ----


def _located(name: str, conv: Callable[[], nn.Module], flat: bool, *shape: int) -> Exact:
    inputs = (draw(5, *shape),)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        sample = Located(conv(), flat)(inputs[0].float())
    targets, sharing = draw(*sample.shape, seed=1), ("expand",)
    return Exact(name, lambda: Located(conv(), flat), joint("conv"), inputs, targets, "gaussian", sharing)


LOCATED = [
    _located("locations_conv1d", lambda: nn.Conv1d(2, 3, 3, padding=1), True, 2, 5),
    _located("locations_conv2d", lambda: nn.Conv2d(2, 2, (3, 2), stride=(1, 2), padding=1), True, 2, 4, 3),
    _located("locations_conv2d_circular",
             lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), True, 2, 3, 4),
    _located("locations_conv_transpose2d", lambda: nn.ConvTranspose2d(2, 2, (3, 2), (2, 1), (1, 0)), True,
             2, 2, 3),
    _located("locations_as_terms", lambda: nn.Conv2d(2, 3, 2), False, 2, 4, 3),
]  # fmt: skip

# ---- reduce: everything behind the layer is linear and starts with a mean or a sum over positions ----


def _pooled(name: str, inner: Callable[[], nn.Module], width: int, mean: bool, *shape: int) -> Exact:
    channels_last = isinstance(_sample(inner), nn.Linear)
    blocks = (*joint("inner"), *joint("head"))
    factory = lambda: Pooled(inner(), width, mean, channels_last)  # noqa: E731
    return Exact(name, factory, blocks, (draw(6, *shape),), draw(6, 2, seed=1), "mse", ("reduce",))


def _sample(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        return make()


POOLED = [
    _pooled("pooled_conv2d_mean", lambda: nn.Conv2d(2, 3, 3, padding=1), 3, True, 2, 4, 3),
    _pooled("pooled_conv2d_sum", lambda: nn.Conv2d(2, 3, 2, stride=2), 3, False, 2, 4, 5),
    _pooled("pooled_conv1d_mean", lambda: nn.Conv1d(2, 3, 3, dilation=2), 3, True, 2, 7),
    _pooled("pooled_conv3d_sum", lambda: nn.Conv3d(1, 2, 2), 2, False, 1, 3, 2, 3),
    _pooled("pooled_conv_transpose1d_mean", lambda: nn.ConvTranspose1d(2, 3, 3, 2, 1, 1), 3, True, 2, 4),
    _pooled("pooled_linear_mean", lambda: nn.Linear(4, 3), 3, True, 5, 4),
    _pooled("pooled_linear_sum_many_axes", lambda: nn.Linear(4, 3), 3, False, 2, 3, 4),
]

SETTINGS: list[Exact] = [*ONE_POSITION, *CONSTANT, *LOCATED, *POOLED]
