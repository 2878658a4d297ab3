"""Real numbers with a Gaussian predictive: scores, calibration and sharpness.

All take mean, variance and targets (..., n), the predictive being N(mean_i, variance_i), and average over the n
examples; outputs (n, d) with several numbers per example are flattened by the caller. z = (y - mean)/√variance
throughout; equations (M.18) to (M.22).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_numbers, require_count, require_like, require_share
from paraboloid.metrics.ties import ordered_with_ties


def gaussian_nll(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """mean of ½ log(2π variance) + ½ z², constants included (M.18).

    >>> round(float(gaussian_nll(torch.zeros(1), torch.ones(1), torch.zeros(1))), 6)
    0.918939
    """
    m, v, y = _checked(mean, variance, targets)
    return (0.5 * (2 * math.pi * v).log() + 0.5 * (y - m).square() / v).mean(-1)


def gaussian_crps(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """The mean continuous ranked probability score, in the units of the targets (M.19).

    >>> round(float(gaussian_crps(torch.zeros(1), torch.ones(1), torch.zeros(1))), 6)
    0.233695
    """
    m, v, y = _checked(mean, variance, targets)
    sigma = v.sqrt()
    z = (y - m) / sigma
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    # 2Φ(z) - 1 = erf(z/√2), without cancellation at z = 0
    return (sigma * (z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))).mean(-1)


def standardised_residuals(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """z = (y - mean)/√variance of every example, (..., n): standard normal if the predictive is right.

    >>> standardised_residuals(torch.zeros(1), 4 * torch.ones(1), torch.ones(1)).tolist()
    [0.5]
    """
    m, v, y = _checked(mean, variance, targets)
    return (y - m) / v.sqrt()


def pit(mean: Tensor, variance: Tensor, targets: Tensor) -> Tensor:
    """Probability integral transforms Φ(z) of every example, (..., n): uniform if the predictive is right (M.20).

    >>> pit(torch.zeros(1), torch.ones(1), torch.zeros(1)).tolist()
    [0.5]
    """
    return torch.special.ndtr(standardised_residuals(mean, variance, targets))


def quantile_calibration_error(mean: Tensor, variance: Tensor, targets: Tensor, *, levels: int = 99) -> Tensor:
    """The mean over levels p = j/(levels + 1) of |share of PIT values ≤ p, minus p| (M.20).

    0 for a calibrated predictive, about ¼ for one whose variance is far too small or too large, ½ for one that always
    misses on the same side.

    >>> round(float(quantile_calibration_error(torch.zeros(1), torch.ones(1), -9 * torch.ones(1))), 6)
    0.5
    """
    require_count(levels, "levels")
    u = pit(mean, variance, targets)
    p = torch.arange(1, levels + 1, dtype=u.dtype, device=u.device) / (levels + 1)
    observed = torch.searchsorted(u.sort(-1).values, p.expand(*u.shape[:-1], -1).contiguous(), right=True)
    return (observed.double() / u.shape[-1] - p).abs().mean(-1)


def ence(mean: Tensor, variance: Tensor, targets: Tensor, *, bins: int = 10) -> Tensor:
    """Expected normalised calibration error: the mean over bins of |RMV - RMSE|/RMV (M.21).

    Bins hold equally many examples, sorted by variance; equal variances share the mean of their squared errors (M.1).

    >>> float(ence(torch.zeros(2), torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]), bins=2))
    0.5
    """
    m, v, y = _checked(mean, variance, targets)
    n = v.shape[-1]
    require_count(bins, "bins", n)
    v, squares = ordered_with_ties(v, (y - m).square())
    place = (torch.arange(n, device=v.device) * bins // n).expand_as(v)
    empty = v.new_zeros(*v.shape[:-1], bins)
    # counts cancel in the ratio of the two means
    ratio = empty.scatter_add(-1, place, squares) / empty.scatter_add(-1, place, v)
    return (1 - ratio.sqrt()).abs().mean(-1)


def interval_coverage(mean: Tensor, variance: Tensor, targets: Tensor, *, level: float = 0.95) -> Tensor:
    """The share of targets inside the central intervals mean ± Φ⁻¹((1 + level)/2)·√variance, bounds included (M.22).

    >>> float(interval_coverage(torch.zeros(2), torch.ones(2), torch.tensor([1.9, 2.0])))
    0.5
    """
    require_share(level, "level")
    z = standardised_residuals(mean, variance, targets)
    reach = math.sqrt(2) * torch.erfinv(torch.tensor(level, dtype=z.dtype, device=z.device))
    return (z.abs() <= reach).double().mean(-1)


def sharpness(variance: Tensor) -> Tensor:
    """√(mean variance), in the units of the targets (M.22); small is sharp, whether right or wrong.

    >>> float(sharpness(torch.tensor([1.0, 7.0])))
    2.0
    """
    v = checked_numbers(variance, "variance")
    _require_positive(v)
    return v.mean(-1).sqrt()


def rmse(mean: Tensor, targets: Tensor) -> Tensor:
    """√ mean (y - mean)².

    >>> float(rmse(torch.zeros(2), torch.tensor([1.0, -1.0])))
    1.0
    """
    m, y = checked_numbers(mean, "mean"), checked_numbers(targets, "targets")
    require_like(m, "mean", y, "targets")
    return (y - m).square().mean(-1).sqrt()


def _checked(mean: Tensor, variance: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = checked_numbers(targets, "targets")
    m, v = checked_numbers(mean, "mean"), checked_numbers(variance, "variance")
    require_like(m, "mean", y, "targets")
    require_like(v, "variance", y, "targets")
    _require_positive(v)
    return m, v, y


def _require_positive(v: Tensor) -> None:
    if bool((v <= 0).any()):
        raise ValueError(
            f"`variance` should be positive, found {int((v <= 0).sum())} of {v.numel()} at or below 0, the smallest "
            f"{float(v.min()):.4g}. Add the noise variance, or take exp() of a log-variance."
        )
