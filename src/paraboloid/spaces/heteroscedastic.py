"""Real numbers with a noise that the network predicts, in natural parameters.

In the natural parameters η1 = μ/σ², η2 = -1/(2σ²) the Hessian does not depend on the target and is the
Fisher, so Gauss-Newton is exact and semi-definite; with outputs (μ, log σ) it would be neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributions

from paraboloid.spaces.gaussian import HALF_LOG_2PI
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.probit import variances
from paraboloid.spaces.randomness import as_generator
from paraboloid.spaces.rows import require_rows


class HeteroscedasticGaussian(Likelihood):
    """p(y|η) = Π_d N(y_d; μ_d, σ_d²), equations (L.22) to (L.26).

    For D numbers per target the C = 2D outputs are (η1 of all, η2 of all): `eta1, eta2 = h.chunk(2, -1)`.
    The network has to keep η2 negative, for instance as -softplus(a) - 1e-6 on those outputs.

    >>> h = torch.tensor([[2.0, -0.5]])  # μ = 2, σ² = 1
    >>> HeteroscedasticGaussian().gradient(h, torch.tensor([[1.0]])).tolist()  # (μ - y, μ² + σ² - y²)
    [[1.0, 4.0]]
    """

    name = "heteroscedastic"

    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """Σ_d ½ log 2π - ½ log(-2η2) - (η1 + 2η2 y)²/(4η2) (L.22)."""
        eta1, eta2 = _split(h)
        z = eta1 + 2 * eta2 * y.to(h.dtype)
        return (HALF_LOG_2PI - 0.5 * (-2 * eta2).log() - z.square() / (4 * eta2)).sum(-1)

    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """(μ - y, (μ - y)(μ + y) + σ²) (L.23)."""
        mu, variance = moments(h)
        y = y.to(h.dtype)
        return torch.cat([mu - y, (mu - y) * (mu + y) + variance], dim=-1)

    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """Covariance of (y, y²): [[σ², 2μσ²], [2μσ², 4μ²σ² + 2σ⁴]] for each d (L.24)."""
        mu, variance = moments(h)
        cross = torch.diag_embed(2 * mu * variance)
        top = torch.cat([torch.diag_embed(variance), cross], dim=-1)
        corner = torch.diag_embed(4 * mu.square() * variance + 2 * variance.square())
        return torch.cat([top, torch.cat([cross, corner], dim=-1)], dim=-2)

    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """The same as `hessian`: these are natural parameters."""
        return self.hessian(h)

    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """The 2×2 blocks of (L.24) times the pairs of v."""
        mu, variance = moments(h)
        v1, v2 = v.chunk(2, dim=-1)
        first = variance * (v1 + 2 * mu * v2)
        return torch.cat([first, 2 * mu * first + 2 * variance.square() * v2], dim=-1)

    def rank(self, C: int) -> int:
        """C = 2D."""
        return C

    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """Cholesky factor [[σ, 0], [2μσ, √2 σ²]] for each d (L.25)."""
        mu, variance = moments(h)
        D, sigma = mu.shape[-1], variance.sqrt()

        def column(k: int) -> Tensor:
            only, d = torch.zeros_like(h), k % D
            if k < D:
                only[:, d] = sigma[:, d]
                only[:, D + d] = 2 * mu[:, d] * sigma[:, d]
            else:
                only[:, D + d] = math.sqrt(2) * variance[:, d]
            return only

        return column

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """μ + σ ξ (samples, n, D)."""
        mu, variance = moments(h)
        generator = as_generator(generator, h.device)
        xi = torch.randn(samples, *mu.shape, generator=generator, dtype=h.dtype, device=h.device)
        return mu + variance.sqrt() * xi

    def predictive(self, mean: Tensor, covariance: Tensor) -> distributions.Distribution:
        """Normal at the mean's μ and σ², with the spread of μ added to first order (L.26)."""
        mu, variance = moments(mean)
        noise_variances = variances(mean, covariance)
        if covariance.shape == mean.shape:
            spread1, spread2 = noise_variances.chunk(2, dim=-1)
            total = variance + variance.square() * (spread1 + (2 * mu).square() * spread2)
            return distributions.Independent(distributions.Normal(mu, total.sqrt()), 1)
        J = torch.cat([torch.diag_embed(variance), torch.diag_embed(2 * mu * variance)], dim=-1)
        return distributions.MultivariateNormal(mu, J @ covariance @ J.mT + torch.diag_embed(variance))

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (..., 2D) with targets (..., D), or (...) when D = 1."""
        if targets.shape == out.shape[:-1] and out.shape[-1:] == (2,):
            targets = targets.unsqueeze(-1)
        if out.ndim < 2 or targets.shape[:-1] != out.shape[:-1] or 2 * targets.shape[-1] != out.shape[-1]:
            raise ValueError(
                "heteroscedastic outputs should be (..., 2D) for targets (..., D): the D η1 first, then "
                "the D η2; "
                f"found outputs {tuple(out.shape)} and targets {tuple(targets.shape)}."
            )
        return out, targets

    def check(self, h: Tensor, y: Tensor) -> None:
        """Finite targets (n, D), and η2 < 0 everywhere."""
        require_rows(h, y, h.shape[-1] // 2, self.name)
        _split(h)
        eta2 = h.chunk(2, dim=-1)[1]
        bad = ~(eta2 < 0)
        if bool(bad.any()):
            raise ValueError(
                "the second half of the outputs, η2 = -1/(2σ²), should be negative; found "
                f"{eta2[bad][0].item():g} "
                f"({int(bad.sum())} of {eta2.numel()}). End the network with a map such as -softplus(a) - "
                "1e-6 there."
            )

    def config(self) -> dict[str, Any]:
        """The name alone."""
        return {"name": self.name}


def moments(h: Tensor) -> tuple[Tensor, Tensor]:
    """μ = -η1/(2η2) and σ² = -1/(2η2), each (n, D).

    >>> [m.item() for m in moments(torch.tensor([[1.0, -0.25]]))]
    [2.0, 2.0]
    """
    eta1, eta2 = _split(h)
    variance = -0.5 / eta2
    return eta1 * variance, variance


def _split(h: Tensor) -> tuple[Tensor, Tensor]:
    if h.shape[-1] % 2:
        raise ValueError(f"heteroscedastic outputs come in pairs, C = 2D; found C = {h.shape[-1]}.")
    eta1, eta2 = h.chunk(2, dim=-1)
    return eta1, eta2
