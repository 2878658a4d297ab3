"""From a normal distribution over weights to one over targets: every likelihood by every method."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Dirichlet, MultivariateNormal

import oracles
from case_record import Case
from cases import by_name
from paraboloid import GaussianLikelihood, LaplacePosterior, laplace
from paraboloid.operators.dense import Dense
from prediction.closed_form import drawn
from prediction.networks import UNTRAINED, Posed, covariance, jacobian, on, rows_of

pytestmark = UNTRAINED
FULL = torch.tensor([[0.5, 0.2], [0.2, 0.9]], dtype=torch.float64)
NOISES = {"one": 1.0, "small": 0.01, "per_output": torch.tensor([0.3, 2.0], dtype=torch.float64), "full": FULL}
CLASSES = ("mlp", "mlp_two_classes", "gpt", "u_net", "pixels_ignored")
OTHERS = ("mlp_bernoulli", "mlp_poisson", "mlp_natural", "mlp_scalar", "mlp_mse", "mlp_gaussian")
METHODS = [("linearised", "probit"), ("linearised", "sampled"), ("sampled", "probit"), ("map", "probit")]
each_method = pytest.mark.parametrize(("method", "link"), METHODS)


def log_density(h: Tensor, y: Tensor, likelihood: str) -> Tensor:
    """log p(y|h) of every term with its constants: h (*terms, C), y as the term's target."""
    match likelihood:
        case "categorical":
            return -F.cross_entropy(h.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
        case "bernoulli":
            return torch.distributions.Bernoulli(logits=h).log_prob(y).sum(-1)
        case "poisson":
            return torch.distributions.Poisson(h.exp()).log_prob(y).sum(-1)
        case "gaussian":
            return torch.distributions.Normal(h, 1.0).log_prob(y).sum(-1)
        case "mse":
            return torch.distributions.Normal(h, math.sqrt(h.shape[-1] / 2)).log_prob(y).sum(-1)
    variance = -0.5 / h[..., 1:]
    return torch.distributions.Normal(h[..., :1] * variance, variance.sqrt()).log_prob(y).sum(-1)


def as_rows(y: Tensor, case: Case) -> Tensor:
    """Targets as a predictive distribution takes them: the numbers of a term last."""
    return y.unsqueeze(-1) if case.name == "mlp_scalar" else y.clamp_min(0) if case.likelihood == "categorical" else y


def outputs_at(posed: Posed, thetas: Tensor) -> Tensor:
    """The network at every weight vector, one after another."""
    model, found = posed.case.build().to(thetas), []
    for theta in thetas:
        nn.utils.vector_to_parameters(theta, oracles.tensors_of(model))
        with torch.no_grad():
            found.append(rows_of(model(*posed.inputs), posed.targets, posed.case.likelihood))
    return torch.stack(found)


# ---------------------------------------------------------------------- all methods
@on(*CLASSES, *OTHERS)
def test_the_map_prediction_is_the_models_own(case, device):
    posed = Posed(case, device)
    predicted = posed.fit(prior_precision=20.0).predict(posed.x, "map")
    with torch.no_grad():
        h = rows_of(posed.model(*posed.inputs), posed.targets, case.likelihood)
    y = as_rows(posed.targets, case)
    torch.testing.assert_close(predicted.log_prob(y), log_density(h, y, case.likelihood), rtol=1e-10, atol=1e-11)


@on(*CLASSES, *OTHERS)
def test_a_sampled_prediction_averages_probabilities_over_the_same_draws(case, device):
    posed = Posed(case, device)
    posterior = posed.fit(prior_precision=5.0)
    predicted = posterior.predict(posed.x, "sampled", samples=7, generator=torch.Generator(device).manual_seed(3))
    h = outputs_at(posed, posterior.sample(7, torch.Generator(device).manual_seed(3)))
    y = as_rows(posed.targets, case)
    if case.likelihood == "bernoulli":  # one probability for each label
        torch.testing.assert_close(predicted.mean, h.sigmoid().mean(0), rtol=1e-11, atol=1e-12)
        return
    each = torch.stack([log_density(one, y, case.likelihood) for one in h])
    wanted = each.logsumexp(0) - math.log(7)
    torch.testing.assert_close(predicted.log_prob(y), wanted, rtol=1e-10, atol=1e-10)


@each_method
@on(*CLASSES, *OTHERS)
def test_there_is_one_prediction_for_every_term(case, method, link, device):
    """Tokens (N, T), pixels (N, H, W), examples (N,)."""
    posed = Posed(case, device)
    predicted = posed.fit(prior_precision=20.0).predict(posed.x, method, link=link, samples=3)
    y = as_rows(posed.targets, case)
    shape = y.shape if case.likelihood == "categorical" else y.shape[:-1]
    assert predicted.batch_shape == shape == predicted.log_prob(y).shape
    assert torch.isfinite(predicted.log_prob(y)).all()


@on("u_net", "gpt", "mlp")
def test_the_bridge_predicts_every_term_too(case, device):
    posed = Posed(case, device)
    predicted = posed.fit(prior_precision=20.0).predict(posed.x, link="bridge")
    assert predicted.probs.shape[:-1] == posed.targets.shape
    torch.testing.assert_close(predicted.probs.sum(-1), torch.ones(posed.targets.shape, device=device))


@each_method
@on("mlp", "mlp_bernoulli", "mlp_poisson", "mlp_natural", "mlp_mse")
def test_certain_weights_predict_as_the_model_does(case, method, link, device):
    posed = Posed(case, device)
    posterior = posed.fit(prior_precision=1e14)
    y = as_rows(posed.targets, case)
    found, wanted = (posterior.predict(posed.x, m, link=link, samples=3).log_prob(y) for m in (method, "map"))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@each_method
@on("mlp", "mlp_gaussian", "gpt")
def test_a_generator_repeats_its_draws_and_the_global_one_stands_still(case, method, link, device):
    posed = Posed(case, device)
    posterior, y, state = posed.fit(prior_precision=5.0), as_rows(posed.targets, case), torch.get_rng_state()

    def predicted(generator: torch.Generator | None) -> Tensor:
        return posterior.predict(posed.x, method, link=link, samples=4, generator=generator).log_prob(y)

    seeded = [predicted(torch.Generator(device).manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(seeded[0], seeded[1])
    assert torch.equal(predicted(None), predicted(None))
    drawn_from = method == "sampled" or link == "sampled"
    assert torch.equal(seeded[0], seeded[2]) != drawn_from
    assert torch.equal(torch.get_rng_state(), state)


# ---------------------------------------------------------------------- regression: two kinds of uncertainty
@pytest.mark.parametrize("noise", NOISES)
def test_variances_of_regression_are_those_of_the_weights_plus_the_noise(noise, device):
    posed = Posed(by_name("mlp_gaussian"), device)
    data = [(inputs[0], y) for inputs, y in posed.made]
    posterior = laplace(posed.model, data, likelihood=GaussianLikelihood(NOISES[noise]), prior_precision=5.0)
    spread = torch.as_tensor(NOISES[noise], dtype=torch.float64, device=device)
    spread = spread if spread.ndim == 2 else torch.diag(spread.expand(2))
    _, J = jacobian(posed.case, posed.model, posed.inputs, posed.targets)
    epistemic = covariance(J, posterior.precision.dense())
    predicted = posterior.predict(posed.x)
    torch.testing.assert_close(predicted.covariance_matrix, epistemic + spread, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(posterior.predict(posed.x, "map").variance, spread.diagonal().expand(3, 2))
    sampled = posterior.predict(posed.x, "sampled", samples=50, generator=torch.Generator(device).manual_seed(1))
    h = outputs_at(posed, posterior.sample(50, torch.Generator(device).manual_seed(1)))
    torch.testing.assert_close(sampled.mean, h.mean(0))
    torch.testing.assert_close(sampled.variance, h.var(0, correction=0) + spread.diagonal())


# ---------------------------------------------------------------------- any normal over outputs
def through(mean: Tensor, spread: Tensor, likelihood: str) -> LaplacePosterior:
    """A posterior whose outputs at x = 1 are N(mean, spread): one weight for each output."""
    model = nn.Linear(1, len(mean), bias=False).to(mean)
    with torch.no_grad():
        model.weight.copy_(mean[:, None])
    precision = torch.linalg.inv(spread)
    small = 0.5 * float(torch.linalg.eigvalsh(precision)[0])
    operator = Dense(precision - small * torch.eye(len(mean)).to(mean))
    return laplace(model, likelihood=likelihood, operator=operator, num_data=1, prior_precision=small)


def test_the_probit_value_of_a_sigmoid_is_the_integral_to_one_and_a_third_percent(device):
    """Means to ±6 and variances to 25."""
    grid = torch.linspace(-14, 14, 4001, device=device)
    weight = torch.exp(-0.5 * grid.square())
    worst = 0.0
    for m in torch.linspace(-6, 6, 13):
        for v in (0.01, 0.3, 1.0, 4.0, 10.0, 25.0):
            posterior = through(m[None].to(device), torch.full((1, 1), v, device=device), "bernoulli")
            found = float(posterior.predict(torch.ones(1, 1, device=device)).mean)
            values = torch.sigmoid(m + math.sqrt(v) * grid) * weight
            worst = max(worst, abs(found - float(values.sum() / weight.sum())))
    assert 0.005 < worst < 0.0132


def test_probit_predictions_of_classes_divide_logits_by_their_own_spread(device):
    mean, spread = drawn(4, seed=1).to(device), torch.diag(torch.tensor([0.1, 1.0, 3.0, 9.0], device=device))
    found = through(mean, spread, "categorical").predict(torch.ones(1, 1, device=device)).probs[0]
    wanted = (mean / (1 + math.pi / 8 * spread.diagonal()).sqrt()).softmax(-1)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_poisson_rates_are_means_of_log_normals(device):
    mean, spread = torch.tensor([0.3, -1.0], device=device), torch.diag(torch.tensor([0.2, 0.5], device=device))
    found = through(mean, spread, "poisson").predict(torch.ones(1, 1, device=device)).mean[0]
    torch.testing.assert_close(found, (mean + spread.diagonal() / 2).exp(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("C", [2, 3, 6])
def test_the_bridge_is_its_formula(C, device):
    """(P.9), term by term."""
    factor = drawn(C, C, seed=C)
    mean, spread = drawn(C, seed=2), factor @ factor.T + 0.1 * torch.eye(C)
    posterior = through(mean.to(device), spread.to(device), "categorical")
    found = posterior.predict(torch.ones(1, 1, device=device), link="bridge").probs[0].cpu()
    ones = torch.ones(C)
    m = mean - spread @ ones * (ones @ mean) / (ones @ spread @ ones)
    S = spread - torch.outer(spread @ ones, spread @ ones) / (ones @ spread @ ones)
    alpha = [(1 - 2 / C + m[k].exp() / C**2 * sum((-m[j]).exp() for j in range(C))) / S[k, k] for k in range(C)]
    torch.testing.assert_close(found, torch.stack(alpha) / sum(alpha), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("alpha", [(2.0, 3.0), (0.5, 4.0, 9.0), (20.0, 1.0, 3.0, 3.0, 0.2)])
def test_the_bridge_of_a_dirichlets_own_approximation_is_that_dirichlet(alpha, device):
    """The normal over logits that approximates a Dirichlet leads back to it, whatever constant is added to them."""
    a = torch.tensor(alpha, device=device)
    C = len(a)
    centred = torch.eye(C, device=device) - 1 / C
    spread = centred @ torch.diag(1 / a) @ centred
    for constant, loose in ((0.0, 1.0), (2.5, 0.01)):
        mean = a.log() - a.log().mean() + constant
        posterior = through(mean, spread + loose * torch.ones(C, C, device=device), "categorical")
        found = posterior.predict(torch.ones(1, 1, device=device), link="bridge").probs[0]
        torch.testing.assert_close(found, Dirichlet(a).mean, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli"])
def test_the_sampled_link_is_the_average_over_normal_outputs(likelihood, device):
    """Against draws of our own, within five standard errors of both."""
    factor = drawn(3, 3, seed=8)
    mean, spread = drawn(3, seed=2), factor @ factor.T + 0.2 * torch.eye(3)
    posterior = through(mean.to(device), spread.to(device), likelihood)
    few, many = 20_000, 400_000
    predicted = posterior.predict(torch.ones(1, 1, device=device), link="sampled", samples=few)
    found = (predicted.probs if likelihood == "categorical" else predicted.mean)[0].cpu()
    noise = drawn(many, 3, seed=11)
    h = MultivariateNormal(mean, spread).loc + noise @ torch.linalg.cholesky(spread).T
    p = h.softmax(-1) if likelihood == "categorical" else h.sigmoid()
    error = p.std(0) * math.sqrt(1 / few + 1 / many)
    assert ((found - p.mean(0)).abs() < 5 * error).all()
    assert ((found - p.mean(0)).abs() > 1e-9).all()


def test_the_sampled_link_of_regression_has_the_linearised_moments(device):
    posed = Posed(by_name("mlp_gaussian"), device)
    posterior = posed.fit(prior_precision=5.0)
    exact, found = posterior.predict(posed.x), posterior.predict(posed.x, link="sampled", samples=20_000)
    error = (exact.variance / 20_000).sqrt()
    assert ((found.mean - exact.mean).abs() < 5 * error).all()
    assert ((found.variance / exact.variance - 1).abs() < 5 * math.sqrt(2 / 20_000)).all()


def test_outputs_without_spread_are_drawn_as_they_are(device):
    """Weights that the inputs do not reach leave a covariance of zeros."""
    model = nn.Linear(2, 3, bias=False).to(device)
    x, y = torch.eye(2, device=device), torch.tensor([0, 2], device=device)
    posterior = laplace(model, (x, y), likelihood="categorical", prior_precision=1.0)
    nothing = torch.zeros(4, 2, device=device)
    for link in ("probit", "sampled", "bridge"):
        found = posterior.predict(nothing, link=link).probs
        torch.testing.assert_close(found, torch.full((4, 3), 1 / 3, device=device))
