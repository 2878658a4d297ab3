"""Bayesian linear regression with many outputs, by dense algebra of the textbook; nothing of the package in it.

The flat weights are those of `nn.Linear`: W by rows, then the bias. Stacked over examples and outputs,

    y = A θ + e,   e ~ N(0, I ⊗ Σ),   θ ~ N(θ₀, diag(δ)⁻¹)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers from a private generator, on the CPU."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")


def design(x: Tensor, outputs: int, bias: bool = True) -> Tensor:
    """(N, C, P): the Jacobian of `nn.Linear`, written down."""
    n, inputs = x.shape
    rows = x.new_zeros(n, outputs, outputs * inputs + (outputs if bias else 0))
    for k in range(outputs):
        rows[:, k, k * inputs : (k + 1) * inputs] = x
        if bias:
            rows[:, k, outputs * inputs + k] = 1
    return rows


@dataclass(frozen=True)
class Regression:
    """A (N, C, P), y (N, C), Σ (C, C), δ and θ₀ (P,)."""

    A: Tensor
    y: Tensor
    noise: Tensor
    delta: Tensor
    center: Tensor

    @property
    def fisher(self) -> Tensor:
        """Σ_n AₙᵀΣ⁻¹Aₙ."""
        return torch.einsum("ncp,cd,ndq->pq", self.A, torch.linalg.inv(self.noise), self.A)

    @property
    def precision(self) -> Tensor:
        return self.fisher + torch.diag(self.delta)

    @property
    def mean(self) -> Tensor:
        pull = torch.einsum("ncp,cd,nd->p", self.A, torch.linalg.inv(self.noise), self.y)
        return torch.linalg.solve(self.precision, pull + self.delta * self.center)

    def evidence(self) -> Tensor:
        """log N(y; Aθ₀, A diag(δ)⁻¹ Aᵀ + I ⊗ Σ): the weights integrated out, no posterior involved."""
        A = self.A.flatten(0, 1)
        spread = torch.kron(torch.eye(len(self.y), dtype=A.dtype, device=A.device), self.noise.contiguous())
        covariance = (A / self.delta) @ A.T + spread
        return MultivariateNormal(A @ self.center, covariance).log_prob(self.y.flatten())


def as_matrix(noise: float | Tensor, outputs: int) -> Tensor:
    """A number, variances (C,) or a covariance, as a covariance."""
    noise = torch.as_tensor(noise, dtype=torch.float64)
    return noise if noise.ndim == 2 else torch.diag(noise.expand(outputs))


def linear(theta: Tensor, inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """The layer with these flat weights."""
    model = nn.Linear(inputs, outputs, bias=bias).to(theta)
    with torch.no_grad():
        model.weight.copy_(theta[: inputs * outputs].view(outputs, inputs))
        if bias:
            model.bias.copy_(theta[inputs * outputs :])
    return model
