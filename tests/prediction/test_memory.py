"""Linearised outputs need memory for a few examples at a time, whatever their number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from paraboloid import LaplacePosterior, laplace
from prediction.closed_form import drawn
from prediction.live_bytes import largest, peak_bytes
from prediction.networks import UNTRAINED

pytestmark = UNTRAINED
BUDGET = 2 * 2**20


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 200), nn.Tanh(), nn.Linear(200, 10))


def convolutions() -> nn.Module:
    body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 8, 3, padding=1), nn.Tanh())
    return nn.Sequential(body, nn.Flatten(), nn.Linear(8 * 36, 10))


def pixels() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "dense": (dense, (32,), 100),
    "convolutions": (convolutions, (3, 6, 6), 100),
    "pixels": (pixels, (3, 6, 6), 36 * 16),
}  # builder, shape of an input, numbers in the covariances of one example
each = pytest.mark.parametrize("name", NETWORKS)
structures = pytest.mark.parametrize("structure", ["kronecker", "diagonal"])


def posterior_of(name: str, structure: str, device) -> tuple[LaplacePosterior, Callable[[int], Tensor]]:
    make, shape, _ = NETWORKS[name]
    model = make().to(device)
    x = drawn(6, *shape).to(device)
    labels = model(x).argmax(1)
    found = laplace(model, (x, labels), likelihood="categorical", structure=structure, prior_precision=10.0)
    return found, lambda n: drawn(n, *shape, seed=n).to(device)


def needed(posterior: LaplacePosterior, x: Tensor, memory: int) -> int:
    return peak_bytes(lambda: posterior.functional_variance(x, memory=memory))


@each
@structures
def test_what_is_held_stays_within_four_budgets_and_the_outputs(name, structure, device):
    """Or within the need of the eight examples that are tried first."""
    posterior, draw = posterior_of(name, structure, device)
    first = needed(posterior, draw(8), BUDGET)
    outputs = largest(120, NETWORKS[name][2])
    found = needed(posterior, draw(120), BUDGET)
    assert found <= max(4 * BUDGET, first) + 2.5 * outputs


@each
@structures
def test_what_is_held_grows_by_the_outputs_alone(name, structure, device):
    posterior, draw = posterior_of(name, structure, device)
    needed(posterior, draw(9), BUDGET)  # what is made once is not counted
    few, many = needed(posterior, draw(250), BUDGET), needed(posterior, draw(450), BUDGET)
    assert many - few <= 2.5 * largest(200, NETWORKS[name][2]) + BUDGET // 8


def test_the_budget_is_what_makes_the_difference(device):
    """Without one all of these examples are held together."""
    posterior, draw = posterior_of("convolutions", "kronecker", device)
    x = draw(120)
    assert peak_bytes(lambda: posterior.functional_variance(x)) > 3 * needed(posterior, x, BUDGET)


def test_no_jacobian_is_held(device):
    """(P.5): one position for each example, so that not even one gradient of a layer is formed."""
    posterior, draw = posterior_of("dense", "kronecker", device)
    x = draw(64)
    parameters = sum(tensor.numel() for tensor in posterior.model.parameters())
    assert peak_bytes(lambda: posterior.functional_variance(x)) < largest(64, 10, parameters) / 10


# ---------------------------------------------------------------------- the counter itself
def test_the_counter_counts_what_is_alive(device):
    def forgotten() -> None:
        x = torch.zeros(1000, device=device)
        y = x + 1
        del x
        z = y.view(10, 100)[:, :5]
        z * 2

    def kept_by_autograd() -> Tensor:
        x = torch.ones(1000, device=device, requires_grad=True)
        with torch.enable_grad():
            for _ in range(5):
                x = (2 * x).exp()
            return x.sum()

    assert peak_bytes(forgotten) == 2 * 8000
    assert 6 * 8000 <= peak_bytes(kept_by_autograd) <= 7 * 8000 + 64
