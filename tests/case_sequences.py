"""Zoo: attention, transformers and recurrent networks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from case_record import Case, case, labels, labels_with_gaps, reals


class Attention(nn.Module):
    """nn.MultiheadAttention, batch first or sequence first inside, on one or two sequences."""

    def __init__(self, batch_first: bool = True, causal: bool = False, padded: bool = False, **options) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(4, 2, batch_first=batch_first, **options)
        self.head, self.first, self.causal, self.padded = nn.Linear(4, 3), batch_first, causal, padded

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        sequences = [x, *others] + [others[-1] if others else x] * (2 - len(others))
        if not self.first:
            sequences = [sequence.transpose(0, 1) for sequence in sequences]
        t = x.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1) if self.causal else None
        hidden = torch.arange(t, device=x.device).expand(x.shape[:2]) == t - 1 if self.padded else None
        out = self.attend(*sequences, key_padding_mask=hidden, attn_mask=mask, need_weights=False)[0]
        return self.head(torch.tanh(out).mean(1 if self.first else 0))


class DotProduct(nn.Module):
    """scaled_dot_product_attention on one packed projection."""

    def __init__(self, mask: str = "none") -> None:
        super().__init__()
        self.packed, self.head, self.mask = nn.Linear(4, 12), nn.Linear(4, 3), mask

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.packed(x).unflatten(-1, (3, 2, 2)).permute(2, 0, 3, 1, 4)
        band = None
        if self.mask == "float":
            place = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
            band = -((place[:, None] - place) ** 2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=band, is_causal=self.mask == "causal")
        return self.head(torch.tanh(out.transpose(1, 2).flatten(2)).mean(1))


class HandWritten(nn.Module):
    """Softmax attention in plain operations, one head, without biases on the projections."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(3, 4, bias=False) for _ in range(3))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        weights = (self.q(x) @ self.k(x).mT / 2).softmax(-1)
        return self.head((weights @ self.v(x)).mean(1))


class Block(nn.Module):
    """A causal transformer block (pre-norm) of width 4."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(4), nn.LayerNorm(4)
        self.packed, self.proj = nn.Linear(4, 12), nn.Linear(4, 4)
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.packed(self.norm1(x)).unflatten(-1, (3, 2, 2)).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(heads.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Token and position tables, one block, a head that may be the token table."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(6, 4), nn.Embedding(3, 4)
        self.block, self.norm = Block(), nn.LayerNorm(4)
        self.head = nn.Linear(4, 6, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.block(x)))


class ViT(nn.Module):
    """Patches, a class token, a table of positions, self-attention, a head on the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(1, 4, 2, 2)
        self.token, self.table = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(torch.zeros(1, 5, 4))
        self.norm, self.attend = nn.LayerNorm(4), nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.table
        y = self.norm(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        return self.head(x[:, 0])


class Encoder(nn.Module):
    """nn.TransformerEncoderLayer (fast path allowed) and a mean."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 5, batch_first=True, **options)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))


class Recurrent(nn.Module):
    """A recurrent net, read as a mean over the steps or at every step."""

    def __init__(self, kind: str, every: bool = False, batch_first: bool = True, **options) -> None:
        super().__init__()
        self.net = getattr(nn, kind)(2, 2, batch_first=batch_first, **options)
        width = options.get("proj_size", 2) * (2 if options.get("bidirectional") else 1)
        self.head, self.every, self.first = nn.Linear(width, 3), every, batch_first

    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x if self.first else x.transpose(0, 1))[0]
        out = out if self.first else out.transpose(0, 1)
        return self.head(out if self.every else out.mean(1))


class Cell(nn.Module):
    """nn.LSTMCell or nn.GRUCell in a Python loop."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell, self.head = getattr(nn, kind)(2, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


CLASS = labels(3)
SEQUENCE = reals(4, 4)
TWO_LAYERS = {"num_layers": 2, "bidirectional": True}
INSIDE = {"layout": "TN"}


def _attention(name: str, size: int = 4, others: tuple = (), **options) -> Case:
    return case(name, lambda: Attention(**options), SEQUENCE, *others, target=CLASS, size=size, covered=INSIDE)


def _recurrent(name: str, kind: str, size: int = 4, **options) -> Case:
    return case(name, lambda: Recurrent(kind, **options), reals(3, 2), target=CLASS, size=size, covered=INSIDE)


SEQUENCES: list[Case] = [
    _attention("attention"),
    _attention("attention_sequence_first", 5, batch_first=False),
    _attention("attention_no_bias", 3, bias=False),
    _attention("attention_causal", 3, causal=True),
    _attention("attention_key_padding", 4, padded=True),
    _attention("attention_cross", 5, (reals(3, 4),)),
    _attention("attention_three_inputs", 3, (reals(3, 4), reals(3, 4)), batch_first=False),
    _attention("attention_kdim", 4, (reals(3, 3), reals(3, 5)), kdim=3, vdim=5),
    _attention("attention_bias_kv", 3, add_bias_kv=True, add_zero_attn=True),
    case("attention_by_hand", HandWritten, reals(4, 3), target=CLASS, size=4),
    case("dot_product", DotProduct, SEQUENCE, target=CLASS, size=3),
    case("dot_product_causal", lambda: DotProduct("causal"), SEQUENCE, target=CLASS, size=4),
    case("dot_product_masked", lambda: DotProduct("float"), SEQUENCE, target=CLASS, size=5),
    case("gpt", GPT, labels(6, 3), target=labels(6, 3), terms="tokens", size=4),
    case("gpt_tied", lambda: GPT(True), labels(6, 3), target=labels_with_gaps(6, 3), terms="tokens", size=3,
         covered={"tied": {"head.weight": "tokens.weight"}}),
    case("vit", ViT, reals(1, 4, 4), target=CLASS, size=4, covered=INSIDE),
    case("encoder", Encoder, reals(3, 4), target=CLASS, size=3, covered=INSIDE),
    case("encoder_norm_first", lambda: Encoder(norm_first=True, activation="gelu"), reals(3, 4), target=CLASS,
         size=4, covered=INSIDE),
    _recurrent("rnn", "RNN", 5, **TWO_LAYERS),
    _recurrent("gru", "GRU", 4, **TWO_LAYERS),
    _recurrent("lstm", "LSTM", 3, **TWO_LAYERS),
    _recurrent("gru_sequence_first", "GRU", 5, batch_first=False),
    _recurrent("lstm_projected", "LSTM", 4, proj_size=1),
    case("lstm_tokens", lambda: Recurrent("LSTM", every=True), reals(2, 2), target=labels(3, 2),
         terms="tokens", size=3, covered=INSIDE),
    case("lstm_cell", lambda: Cell("LSTMCell"), reals(3, 2), target=CLASS, size=4),
    case("gru_cell", lambda: Cell("GRUCell"), reals(3, 2), target=CLASS, size=4),
]  # fmt: skip
