"""Answering only where one is sure: risk against coverage.

Examples are answered in the order of their confidence. Among equal confidences every order is as likely, and the risk
is the average over these orders (M.1), exactly: equal confidences share the mean of their losses.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_numbers, require_like, require_share
from paraboloid.metrics.ties import ordered_with_ties


class RiskCoverage(NamedTuple):
    """Coverage (n,), 1/n to 1, and the mean loss (..., n) of the examples that are answered.

    >>> RiskCoverage(torch.tensor([0.5, 1.0]), torch.tensor([0.0, 0.25])).risk[-1]
    tensor(0.2500)
    """

    coverage: Tensor
    risk: Tensor


def risk_coverage(confidence: Tensor, loss: Tensor) -> RiskCoverage:
    """The mean loss of the k most confident examples for k = 1, …, n; inputs (..., n) (M.16).

    >>> risk_coverage(torch.tensor([0.9, 0.2, 0.6]), torch.tensor([0, 1, 0])).risk.tolist()[:2]
    [0.0, 0.0]
    """
    kappa = checked_numbers(confidence, "confidence", finite=False)
    values = checked_numbers(loss, "loss")
    require_like(values, "loss", kappa, "confidence")
    _, values = ordered_with_ties(kappa, values, descending=True)
    answered = torch.arange(1, values.shape[-1] + 1, dtype=values.dtype, device=values.device)
    return RiskCoverage(answered / values.shape[-1], values.cumsum(-1) / answered)


def aurc(confidence: Tensor, loss: Tensor) -> Tensor:
    """The area under the risk–coverage curve: the mean of its n risks (M.17).

    >>> float(aurc(torch.tensor([0.9, 0.2]), torch.tensor([0, 1])))
    0.25
    """
    return risk_coverage(confidence, loss).risk.mean(-1)


def accuracy_at_coverage(confidence: Tensor, correct: Tensor, *, coverage: float) -> Tensor:
    """The mean of `correct` (0 to 1) among the ⌈coverage · n⌉ most confident examples (M.16).

    >>> float(accuracy_at_coverage(torch.tensor([0.9, 0.2]), torch.tensor([True, False]), coverage=0.5))
    1.0
    """
    require_share(coverage, "coverage", one=True)
    shares = checked_numbers(correct, "correct")
    if bool(((shares < 0) | (shares > 1)).any()):
        raise ValueError(
            f"`correct` should be booleans or shares in [0, 1], found {float(shares.min()):.4g} to "
            f"{float(shares.max()):.4g}. Give predictions == labels; losses go to risk_coverage."
        )
    n = shares.shape[-1]
    answered = max(1, math.ceil(coverage * n - 1e-9 * n))  # 0.95 · n may be a whole number but for its last bit
    return risk_coverage(confidence, shares).risk[..., answered - 1]
