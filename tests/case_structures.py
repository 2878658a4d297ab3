"""Zoo: parameters used in unusual ways (shared, free, sliced, merged, parametrised, frozen, permuted)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from case_record import Case, case, headed, labels, reals


class Reused(nn.Module):
    """One Linear called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(self.step(x))
        return self.head(x)


class Siamese(nn.Module):
    """One convolution on two inputs of different sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(2, 3, 3, padding=1), nn.Linear(6, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.head(torch.cat([torch.tanh(self.conv(v)).mean(2) for v in (x, y)], 1))


class Free(nn.Module):
    """A learned shift, a learned scale, a temperature in log space."""

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.zeros(5)), nn.Parameter(torch.ones(5))
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.inner, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.scale * self.inner(x) + self.shift)
        return self.head(x) * self.log_temperature.exp()


class LoRA(nn.Module):
    """A frozen Linear with a trainable low-rank update, beside it or merged into its weight."""

    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.base, self.head, self.merged = nn.Linear(4, 5), nn.Linear(5, 3), merged
        self.base.requires_grad_(False)
        self.A, self.B = nn.Parameter(torch.zeros(2, 4)), nn.Parameter(torch.zeros(5, 2))

    def forward(self, x: Tensor) -> Tensor:
        if self.merged:
            y = F.linear(x, self.base.weight + 0.5 * self.B @ self.A, self.base.bias)
        else:
            y = self.base(x) + 0.5 * x @ self.A.T @ self.B.T
        return self.head(torch.tanh(y))


class EinsumChannels(nn.Module):
    """A weight (d, c) by einsum "btd,dc->bct"."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.head = nn.Parameter(torch.zeros(4, 3)), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(torch.einsum("btd,dc->bct", x, self.mix)).flatten(1))


class EinsumHeads(nn.Module):
    """One weight matrix per head by einsum "bhd,hde->bhe"."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.head = nn.Parameter(torch.zeros(2, 3, 4)), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(torch.einsum("bhd,hde->bhe", x, self.mix)).flatten(1))


class Sliced(nn.Module):
    """Two row blocks of one weight on two different inputs, with slices of one bias."""

    def __init__(self) -> None:
        super().__init__()
        self.both, self.head = nn.Linear(3, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        weight, bias = self.both.weight, self.both.bias
        parts = [F.linear(x, weight[:2], bias[:2]), F.linear(y, weight[2:], bias[2:])]
        return self.head(torch.tanh(torch.cat(parts, 1)))


class Doubled(nn.Module):
    """Weights that are functions of the stored ones: 2W, Wᵀ, tanh(W)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(5, 4)), nn.Parameter(torch.zeros(5, 4))
        self.third = nn.Parameter(torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(F.linear(x, 2 * self.first))
        x = torch.tanh(F.linear(x, self.second.T))
        return F.linear(x, self.third.tanh())


class TiedAutoencoder(nn.Module):
    """Encoder and decoder share one matrix, transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.shift = nn.Parameter(torch.zeros(3, 4)), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(F.linear(x, self.weight)), self.weight.T, self.shift)


class TwoNames(nn.Module):
    """Two layers that are one parameter under two names, each with its own bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class TiedEmbedding(nn.Module):
    """The token table is the output head, through F.linear."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(5, 3), nn.Linear(3, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.inner(self.table(tokens).mean(1))), self.table.weight)


class Checkpointed(nn.Module):
    """A block whose activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh())
        self.head, self.reentrant = nn.Linear(4, 3), reentrant

    def forward(self, x: Tensor) -> Tensor:
        if self.reentrant:
            x = x.detach().requires_grad_()
        return self.head(checkpoint(self.block, x, use_reentrant=self.reentrant))


class Partly(nn.Module):
    """Frozen parameters (a whole layer and one bias) and parameters that no output uses."""

    def __init__(self, unused: bool) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        if unused:
            self.spare, self.lonely = nn.Linear(3, 2), nn.Parameter(torch.zeros(4))
        else:
            self.first.requires_grad_(False)
            self.second.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Permuted(nn.Module):
    """Examples reversed and rolled inside the net and put back before the output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 5), nn.Conv1d(1, 2, 3), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x.flip(0)))
        x = torch.tanh(self.second(x.roll(1, 0).unsqueeze(1)))
        return self.head(x.flatten(1).roll(-1, 0).flip(0))


class _Scaled(torch.autograd.Function):
    """x sin(w): a function of the user's with a parameter among its inputs, written the older way."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight.sin()

    @staticmethod
    def backward(ctx, *grads):
        (grad,) = grads
        x, weight = ctx.saved_tensors
        return grad * weight.sin(), (grad * x * weight.cos()).sum(0)


class _Affine(torch.autograd.Function):
    """x @ w with vmap and forward mode left to PyTorch, written the newer way."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, *grads):
        (grad,) = grads
        x, weight = ctx.saved_tensors
        return grad @ weight.mT, x.mT @ grad

    @staticmethod
    def jvp(ctx, *tangents):
        x, weight = ctx.saved_tensors
        return tangents[0] @ weight + x @ tangents[1]


class OwnFunction(nn.Module):
    """A layer computed by a user's autograd.Function."""

    def __init__(self, newer: bool) -> None:
        super().__init__()
        self.inner, self.head, self.newer = nn.Linear(4, 5), nn.Linear(5, 3), newer
        self.own = nn.Parameter(torch.zeros(5, 5) if newer else torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        function = _Affine if self.newer else _Scaled
        return self.head(torch.tanh(function.apply(self.inner(x), self.own)))


def normed(wrap, layer: nn.Module, *shape: int) -> nn.Module:
    """A parametrised layer, an activation, a head."""
    return headed(nn.Sequential(wrap(layer), nn.Tanh()), shape)


CLASS = labels(3)
X4 = reals(4)

STRUCTURES: list[Case] = [
    case("reused", Reused, X4, target=CLASS, size=5),
    case("siamese", Siamese, reals(2, 5), reals(2, 4), target=CLASS, size=4),
    case("free_parameters", Free, X4, target=CLASS, size=5),
    case("lora", lambda: LoRA(False), X4, target=CLASS, size=5,
         covered={"frozen": ("base.weight", "base.bias")}),
    case("lora_merged", lambda: LoRA(True), X4, target=CLASS, size=4,
         covered={"frozen": ("base.weight", "base.bias")}),
    case("einsum_channels", EinsumChannels, reals(2, 4), target=CLASS, size=5),
    case("einsum_heads", EinsumHeads, reals(2, 3), target=CLASS, size=4),
    case("sliced_weight", Sliced, reals(3), reals(3), target=CLASS, size=4),
    case("weight_functions", Doubled, X4, target=CLASS, size=6),
    case("tied_autoencoder", TiedAutoencoder, X4, target=reals(4), likelihood="mse", size=5),
    case("two_names", TwoNames, X4, target=CLASS, size=4,
         covered={"tied": {"second.weight": "first.weight"}}),
    case("tied_embedding", TiedEmbedding, labels(5, 3), target=labels(5), size=4),
    case("weight_norm", lambda: normed(parametrizations.weight_norm, nn.Linear(4, 5), 4), X4, target=CLASS,
         covered={"fused_weight_norm": True}),
    case("weight_norm_convolution", lambda: normed(parametrizations.weight_norm, nn.Conv1d(2, 3, 3), 2, 5),
         reals(2, 5), target=CLASS, size=3, covered={"fused_weight_norm": True}),
    case("spectral_norm", lambda: normed(parametrizations.spectral_norm, nn.Linear(4, 5), 4), X4,
         target=CLASS, size=5),
    case("checkpointed", lambda: Checkpointed(False), X4, target=CLASS, size=4),
    case("frozen", lambda: Partly(False), X4, target=CLASS, size=5,
         covered={"frozen": ("first.weight", "first.bias", "second.bias")}),
    case("unused", lambda: Partly(True), X4, target=CLASS, size=4,
         covered={"unused": ("lonely", "spare.weight", "spare.bias")}),
    case("permuted_examples", Permuted, X4, target=CLASS, size=5, covered={"layout": "permuted"}),
    case("user_function", lambda: OwnFunction(True), X4, target=CLASS, size=4),
    case("user_function_older", lambda: OwnFunction(False), X4, target=CLASS, size=5,
         covered={"functorch": False}),
]  # fmt: skip
