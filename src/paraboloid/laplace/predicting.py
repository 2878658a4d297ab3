"""From a distribution over weights to a distribution over targets.

Linearised: outputs are normal (P.3), and a link takes softmax or sigmoid to them. Sampled: the outputs of many
weights are averaged as probabilities. Map: the mean's own prediction.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Distribution, Independent, MixtureSameFamily

from paraboloid.prediction.linearised import Outputs, Rows
from paraboloid.spaces.batches import Batch, Batches
from paraboloid.spaces.functional import call, predict_many
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.params import Params
from paraboloid.spaces.randomness import as_generator

METHODS = ("linearised", "sampled", "map")
LINKS = ("probit", "bridge", "sampled")
NUMBERS = 50_000_000  # outputs and activations of weights evaluated together


class Predictor(Protocol):
    """What a prediction needs of a posterior."""

    model: nn.Module
    params: Params
    likelihood: Likelihood
    class_axis: int | None
    _batches: Batches

    @property
    def mean(self) -> Tensor: ...
    def sample(self, n: int, generator: torch.Generator) -> Tensor: ...
    def outputs(self, x: Any, memory: int | None = None) -> Outputs: ...
    def _inputs(self, x: Any) -> Batch: ...


def predict(
    posterior: Predictor, x: Any, method: str, link: str, samples: int, generator: torch.Generator | None
) -> Distribution:
    """The predictive distribution; see `LaplacePosterior.predict`."""
    if method not in METHODS:
        raise ValueError(f"method should be one of {', '.join(METHODS)}, found {method!r}.")
    if link not in LINKS:
        raise ValueError(f"link should be one of {', '.join(LINKS)}, found {link!r}.")
    if samples < 1:
        raise ValueError(f"samples should be 1 or more, found {samples}.")
    with torch.no_grad():
        if method == "map":
            mean = _rows(posterior, _forward(posterior, x))
            return posterior.likelihood.predictive(mean, torch.zeros_like(mean))
        generator = as_generator(generator, posterior.mean.device)
        if method == "sampled":
            return averaged(posterior.likelihood, draws(posterior, x, samples, generator))
        found = posterior.outputs(x)
        if link == "probit":
            return posterior.likelihood.predictive(found.mean, found.covariance)
        if link == "bridge":
            return bridge(posterior.likelihood, found)
        return averaged(posterior.likelihood, normal_outputs(found, samples, generator))


def draws(posterior: Predictor, x: Any, samples: int, generator: torch.Generator) -> Tensor:
    """Outputs (samples, *terms, C) of weights drawn from the posterior, evaluated together."""
    thetas = posterior.sample(samples, generator)
    batch = posterior._inputs(x)
    chunk = max(1, NUMBERS // max(1, thetas.shape[1]))
    output = posterior._batches.output
    many = predict_many(posterior.model, posterior.params, thetas, batch.args, batch.kwargs, output, chunk)
    return torch.stack([_rows(posterior, one) for one in many])


def normal_outputs(found: Outputs, samples: int, generator: torch.Generator) -> Tensor:
    """Outputs (samples, *terms, C) drawn from their linearised distribution."""
    values, vectors = torch.linalg.eigh(found.covariance.double())
    root = (vectors * values.clamp_min(0).sqrt().unsqueeze(-2)).to(found.mean.dtype)
    shape = (samples, *found.mean.shape)
    noise = torch.randn(shape, generator=generator, dtype=found.mean.dtype, device=found.mean.device)
    return found.mean + (root @ noise.unsqueeze(-1)).squeeze(-1)


def averaged(likelihood: Likelihood, outputs: Tensor) -> Distribution:
    """The mixture of the predictions of K outputs (K, *terms, C), in equal parts."""
    each = likelihood.predictive(outputs, torch.zeros_like(outputs))
    if isinstance(each, Categorical):
        return Categorical(probs=each.probs.mean(0))
    if isinstance(each, Independent) and isinstance(each.base_dist, Bernoulli):
        return Independent(Bernoulli(probs=each.base_dist.probs.mean(0)), 1)
    last = likelihood.predictive(outputs.movedim(0, -2), torch.zeros_like(outputs.movedim(0, -2)))
    parts = torch.ones(last.batch_shape, dtype=outputs.dtype, device=outputs.device)
    return MixtureSameFamily(Categorical(probs=parts), last)


def bridge(likelihood: Likelihood, found: Outputs) -> Distribution:
    """The Laplace bridge: the Dirichlet that a normal over logits corresponds to, and its mean (P.9)."""
    if likelihood.name != "categorical":
        raise ValueError(f'link="bridge" belongs to categorical outputs; for {likelihood.name} use "probit".')
    mean, covariance = found.mean, found.covariance
    # logits count up to a constant: condition on their sum being zero
    towards = covariance.sum(-1)
    total = towards.sum(-1, keepdim=True).clamp_min(torch.finfo(mean.dtype).tiny)
    mean = mean - towards * mean.sum(-1, keepdim=True) / total
    variance = (covariance.diagonal(dim1=-2, dim2=-1) - towards.square() / total).clamp_min(torch.finfo(mean.dtype).eps)
    C = mean.shape[-1]
    alpha = (1 - 2 / C + mean.exp() * (-mean).exp().sum(-1, keepdim=True) / C**2) / variance
    return Categorical(probs=alpha / alpha.sum(-1, keepdim=True))


def _forward(posterior: Predictor, x: Any) -> Tensor:
    batch = posterior._inputs(x)
    return posterior._batches.output(call(posterior.model, {}, batch.args, batch.kwargs))


def _rows(posterior: Predictor, out: Tensor) -> Tensor:
    """The outputs with the numbers of a term last, if all of them are numbers."""
    if not bool(torch.isfinite(out).all()):
        raise ValueError("the outputs hold NaN or inf: clean the inputs first, or check the weights that were drawn.")
    out = out.float() if out.dtype in (torch.float16, torch.bfloat16) else out
    return Rows(posterior.class_axis).arrange(out, out)[0]
