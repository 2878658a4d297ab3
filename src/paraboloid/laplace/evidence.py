"""The Laplace approximation of the log evidence, as a function of the hyper-parameters (P.7).

    log p(D) ≈ −Σℓ(μ) − ½ Σ_g δ_g ‖μ_g − θ₀_g‖² + ½ Σ_g n_g log δ_g − ½ log det P

The factors 2π of prior and posterior cancel. With a Gaussian likelihood of noise s² the losses and the curvature
follow the noise: Σℓ = SSE/2s² + NC/2 log 2πs², F ∝ 1/s².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from paraboloid.laplace.prior import Prior
from paraboloid.laplace.spectral import Piece, logdet
from paraboloid.laplace.totals import Totals
from paraboloid.operators.base import LinearOperator


@dataclass(frozen=True)
class Evidence:
    """Everything that does not depend on the hyper-parameters, computed once."""

    operator: LinearOperator  # the average curvature, diagonalised
    pieces: Sequence[Piece] | None
    totals: Totals
    num_data: float
    squares: Tensor  # ‖μ_g − θ₀_g‖², (G,)
    counts: Tensor  # weights in each group, (G,)
    noise: float | None  # the variance that the curvature was computed with; None where there is none to choose

    def at(self, prior: Prior, noise: Tensor | None = None) -> Tensor:
        """The log evidence, float64, differentiable in `prior.values` and in the noise variance."""
        likelihood = -self.totals.loss
        num_data: Tensor | float = self.num_data
        if noise is not None:
            assert self.noise is not None
            likelihood = -self.totals.loss_at(noise, self.noise)
            num_data = self.num_data * self.noise / noise
        delta = prior.values
        shrinkage = 0.5 * (delta * self.squares).sum()
        volume = 0.5 * (self.counts * delta.log()).sum() - 0.5 * logdet(self.operator, self.pieces, num_data, prior)
        return likelihood - shrinkage + volume
