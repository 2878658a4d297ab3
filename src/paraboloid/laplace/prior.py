"""The prior N(θ₀, δ⁻¹) over the weights: one precision for all, one for each group of parameters, or one for each.

log p(θ) = Σ_g [ n_g/2 log δ_g − δ_g/2 ‖θ_g − θ₀_g‖² ] − P/2 log 2π                         (P.1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from numbers import Real

import torch
from torch import Tensor

from paraboloid.spaces.params import Params

Precision = float | Tensor | Mapping[str, float]


@dataclass(frozen=True)
class Prior:
    """`values` (G,) holds one precision for each group, `group` (P,) says whose each weight is; `mean` (P,)."""

    names: tuple[str, ...]
    values: Tensor  # float64
    group: Tensor
    mean: Tensor

    @classmethod
    def of(cls, precision: Precision, mean: float | Tensor, params: Params, like: Tensor) -> Prior:
        """A number, one number for each weight (P,), or a mapping from names or globs to numbers; `like` is θ (P,)."""
        where = torch.full_like(like, float(mean)) if not isinstance(mean, Tensor) else mean.detach().to(like).view(-1)
        if where.shape != like.shape:
            raise ValueError(f"prior_mean should be a number or {tuple(like.shape)}, found {tuple(where.shape)}.")
        if not bool(torch.isfinite(where).all()):
            raise ValueError("prior_mean should be finite, found NaN or inf.")
        zeros = torch.zeros(len(like), dtype=torch.long, device=like.device)
        if not isinstance(precision, Real | Tensor | Mapping):
            raise TypeError(
                "prior_precision should be a number, a mapping from names, or a tensor with one number for each "
                f"weight; found {type(precision).__name__}."
            )
        if isinstance(precision, Mapping):
            names, values, group = _by_name(precision, params, zeros)
        elif isinstance(precision, Tensor) and precision.ndim:
            if precision.shape != like.shape:
                raise ValueError(
                    f"prior_precision should be a number, a mapping from names, or one number for each of the "
                    f"{len(like)} weights; found shape {tuple(precision.shape)}."
                )
            names, values = ("each weight",) * len(like), precision.to(like.device, torch.float64)
            group = torch.arange(len(like), device=like.device)
        else:
            names, values, group = ("all",), torch.as_tensor(precision, dtype=torch.float64).reshape(1), zeros
        # copies: the caller may go on writing into its tensors
        return cls(names, _positive(values.detach().to(like.device).clone()), group, where.clone())

    def with_values(self, values: float | Tensor) -> Prior:
        """The same groups with other precisions: a number for all of them, or (G,)."""
        found = torch.as_tensor(values, dtype=torch.float64, device=self.values.device)
        if found.ndim == 0:
            found = found.expand(len(self.values))
        if found.shape != self.values.shape:
            raise ValueError(f"there are {len(self.values)} prior precisions, found {tuple(found.shape)}.")
        return replace(self, values=_positive(found))

    @property
    def vector(self) -> Tensor:
        """The precision of each weight, (P,) in the weights' dtype."""
        return self.values.to(self.mean.dtype)[self.group]

    @property
    def counts(self) -> Tensor:
        """Weights in each group, (G,) float64."""
        return torch.bincount(self.group, minlength=len(self.values)).double()

    def squares(self, theta: Tensor) -> Tensor:
        """‖θ_g − θ₀_g‖² for each group, (G,) float64."""
        return torch.zeros_like(self.values).index_add_(0, self.group, (theta - self.mean).double().square())

    def of_positions(self, where: Tensor, block: str) -> int:
        """The group that all these weights are in; a block of the curvature cannot be split between groups."""
        if len(self.values) == 1:
            return 0
        found = self.group[where]
        if bool((found != found[0]).any()):
            raise ValueError(
                f"the block {block!r} of the curvature has more than one prior precision, and its eigenvectors would "
                'change with each of them. Give one for the layer, or use structure="diagonal" or "dense".'
            )
        return int(found[0])


def _positive(values: Tensor) -> Tensor:
    bad = ~(torch.isfinite(values) & (values > 0))
    if bool(bad.any()):
        raise ValueError(
            f"prior_precision should be positive and finite, found {float(values[bad][0])!r}: a prior with "
            "precision 0 is no distribution."
        )
    return values


def _by_name(precision: Mapping[str, float], params: Params, group: Tensor) -> tuple[tuple[str, ...], Tensor, Tensor]:
    """Every parameter belongs to the first name, module or glob of the mapping that fits."""
    group = group - 1
    names, numbers = tuple(precision), []
    for number, pattern in enumerate(names):
        if not isinstance(pattern, str):
            raise TypeError(f"prior_precision should map names to numbers, found the key {type(pattern).__name__}.")
        fits = [n for n in params.names if n == pattern or n.startswith(f"{pattern}.") or fnmatchcase(n, pattern)]
        if not fits:
            raise ValueError(f"prior_precision names {pattern!r}, but there is no such parameter: {_few(params)}.")
        numbers.append(float(precision[pattern]))
        free = [name for name in fits if bool((group[params.slices[name]] < 0).any())]
        if not free:
            raise ValueError(
                f"prior_precision names {pattern!r}, but all of its parameters belong to names before it; put it first."
            )
        for name in free:
            group[params.slices[name]] = number
    missing = [name for name in params.names if bool((group[params.slices[name]] < 0).any())]
    if missing:
        raise ValueError(f'prior_precision should name every parameter, missing {missing[0]!r}; add "*" for the rest.')
    return names, torch.tensor(numbers, dtype=torch.float64), group


def _few(params: Params) -> str:
    shown = ", ".join(params.names[:4])
    return shown + (f", … ({len(params.names)} in all)" if len(params.names) > 4 else "")


def check_temperature(value: float, name: str) -> float:
    """A positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} should be positive and finite, found {value}.")
    return float(value)
