"""The verb: `laplace(model, data, likelihood=…)`."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from paraboloid.curvature.fit import curvature
from paraboloid.curvature.running import Curvature
from paraboloid.laplace.posterior import LaplacePosterior
from paraboloid.laplace.prior import Precision, Prior
from paraboloid.laplace.spectral import diagonalised
from paraboloid.laplace.totals import totals
from paraboloid.operators.base import LinearOperator
from paraboloid.spaces.batches import Batches
from paraboloid.spaces.functional import require_eval
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.likelihoods import Categorical
from paraboloid.spaces.likelihoods import likelihood as named_likelihood
from paraboloid.spaces.params import Params

FAR = 1.0  # nats for each weight that one Newton step may still gain before the user is told


@torch.inference_mode(False)
def laplace(
    model: nn.Module,
    data: Any = None,
    *,
    likelihood: str | Likelihood,
    structure: str = "kronecker",
    estimate: str | None = None,
    prior_precision: Precision = 1.0,
    prior_mean: float | Tensor = 0.0,
    params: Any = None,
    temperature: float = 1.0,
    likelihood_temperature: float = 1.0,
    num_data: float | None = None,
    operator: LinearOperator | Curvature | None = None,
    generator: torch.Generator | None = None,
    progress: Callable[[int, int | None, str], None] | None = None,
    **options: Any,
) -> LaplacePosterior:
    """A normal distribution over the weights of a trained network, N(μ, (N F + δI)⁻¹).

    μ are the model's weights, F the curvature that `paraboloid.curvature` computes with these arguments (``options``
    go there: samples, rank, sharing, bias, max_block, memory), δ = ``prior_precision``: a number, a mapping from
    names of parameters or modules, or globs, to numbers, or one number for each weight (P,). ``params`` chooses the
    weights that are uncertain: all that require gradients, a name, a glob, a module (the last layer), a predicate.
    ``temperature`` tempers likelihood and prior together, ``likelihood_temperature`` the likelihood alone.
    ``num_data`` says how many terms the data stand for. ``operator`` is a curvature that was computed elsewhere; the
    data are then used for the evidence alone and may be missing.

    >>> import torch, paraboloid
    >>> x = torch.linspace(-1, 1, 20)[:, None]
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> y = model(x).detach()  # as if it had been trained
    >>> posterior = paraboloid.laplace(model, (x, y), likelihood="gaussian", prior_precision=0.1)
    >>> posterior.functional_variance(x[:2]).shape
    torch.Size([2, 1, 1])
    """
    chosen = Params.of(model, params)
    require_eval(model)
    given = named_likelihood(likelihood)
    if data is None and operator is None:
        raise ValueError("`laplace` needs data, or a curvature that was computed from it (operator=).")
    own = copy.deepcopy(model)
    device = next(iter(chosen.tensors(own).values())).device
    batches = Batches((torch.zeros(0), torch.zeros(0))) if data is None else _batches(data, device)
    asked: dict[str, Any] = dict(
        structure=structure, num_data=num_data, generator=generator, progress=progress, **options
    )
    if operator is None:
        found = curvature(own, batches, likelihood=given, estimate=estimate, params=chosen, **asked)
    else:
        found = _fitting(operator, chosen, [*options, *(["estimate"] if estimate is not None else [])])
    theta = chosen.flatten(chosen.tensors(own)).detach().to(found.dtype)
    measured = None if data is None or batches.one_pass else totals(own, chosen, given, batches)
    count = num_data or (found.num_data if isinstance(found, Curvature) else measured.count if measured else None)
    if count is None or not (math.isfinite(count) and count > 0):
        raise ValueError(f"num_data= should say how many terms the curvature is an average of, found {count}.")
    posterior = LaplacePosterior(
        model=own,
        params=chosen,
        likelihood=given,
        batches=batches,
        operator=diagonalised(found.operator if isinstance(found, Curvature) else found),
        totals=measured.standing_for(float(count)) if measured else None,
        prior=Prior.of(prior_precision, prior_mean, chosen, theta),
        num_data=float(count),
        temperature=temperature,
        likelihood_temperature=likelihood_temperature,
        class_axis=measured.class_axis if measured else _class_axis(given),
    )
    _tell_if_far(posterior)
    return posterior


def _batches(data: Any, device: torch.device) -> Batches:
    return (data if isinstance(data, Batches) else Batches(data)).on(device)


def _class_axis(likelihood: Likelihood) -> int | None:
    """Where no data show it: the last one, but for classes, which may lie on the second."""
    return likelihood.class_axis if isinstance(likelihood, Categorical) else -1


def _fitting(operator: LinearOperator | Curvature, params: Params, unused: list[str]) -> LinearOperator | Curvature:
    """A curvature from elsewhere, if it is one of these weights."""
    if operator.size != params.numel:
        raise ValueError(f"operator= should have the size of the weights, {params.numel}, found {operator.size}.")
    if isinstance(operator, Curvature) and operator.params.names != params.names:
        first = next(n for n in operator.params.names if n not in params.names)
        raise ValueError(f"operator= should be the curvature of {params.names[0]!r} …, found that of {first!r}.")
    if unused:
        raise TypeError(f"{unused[0]}= says how a curvature is computed; with operator= it has no meaning.")
    return operator


def _tell_if_far(posterior: LaplacePosterior) -> None:
    """A Laplace approximation is taken at a minimum; elsewhere its mean is arbitrary."""
    if posterior.totals is None:
        return
    decrement, gradient = posterior.newton_decrement, float(posterior.totals.gradient.norm())
    if decrement > FAR * posterior.params.numel:
        warnings.warn(
            "the weights are far from a minimum of the loss with this prior: one Newton step would gain "
            f"{decrement:.3g} nats (gradient norm {gradient:.3g}). Train on, or choose prior_precision= as in "
            "training.",
            stacklevel=4,  # through the decorator of `laplace`
        )
