"""The evidence as a function of prior precisions and noise (P.7), and where it is largest."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from cases import by_name
from paraboloid import GaussianLikelihood, LaplacePosterior, laplace
from paraboloid.laplace.tuning import Degenerate
from prediction.closed_form import Regression, design, drawn, linear
from prediction.networks import EACH, STRUCTURES, UNTRAINED, Posed

pytestmark = UNTRAINED
N, INPUTS, OUTPUTS = 15, 3, 2
PRIORS = {"number": 0.7, "names": {"weight": 0.7, "bias": 2.0}}
TUNED = [(s, "number") for s in STRUCTURES] + [(s, "names") for s in ("diagonal", "dense", "lowrank")]
each = pytest.mark.parametrize(("structure", "prior"), TUNED)


def data(device: torch.device, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    x = drawn(N, INPUTS, seed=1)
    y = x @ drawn(INPUTS, OUTPUTS, seed=2) + math.sqrt(noise) * drawn(N, OUTPUTS, seed=3) + 0.5
    return x.to(device), y.to(device)


def trained(x: Tensor, y: Tensor, delta: Tensor, noise: float) -> nn.Linear:
    """The layer at the minimum, in closed form."""
    center = torch.zeros_like(delta)
    spread = noise * torch.eye(y.shape[1], device=y.device)
    problem = Regression(design(x, y.shape[1]), y, spread, delta, center)
    return linear(problem.mean, x.shape[1], y.shape[1])


def fit(structure: str, prior: str, device: torch.device, noise: float = 0.5, **options) -> LaplacePosterior:
    x, y = data(device)
    model = trained(x, y, torch.full((INPUTS * OUTPUTS + OUTPUTS,), 0.7, device=device), noise)
    likelihood = GaussianLikelihood(noise)
    return laplace(
        model, (x, y), likelihood=likelihood, structure=structure, prior_precision=PRIORS[prior], **options
    )  # fmt: skip


def as_function(posterior: LaplacePosterior):
    """Evidence of a vector of logarithms: prior precisions, then the noise."""

    def evidence(logarithms: Tensor) -> Tensor:
        values = logarithms.exp()
        return posterior.evidence(prior_precision=values[:-1], noise=values[-1])

    return evidence


def differences(evidence, at: Tensor, h: float = 1e-4) -> tuple[Tensor, Tensor]:
    """First and second central differences along each axis."""
    steps = h * torch.eye(len(at))
    up = torch.stack([evidence(at + s) for s in steps])
    down = torch.stack([evidence(at - s) for s in steps])
    return (up - down) / (2 * h), (up - 2 * evidence(at) + down) / h**2


def tuned_logarithms(posterior: LaplacePosterior) -> Tensor:
    return torch.tensor([*posterior.prior.values.log().tolist(), float(posterior.likelihood.noise.log())])


@each
def test_at_the_maximum_slopes_vanish_and_curvatures_are_negative(structure, prior, device):
    before, after = fit(structure, prior, device), fit(structure, prior, device)
    assert after.tune() is after
    at = tuned_logarithms(after)
    first, second = differences(as_function(before), at)
    assert first.abs().max() < 1e-6
    assert second.max() < -0.1
    assert float(after.evidence()) == pytest.approx(float(as_function(before)(at)), abs=1e-9)
    assert after.evidence() > before.evidence()


@each
def test_the_maximum_is_the_one_of_a_search(structure, prior, device):
    """Nelder and Mead's simplex from elsewhere, and no point of a coarse grid is higher."""
    posterior = fit(structure, prior, device)
    evidence = as_function(posterior)
    found = posterior.maximum_evidence()
    start = [-1.0] * len(found.logarithms)
    options = {"xatol": 1e-8, "fatol": 1e-12, "maxiter": 4000}
    with torch.no_grad():
        searched = minimize(lambda v: -float(evidence(torch.tensor(v))), start, method="Nelder-Mead", options=options)
    assert found.evidence == pytest.approx(-searched.fun, abs=1e-9)
    assert torch.allclose(found.logarithms.cpu(), torch.tensor(searched.x), atol=1e-4)
    axis = torch.linspace(-8, 8, 9)
    grid = torch.cartesian_prod(*[axis] * len(start))
    assert max(float(evidence(point)) for point in grid) < found.evidence


@pytest.mark.parametrize("start", [1e-4, 1.0, 1e4])
@EACH
def test_the_maximum_does_not_depend_on_the_start(structure, start, device):
    x, y = data(device)
    model = trained(x, y, torch.full((8,), 0.7, device=device), 0.5)
    likelihood = GaussianLikelihood(0.5 * start**0.25)
    asked = dict(likelihood=likelihood, structure=structure)
    wanted = laplace(model, (x, y), prior_precision=0.5, **asked).maximum_evidence()
    found = laplace(model, (x, y), prior_precision=start, **asked).maximum_evidence()
    assert torch.allclose(found.logarithms, wanted.logarithms, atol=1e-6)


@each
def test_with_fixed_noise_only_the_prior_moves(structure, prior, device):
    posterior = fit(structure, prior, device).tune(noise=False)
    assert float(posterior.likelihood.noise) == 0.5
    logarithms = tuned_logarithms(posterior)
    first, second = differences(as_function(posterior), logarithms)
    assert first[:-1].abs().max() < 1e-6
    assert second[:-1].max() < 0
    assert first[-1].abs() > 1e-3


@each
def test_a_tuned_posterior_is_a_new_fit_with_the_tuned_values(structure, prior, device):
    tuned = fit(structure, prior, device)
    tuned.predict(drawn(2, INPUTS).to(device))  # nothing that was kept may survive
    tuned.tune()
    values = tuned.prior.values.tolist()
    noise = float(tuned.likelihood.noise)
    precision = dict(zip(PRIORS["names"], values, strict=True)) if prior == "names" else values[0]
    again = laplace(
        tuned.model, data(device), likelihood=GaussianLikelihood(noise), structure=structure,
        prior_precision=precision,
    )  # fmt: skip
    torch.testing.assert_close(tuned.precision.dense(), again.precision.dense(), rtol=1e-11, atol=1e-11)
    assert float(tuned.evidence()) == pytest.approx(float(again.evidence()), rel=1e-11)
    assert tuned.newton_decrement == pytest.approx(again.newton_decrement, rel=1e-9)
    x = drawn(4, INPUTS, seed=7).to(device)
    torch.testing.assert_close(tuned.predict(x).covariance_matrix, again.predict(x).covariance_matrix)


def test_mean_squared_error_becomes_a_likelihood_with_its_own_noise(device):
    x, y = data(device)
    model = trained(x, y, torch.full((8,), 0.7, device=device), OUTPUTS / 2)
    one = laplace(model, (x, y), likelihood="mse", prior_precision=0.7).tune()
    two = laplace(model, (x, y), likelihood=GaussianLikelihood(OUTPUTS / 2), prior_precision=0.7).tune()
    assert torch.allclose(one.prior.values, two.prior.values)
    assert float(one.likelihood.noise) == pytest.approx(float(two.likelihood.noise), rel=1e-8)


@pytest.mark.parametrize("name", ["mlp", "mlp_bernoulli", "mlp_poisson", "gpt_tied"])
@EACH
def test_other_likelihoods_have_prior_precisions_to_tune(name, structure, device):
    posterior = Posed(by_name(name), device).fit(structure)
    posterior.tune()
    h = 1e-4
    value = float(posterior.prior.values)
    up, down = (float(posterior.evidence(prior_precision=value * math.exp(s))) for s in (h, -h))
    assert abs(up - down) / (2 * h) < 1e-6
    assert up + down < 2 * float(posterior.evidence())


# ---------------------------------------------------------------------- a pure, differentiable function
@each
def test_the_evidence_of_other_values_is_that_of_a_new_fit_and_leaves_the_posterior_alone(structure, prior, device):
    posterior = fit(structure, prior, device)
    before = posterior.evidence(), posterior.precision.dense()
    for noise in (0.01, 0.5, 7.0):
        values = 1.3 * posterior.prior.values
        refitted = laplace(
            posterior.model, data(device), likelihood=GaussianLikelihood(noise), structure=structure,
            prior_precision=PRIORS[prior],
        )  # fmt: skip
        found = posterior.evidence(prior_precision=values, noise=noise)
        assert float(found) == pytest.approx(float(refitted.evidence(prior_precision=values)), rel=1e-11)
    assert torch.equal(posterior.evidence(), before[0])
    assert torch.equal(posterior.precision.dense(), before[1])


@each
def test_the_evidence_has_the_derivatives_of_its_differences(structure, prior, device):
    evidence = as_function(fit(structure, prior, device))
    at = torch.linspace(-1.0, 0.5, 2 if prior == "number" else 3, requires_grad=True)
    assert torch.autograd.gradcheck(evidence, at)
    assert torch.autograd.gradgradcheck(evidence, at)


def test_a_derivative_reaches_a_number_that_the_user_learns(device):
    posterior = fit("kronecker", "number", device)
    log_precision = torch.zeros((), requires_grad=True)
    posterior.evidence(prior_precision=log_precision.exp()).backward()
    h = 1e-5
    up, down = (float(posterior.evidence(prior_precision=math.exp(s))) for s in (h, -h))
    assert float(log_precision.grad) == pytest.approx((up - down) / (2 * h), rel=1e-7)


# ---------------------------------------------------------------------- it finds what made the data
def learned(x: Tensor, y: Tensor, structure: str, precision, size: int) -> tuple[list[float], float]:
    """Train, tune, and train again with what was found, until nothing moves: the exact evidence's own maximum."""
    noise, vector = 1.0, torch.ones(size)
    for _ in range(12):
        center = torch.zeros(size)
        spread = noise * torch.eye(y.shape[1])
        model = linear(Regression(design(x, y.shape[1]), y, spread, vector, center).mean, x.shape[1], y.shape[1])
        posterior = laplace(
            model, (x, y), likelihood=GaussianLikelihood(noise), structure=structure, prior_precision=precision
        ).tune()  # fmt: skip
        moved = abs(math.log(float(posterior.likelihood.noise) / noise))
        noise, vector = float(posterior.likelihood.noise), posterior.prior.vector
        precision = (
            float(posterior.prior.values)
            if len(posterior.prior.values) == 1
            else dict(zip(posterior.prior.names, posterior.prior.values.tolist(), strict=True))
        )
        if moved < 1e-9:
            break
    return posterior.prior.values.tolist(), noise


def assert_within_five_errors(found: list[float], truth: float) -> None:
    logs = torch.tensor(found).log() - math.log(truth)
    assert logs.mean().abs() < 5 * logs.std() / math.sqrt(len(found)), (logs.mean(), logs.std())
    assert logs.std() < 0.5


def test_simulated_precision_and_noise_are_recovered():
    """One precision for weights and biases of every output."""
    delta, noise, precisions, noises = 4.0, 0.25, [], []
    for seed in range(12):
        x, theta = drawn(40, 9, seed=seed), drawn(50, seed=100 + seed) / math.sqrt(delta)
        y = design(x, 5) @ theta + math.sqrt(noise) * drawn(40, 5, seed=200 + seed)
        values, found = learned(x, y, "kronecker", 1.0, 50)
        precisions += values
        noises.append(found)
    assert_within_five_errors(precisions, delta)
    assert_within_five_errors(noises, noise)


def test_simulated_precisions_of_groups_are_recovered():
    """Weights and biases of very different sizes; the evidence tells them apart."""
    weights, biases, noise = 25.0, 0.5, 0.1
    precisions: list[list[float]] = []
    for seed in range(12):
        sizes = torch.cat([torch.full((40,), weights), torch.full((20,), biases)]).rsqrt()
        x, theta = drawn(30, 2, seed=seed), sizes * drawn(60, seed=100 + seed)
        y = design(x, 20) @ theta + math.sqrt(noise) * drawn(30, 20, seed=200 + seed)
        values, _ = learned(x, y, "dense", {"weight": 1.0, "bias": 1.0}, 60)
        precisions.append(values)
    assert_within_five_errors([p[0] for p in precisions], weights)
    assert_within_five_errors([p[1] for p in precisions], biases)


# ---------------------------------------------------------------------- where there is no maximum
@pytest.mark.parametrize("examples", [4, 20])
def test_interpolated_data_have_no_noise_and_it_is_said(examples, device):
    x = drawn(examples, INPUTS).to(device)
    model = linear(drawn(8, seed=4).to(device), INPUTS, OUTPUTS)
    posterior = laplace(model, (x, model(x).detach()), likelihood="gaussian", prior_precision=1.0)
    with pytest.raises(Degenerate, match=r"noise.* 0 \(reached.*interpolates the data: fix the noise"):
        posterior.tune()
    assert float(posterior.likelihood.noise) == 1.0  # as it was


class Halved(nn.Module):
    """Two layers, the second of which reaches the output with a factor."""

    def __init__(self, used: nn.Linear, other: Tensor, factor: float) -> None:
        super().__init__()
        self.used, self.other, self.factor = used, linear(other, INPUTS, OUTPUTS), factor

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x) + self.factor * self.other(x)


@pytest.mark.parametrize("structure", ["kronecker", "dense", "diagonal", "lowrank"])
@pytest.mark.parametrize(("size", "factor", "way"), [(1.0, 0.0, "towards 0"), (0.0, 0.0, "flat"),
                                                     (1e-6, 0.01, "infinity")])  # fmt: skip
def test_a_group_without_influence_has_no_precision_and_it_is_said(structure, size, factor, way, device):
    x, y = data(device)
    used = trained(x, y, torch.full((8,), 0.7, device=device), 0.5)
    model = Halved(used, size * torch.ones(8, device=device), factor)
    likelihood, precision = GaussianLikelihood(0.5), {"used": 0.7, "other": 1.0}
    asked = dict(likelihood=likelihood, structure=structure, prior_precision=precision)
    posterior = laplace(model, (x, y), **asked)
    with pytest.raises(Degenerate, match=rf"prior_precision\[other\].*{way}|{way}.*prior_precision\[other\]"):
        posterior.tune(noise=False)
    assert posterior.prior.values.tolist() == [0.7, 1.0]
