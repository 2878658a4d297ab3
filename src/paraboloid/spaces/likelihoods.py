"""Likelihoods by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import torch

from paraboloid.spaces.bernoulli import Bernoulli
from paraboloid.spaces.categorical import Categorical
from paraboloid.spaces.gaussian import GaussianLikelihood
from paraboloid.spaces.heteroscedastic import HeteroscedasticGaussian
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.log_density import LogDensity
from paraboloid.spaces.poisson import Poisson

__all__ = [
    "Bernoulli",
    "Categorical",
    "GaussianLikelihood",
    "HeteroscedasticGaussian",
    "Likelihood",
    "LogDensity",
    "Poisson",
    "likelihood",
]

NAMES = ("categorical", "bernoulli", "gaussian", "mse", "heteroscedastic", "poisson")

# what other libraries call them; said in the error, not accepted, for "regression" leaves the noise open
ALSO_CALLED = {
    "classification": "categorical",
    "cross_entropy": "categorical",
    "crossentropyloss": "categorical",
    "softmax": "categorical",
    "binary": "bernoulli",
    "bce": "bernoulli",
    "bcewithlogitsloss": "bernoulli",
    "regression": "gaussian",
    "normal": "gaussian",
    "mseloss": "mse",
    "gaussiannllloss": "heteroscedastic",
    "poissonnllloss": "poisson",
}


def likelihood(spec: str | Likelihood | Mapping[str, Any]) -> Likelihood:
    """The likelihood of this name, or made from what `config()` gave; a likelihood is returned as it is.

    >>> likelihood("mse").config()
    {'name': 'mse'}
    """
    if isinstance(spec, Likelihood):
        return spec
    if isinstance(spec, str):
        return _made(spec, {})
    if isinstance(spec, Mapping) and isinstance(spec.get("name"), str):
        return _made(spec["name"], {key: value for key, value in spec.items() if key != "name"})
    found = type(spec).__name__
    near = ALSO_CALLED.get(found.lower())
    hint = f' For {found} that is "{near}".' if near else ""
    raise TypeError(
        f"`likelihood` should be one of {_quoted()}, or a Likelihood such as Categorical(); found {found}.{hint}"
    )


def same_likelihood(one: Likelihood, other: Likelihood) -> bool:
    """Whether two likelihoods are equal; a user's log-density is only equal to itself.

    >>> same_likelihood(likelihood("mse"), likelihood("gaussian"))
    False
    """
    return one is other or (one.config() == other.config() and not isinstance(one, LogDensity))


def _made(name: str, options: dict[str, Any]) -> Likelihood:
    match name:
        case "categorical":
            return Categorical(**options)
        case "bernoulli":
            return Bernoulli(**options)
        case "gaussian":
            noise = options.pop("noise", 1.0)
            return GaussianLikelihood(torch.as_tensor(noise, dtype=torch.float64), **options)
        case "mse":
            return GaussianLikelihood("mse", **options)
        case "heteroscedastic":
            return HeteroscedasticGaussian(**options)
        case "poisson":
            return Poisson(**options)
        case "log_density":
            raise ValueError("a log-density is a function and is not stored; pass likelihood=LogDensity(...) again.")
    near = ALSO_CALLED.get(name.lower()) or difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.0)[0]
    raise ValueError(f'no likelihood is called {name!r}. Did you mean "{near}"? There are: {_quoted()}.')


def _quoted() -> str:
    return ", ".join(f'"{name}"' for name in NAMES)
