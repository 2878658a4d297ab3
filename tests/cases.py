"""The zoo: small float64 networks on which every exact claim is checked, and networks that must be refused.

>>> by_name("mlp").batch(2)[1].shape
torch.Size([2])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from case_convolutions import CONVOLUTIONS
from case_layers import DENSE, NORMS
from case_record import Case, case, labels, reals
from case_sequences import SEQUENCES
from case_structures import STRUCTURES, Checkpointed

ZOO: list[Case] = [*DENSE, *NORMS, *CONVOLUTIONS, *SEQUENCES, *STRUCTURES]


class Mixed(nn.Module):
    """Subtracts the mean over the examples from a hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        return self.second(x - x.mean(0))


class AcrossExamples(nn.Module):
    """Attention over axis 0, the examples (the usual slip with batch_first)."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.head = nn.MultiheadAttention(4, 2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attend(x, x, x, need_weights=False)[0].mean(1))


def dense_with(middle: nn.Module) -> nn.Module:
    """A small network with one more module in its middle."""
    return nn.Sequential(nn.Linear(4, 5), middle, nn.Tanh(), nn.Linear(5, 3))


def compiled(backend: str) -> nn.Module:
    """A network behind torch.compile."""
    torch.compiler.reset()  # after a few compilations of one forward PyTorch gives up and runs it eagerly
    return torch.compile(dense_with(nn.Identity()), backend=backend)  # type: ignore[return-value]


def _refused(name: str, factory, reason: str, *draws, training: bool = False) -> Case:
    draws = draws or (reals(4),)
    return case(name, factory, *draws, target=labels(3), size=5, reason=reason, training=training)


REFUSED: list[Case] = [
    _refused("batch_norm_training", lambda: dense_with(nn.BatchNorm1d(5)), "training mode", training=True),
    _refused("dropout_training", lambda: dense_with(nn.Dropout(0.5)), "training mode", training=True),
    _refused("batch_norm_without_statistics",
             lambda: dense_with(nn.BatchNorm1d(5, track_running_stats=False)), "examples mixed"),
    _refused("mixed_examples", Mixed, "examples mixed"),
    _refused("attention_across_examples", AcrossExamples, "examples mixed", reals(3, 4)),
    _refused("checkpoint_reentrant", lambda: Checkpointed(True), "reentrant checkpoint"),
    _refused("compiled_aot", lambda: compiled("aot_eager"), "compiled"),
]  # fmt: skip

# A compiled model whose graph still shows its operations: it works, or is refused by name; never wrong.
EITHER: list[Case] = [_refused("compiled_eager", lambda: compiled("eager"), "compiled")]


def by_name(name: str) -> Case:
    """The case of that name, from any of the lists."""
    return {each.name: each for each in (*ZOO, *REFUSED, *EITHER)}[name]
