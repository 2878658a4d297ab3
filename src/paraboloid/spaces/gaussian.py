"""Real numbers: Gaussian noise of known covariance around the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributions

from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.probit import variances
from paraboloid.spaces.randomness import as_generator
from paraboloid.spaces.rows import dense_rows, require_rows

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class GaussianLikelihood(Likelihood):
    """p(y|h) = N(y; h, Σ), equations (L.14) to (L.17).

    `noise` is a *variance*: a number s² (Σ = s² I), one per output (C,), a covariance (C, C), or "mse", which
    is s² = C/2: then ℓ is `F.mse_loss` of the term up to a constant.

    >>> GaussianLikelihood(0.5).hessian(torch.zeros(1, 2)).diagonal(dim1=1, dim2=2).tolist()
    [[2.0, 2.0]]
    """

    def __init__(self, noise: float | Tensor | str = 1.0) -> None:
        if isinstance(noise, str) and noise != "mse":
            raise ValueError(f'`noise` should be a variance (a number or tensor) or "mse", found {noise!r}.')
        self.name = "mse" if isinstance(noise, str) else "gaussian"
        self.noise = (
            None if isinstance(noise, str) else torch.as_tensor(noise, dtype=torch.float64).detach().cpu().clone()
        )
        _require_covariance(self.noise)
        self._made: dict[tuple[int, torch.dtype, torch.device], _Noise] = {}

    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """½‖L⁻¹(h - y)‖² + log det L + ½C log 2π, with Σ = LLᵀ (L.14)."""
        noise = self._like(h)
        z = _times(noise.inverse_root, h - y.to(h.dtype))
        return 0.5 * z.square().sum(-1) + (noise.half_logdet + h.shape[-1] * HALF_LOG_2PI)

    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """Σ⁻¹(h - y) (L.15)."""
        return self.multiply(h, h - y.to(h.dtype))

    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """Σ⁻¹ (L.16), the same for every row (an expanded view)."""
        return _square(self._like(h).precision).expand(h.shape[0], -1, -1)

    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """The same as `hessian`: the loss is quadratic in h."""
        return self.hessian(h)

    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """Σ⁻¹ v."""
        return _times(self._like(h).precision, v)

    def rank(self, C: int) -> int:
        """C."""
        return C

    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """Columns of L⁻ᵀ (L.17)."""
        R = _square(self._like(h).inverse_root).mT
        return lambda k: R[:, k].expand(h.shape[0], -1)

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """h + L ξ (samples, n, C)."""
        generator = as_generator(generator, h.device)
        xi = torch.randn(samples, *h.shape, generator=generator, dtype=h.dtype, device=h.device)
        return h + _times(self._like(h).root, xi)

    def predictive(self, mean: Tensor, covariance: Tensor) -> distributions.Distribution:
        """N(mean, covariance + Σ), exact; independent normals where only variances are given."""
        root = self._like(mean).root
        spread = variances(mean, covariance)
        if covariance.shape != mean.shape:
            full = covariance
        elif root.ndim == 1:
            return distributions.Independent(distributions.Normal(mean, (spread + root.square()).sqrt()), 1)
        else:
            full = torch.diag_embed(spread)
        return distributions.MultivariateNormal(mean, full + _square(root) @ _square(root).mT)

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Targets shaped like the outputs, the numbers of one term last."""
        return dense_rows(out, targets, self.name)

    def check(self, h: Tensor, y: Tensor) -> None:
        """Finite targets (n, C), and noise for C outputs."""
        require_rows(h, y, h.shape[-1], self.name)
        self._like(h)

    def config(self) -> dict[str, Any]:
        """Name, and the noise variance as numbers."""
        return {"name": "mse"} if self.noise is None else {"name": "gaussian", "noise": self.noise.tolist()}

    def _like(self, h: Tensor) -> _Noise:
        """The noise for these outputs, on their device, made once."""
        key = (h.shape[-1], h.dtype, h.device)
        if key not in self._made:
            self._made[key] = _noise(self.noise, *key)
        return self._made[key]


class _Noise(NamedTuple):
    """L, L⁻¹ and Σ⁻¹ of a covariance Σ = LLᵀ: (C,) diagonals or (C, C); and log det L."""

    root: Tensor
    inverse_root: Tensor
    precision: Tensor
    half_logdet: float


def _noise(noise: Tensor | None, C: int, dtype: torch.dtype, device: torch.device) -> _Noise:
    """All of it in float64 first, so that nothing but the last rounding is lost."""
    variance = torch.tensor(C / 2, dtype=torch.float64, device="cpu") if noise is None else noise
    if variance.ndim and variance.shape[-1] != C:
        raise ValueError(
            f"the noise was given for {variance.shape[-1]} outputs, found outputs (n, {C}). Give a number, "
            f"({C},) variances or a ({C}, {C}) covariance."
        )
    if variance.ndim == 2:
        L = torch.linalg.cholesky(variance)
        inverse = torch.linalg.solve_triangular(L, torch.eye(C, dtype=torch.float64, device="cpu"), upper=False)
        parts, half_logdet = (L, inverse, inverse.mT @ inverse), L.diagonal().log().sum().item()
    else:
        variance = variance.expand(C)
        parts = (variance.sqrt(), variance.rsqrt(), variance.reciprocal())
        half_logdet = 0.5 * variance.log().sum().item()
    root, inverse_root, precision = (part.to(device, dtype) for part in parts)
    return _Noise(root, inverse_root, precision, half_logdet)


def _times(matrix: Tensor, v: Tensor) -> Tensor:
    return v @ matrix.mT if matrix.ndim == 2 else v * matrix


def _square(matrix: Tensor) -> Tensor:
    return matrix if matrix.ndim == 2 else torch.diag(matrix)


def _require_covariance(noise: Tensor | None) -> None:
    if noise is None:
        return
    if noise.ndim > 2 or (noise.ndim == 2 and noise.shape[0] != noise.shape[1]):
        raise ValueError(f"`noise` should be a number, (C,) or (C, C), found shape {tuple(noise.shape)}.")
    if noise.ndim < 2:
        if not bool((torch.isfinite(noise) & (noise > 0)).all()):
            raise ValueError(f"`noise` is a variance and should be positive and finite, found {noise.tolist()}.")
        return
    L, failed = torch.linalg.cholesky_ex(noise)
    if int(failed) or not bool(torch.isfinite(L).all()) or not torch.allclose(noise, noise.mT):
        raise ValueError("`noise` should be a symmetric, positive definite covariance; the matrix given is not.")
