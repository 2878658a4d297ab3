"""Yes or no: independent sigmoids, one per label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, distributions

from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.probit import probit_scaled
from paraboloid.spaces.randomness import as_generator
from paraboloid.spaces.rows import dense_rows, require_rows


class Bernoulli(Likelihood):
    """p(y|h) = Π_c σ(h_c)^y_c σ(-h_c)^(1-y_c), equations (L.11), (L.12) and (L.13).

    The last axis is the labels of one term. Targets are 0, 1 or probabilities between, shaped like the
    outputs.

    >>> Bernoulli().hessian(torch.zeros(1, 1)).item()
    0.25
    """

    name = "bernoulli"

    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """Σ_c log(1 + e^h_c) - y_c h_c (L.11)."""
        return F.binary_cross_entropy_with_logits(h, y.to(h.dtype), reduction="none").sum(-1)

    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """σ(h) - y (L.12), as (1 - y) σ(h) - y σ(-h), which does not cancel."""
        y = y.to(h.dtype)
        return (1 - y) * h.sigmoid() - y * (-h).sigmoid()

    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """diag σ(h) σ(-h) (L.13)."""
        return torch.diag_embed(_variance(h))

    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """The same as `hessian`: logits are natural parameters."""
        return self.hessian(h)

    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """σ(h) σ(-h) ∘ v."""
        return _variance(h) * v

    def rank(self, C: int) -> int:
        """C."""
        return C

    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """Columns of the diagonal root."""
        return one_entry(_variance(h).sqrt())

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """Zeros and ones (samples, n, C) in the dtype of h."""
        generator = as_generator(generator, h.device)
        return torch.bernoulli(h.sigmoid().expand(samples, *h.shape), generator=generator)

    def predictive(self, mean: Tensor, covariance: Tensor) -> distributions.Independent:
        """Independent Bernoullis with probit-scaled logits (L.10); `.mean` holds the probabilities."""
        return distributions.Independent(distributions.Bernoulli(logits=probit_scaled(mean, covariance)), 1)

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Targets shaped like the outputs, labels last."""
        return dense_rows(out, targets, self.name)

    def check(self, h: Tensor, y: Tensor) -> None:
        """Targets (n, C) between 0 and 1."""
        require_rows(h, y, h.shape[-1], self.name)
        bad = (y < 0) | (y > 1)
        if bool(bad.any()):
            raise ValueError(
                f"bernoulli targets should be 0, 1 or probabilities between; found {y[bad][0].item():g} "
                f"({int(bad.sum())} of {y.numel()} are outside). Class indices go with "
                'likelihood="categorical", '
                "signs ±1 as (targets + 1) / 2."
            )

    def config(self) -> dict[str, Any]:
        """The name alone."""
        return {"name": self.name}


def one_entry(diagonal: Tensor) -> Callable[[int], Tensor]:
    """k ↦ column k (n, C) of a diagonal matrix with this diagonal (n, C).

    >>> one_entry(torch.tensor([[2.0, 3.0]]))(1).tolist()
    [[0.0, 3.0]]
    """

    def column(k: int) -> Tensor:
        only = torch.zeros_like(diagonal)
        only[..., k] = diagonal[..., k]
        return only

    return column


def _variance(h: Tensor) -> Tensor:
    return h.sigmoid() * (-h).sigmoid()
