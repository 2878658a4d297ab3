"""Reading a posterior back: the file describes itself, and needs the network's architecture only."""

from __future__ import annotations

import copy
import os

import torch
from torch import nn

from paraboloid.laplace.posterior import LaplacePosterior
from paraboloid.laplace.prior import Prior
from paraboloid.laplace.totals import Totals
from paraboloid.operators.base import operator_from_state
from paraboloid.spaces import storage
from paraboloid.spaces.batches import Batches
from paraboloid.spaces.likelihoods import likelihood
from paraboloid.spaces.params import Params


@torch.inference_mode(False)
def load_posterior(
    path: str | os.PathLike[str], model: nn.Module, map_location: torch.device | str = "cpu"
) -> LaplacePosterior:
    """The posterior that `LaplacePosterior.save` wrote; ``model`` gives the architecture, its weights come from the
    file.

    >>> import os, tempfile, torch, paraboloid
    >>> model = torch.nn.Linear(2, 1)
    >>> x = torch.ones(4, 2)
    >>> posterior = paraboloid.laplace(model, (x, model(x).detach()), likelihood="gaussian", prior_precision=0.1)
    >>> path = os.path.join(tempfile.mkdtemp(), "posterior.safetensors")
    >>> posterior.save(path)
    >>> again = paraboloid.load_posterior(path, torch.nn.Linear(2, 1))
    >>> bool(torch.equal(again.mean, posterior.mean))
    True
    """
    tensors, about = storage.load(path, map_location)
    if about.get("kind") != "laplace":
        raise ValueError(f"{path} should hold a Laplace posterior, found {about.get('kind', 'something else')!r}.")
    own = copy.deepcopy(model).to(map_location).eval()  # as it was fitted, whatever a new network starts in
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    _require_fitting(own, weights, path)
    own.load_state_dict(weights)
    shapes = tuple(torch.Size(shape) for shape in about["shapes"])
    params = Params(tuple(about["names"]), shapes)
    for tensor in params.tensors(own).values():
        tensor.requires_grad_()
    curvature = {name.removeprefix("curvature."): t for name, t in tensors.items() if name.startswith("curvature.")}
    names = tuple(about["prior"]) if about["prior"] is not None else ("each weight",) * params.numel
    totals = None
    if about["totals"] is not None:
        count, outputs, axis = about["totals"]
        totals = Totals(tensors["totals.loss"], tensors["totals.gradient"], count, outputs, axis)
    return LaplacePosterior(
        model=own,
        params=params,
        likelihood=likelihood(about["likelihood"]),
        batches=Batches((torch.zeros(0), torch.zeros(0))),
        operator=operator_from_state(curvature, about["curvature"]),
        totals=totals,
        prior=Prior(names, tensors["prior.values"], tensors["prior.group"], tensors["prior.mean"]),
        num_data=about["num_data"],
        temperature=about["temperatures"][0],
        likelihood_temperature=about["temperatures"][1],
        class_axis=about["class_axis"],
    )


def _require_fitting(model: nn.Module, weights: dict[str, torch.Tensor], path: str | os.PathLike[str]) -> None:
    """Raise by name unless the file's tensors are the model's."""
    expected, found = model.state_dict(), weights
    for name in [*expected, *found]:
        if _shape(expected.get(name)) != _shape(found.get(name)):
            raise ValueError(
                f"{path} belongs to another architecture: {name!r} is {_shape(found.get(name))} in the file and "
                f"{_shape(expected.get(name))} in the model."
            )
        if expected[name].dtype != found[name].dtype:
            raise ValueError(
                f"{path} was written in another precision: {name!r} is {found[name].dtype} in the file and "
                f"{expected[name].dtype} in the model. Convert the model by .to({found[name].dtype})."
            )


def _shape(tensor: torch.Tensor | None) -> tuple[int, ...] | str:
    return "missing" if tensor is None else tuple(tensor.shape)
