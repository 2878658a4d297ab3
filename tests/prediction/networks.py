"""Posteriors of the zoo's networks, and what their linearised outputs should be, by a loop over outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import oracles
from case_record import Case
from cases import by_name
from curvature.problems import as_data, batches, network
from paraboloid import LaplacePosterior, laplace

STRUCTURES = ("kronecker", "eigenkronecker", "diagonal", "block", "dense", "lowrank")
EACH = pytest.mark.parametrize("structure", STRUCTURES)
# the zoo's networks are not trained, and the approximation says so
UNTRAINED = pytest.mark.filterwarnings("ignore:the weights are far from a minimum")


def on(*names: str) -> pytest.MarkDecorator:
    """One test for each of these networks of the zoo."""
    return pytest.mark.parametrize("case", [by_name(name) for name in names], ids=lambda case: case.name)


class Posed:
    """A network of the zoo with its data on a device."""

    def __init__(self, case: Case, device: torch.device, dtype: torch.dtype = torch.float64):
        self.case, self.model = case, network(case, device, dtype)
        self.made = batches(case, (case.size, 2), device, dtype)
        self.inputs, self.targets = batches(case, (3,), device, dtype)[0]

    @property
    def x(self) -> Any:
        """Inputs that were not fitted, as `predict` takes them."""
        return self.inputs if len(self.inputs) > 1 else self.inputs[0]

    def fit(self, structure: str = "kronecker", prior_precision: Any = 0.7, **options: Any) -> LaplacePosterior:
        return laplace(
            self.model,
            as_data(self.made),
            likelihood=self.case.likelihood,
            structure=structure,
            prior_precision=prior_precision,
            **options,
        )


def rows_of(out: Tensor, targets: Tensor, likelihood: str) -> Tensor:
    """(*terms, C): the axis of the numbers last. Where classes lie is told by the targets' shape."""
    second = likelihood == "categorical" and out.shape[:1] + out.shape[2:] == targets.shape
    return out.movedim(1, -1) if second else out.unsqueeze(-1) if out.ndim == 1 else out


def jacobian(case: Case, model: nn.Module, inputs: tuple, targets: Tensor, names: Sequence[str] | None = None):
    """Outputs (*terms, C) and their Jacobian (*terms, C, P), one backward for every number."""
    found = oracles.per_term_jacobian(model, names, inputs, lambda out: rows_of(out, targets, case.likelihood))
    with torch.no_grad():
        rows = rows_of(model(*inputs), targets, case.likelihood)
    return rows, found.reshape(*rows.shape, -1)


def covariance(J: Tensor, precision: Tensor) -> Tensor:
    """J P⁻¹ Jᵀ over the last two axes."""
    return J @ torch.linalg.solve(precision, J.mT)


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())
