"""What the evidence needs of the data besides the curvature: the loss at the mean and its gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from paraboloid.spaces.batches import Batches
from paraboloid.spaces.functional import call, kernels
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.params import Params
from paraboloid.spaces.terms import terms


@dataclass(frozen=True)
class Totals:
    """Sums over the data at the mean: loss Σ w ℓ, its gradient (P,), and weights Σ w."""

    loss: Tensor  # float64 scalar
    gradient: Tensor
    count: float
    outputs: int  # numbers in one term
    class_axis: int  # of the outputs, as the likelihood reads them

    def standing_for(self, count: float) -> Totals:
        """The same averages over another number of terms."""
        factor = count / self.count
        return replace(self, loss=self.loss * factor, gradient=self.gradient * factor, count=count)

    def loss_at(self, noise: Tensor, before: float) -> Tensor:
        """The loss with a Gaussian noise variance instead of the one before: SSE/2s² + NC/2 log 2πs² (P.7)."""
        numbers = self.count * self.outputs
        half_errors = before * (self.loss - 0.5 * numbers * math.log(2 * math.pi * before))
        return half_errors / noise + 0.5 * numbers * (2 * math.pi * noise).log()


def totals(model: nn.Module, params: Params, likelihood: Likelihood, batches: Batches) -> Totals:
    """One forward and one backward over the data."""
    tensors = {name: tensor.detach().requires_grad_() for name, tensor in params.tensors(model).items()}
    leaves = list(tensors.values())
    loss = torch.zeros((), dtype=torch.float64, device=leaves[0].device)
    dtype = torch.float64 if any(leaf.dtype == torch.float64 for leaf in leaves) else torch.float32
    gradient = torch.zeros(params.numel, dtype=dtype, device=leaves[0].device)
    count, outputs, axis = 0.0, 1, 1
    for batch in batches.replayed():
        with torch.inference_mode(False), torch.enable_grad(), kernels(model):
            out = batches.output(call(model, tensors, batch.args, batch.kwargs))
            rows = terms(out, batch.targets, likelihood, batch.weights)
            each = likelihood.nll(rows.outputs, rows.targets)
            total = (each if rows.weights is None else each * rows.weights).sum()
            found = torch.autograd.grad(total, leaves, allow_unused=True)
        loss += total.detach().double()
        gradient += params.flatten(
            [torch.zeros_like(t) if g is None else g for g, t in zip(found, leaves, strict=True)]
        )
        count += rows.count
        outputs, axis = rows.outputs.shape[-1], class_axis(out, batch.targets, likelihood)
    return Totals(loss, gradient, count, outputs, axis)


def class_axis(out: Tensor, targets: Tensor, likelihood: Likelihood) -> int:
    """On which axis of the outputs the numbers of one term lie: where the likelihood's own arrangement takes them."""
    if out.ndim < 2:
        return 0
    numbered = torch.arange(out.numel(), device=out.device, dtype=torch.float64).view(out.shape)
    rows = likelihood.arrange(numbered, targets.to(out.device))[0]
    if rows.shape[-1] == 1:
        return out.ndim - 1 if out.shape[-1] == 1 else 1
    stride = int(rows.reshape(-1, rows.shape[-1])[0, 1] - rows.reshape(-1, rows.shape[-1])[0, 0])
    strides = [numbered.stride(axis) for axis in range(out.ndim)]
    return max(axis for axis in range(out.ndim) if strides[axis] == stride and out.shape[axis] == rows.shape[-1])
