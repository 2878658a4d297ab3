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
from paraboloid.laplace.totals import Totals, totals
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
    found = _curvature(
        own, batches, given, structure, estimate, chosen, operator, num_data, generator, progress, options
    )
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
    _tell_if_far(posterior, posterior.totals)
    return posterior


def _batches(data: Any, device: torch.device) -> Batches:
    return (data if isinstance(data, Batches) else Batches(data)).on(device)


def _class_axis(likelihood: Likelihood) -> int | None:
    """Where no data show it: the last one, but for classes, which may lie on the second."""
    return likelihood.class_axis if isinstance(likelihood, Categorical) else -1


def _curvature(
    model: nn.Module,
    batches: Batches,
    likelihood: Likelihood,
    structure: str,
    estimate: str | None,
    params: Params,
    operator: LinearOperator | Curvature | None,
    num_data: float | None,
    generator: torch.Generator | None,
    progress: Callable[[int, int | None, str], None] | None,
    options: dict[str, Any],
) -> LinearOperator | Curvature:
    if operator is not None:
        if operator.size != params.numel:
            raise ValueError(f"operator= should have the size of the weights, {params.numel}, found {operator.size}.")
        if isinstance(operator, Curvature) and operator.params.names != params.names:
            first = next(n for n in operator.params.names if n not in params.names)
            raise ValueError(f"operator= should be the curvature of {params.names[0]!r} …, found that of {first!r}.")
        unused = [*options, *(["estimate"] if estimate is not None else [])]
        if unused:
            raise TypeError(f"{unused[0]}= says how a curvature is computed; with operator= it has no meaning.")
        return operator
    return curvature(
        model,
        batches,
        likelihood=likelihood,
        structure=structure,
        estimate=estimate,
        params=params,
        num_data=num_data,
        generator=generator,
        progress=progress,
        **options,
    )


def _tell_if_far(posterior: LaplacePosterior, measured: Totals | None) -> None:
    """A Laplace approximation is taken at a minimum; elsewhere its mean is arbitrary."""
    if measured is None:
        return
    decrement = posterior.newton_decrement
    if decrement > FAR * posterior.params.numel:
        warnings.warn(
            "the weights are far from a minimum of the loss with this prior: one Newton step would gain "
            f"{decrement:.3g} "
            f"nats (gradient norm {float(measured.gradient.norm()):.3g}). Train on, or choose prior_precision= as "
            "in training.",
            stacklevel=4,  # through the decorator of `laplace`
        )
