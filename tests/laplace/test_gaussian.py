"""The posterior as a normal distribution, against dense algebra of the matrix that (P.2) writes down."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

import oracles
from cases import by_name
from curvature.problems import as_data
from paraboloid import LaplacePosterior, curvature
from prediction.closed_form import drawn
from prediction.networks import STRUCTURES, UNTRAINED, Posed, on

pytestmark = UNTRAINED
PRIORS = ("number", "layers", "weights")
COMBINED = [(s, p) for s in STRUCTURES for p in PRIORS if p != "weights" or s in ("diagonal", "dense", "lowrank")]
each = pytest.mark.parametrize(("structure", "prior"), COMBINED)
networks = on("conv2d_grouped", "gpt_tied", "batch_norm_2d")


def asked(prior: str, posed: Posed) -> tuple[Any, Tensor]:
    """A prior precision as it is given, and what it means for every weight."""
    places = oracles.layout(posed.model)
    vector = torch.empty(sum(t.numel() for t in oracles.tensors_of(posed.model)), device=posed.inputs[0].device)
    if prior == "number":
        return 1.7, vector.fill_(1.7)
    if prior == "weights":
        return vector.copy_(0.2 + drawn(len(vector), seed=3).square()), vector
    by_name = {}
    for name, place in places.items():
        module = name.rpartition(".")[0]
        vector[place] = by_name.setdefault(module, 0.3 + 0.4 * len(by_name))
    return dict(sorted(by_name.items(), key=lambda item: -len(item[0]))), vector


def posed_fit(case, structure: str, prior: str, device, **options) -> tuple[Posed, LaplacePosterior, Tensor]:
    """The posterior, and its precision by the equation with the dense average curvature."""
    posed = Posed(case, device)
    precision, delta = asked(prior, posed)
    posterior = posed.fit(structure, prior_precision=precision, **options)
    F_ = curvature(posed.model, as_data(posed.made), likelihood=case.likelihood, structure=structure)
    T, alone = options.get("temperature", 1.0), options.get("likelihood_temperature", 1.0)
    return posed, posterior, (F_.num_data / alone * F_.dense() + delta.diag()) / T


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-9) -> None:
    assert (found.double() - wanted).norm() <= tolerance * wanted.norm()


@each
@networks
@pytest.mark.parametrize("tempered", [False, True])
def test_the_posterior_is_the_normal_distribution_with_this_precision(case, structure, prior, tempered, device):
    options = {"temperature": 0.2, "likelihood_temperature": 3.0} if tempered else {}
    posed, posterior, P = posed_fit(case, structure, prior, device, **options)
    mean = torch.cat([t.detach().flatten() for t in oracles.tensors_of(posed.model)])
    wanted = MultivariateNormal(mean, precision_matrix=P)
    close(posterior.precision.dense(), P)
    close(posterior.gaussian.logdet, torch.linalg.slogdet(P)[1])
    close(posterior.marginal_variance(), torch.linalg.inv(P).diagonal())
    close(posterior.entropy(), wanted.entropy())
    thetas = mean + 0.3 * drawn(4, len(mean)).to(device)
    close(posterior.log_prob(thetas), wanted.log_prob(thetas))
    close(posterior.log_prob(mean), wanted.log_prob(mean))
    assert torch.equal(posterior.mean, mean)


@each
@networks
def test_unit_noise_becomes_draws_whose_covariance_is_the_posterior(case, structure, prior, device):
    """No draw is needed: the sampler is linear in its noise."""
    _, posterior, P = posed_fit(case, structure, prior, device)
    R = posterior.gaussian.root.dense()
    covariance = torch.linalg.inv(P)
    assert (R @ R.T - covariance).norm() <= 1e-10 * covariance.norm()
    noise = torch.randn(3, R.shape[1], generator=torch.Generator(device).manual_seed(4), device=device)
    found = posterior.sample(3, torch.Generator(device).manual_seed(4))
    close(found, posterior.mean + noise @ R.T, 1e-12)


@pytest.mark.parametrize("structure", STRUCTURES)
@on("mlp", "conv2d_grouped")
def test_divergences_are_those_of_dense_normals(case, structure, device):
    mean = None
    for other in ("dense", "diagonal", structure):
        _, one, P = posed_fit(case, structure, "number", device)
        _, two, Q = posed_fit(case, other, "layers" if other != "lowrank" else "number", device, temperature=2.0)
        mean = one.mean
        dense = [MultivariateNormal(mean, precision_matrix=m) for m in (P, Q)]
        close(one.kl(two), kl_divergence(dense[0], dense[1]))
        close(two.kl(one.gaussian), kl_divergence(dense[1], dense[0]))
    assert mean is not None
    assert abs(float(one.kl(one))) < 1e-9


# ---------------------------------------------------------------------- the evidence
def total_loss(posed: Posed) -> Tensor:
    """−log p of all data with every constant, by PyTorch's own distributions and losses."""
    loss = torch.zeros(())
    for inputs, targets in posed.made:
        with torch.no_grad():
            rows = oracles.rows_of(posed.model(*inputs), targets, posed.case.likelihood)
        h, y = rows.outputs, rows.targets
        match posed.case.likelihood:
            case "categorical":
                loss = loss + F.cross_entropy(h, y, reduction="sum").cpu()
            case "bernoulli":
                loss = loss - torch.distributions.Bernoulli(logits=h).log_prob(y).sum().cpu()
            case "poisson":
                loss = loss - torch.distributions.Poisson(h.exp()).log_prob(y).sum().cpu()
            case "gaussian":
                loss = loss - torch.distributions.Normal(h, 1.0).log_prob(y).sum().cpu()
            case "mse":
                loss = loss - torch.distributions.Normal(h, math.sqrt(h.shape[1] / 2)).log_prob(y).sum().cpu()
            case "heteroscedastic":
                variance = -0.5 / h[:, 1:]
                loss = loss - torch.distributions.Normal(h[:, :1] * variance, variance.sqrt()).log_prob(y).sum().cpu()
    return loss


EVERY_LIKELIHOOD = ("mlp", "mlp_bernoulli", "mlp_poisson", "mlp_gaussian", "mlp_mse", "mlp_natural", "mlp_scalar")


@each
@on(*EVERY_LIKELIHOOD, "gpt_tied", "pixels_ignored")
def test_the_evidence_is_loss_prior_and_determinants(case, structure, prior, device):
    """(P.7), with the determinant of (P.6) by slogdet."""
    posed, posterior, P = posed_fit(case, structure, prior, device, prior_mean=0.1)
    _, delta = asked(prior, posed)
    mean = torch.cat([t.detach().flatten() for t in oracles.tensors_of(posed.model)])
    quadratic = 0.5 * (delta * (mean - 0.1).square()).sum()
    wanted = -total_loss(posed) - quadratic.cpu() + 0.5 * (delta.log().sum() - torch.linalg.slogdet(P)[1]).cpu()
    close(posterior.evidence().cpu(), wanted, 1e-10)


@each
def test_the_evidence_is_the_integral_in_normalised_form(structure, prior, device):
    """log p(D, μ) − log q(μ): what is left when the density at its own mean is divided out."""
    posed, posterior, _ = posed_fit(by_name("mlp"), structure, prior, device)
    _, delta = asked(prior, posed)
    log_prior = torch.distributions.Normal(0.0, delta.rsqrt()).log_prob(posterior.mean).sum()
    wanted = -total_loss(posed) + log_prior.cpu() - posterior.log_prob(posterior.mean).cpu()
    close(posterior.evidence().cpu(), wanted, 1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
@on("mlp", "gpt_tied")
def test_a_scale_of_the_prior_in_the_evidence_is_a_new_fit(case, structure, device):
    posed = Posed(case, device)
    posterior = posed.fit(structure, prior_precision=0.7)
    for value in (1e-3, 0.7, 40.0):
        refitted = posed.fit(structure, prior_precision=value)
        close(posterior.evidence(prior_precision=value), refitted.evidence(), 1e-11)


@pytest.mark.parametrize("value", [1e30, 1e50, 1e120])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_prior_that_is_sure_of_the_weights_leaves_the_likelihood(structure, value, device):
    """Products of such precisions overflow, sums of their logarithms do not."""
    posed = Posed(by_name("mlp"), device)
    mean = torch.cat([t.detach().flatten() for t in oracles.tensors_of(posed.model)])
    posterior = posed.fit(structure, prior_precision=value, prior_mean=mean)
    assert float(posterior.evidence()) == pytest.approx(-float(total_loss(posed)), rel=1e-9)


@each
def test_the_newton_decrement_is_half_the_squared_gradient_in_the_inverse_precision(structure, prior, device):
    """(P.8) with autograd's gradient of the whole potential."""
    posed, posterior, P = posed_fit(by_name("mlp"), structure, prior, device)
    _, delta = asked(prior, posed)
    tensors = oracles.tensors_of(posed.model)
    total = sum(F.cross_entropy(posed.model(*x), y, reduction="sum") for x, y in posed.made)
    g = oracles.flat_gradient(total, tensors) + delta * posterior.mean
    wanted = 0.5 * g @ torch.linalg.solve(P, g)
    assert posterior.newton_decrement == pytest.approx(float(wanted), rel=1e-9)
