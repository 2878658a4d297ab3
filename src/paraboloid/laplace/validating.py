"""Choosing prior precision and strength where predictions for held-out data are best.

The posterior of N·s terms and prior precision δ·f is tried for every strength s and factor f of a grid, and the pair
whose predictions score best is kept. A strength below 1 tempers the likelihood: the curvature counts as fewer data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributions import Distribution

from paraboloid.spaces.batches import Batch, Batches
from paraboloid.spaces.functional import call
from paraboloid.spaces.likelihood import Likelihood

FACTORS = tuple(10.0**k for k in range(-4, 5))
Metric = Callable[[Distribution, Tensor], Tensor]


class Predicting(Protocol):
    """What is asked of a posterior that is tried."""

    model: torch.nn.Module
    likelihood: Likelihood

    @property
    def mean(self) -> Tensor: ...
    @property
    def predict(self) -> Callable[..., Distribution]: ...


@dataclass(frozen=True)
class Tried:
    """One point of the grid and the mean score of its predictions; lower is better."""

    factor: float
    strength: float
    score: float


def try_all(
    changed: Callable[[float, float], Predicting],
    data: Any,
    factors: Sequence[float],
    strengths: Sequence[float],
    metric: Metric | None,
    options: dict[str, Any],
) -> list[Tried]:
    """The whole grid, best first; `changed(factor, strength)` makes the posterior of a point."""
    if not factors or not strengths or min(*factors, *strengths) <= 0:
        raise ValueError(f"the grid should hold positive factors and strengths, found {factors} and {strengths}.")
    found = []
    for strength in strengths:
        for factor in factors:
            posterior = changed(factor, strength)
            found.append(Tried(factor, strength, score(posterior, data, metric or negative_log_likelihood, options)))
    if not any(tried.score == tried.score for tried in found):
        raise ValueError("every point of the grid scored NaN; check the validation data and the metric.")
    return sorted(found, key=lambda tried: (tried.score != tried.score, tried.score))


def score(posterior: Predicting, data: Any, metric: Metric, options: dict[str, Any]) -> float:
    """The mean of the metric over the terms of the data."""
    batches = (data if isinstance(data, Batches) else Batches(data)).on(posterior.mean.device)
    total, count = 0.0, 0
    for batch in batches:
        predicted = posterior.predict(_inputs(batch), **options)
        labels, counted = _labels(posterior, batches, batch)
        each = metric(predicted, labels)
        total += float(each[counted].double().sum())
        count += int(counted.sum())
    if not count:
        raise ValueError("the validation data hold no terms.")
    return total / count


def negative_log_likelihood(predicted: Distribution, labels: Tensor) -> Tensor:
    """−log p(y|x, D) of each term."""
    return -predicted.log_prob(labels)


def _inputs(batch: Batch) -> Any:
    if batch.args and batch.kwargs:
        raise ValueError("validation data should give the model positional or keyword arguments, found both.")
    return batch.kwargs or batch.args


def _labels(posterior: Predicting, batches: Batches, batch: Batch) -> tuple[Tensor, Tensor]:
    """Targets with the axes of the terms first, and which of them count; those that do not are 0."""
    with torch.no_grad():
        out = batches.output(call(posterior.model, {}, batch.args, batch.kwargs))
    rows, labels = posterior.likelihood.arrange(out, batch.targets.to(out.device))
    terms = rows.shape[:-1]
    flat = labels.reshape(-1, *labels.shape[len(terms) :])
    kept = posterior.likelihood.counted(flat)
    counted = torch.ones(terms, dtype=torch.bool, device=out.device) if kept is None else kept.view(terms)
    shape = (*terms, *[1] * (labels.ndim - len(terms)))
    return torch.where(counted.view(shape), labels, torch.zeros_like(labels)), counted
