"""What a Gaussian over outputs does to a sigmoid: the probit approximation, and reading off variances."""

from __future__ import annotations

import torch
from torch import Tensor


def variances(mean: Tensor, covariance: Tensor) -> Tensor:
    """Variances (n, C) from a covariance (n, C, C), or from variances themselves (n, C); clamped at 0.

    >>> variances(torch.zeros(1, 2), torch.eye(2)[None]).tolist()
    [[1.0, 1.0]]
    """
    C = mean.shape[-1]
    if covariance.shape == (*mean.shape, C):
        return covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0)
    if covariance.shape == mean.shape:
        return covariance.clamp(min=0)
    raise ValueError(
        f"`covariance` should be {(*mean.shape, C)}, or {tuple(mean.shape)} for variances alone; found "
        f"{tuple(covariance.shape)}."
    )


def probit_scaled(mean: Tensor, covariance: Tensor) -> Tensor:
    """mean / √(1 + π/8 var), so that sigmoid of it is about E[sigmoid(h)] (L.10).

    >>> probit_scaled(torch.ones(1, 1), torch.zeros(1, 1)).item()
    1.0
    """
    return mean / (1 + torch.pi / 8 * variances(mean, covariance)).sqrt()
