"""One network written in two ways: modules and functions, copies, slices; examples and positions moved."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from curvature.pairs import Equivalence, Match, chosen, draw, draw_labels, layer, places, same

N, CLASSES = 5, 3
Part = tuple[int, ...] | Callable[[], nn.Module]


class Net(nn.Module):
    """Named layers (made by functions) and free parameters (given by shapes) under any plain function."""

    def __init__(self, forward: Callable[..., Tensor], parts: dict[str, Part]) -> None:
        super().__init__()
        self.how = forward
        for name, part in parts.items():
            setattr(self, name, part() if callable(part) else nn.Parameter(torch.zeros(part)))

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.how(self, *inputs)


def net(forward: Callable[..., Tensor], **parts: Part) -> Callable[[], nn.Module]:
    """A builder of a `Net`."""
    return lambda: Net(forward, parts)


def linear(before: int, after: int, bias: bool = True, copies: int = 0) -> Callable[[], nn.Module]:
    """A builder of a Linear, or of a list of copies."""
    if copies:
        return lambda: nn.ModuleList(nn.Linear(before, after, bias=bias) for _ in range(copies))
    return lambda: nn.Linear(before, after, bias=bias)


def pair(name: str, left, right, matches, *inputs: Tensor, **rest) -> Equivalence:
    """An equivalence with class labels, unless other targets are given."""
    targets = rest.pop("targets", None)
    targets = draw_labels(CLASSES, N) if targets is None else targets
    return Equivalence(name, left, right, tuple(matches), inputs, targets, **rest)


def stored_as(*names: str, to: str) -> Match:
    """A weight and perhaps a bias of other names, stored like those of a layer."""
    return Match(names, (f"{to}.weight", f"{to}.bias")[: len(names)])


def transposed(*names: str, to: str, shape: tuple[int, int]) -> Match:
    """A matrix stored as (in, out), and perhaps a bias (out,)."""
    matrix, *bias = places(shape, shape[1:])[: len(names)]
    return Match(names, (f"{to}.weight", f"{to}.bias")[: len(names)], chosen(matrix.T, *bias))


# ---- forwards: m holds the parts ----


def plain(m, x):
    return m.second(torch.tanh(m.first(x)))


def over_positions(m, x):
    return m.second(torch.tanh(m.first(x)).mean(1))


def three_calls(m, x):
    for _ in range(3):
        x = torch.tanh(m.step(x))
    return m.head(x)


def three_copies(m, x):
    for step in m.steps:
        x = torch.tanh(step(x))
    return m.head(x)


def two_lengths(m, x, y):
    return m.head(torch.cat([torch.tanh(m.step(v)).mean(1) for v in (x, y)], 1))


def two_lengths_apart(m, x, y):
    sides = zip(m.steps, (x, y), strict=True)
    return m.head(torch.cat([torch.tanh(step(v)).mean(1) for step, v in sides], 1))


def modules(m, x):
    x = torch.tanh(m.norm(m.conv(x).flatten(2).mT))
    return m.head(torch.tanh(m.inner(x.mean(1))))


def functions(m, x):
    x = F.layer_norm(F.conv2d(x, m.kernel, m.shift, padding=1).flatten(2).mT, (3,), m.scale, m.offset)
    x = torch.tanh(x).mean(1)
    return F.linear(torch.tanh(x @ m.mix.T + m.bias), m.out, m.last)


def addmm(m, x):
    return torch.addmm(m.b2, torch.tanh(torch.addmm(m.b1, x, m.w1)), m.w2)


def from_the_left(m, x):
    return (m.w2 @ torch.tanh(m.w1 @ x.T + m.b1[:, None])).T + m.b2


def einsum(m, x):
    return m.second(torch.einsum("btd,dc->btc", x, m.mix).tanh().mean(1))


def einsum_channels(m, x):
    return m.second(torch.einsum("btd,dc->bct", x, m.mix).tanh().mean(2))


def low_rank(m, x):
    return m.second(torch.tanh(m.base(x) + m.up(m.down(x))))


def low_rank_by_hand(m, x):
    return m.second(torch.tanh(m.base(x) + x @ m.A.T @ m.B.T))


def heads_by_einsum(m, x):
    return m.second(torch.tanh(torch.einsum("bhd,hde->bhe", x, m.mix)).flatten(1))


def heads_by_linears(m, x):
    parts = zip(m.heads, x.unbind(1), strict=True)
    return m.second(torch.tanh(torch.cat([head(part) for head, part in parts], 1)))


def row_blocks(m, x, y):
    weight, bias = m.both.weight, m.both.bias
    parts = [F.linear(x, weight[:2], bias[:2]), F.linear(y, weight[2:], bias[2:])]
    return m.head(torch.tanh(torch.cat(parts, 1)))


def two_linears(m, x, y):
    return m.head(torch.tanh(torch.cat([m.upper(x), m.lower(y)], 1)))


def doubled(m, x):
    return m.second(torch.tanh(F.linear(x, 2 * m.w)))


def turned(m, x):
    return m.second(torch.tanh(F.linear(x, m.w.T)))


def permuted(m, x):
    x = torch.tanh(m.first(x.flip(0))).roll(2, 0)
    return m.second(x).roll(-2, 0).flip(0)


def computed_again(m, x):
    hidden = checkpoint(lambda z: torch.tanh(m.first(z)), x, use_reentrant=False)
    return m.second(hidden)  # type: ignore[arg-type]


def in_place(m, x):
    return m.second(F.relu_(m.first(x)))


def out_of_place(m, x):
    return m.second(F.relu(m.first(x)))


def positions_first(m, x):
    """The hidden layer works on (position, example, feature)."""
    return m.second(torch.tanh(m.first(x.transpose(0, 1))).mean(0))


# ---- the pairs ----

PLAIN = {"first": linear(4, 5), "second": linear(5, CLASSES)}
NO_BIAS = {"first": linear(4, 5, bias=False), "second": linear(5, CLASSES)}
ALIKE = [same("first.weight", "first.bias"), same("second.weight", "second.bias")]
SECOND = layer("second")
X, SEQUENCE = draw(N, 4), draw(N, 3, 4)


def _rows(*shapes: tuple[int, ...], at: slice, to: str) -> Match:
    """Rows of a layer called "both"."""
    index = chosen(*[place[at] for place in places(*shapes)])
    return Match(("both.weight", "both.bias"), (f"{to}.weight", f"{to}.bias"), index)


def _head(number: int) -> Match:
    """One head of a weight (heads, in, out)."""
    return Match(("mix",), (f"heads.{number}.weight",), chosen(places((2, 3, 4))[0][number].T))


REUSED = [
    pair(
        "reused_linear",
        net(three_calls, step=linear(4, 4), head=linear(4, CLASSES)),
        net(three_copies, steps=linear(4, 4, copies=3), head=linear(4, CLASSES)),
        [*[layer("step", f"steps.{i}") for i in range(3)], layer("head")],
        X,
        copies=True,
    ),
    pair(
        "reused_on_two_lengths",
        net(two_lengths, step=linear(3, 2), head=linear(4, CLASSES)),
        net(two_lengths_apart, steps=linear(3, 2, copies=2), head=linear(4, CLASSES)),
        [*[layer("step", f"steps.{i}") for i in range(2)], layer("head")],
        draw(N, 4, 3),
        draw(N, 2, 3, seed=1),
        copies=True,
    ),
]

FUNCTIONS = [
    pair(
        "modules_and_functions",
        net(functions, kernel=(3, 2, 3, 3), shift=(3,), scale=(3,), offset=(3,), mix=(4, 3), bias=(4,),
            out=(CLASSES, 4), last=(CLASSES,)),
        net(modules, conv=lambda: nn.Conv2d(2, 3, 3, padding=1), norm=lambda: nn.LayerNorm(3),
            inner=linear(3, 4), head=linear(4, CLASSES)),
        [stored_as("kernel", "shift", to="conv"), stored_as("scale", "offset", to="norm"),
         stored_as("mix", "bias", to="inner"), stored_as("out", "last", to="head")],
        draw(N, 2, 3, 3),
        by_hooks=False,
    ),
    pair("addmm", net(addmm, w1=(4, 5), b1=(5,), w2=(5, CLASSES), b2=(CLASSES,)), net(plain, **PLAIN),
         [transposed("w1", "b1", to="first", shape=(4, 5)),
          transposed("w2", "b2", to="second", shape=(5, CLASSES))], X),
    pair("matrix_from_the_left", net(from_the_left, w1=(5, 4), b1=(5,), w2=(CLASSES, 5), b2=(CLASSES,)),
         net(plain, **PLAIN), [stored_as("w1", "b1", to="first"), stored_as("w2", "b2", to="second")], X),
    pair("einsum", net(einsum, mix=(4, 5), second=linear(5, CLASSES)), net(over_positions, **NO_BIAS),
         [transposed("mix", to="first", shape=(4, 5)), SECOND], SEQUENCE),
    pair("einsum_channels", net(einsum_channels, mix=(4, 5), second=linear(5, CLASSES)),
         net(over_positions, **NO_BIAS), [transposed("mix", to="first", shape=(4, 5)), SECOND], SEQUENCE),
    pair("low_rank_update",
         net(low_rank_by_hand, base=linear(4, 5), A=(2, 4), B=(5, 2), second=linear(5, CLASSES)),
         net(low_rank, down=linear(4, 2, False), up=linear(2, 5, False), base=linear(4, 5),
             second=linear(5, CLASSES)),
         [layer("base"), stored_as("A", to="down"), stored_as("B", to="up"), SECOND], X),
]  # fmt: skip

REWRITTEN = [
    pair("einsum_heads", net(heads_by_einsum, mix=(2, 3, 4), second=linear(8, CLASSES)),
         net(heads_by_linears, heads=linear(3, 4, False, copies=2), second=linear(8, CLASSES)),
         [_head(0), _head(1), SECOND], draw(N, 2, 3)),
    pair("row_blocks", net(row_blocks, both=linear(3, 5), head=linear(5, CLASSES)),
         net(two_linears, upper=linear(3, 2), lower=linear(3, 3), head=linear(5, CLASSES)),
         [_rows((5, 3), (5,), at=slice(0, 2), to="upper"), _rows((5, 3), (5,), at=slice(2, 5), to="lower"),
          layer("head")], draw(N, 3), draw(N, 3, seed=1)),
    pair("scaled_weight", net(doubled, w=(5, 4), second=linear(5, CLASSES)), net(plain, **NO_BIAS),
         [Match(("w",), ("first.weight",), scale=2.0), SECOND], X),
    pair("transposed_weight", net(turned, w=(4, 5), second=linear(5, CLASSES)), net(plain, **NO_BIAS),
         [transposed("w", to="first", shape=(4, 5)), SECOND], X),
    pair("permuted_examples", net(permuted, **PLAIN), net(plain, **PLAIN), ALIKE, X),
    pair("checkpointed", net(computed_again, **PLAIN), net(plain, **PLAIN), ALIKE, X),
    pair("in_place_relu", net(in_place, **PLAIN), net(out_of_place, **PLAIN), ALIKE, X),
    pair("positions_first", net(positions_first, **PLAIN), net(over_positions, **PLAIN), ALIKE, SEQUENCE),
    pair("as_many_positions_as_examples", net(positions_first, **PLAIN), net(over_positions, **PLAIN), ALIKE,
         draw(N, N, 4)),
    pair("positions_first_poisson", net(positions_first, **PLAIN), net(over_positions, **PLAIN), ALIKE,
         SEQUENCE, targets=draw_labels(4, N, CLASSES).double(), likelihood="poisson"),
]  # fmt: skip

PAIRS: list[Equivalence] = [*REUSED, *FUNCTIONS, *REWRITTEN]
