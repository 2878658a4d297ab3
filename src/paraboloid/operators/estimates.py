"""Estimates from random products, each with an honest standard error.

Probes are Rademacher vectors z (signs ±1), E zzᵀ = I; the standard error is that of the mean over probes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from paraboloid.operators.lanczos import quadrature, tridiagonalise
from paraboloid.spaces.randomness import as_generator, rademacher

CHUNK = 32  # probes that are multiplied at once


class Estimate(NamedTuple):
    """A random estimate and its standard error, both of the same shape, float64.

    >>> e = Estimate(torch.tensor(3.0), torch.tensor(0.5))
    >>> float(e.value), float(e.standard_error)
    (3.0, 0.5)
    """

    value: Tensor
    standard_error: Tensor


def estimate_trace(A: Any, samples: int = 100, generator: torch.Generator | None = None) -> Estimate:
    """tr A = E zᵀAz (O.20).

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> float(estimate_trace(Diagonal(torch.ones(3)), 2).value)
    3.0
    """
    return _mean([(Z * (A @ Z)).double().sum(0) for Z in _probes(A, samples, generator)])


def estimate_diagonal(A: Any, samples: int = 100, generator: torch.Generator | None = None) -> Estimate:
    """diag A = E z ∘ Az, entry by entry (O.21).

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> estimate_diagonal(Diagonal(torch.tensor([1.0, 2.0])), 2).value.tolist()
    [1.0, 2.0]
    """
    count, mean, squares = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    mean, squares = mean.to(A.device), squares.to(A.device)
    for Z in _probes(A, samples, generator):  # running moments: (P, samples) is never held
        draws = (Z * (A @ Z)).double()
        K = draws.shape[1]
        centre = draws.mean(1)
        squares = squares + (draws - centre[:, None]).square().sum(1)
        squares = squares + (centre - mean).square() * (count * K / (count + K))
        mean = mean + (centre - mean) * (K / (count + K))
        count += K
    return Estimate(mean, (squares / (count - 1) / count).sqrt())


def estimate_frobenius(A: Any, samples: int = 100, generator: torch.Generator | None = None) -> Estimate:
    """‖A‖_F = √E‖Az‖²; the error of the root is that of the square over 2‖A‖_F (O.22).

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> float(estimate_frobenius(Diagonal(torch.tensor([3.0, 4.0])), 2).value)
    5.0
    """
    square = _mean([(A @ Z).double().square().sum(0) for Z in _probes(A, samples, generator)])
    value = square.value.sqrt()
    return Estimate(value, square.standard_error / (2 * value).clamp_min(torch.finfo(torch.float64).tiny))


def estimate_logdet(A: Any, samples: int = 100, generator: torch.Generator | None = None, steps: int = 50) -> Estimate:
    """log det A = E zᵀ log(A) z, every form by a Gauss rule of `steps` Lanczos steps (O.23).

    The rule with half of the steps is evaluated too; how far it is away joins the standard error,
    so that too few steps show.

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> round(float(estimate_logdet(Diagonal(torch.tensor([1.0, 2.0, 4.0])), 2).value), 5)
    2.07944
    """
    if steps < 2:
        raise ValueError(f"`steps` should be at least 2, or nothing shows whether they are enough; found {steps}.")
    fine, coarse = [], []
    for Z in _probes(A, samples, generator):
        alpha, beta = tridiagonalise(A.__matmul__, Z, steps)
        alpha, beta = alpha.double(), beta.double()
        m = alpha.shape[1]
        fewer = max(1, m // 2)
        fine.append(A.size * _log_form(alpha, beta))
        coarse.append(A.size * _log_form(alpha[:, :fewer], beta[:, : fewer - 1]) if m < A.size else fine[-1])
    estimate = _mean(fine)
    unfinished = (torch.cat(fine).mean() - torch.cat(coarse).mean()).abs()
    return Estimate(estimate.value, (estimate.standard_error.square() + unfinished.square()).sqrt())


def _log_form(alpha: Tensor, beta: Tensor) -> Tensor:
    """e₁ᵀ log(T) e₁ for every tridiagonal T."""
    nodes, weights = quadrature(alpha, beta)
    used = weights > torch.finfo(torch.float64).eps ** 2
    if bool((used & (nodes <= 0)).any()):
        raise ValueError(
            f"the log-determinant needs a positive definite operator, found the Ritz value "
            f"{float(nodes.min()):.3g}. Add damping, for example `A + 1e-3`."
        )
    return (weights * torch.where(used, nodes, torch.ones_like(nodes)).log()).sum(1)


def _probes(A: Any, samples: int, generator: torch.Generator | None) -> Iterator[Tensor]:
    """Blocks of at most `CHUNK` probes, one at a time: (P, samples) is never held."""
    if samples < 2:
        raise ValueError(f"`samples` should be at least 2, or no standard error exists; found {samples}.")
    generator = as_generator(generator, A.device)
    widths = [min(CHUNK, samples - done) for done in range(0, samples, CHUNK)]
    return (rademacher((A.size, K), generator, dtype=A.dtype, device=A.device) for K in widths)


def _mean(draws: list[Tensor]) -> Estimate:
    values = torch.cat(draws)
    return Estimate(values.mean(), values.std() / len(values) ** 0.5)
