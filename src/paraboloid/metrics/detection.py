"""Telling two kinds of inputs apart by one score: inside and outside of the distribution, right and wrong.

Positives should score higher than negatives. Only the order of scores matters, and equal scores are treated exactly:
for the AUROC a tie is half a win, and elsewhere "detected" means score ≥ threshold, so that ties cross a threshold
together; equations (M.12) to (M.14). Out-of-distribution detection in its usual form takes inside examples as positives
and confidence as the score; with an entropy as the score, outside examples are the positives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_numbers, require_share
from paraboloid.metrics.ties import count_at_least


class Detection(NamedTuple):
    """The usual row of a table; every number lies in [0, 1].

    >>> Detection(*torch.tensor([0.5, 0.5, 0.5, 0.95])).auroc
    tensor(0.5000)
    """

    auroc: Tensor
    aupr_in: Tensor
    aupr_out: Tensor
    fpr: Tensor


def detection(inside: Tensor, outside: Tensor, *, tpr: float = 0.95) -> Detection:
    """AUROC, AUPR with inside and with outside as positives, and the false positive rate at `tpr` (M.12)-(M.14).

    Scores (..., n) and (..., m) are confidences, large for inside.

    >>> float(detection(torch.tensor([0.9, 0.8]), torch.tensor([0.3, 0.1])).fpr)
    0.0
    """
    inside, outside = _pair(inside, outside, "inside", "outside")
    aupr_in, aupr_out = average_precision(inside, outside), average_precision(-outside, -inside)
    return Detection(auroc(inside, outside), aupr_in, aupr_out, fpr_at_tpr(inside, outside, tpr=tpr))


def by_label(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (n,) of positives and of negatives, from labels (n,) that are booleans or 0 and 1.

    >>> [part.tolist() for part in by_label(torch.tensor([0.2, 0.7, 0.4]), torch.tensor([0, 1, 0]))]
    [[0.699999988079071], [0.20000000298023224, 0.4000000059604645]]
    """
    s = checked_numbers(scores, "scores", finite=False)
    y = checked_numbers(labels, "labels")
    if s.ndim != 1 or y.shape != s.shape:
        raise ValueError(
            f"`scores` and `labels` should be (n,) both, found {tuple(scores.shape)} and {tuple(labels.shape)}. Split "
            "one data set at a time; the sets of positives and negatives may be stacked afterwards."
        )
    positive = y == 1
    if bool((~positive & (y != 0)).any()) or bool(positive.all()) or not bool(positive.any()):
        raise ValueError(
            f"`labels` should be 0 and 1, or booleans, with both present; found {labels.unique().tolist()[:5]}. "
            "Compare first, as in labels == positive_class."
        )
    return s[positive], s[~positive]


def auroc(positive: Tensor, negative: Tensor) -> Tensor:
    """P(positive > negative) + ½ P(equal) over all pairs of (..., n) and (..., m) scores (M.12).

    The Mann-Whitney statistic: wins are counted in whole numbers, so that the result is exact up to one division.

    >>> float(auroc(torch.tensor([0.9, 0.4]), torch.tensor([0.4, 0.1])))
    0.875
    """
    s, r = _pair(positive, negative)
    ordered = r.sort(-1).values
    below, upto = torch.searchsorted(ordered, s), torch.searchsorted(ordered, s, right=True)
    return (below + upto).sum(-1).double() / (2 * s.shape[-1] * r.shape[-1])


def average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """AUPR: the precision at the score of a positive, averaged over positives (M.13).

    No interpolation between thresholds. AUPR-out is `average_precision(-outside, -inside)`.

    >>> float(average_precision(torch.tensor([0.9, 0.4]), torch.tensor([0.4, 0.1]))) == (1 + 2 / 3) / 2
    True
    """
    s, r = _pair(positive, negative)
    true, false = count_at_least(s, s), count_at_least(s, r)
    return (true / (true + false).double()).mean(-1)


def fpr_at_tpr(positive: Tensor, negative: Tensor, *, tpr: float = 0.95) -> Tensor:
    """The share of negatives that reach the highest threshold reached by `tpr` of the positives (M.14).

    The threshold is a positive's score; negatives that equal it are false alarms.

    >>> float(fpr_at_tpr(torch.tensor([0.9, 0.4]), torch.tensor([0.4, 0.1])))
    0.5
    """
    s, r = _pair(positive, negative)
    require_share(tpr, "tpr", one=True)
    n = s.shape[-1]
    wanted = max(1, math.ceil(tpr * n - 1e-9 * n))  # 0.95 · n may be a whole number but for its last bit
    threshold = s.sort(-1, descending=True).values[..., wanted - 1 : wanted]
    return (r >= threshold).double().mean(-1)


def empirical_cdf(values: Tensor, at: Tensor) -> Tensor:
    """The share of `values` (..., n) that are ≤ each point of `at` (m,), as (..., m) (M.15).

    >>> empirical_cdf(torch.tensor([0.1, 0.1, 0.7, 2.0]), torch.tensor([0.0, 0.1, 1.0])).tolist()
    [0.0, 0.5, 0.75]
    """
    x = checked_numbers(values, "values", finite=False)
    points = checked_numbers(at, "at", finite=False)
    if points.ndim != 1:
        raise ValueError(f"`at` should be points (m,), found {tuple(at.shape)}. Flatten it.")
    points = points.expand(*x.shape[:-1], -1).contiguous()
    return torch.searchsorted(x.sort(-1).values, points, right=True).double() / x.shape[-1]


def _pair(first: Tensor, second: Tensor, name: str = "positive", other: str = "negative") -> tuple[Tensor, Tensor]:
    s, r = checked_numbers(first, name, finite=False), checked_numbers(second, other, finite=False)
    if s.shape[:-1] != r.shape[:-1]:
        raise ValueError(
            f"`{name}` and `{other}` should be scores (n,) and (m,), with the same axes in front; found "
            f"{tuple(s.shape)} and {tuple(r.shape)}. Flatten them, or use by_label(scores, labels)."
        )
    return s, r
