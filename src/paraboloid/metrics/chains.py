"""Whether chains have mixed: rank-normalised split R-hat, effective sample sizes, Monte Carlo errors.

Samples are (chains, draws) or (chains, draws, *dims), and results have the shape `dims`. Every chain is cut into halves
(an odd one loses its middle draw), so that a drift within a chain shows like a difference between chains. "Bulk" and
R-hat look at normal scores of ranks, which exist for any distribution; equations (M.23) to (M.27). A quantity that
never moves has no R-hat and no effective size: NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_numbers
from paraboloid.metrics.ties import average_ranks


def rhat(samples: Tensor) -> Tensor:
    """The larger of the rank-normalised split R-hats of the draws and of their distances from the median (M.24).

    1 when mixed, without bound when half-chains stand still at different places; above 1.01 take more draws.

    >>> x = torch.randn(4, 500, generator=torch.Generator().manual_seed(0))
    >>> bool(rhat(x) < 1.01), bool(rhat(x + torch.arange(4)[:, None]) > 1.2)
    (True, True)
    """
    x, dims = _columns(samples)
    halves = _split(x)
    ordered = halves.flatten(1).sort(-1).values
    S = ordered.shape[-1]
    median = (ordered[:, (S - 1) // 2] + ordered[:, S // 2]) / 2
    folded = (halves - median[:, None, None]).abs()
    # a folded quantity may stand still where the quantity does not (two values): it then has nothing to say
    worst = torch.fmax(_potential_reduction(_normal_scores(halves)), _potential_reduction(_normal_scores(folded)))
    return torch.where(_moves(x), worst, torch.nan).reshape(dims)


def ess_bulk(samples: Tensor) -> Tensor:
    """Effective sample size of the normal scores of ranks: for the centre of the distribution (M.26).

    >>> bool(ess_bulk(torch.randn(4, 500, generator=torch.Generator().manual_seed(0))) > 1500)
    True
    """
    x, dims = _columns(samples)
    return torch.where(_moves(x), _effective(_normal_scores(_split(x))), torch.nan).reshape(dims)


def ess_tail(samples: Tensor) -> Tensor:
    """The smaller effective sample size of [x ≤ 5 % quantile] and [x ≤ 95 % quantile] (M.26).

    >>> bool(ess_tail(torch.randn(4, 500, generator=torch.Generator().manual_seed(0))) > 1000)
    True
    """
    x, dims = _columns(samples)
    ordered = x.flatten(1).sort(-1).values
    low, high = (_effective(_split((x <= _twentieth(ordered, k)).double())) for k in (1, 19))
    return torch.where(_moves(x), torch.minimum(low, high), torch.nan).reshape(dims)


def ess_mean(samples: Tensor) -> Tensor:
    """Effective sample size of the draws as they are: for their mean (M.26).

    >>> ess_mean(torch.randn(4, 500, 3, generator=torch.Generator().manual_seed(0))).shape
    torch.Size([3])
    """
    x, dims = _columns(samples)
    return torch.where(_moves(x), _effective(_split(x)), torch.nan).reshape(dims)


def mcse_mean(samples: Tensor) -> Tensor:
    """Monte Carlo standard error of the mean, standard deviation of all draws / √ess_mean (M.27).

    >>> x = torch.randn(4, 2500, generator=torch.Generator().manual_seed(0))
    >>> bool(0.008 < mcse_mean(x) < 0.012)
    True
    """
    x, dims = _columns(samples)
    return x.flatten(1).std(-1).reshape(dims) / ess_mean(samples).sqrt()


def _columns(samples: Tensor) -> tuple[Tensor, torch.Size]:
    """(quantities, chains, draws) and the shape of the quantities."""
    x = checked_numbers(samples, "samples")
    if x.ndim < 2 or x.shape[1] < 4:
        raise ValueError(
            f"`samples` should be (chains, draws) or (chains, draws, *dims), with at least 4 draws; found "
            f"{tuple(samples.shape)}. A single chain is samples[None]."
        )
    return x.flatten(2).movedim(-1, 0) if x.ndim > 2 else x[None], x.shape[2:]


def _split(x: Tensor) -> Tensor:
    """First and last halves as chains of their own (M.23)."""
    half = x.shape[-1] // 2
    return torch.cat([x[..., :half], x[..., -half:]], -2)


def _moves(x: Tensor) -> Tensor:
    return x.amax((-2, -1)) > x.amin((-2, -1))


def _normal_scores(x: Tensor) -> Tensor:
    """Φ⁻¹((rank - 3/8)/(S + 1/4)) among all draws (M.23)."""
    ranks = average_ranks(x.flatten(1))
    return torch.special.ndtri((ranks - 0.375) / (ranks.shape[-1] + 0.25)).reshape(x.shape)


def _potential_reduction(x: Tensor) -> Tensor:
    """√((n - 1)/n + variance of chain means / mean variance of chains) (M.24)."""
    n = x.shape[-1]
    return ((n - 1) / n + x.mean(-1).var(-1) / x.var(-1).mean(-1)).sqrt()


def _twentieth(ordered: Tensor, k: int) -> Tensor:
    """The draw at or just below the k/20 quantile (M.26), in whole numbers: no draw falls off its own by rounding."""
    return ordered[:, k * (ordered.shape[-1] - 1) // 20, None, None]


def _autocovariance(x: Tensor) -> Tensor:
    """Autocovariances at lags 0 to n - 1, divided by n, by Fourier transform along the last axis."""
    n = x.shape[-1]
    length = 1 << (2 * n - 1).bit_length()
    transform = torch.fft.rfft(x - x.mean(-1, keepdim=True), n=length)
    return torch.fft.irfft(transform.abs().square(), n=length)[..., :n] / n


def _effective(x: Tensor) -> Tensor:
    """S/τ of chains (quantities, chains, n), with Geyer's initial monotone sequence (M.25)."""
    chains, n = x.shape[-2:]
    S = chains * n
    covariance = _autocovariance(x).mean(-2)
    within = covariance[:, :1] * n / (n - 1)
    pooled = covariance[:, :1] + x.mean(-1).var(-1)[:, None]
    rho = 1 - (within - covariance) / pooled
    rho[:, 0] = 1
    even, odd = rho[:, 0 : n - 1 : 2], rho[:, 1:n:2]
    last = max((n - 3) // 2, 0)
    pairs = (even + odd)[:, : last + 1]
    ended = (pairs <= 0).long().cumsum(-1) > 0
    ended[:, -1] = True  # the end of the sequence ends it as a negative pair does
    # τ = -1 + 2 Σ of the pairs before the end, each at most the one before, + the first half of the pair at the end
    monotone = torch.where(ended, 0.0, pairs).cummin(-1).values.sum(-1)
    end = ended.long().argmax(-1, keepdim=True)
    edge, pair = even.gather(-1, end).squeeze(-1), pairs.gather(-1, end).squeeze(-1)
    tau = -1 + 2 * monotone + torch.where(pair < 0, edge.clamp(min=0), edge)
    size = S / tau.clamp(min=1 / math.log10(S))
    # what never moves has no correlation: an indicator that is always one is known from any number of draws
    return torch.where(_moves(x), size, float(S))
