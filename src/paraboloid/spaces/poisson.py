"""Counts: Poisson with the logarithm of the rate as output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributions

from paraboloid.spaces.bernoulli import one_entry
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.probit import variances
from paraboloid.spaces.randomness import as_generator
from paraboloid.spaces.rows import dense_rows, require_rows


class Poisson(Likelihood):
    """p(y|h) = Π_c Poisson(y_c; e^h_c), equations (L.18) to (L.20).

    >>> Poisson().gradient(torch.zeros(1, 1), torch.tensor([[3]])).item()  # 1 - 3
    -2.0
    """

    name = "poisson"

    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """Σ_c e^h_c - y_c h_c + log y_c! (L.18)."""
        y = y.to(h.dtype)
        return (h.exp() - y * h + torch.lgamma(y + 1)).sum(-1)

    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """e^h - y (L.19)."""
        return h.exp() - y.to(h.dtype)

    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """diag e^h (L.20)."""
        return torch.diag_embed(h.exp())

    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """The same as `hessian`: the log rate is the natural parameter."""
        return self.hessian(h)

    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """e^h ∘ v."""
        return h.exp() * v

    def rank(self, C: int) -> int:
        """C."""
        return C

    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """Columns of diag e^(h/2)."""
        return one_entry((0.5 * h).exp())

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """Counts (samples, n, C) in the dtype of h."""
        return torch.poisson(h.exp().expand(samples, *h.shape), generator=as_generator(generator, h.device))

    def predictive(self, mean: Tensor, covariance: Tensor) -> distributions.Independent:
        """Poissons with the exact mean rate e^(m + v/2) of the log-normal mixture (L.21).

        The mean of y is exact; its variance leaves out the spread of the rate itself.
        """
        rate = (mean + 0.5 * variances(mean, covariance)).exp()
        return distributions.Independent(distributions.Poisson(rate), 1)

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Targets shaped like the outputs, the counts of one term last."""
        return dense_rows(out, targets, self.name)

    def check(self, h: Tensor, y: Tensor) -> None:
        """Targets (n, C) that are counts 0, 1, 2, …"""
        require_rows(h, y, h.shape[-1], self.name)
        bad = (y < 0) | (y != y.round() if y.is_floating_point() else torch.zeros_like(y, dtype=torch.bool))
        if bool(bad.any()):
            raise ValueError(
                f"poisson targets should be counts 0, 1, 2, …; found {y[bad][0].item():g} "
                f"({int(bad.sum())} of "
                f'{y.numel()} are not). For real numbers use likelihood="gaussian".'
            )

    def config(self) -> dict[str, Any]:
        """The name alone."""
        return {"name": self.name}
