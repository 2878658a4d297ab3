"""How right a classifier is: log-likelihood, Brier score, accuracy.

All take probabilities (..., n, C) and labels (..., n), and average over the n examples; equations (M.2) and (M.3).
"""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_labels, checked_logits, checked_probabilities, require_count


def log_pointwise(probabilities: Tensor, labels: Tensor, *, logits: bool = False) -> Tensor:
    """log p(y_i | x_i) of every example, (..., n), in nats (M.2); -inf where a label had probability 0.

    With `logits=True` the first argument holds logits, and nothing underflows.

    >>> log_pointwise(torch.tensor([[0.0, 200.0]]), torch.tensor([0]), logits=True).tolist()
    [-200.0]
    """
    if logits:
        log_p = checked_logits(probabilities).log_softmax(-1)
        return _of_label(log_p, checked_labels(labels, log_p))
    p = checked_probabilities(probabilities)
    return _of_label(p, checked_labels(labels, p)).log()


def negative_log_likelihood(probabilities: Tensor, labels: Tensor, *, logits: bool = False) -> Tensor:
    """-mean log p(y_i | x_i), in nats per example (M.2).

    >>> round(float(negative_log_likelihood(torch.tensor([[0.5, 0.5]]), torch.tensor([0]))), 6)
    0.693147
    """
    return -log_pointwise(probabilities, labels, logits=logits).mean(-1)


def brier_score(probabilities: Tensor, labels: Tensor) -> Tensor:
    """mean Σ_c (p_c - [y = c])², the sum over classes, between 0 and 2 (M.3).

    >>> float(brier_score(torch.tensor([[1.0, 0.0]]), torch.tensor([1])))
    2.0
    """
    p = checked_probabilities(probabilities)
    y = checked_labels(labels, p).unsqueeze(-1)
    return (p - torch.zeros_like(p).scatter(-1, y, 1.0)).square().sum(-1).mean(-1)


def accuracy(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The share of examples whose most probable class is the label; of equal ones the first counts.

    >>> float(accuracy(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0])))
    0.5
    """
    return top_k_accuracy(probabilities, labels, 1)


def top_k_accuracy(probabilities: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """The share of examples whose label is among the k most probable classes; of equal ones the first count.

    >>> float(top_k_accuracy(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([1]), k=2))
    1.0
    """
    p = checked_probabilities(probabilities)
    y = checked_labels(labels, p).unsqueeze(-1)
    require_count(k, "k", p.shape[-1])
    own = p.gather(-1, y)
    first = torch.arange(p.shape[-1], device=p.device) < y
    ahead = (p > own) | ((p == own) & first)
    return (ahead.sum(-1) < k).double().mean(-1)


def _of_label(values: Tensor, y: Tensor) -> Tensor:
    return values.gather(-1, y.unsqueeze(-1)).squeeze(-1)
