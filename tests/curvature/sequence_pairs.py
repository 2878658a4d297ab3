"""Attention as separate Linears; recurrent networks as their cells, written out step by step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvature.pairs import Equivalence, Match, chosen, draw, draw_labels, layer, places, same

N, CLASSES, WIDTH, HEADS = 4, 3, 4, 2


class Attending(nn.Module):
    """nn.MultiheadAttention on inputs with the example first, whatever layout it works in."""

    def __init__(self, batch_first: bool = True, **options) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **options)
        self.head, self.first = nn.Linear(WIDTH, CLASSES), batch_first

    def forward(self, query: Tensor, *others: Tensor) -> Tensor:
        swapped = [x if self.first else x.transpose(0, 1) for x in (query, *others)]
        key, value = {1: [swapped[0]] * 2, 2: [swapped[-1]] * 2, 3: swapped[1:]}[len(swapped)]
        out = self.attend(swapped[0], key, value, need_weights=False)[0]
        return self.head(torch.tanh(out).mean(1 if self.first else 0))


class Linears(nn.Module):
    """The same with nn.Linear layers for query, key, value and output: all apart, or some of them packed."""

    def __init__(self, packed: str = "q,k,v", kdim: int = WIDTH, vdim: int = WIDTH, bias: bool = True) -> None:
        super().__init__()
        widths = {"q": WIDTH, "k": kdim, "v": vdim}
        self.groups = packed.split(",")
        for group in self.groups:
            self.add_module(group, nn.Linear(widths[group[0]], WIDTH * len(group), bias=bias))
        self.out, self.head = nn.Linear(WIDTH, WIDTH, bias=bias), nn.Linear(WIDTH, CLASSES)

    def forward(self, query: Tensor, *others: Tensor) -> Tensor:
        source = {"q": query, "k": others[0] if others else query, "v": others[-1] if others else query}
        made = []
        for group in self.groups:
            made += self.get_submodule(group)(source[group[0]]).chunk(len(group), -1)
        q, k, v = (x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in made)
        weights = (q @ k.mT / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.head(torch.tanh(self.out((weights @ v).transpose(1, 2).flatten(2))).mean(1))


def packed_matches(packed: str, bias: bool = True) -> tuple[Match, ...]:
    """Rows of `in_proj_weight` and `in_proj_bias` in the Linears called "q", "kv", "qkv" and so on."""
    names = ("attend.in_proj_weight", "attend.in_proj_bias")[: 1 + bias]
    weight, *shift = places((3 * WIDTH, WIDTH), (3 * WIDTH,))[: 1 + bias]
    found, start = [], 0
    for group in packed.split(","):
        rows = slice(start, start + WIDTH * len(group))
        index = chosen(weight[rows], *[b[rows] for b in shift])
        found.append(Match(names, (f"{group}.weight", f"{group}.bias")[: 1 + bias], index))
        start = rows.stop
    return (*found, layer("attend.out_proj", "out", bias), layer("head"))


def separate_matches(kdim: int, vdim: int) -> tuple[Match, ...]:
    """`q_proj_weight`, `k_proj_weight`, `v_proj_weight` with their parts of one bias."""
    found = []
    for i, (name, width) in enumerate((("q", WIDTH), ("k", kdim), ("v", vdim))):
        weight, bias = places((WIDTH, width), (3 * WIDTH,))
        index = chosen(weight, bias[i * WIDTH : (i + 1) * WIDTH])
        left = (f"attend.{name}_proj_weight", "attend.in_proj_bias")
        found.append(Match(left, (f"{name}.weight", f"{name}.bias"), index))
    return (*found, layer("attend.out_proj", "out"), layer("head"))


def attention(name: str, packed: str, *lengths: int, batch_first: bool = True, bias: bool = True) -> Equivalence:
    """Packed projections against Linears; several lengths mean several input sequences."""
    return Equivalence(
        name,
        lambda: Attending(batch_first, bias=bias),
        lambda: Linears(packed, bias=bias),
        packed_matches(packed, bias),
        tuple(draw(N, length, WIDTH, seed=seed) for seed, length in enumerate(lengths)),
        draw_labels(CLASSES, N),
    )


def attention_kdim(name: str, batch_first: bool) -> Equivalence:
    """Keys and values of other widths, with projections of their own."""
    return Equivalence(
        name,
        lambda: Attending(batch_first, kdim=3, vdim=5),
        lambda: Linears(kdim=3, vdim=5),
        separate_matches(3, 5),
        (draw(N, 4, WIDTH), draw(N, 3, 3, seed=1), draw(N, 3, 5, seed=2)),
        draw_labels(CLASSES, N),
    )


class Recurrent(nn.Module):
    """A recurrent net (its fused module, or its cells in plain operations) whose outputs are averaged."""

    def __init__(self, kind: str, written: bool, **options) -> None:
        super().__init__()
        self.net = getattr(nn, kind)(2, 2, **{"batch_first": True, **options})
        both = 2 if self.net.bidirectional else 1
        self.head, self.kind, self.written = nn.Linear(2 * both, CLASSES), kind, written

    def forward(self, x: Tensor, *states: Tensor) -> Tensor:
        """`states` are (N, layers * directions, hidden), the example first."""
        given = tuple(state.transpose(0, 1).contiguous() for state in states)
        if self.written:
            return self.head(self.steps(x, given).mean(1))
        x = x if self.net.batch_first else x.transpose(0, 1)
        out = self.net(x, None if not given else given if self.kind == "LSTM" else given[0])[0]
        return self.head(out.mean(1 if self.net.batch_first else 0))

    def steps(self, x: Tensor, given: tuple[Tensor, ...]) -> Tensor:
        """All layers and directions, one step after the other."""
        directions, place = ["", "_reverse"][: 2 if self.net.bidirectional else 1], 0
        for number in range(self.net.num_layers):
            sides = []
            for direction in directions:
                state = tuple(s[place] for s in given) or (x.new_zeros(len(x), 2),) * 2
                order, outs = (-1 if direction else 1), []
                for step in x.unbind(1)[::order]:
                    state = self.cell(step, state, f"l{number}{direction}")
                    outs.append(state[0])
                sides.append(torch.stack(outs[::order], 1))
                place += 1
            x = torch.cat(sides, -1)
        return x

    def cell(self, x: Tensor, state: tuple[Tensor, ...], suffix: str) -> tuple[Tensor, ...]:
        """One step of one layer, on the parameters of the fused module."""
        w_i, w_h, b_i, b_h = (getattr(self.net, f"{p}_{suffix}", None)
                              for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))  # fmt: skip
        inner, outer, h = F.linear(x, w_i, b_i), F.linear(state[0], w_h, b_h), state[0]
        if self.kind == "RNN":
            return (torch.tanh(inner + outer),)
        if self.kind == "GRU":
            (ri, zi, ni), (rh, zh, nh) = inner.chunk(3, 1), outer.chunk(3, 1)
            z = torch.sigmoid(zi + zh)
            n = torch.tanh(ni + torch.sigmoid(ri + rh) * nh)
            return ((1 - z) * n + z * h,)
        i, f, g, o = (inner + outer).chunk(4, 1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def recurrent(name: str, kind: str, states: bool = True, **options) -> Equivalence:
    """A fused recurrent module against its written cells; the first state is an input, or zero."""
    with torch.random.fork_rng(devices=[]):
        sample = Recurrent(kind, True, **options)
    directions = (2 if sample.net.bidirectional else 1) * sample.net.num_layers
    given = [draw(N, directions, 2, seed=seed) for seed in range(5, 7 if kind == "LSTM" else 6)]
    suffixes = sorted({key.split("_", 2)[2] for key, _ in sample.net.named_parameters()})
    kinds = ("weight", "bias") if sample.net.bias else ("weight",)
    pairs = [same(*[f"net.{kind}_{side}_{suffix}" for kind in kinds]) for suffix in suffixes for side in ("ih", "hh")]
    return Equivalence(
        name,
        lambda: Recurrent(kind, False, **options),
        lambda: Recurrent(kind, True, **options),
        (*pairs, layer("head")),
        (draw(N, 3, 2), *(given if states else [])),
        draw_labels(CLASSES, N),
        by_hooks=False,
    )


DEEP = {"num_layers": 2, "bidirectional": True}
PAIRS: list[Equivalence] = [
    attention("attention_packed", "qkv", 4),
    attention("attention_four_linears", "q,k,v", 4),
    attention("attention_four_linears_no_bias", "q,k,v", 4, bias=False),
    attention("attention_sequence_first_packed", "qkv", 3, batch_first=False),
    attention("attention_sequence_first", "q,k,v", 3, batch_first=False),
    attention("attention_cross_packed", "q,kv", 4, 3),
    attention("attention_cross", "q,k,v", 3, 5),
    attention("attention_cross_sequence_first", "q,k,v", 4, 4, batch_first=False),
    attention("attention_three_inputs", "q,k,v", 4, 3, 3),
    attention_kdim("attention_kdim", True),
    attention_kdim("attention_kdim_sequence_first", False),
    recurrent("rnn", "RNN"),
    recurrent("gru", "GRU"),
    recurrent("gru_zero_state", "GRU", states=False),
    recurrent("gru_sequence_first", "GRU", batch_first=False),
    recurrent("gru_no_bias", "GRU", bias=False),
    recurrent("gru_two_layers", "GRU", **DEEP),
    recurrent("lstm", "LSTM"),
    recurrent("lstm_zero_state", "LSTM", states=False),
    recurrent("lstm_two_layers", "LSTM", **DEEP),
]
