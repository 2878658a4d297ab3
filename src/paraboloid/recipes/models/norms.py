"""Batch normalisation, also over ghost batches: a large batch is normalised as the small ones it is made of.

The covariance-noise paper trains every large batch with Ghost BatchNorm. Its ghost batches are taken to be runs of
consecutive examples, as many as the small batch has; what is left over at the end is one more, smaller, ghost batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class GhostBatchNorm(_BatchNorm):
    """In training mode what a BatchNorm does that is given one ghost batch after the other; in eval mode a BatchNorm.

    The running statistics follow too: each ghost batch moves them by `momentum`, the last one weighs most. It is
    a subclass because whoever asks whether a network couples its examples looks for that class.

    >>> norm, x = GhostBatchNorm(2, ghost=4), torch.tensor([[0.0, 0.0]] * 4 + [[1.0, 1.0]] * 4)
    >>> bool(norm(x).abs().max() == 0)  # each ghost batch is constant
    True
    """

    momentum: float

    def __init__(self, channels: int, ghost: int) -> None:
        super().__init__(channels)
        if ghost < 2:
            raise ValueError(f"`ghost` should be the size of a ghost batch, at least 2; found {ghost}.")
        self.ghost = ghost

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        whole = len(input) - len(input) % self.ghost
        parts = [part for part in (input[:whole], input[whole:]) if len(part)]
        return torch.cat([self._normalised(part, min(self.ghost, len(part))) for part in parts])

    def _normalised(self, x: Tensor, size: int) -> Tensor:
        """One kernel for all ghost batches of a size: their channels stand side by side."""
        mean, var, batches = self.running_mean, self.running_var, self.num_batches_tracked
        assert mean is not None and var is not None and batches is not None
        count = len(x) // size
        means, variances = mean.new_zeros(count * len(mean)), var.new_zeros(count * len(var))
        stacked = x.unflatten(0, (count, size)).transpose(0, 1).flatten(1, 2)
        weight, bias = self.weight.repeat(count), self.bias.repeat(count)
        # with momentum one the statistics that come back are those of the batch
        out = F.batch_norm(stacked, means, variances, weight, bias, True, 1.0, self.eps)
        self._move(mean, means.view(count, -1))
        self._move(var, variances.view(count, -1))
        batches.add_(count)
        return out.unflatten(1, (count, -1)).transpose(0, 1).flatten(0, 1)

    def _move(self, running: Tensor, seen: Tensor) -> None:
        """G updates r ← (1 − m) r + m s₁ … at once: r ← (1 − m)ᴳ r + Σ m (1 − m)ᴳ⁻ⁱ sᵢ."""
        count, keep = len(seen), 1 - self.momentum
        ages = torch.arange(count - 1, -1, -1, dtype=seen.dtype, device=seen.device)
        # not a matrix product, which autocast would run in bfloat16
        recent = (self.momentum * keep ** ages[:, None] * seen).sum(0)
        running.mul_(keep**count).add_(recent)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"the input should be (B, channels, ...), found shape {tuple(input.shape)}.")

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, ghost={self.ghost}"


def norm_layer(kind: str, channels: int, ghost: int = 0, *, images: bool = True) -> nn.Module:
    """A norm by its name: "batch" (over ghost batches of a size, if one is given) or "none".

    >>> norm_layer("batch", 8, ghost=128).ghost, norm_layer("none", 8)
    (128, Identity())
    """
    if kind == "none" and not ghost:
        return nn.Identity()
    if kind != "batch":
        raise ValueError(f'`norm` should be "batch" or "none" (without ghost batches); found {kind!r}, ghost={ghost}.')
    if ghost:
        return GhostBatchNorm(channels, ghost)
    return nn.BatchNorm2d(channels) if images else nn.BatchNorm1d(channels)
