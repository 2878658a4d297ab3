"""A Laplace approximation of linear regression is the posterior itself: mean, covariance, evidence, predictions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from paraboloid import GaussianLikelihood, LaplacePosterior, laplace
from prediction.closed_form import Regression, as_matrix, design, drawn, linear

EXACT = ("dense", "block", "kronecker", "eigenkronecker", "lowrank")
N, INPUTS, OUTPUTS = 12, 3, 2
PER_OUTPUT = torch.tensor([0.2, 1.5], dtype=torch.float64)
FULL = torch.tensor([[0.5, 0.3], [0.3, 0.8]], dtype=torch.float64)
NOISES = {"small": 0.01, "one": 1.0, "large": 30.0, "per_output": PER_OUTPUT, "full": FULL}
SIZE = INPUTS * OUTPUTS + OUTPUTS
CENTERS = {"zero": 0.0, "number": -0.8, "vector": drawn(SIZE, seed=5)}
each_noise = pytest.mark.parametrize("noise", NOISES)
each_center = pytest.mark.parametrize("center", CENTERS)
each_exact = pytest.mark.parametrize("structure", EXACT)


def data(device: torch.device) -> tuple[Tensor, Tensor]:
    x = drawn(N, INPUTS, seed=1)
    y = x @ drawn(INPUTS, OUTPUTS, seed=2) + 0.5 * drawn(N, OUTPUTS, seed=3) + 0.3
    return x.to(device), y.to(device)


def posed(device, noise: str, center: str, delta: float | Tensor = 0.6) -> tuple[Regression, float | Tensor]:
    x, y = data(device)
    where = CENTERS[center]
    vector = where.to(device) if isinstance(where, Tensor) else torch.full((SIZE,), where, device=device)
    spread = as_matrix(NOISES[noise], OUTPUTS).to(device)
    precisions = torch.as_tensor(delta, dtype=torch.float64, device=device).expand(SIZE)
    return Regression(design(x, OUTPUTS), y, spread, precisions, vector), where


def fit(problem: Regression, device, noise: str, structure: str, delta: float | Tensor = 0.6, **options):
    """The library's answer at the closed form's mean."""
    model = linear(problem.mean, INPUTS, OUTPUTS)
    likelihood = GaussianLikelihood(NOISES[noise])
    return laplace(
        model, data(device), likelihood=likelihood, structure=structure, prior_precision=delta, **options
    )  # fmt: skip


def assert_predictions_equal(posterior: LaplacePosterior, problem: Regression, precision: Tensor) -> None:
    x = drawn(5, INPUTS, seed=9).to(problem.y.device)
    A = design(x, OUTPUTS)
    spread = A @ torch.linalg.solve(precision, A.mT)
    predicted = posterior.predict(x)
    torch.testing.assert_close(posterior.functional_variance(x), spread, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(predicted.mean, A @ problem.mean, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(predicted.covariance_matrix, spread + problem.noise, rtol=1e-9, atol=1e-11)


@each_exact
@each_noise
@each_center
def test_every_exact_structure_is_bayesian_linear_regression(structure, noise, center, device):
    problem, where = posed(device, noise, center)
    posterior = fit(problem, device, noise, structure, prior_mean=where)
    torch.testing.assert_close(posterior.mean, problem.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(posterior.precision.dense(), problem.precision, rtol=1e-9, atol=1e-9)
    covariance = torch.linalg.inv(problem.precision)
    torch.testing.assert_close(posterior.precision.inverse().dense(), covariance, rtol=1e-9, atol=1e-10)
    assert float(posterior.evidence()) == pytest.approx(float(problem.evidence()), rel=1e-9)
    assert posterior.newton_decrement < 1e-9
    assert_predictions_equal(posterior, problem, problem.precision)


@each_noise
@each_center
def test_the_diagonal_is_the_diagonal_of_the_precision_with_its_own_evidence(noise, center, device):
    """(P.7) with the determinant of the diagonal in place of the true one."""
    problem, where = posed(device, noise, center)
    posterior = fit(problem, device, noise, "diagonal", prior_mean=where)
    diagonal = problem.precision.diagonal()
    torch.testing.assert_close(posterior.precision.dense(), diagonal.diag(), rtol=1e-9, atol=1e-11)
    correction = 0.5 * (torch.linalg.slogdet(problem.precision)[1] - diagonal.log().sum())
    assert float(posterior.evidence()) == pytest.approx(float(problem.evidence() + correction), rel=1e-9)
    assert_predictions_equal(posterior, problem, diagonal.diag())


@each_exact
def test_data_in_batches_and_in_a_loader_are_the_same_data(structure, device):
    problem, _ = posed(device, "one", "zero")
    x, y = data(device)
    model, cut = linear(problem.mean, INPUTS, OUTPUTS), [(x[:5], y[:5]), (x[5:6], y[5:6]), (x[6:], y[6:])]
    posterior = laplace(model, cut, likelihood="gaussian", structure=structure, prior_precision=0.6)
    assert posterior.num_data == N
    assert float(posterior.evidence()) == pytest.approx(float(problem.evidence()), rel=1e-9)
    torch.testing.assert_close(posterior.precision.dense(), problem.precision, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("structure", [*EXACT, "diagonal"])
def test_weights_count_examples_again(structure, device):
    problem, _ = posed(device, "one", "zero")
    x, y = data(device)
    times = torch.arange(N, device=device) % 3 + 1
    repeated = Regression(
        problem.A.repeat_interleave(times, 0), y.repeat_interleave(times, 0), problem.noise, problem.delta,
        problem.center,
    )  # fmt: skip
    model = linear(repeated.mean, INPUTS, OUTPUTS)
    asked = dict(likelihood="gaussian", structure=structure, prior_precision=0.6)
    weighted = laplace(model, (x, y, times.double()), **asked)
    copied = laplace(model, (x.repeat_interleave(times, 0), y.repeat_interleave(times, 0)), **asked)
    assert weighted.num_data == float(times.sum())
    assert float(weighted.evidence()) == pytest.approx(float(copied.evidence()), rel=1e-10)
    torch.testing.assert_close(weighted.precision.dense(), copied.precision.dense(), rtol=1e-10, atol=1e-12)
    if structure != "diagonal":
        assert float(weighted.evidence()) == pytest.approx(float(repeated.evidence()), rel=1e-9)


@each_exact
def test_num_data_lets_a_sample_stand_for_more_data_of_its_kind(structure, device):
    problem, _ = posed(device, "one", "number")
    x, y = data(device)
    twice = Regression(
        torch.cat([problem.A] * 2), torch.cat([y] * 2), problem.noise, problem.delta, problem.center
    )  # fmt: skip
    model = linear(twice.mean, INPUTS, OUTPUTS)
    posterior = laplace(
        model, (x, y), likelihood="gaussian", structure=structure, prior_precision=0.6, prior_mean=-0.8,
        num_data=2 * N,
    )  # fmt: skip
    torch.testing.assert_close(posterior.precision.dense(), twice.precision, rtol=1e-9, atol=1e-9)
    assert float(posterior.evidence()) == pytest.approx(float(twice.evidence()), rel=1e-9)
    assert posterior.newton_decrement < 1e-9


# ---------------------------------------------------------------------- priors of several precisions
PER_WEIGHT = torch.linspace(0.1, 4.0, SIZE, dtype=torch.float64)


@pytest.mark.parametrize("structure", ["dense", "lowrank"])
@each_noise
def test_a_precision_for_each_weight_is_bayesian_linear_regression(structure, noise, device):
    problem, where = posed(device, noise, "vector", PER_WEIGHT)
    posterior = fit(problem, device, noise, structure, PER_WEIGHT.to(device), prior_mean=where)
    torch.testing.assert_close(posterior.precision.dense(), problem.precision, rtol=1e-9, atol=1e-9)
    assert float(posterior.evidence()) == pytest.approx(float(problem.evidence()), rel=1e-9)
    assert_predictions_equal(posterior, problem, problem.precision)


@pytest.mark.parametrize("structure", ["dense", "lowrank"])
def test_precisions_by_name_are_those_of_the_named_weights(structure, device):
    """(P.1): weights 0.5, biases 3."""
    vector = torch.tensor([0.5] * (INPUTS * OUTPUTS) + [3.0] * OUTPUTS, dtype=torch.float64)
    problem, _ = posed(device, "one", "zero", vector)
    posterior = fit(problem, device, "one", structure, {"w*": 0.5, "*": 3.0})
    torch.testing.assert_close(posterior.precision.dense(), problem.precision, rtol=1e-9, atol=1e-10)
    assert float(posterior.evidence()) == pytest.approx(float(problem.evidence()), rel=1e-9)
    assert posterior.prior.names == ("w*", "*")


# ---------------------------------------------------------------------- noise and tempering
@each_exact
def test_mean_squared_error_is_a_noise_of_half_the_outputs(structure, device):
    x, y = data(device)
    problem = Regression(
        design(x, OUTPUTS), y, as_matrix(OUTPUTS / 2, OUTPUTS).to(device), torch.full((SIZE,), 0.6, device=device),
        torch.zeros(SIZE, device=device),
    )  # fmt: skip
    model = linear(problem.mean, INPUTS, OUTPUTS)
    posterior = laplace(model, (x, y), likelihood="mse", structure=structure, prior_precision=0.6)
    torch.testing.assert_close(posterior.precision.dense(), problem.precision, rtol=1e-9, atol=1e-10)
    assert float(posterior.evidence()) == pytest.approx(float(problem.evidence()), rel=1e-9)


@pytest.mark.parametrize("structure", EXACT)
@pytest.mark.parametrize(("together", "alone"), [(0.25, 1.0), (1.0, 3.0), (2.0, 0.5)])
def test_temperature_tempers_both_and_likelihood_temperature_one(structure, together, alone, device):
    """(P.2)"""
    problem, _ = posed(device, "one", "zero")
    posterior = fit(
        problem, device, "one", structure, temperature=together, likelihood_temperature=alone
    )  # fmt: skip
    wanted = (problem.fisher / alone + problem.delta.diag()) / together
    torch.testing.assert_close(posterior.precision.dense(), wanted, rtol=1e-9, atol=1e-10)
    x = drawn(4, INPUTS, seed=9).to(device)
    A = design(x, OUTPUTS)
    torch.testing.assert_close(
        posterior.functional_variance(x), A @ torch.linalg.solve(wanted, A.mT), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("structure", EXACT)
def test_a_likelihood_temperature_is_a_noise_that_is_larger(structure, device):
    problem, _ = posed(device, "one", "zero")
    tempered = fit(problem, device, "one", structure, likelihood_temperature=30.0)
    noisier = fit(problem, device, "large", structure)
    torch.testing.assert_close(tempered.precision.dense(), noisier.precision.dense(), rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------------- how far from the minimum
@pytest.mark.parametrize("structure", EXACT)
@pytest.mark.parametrize(("together", "alone"), [(1.0, 1.0), (0.01, 1.0), (50.0, 1.0), (1.0, 4.0)])
def test_the_newton_decrement_is_what_one_step_gains(structure, together, alone, device):
    """(P.8): U is quadratic, so one Newton step ends at its minimum, and the decrement is the difference of two U."""
    problem, _ = posed(device, "one", "number")
    away = problem.mean + 0.05 * drawn(SIZE, seed=8).to(device)
    posterior = laplace(
        linear(away, INPUTS, OUTPUTS), data(device), likelihood="gaussian", structure=structure,
        prior_precision=0.6, prior_mean=-0.8, temperature=together, likelihood_temperature=alone,
    )  # fmt: skip

    def potential(theta: Tensor) -> Tensor:
        errors = problem.y - problem.A @ theta
        return 0.5 * errors.square().sum() / alone + 0.3 * (theta - problem.center).square().sum()

    tempered = Regression(problem.A, problem.y, alone * problem.noise, problem.delta, problem.center)
    wanted = potential(away) - potential(tempered.mean)
    assert math.isclose(posterior.newton_decrement, float(wanted), rel_tol=1e-8)
