"""How sure a classifier says it is, and how much of its doubt is disagreement.

K sets of probabilities (K, ..., n, C), one for each draw of the weights, stand on the first axis. The entropy of their
mean is the whole doubt; what is left of it inside the draws is the data's, and the rest, the mutual information of
label and weights, is the model's: (M.8) to (M.10). Entropies are in nats; every function gives one number per example.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_probabilities


def max_probability(probabilities: Tensor) -> Tensor:
    """The largest probability of every example, (..., n): the usual confidence.

    >>> max_probability(torch.tensor([[0.25, 0.75]])).tolist()
    [0.75]
    """
    return checked_probabilities(probabilities).amax(-1)


def entropy(probabilities: Tensor) -> Tensor:
    """-Σ_c p_c log p_c of every example, (..., n), with 0 log 0 = 0 (M.8).

    >>> entropy(torch.tensor([[1.0, 0.0]])).tolist()
    [0.0]
    """
    return torch.special.entr(checked_probabilities(probabilities)).sum(-1)


def predictive_entropy(probabilities: Tensor) -> Tensor:
    """The entropy of the mean over K sets (K, ..., n, C), as (..., n) (M.8).

    >>> round(float(predictive_entropy(torch.eye(2)[:, None])), 6)
    0.693147
    """
    p = checked_probabilities(probabilities, sets=True)
    return torch.special.entr(p.mean(0)).sum(-1)


def expected_entropy(probabilities: Tensor) -> Tensor:
    """The mean over K sets (K, ..., n, C) of their entropies, as (..., n) (M.9).

    >>> float(expected_entropy(torch.eye(2)[:, None]))
    0.0
    """
    p = checked_probabilities(probabilities, sets=True)
    return torch.special.entr(p).sum(-1).mean(0)


def mutual_information(probabilities: Tensor) -> Tensor:
    """Predictive minus expected entropy, as (..., n): how much the K sets disagree (M.10).

    Summed as Kullback-Leibler divergences from the mean, whose terms are not negative; the difference of two entropies
    cancels where the sets nearly agree.

    >>> round(float(mutual_information(torch.eye(2)[:, None])), 6)
    0.693147
    """
    p = checked_probabilities(probabilities, sets=True)
    q = p.mean(0)
    # 0 log 0 = 0; the ratio 1 in its place keeps gradients free of NaN
    ratio = torch.where(p > 0, p / torch.where(q > 0, q, 1.0), 1.0)
    terms = torch.xlogy(p, ratio) - p + q
    return terms.sum(-1).mean(0).clamp(min=0)


def variation_ratio(probabilities: Tensor) -> Tensor:
    """One minus the share of the K sets that vote for the most voted class, as (..., n) (M.11).

    A set votes for its most probable class, of equal ones for the first.

    >>> float(variation_ratio(torch.eye(2)[[0, 0, 1, 0], None]))
    0.25
    """
    p = checked_probabilities(probabilities, sets=True)
    votes = torch.zeros_like(p).scatter(-1, p.argmax(-1, keepdim=True), 1.0)
    return 1 - votes.mean(0).amax(-1)
