"""Predictive distributions for Gaussian outputs: shapes, limits, and how far approximations may be off."""

import pytest
import torch
from torch import distributions
from torch.testing import assert_close

from paraboloid.spaces.likelihoods import (
    Bernoulli,
    Categorical,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    Poisson,
)

COVARIANCE = torch.tensor([[0.5, 0.1], [0.1, 0.8]], dtype=torch.float64)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    mean = torch.tensor([[0.5, -1.0], [2.0, -0.3], [0.0, -3.0]])
    return mean, COVARIANCE.expand(3, 2, 2)


@pytest.mark.parametrize(
    "lik",
    [Categorical(), Bernoulli(), GaussianLikelihood(0.3), Poisson(), HeteroscedasticGaussian()],
    ids=lambda lik: lik.name,
)
def test_without_uncertainty_the_predictive_is_the_likelihood(lik, device, generator):
    """And log_prob is per term, for a full covariance and for variances alone."""
    mean, covariance = (t.to(device) for t in rows())
    y = lik.draw(mean, generator, 1)[0]
    for nothing in (torch.zeros_like(covariance), torch.zeros_like(mean)):
        law = lik.predictive(mean, nothing)
        assert law.batch_shape == (3,)
        assert_close(law.log_prob(y), -lik.nll(mean, y))


def test_the_gaussian_predictive_adds_the_noise():
    """(L.16)."""
    mean, covariance = rows()
    noise = torch.tensor([[0.2, 0.05], [0.05, 0.4]])
    law = GaussianLikelihood(noise).predictive(mean, covariance)
    assert isinstance(law, distributions.MultivariateNormal)
    assert_close(law.mean, mean)
    assert_close(law.covariance_matrix, covariance + noise)
    variances = covariance.diagonal(dim1=1, dim2=2)
    assert_close(GaussianLikelihood(0.3).predictive(mean, variances).variance, variances + 0.3)
    full = GaussianLikelihood(noise).predictive(mean, variances)
    assert_close(full.covariance_matrix, torch.diag_embed(variances) + noise)


def test_class_probabilities_are_probit_scaled():
    """(L.10), the formula itself."""
    mean, covariance = rows()
    scale = (1 + torch.pi / 8 * torch.tensor([0.5, 0.8])).sqrt()
    expected = (mean / scale).softmax(1)
    assert_close(Categorical().predictive(mean, covariance).probs, expected)
    assert_close(Bernoulli().predictive(mean, covariance).mean, (mean / scale).sigmoid())


def test_the_probit_approximation_is_near_the_integral():
    """(L.10) against a sum over a fine grid; 0.02 is the known size of MacKay's error."""
    z = torch.linspace(-10, 10, 20_001)
    weight = torch.exp(-0.5 * z**2)
    for m, v in ((0.5, 0.5), (2.0, 4.0), (-3.0, 1.0)):
        exact = (torch.sigmoid(m + v**0.5 * z) * weight).sum() / weight.sum()
        law = Bernoulli().predictive(torch.tensor([[m]]), torch.tensor([[[v]]]))
        assert abs(law.mean.item() - exact.item()) < 0.02


def test_the_poisson_predictive_has_the_exact_mean():
    """(L.21) against a sum over a fine grid."""
    z = torch.linspace(-12, 12, 20_001)
    weight = torch.exp(-0.5 * z**2)
    exact = (torch.exp(0.5 + 0.8**0.5 * z) * weight).sum() / weight.sum()
    law = Poisson().predictive(torch.tensor([[0.5]]), torch.tensor([[[0.8]]]))
    assert_close(law.mean, exact.reshape(1, 1), rtol=1e-10, atol=0)


def test_predicted_noise_gains_the_spread_of_the_mean_to_first_order():
    """(L.26): the derivative of μ by autograd."""
    mean, covariance = rows()
    eta = mean[1].clone().requires_grad_()
    mu = -eta[0] / (2 * eta[1])
    (J,) = torch.autograd.grad(mu, eta)
    expected = -1 / (2 * eta[1]) + J @ covariance[1] @ J
    lik = HeteroscedasticGaussian()
    assert_close(lik.predictive(mean, covariance).covariance_matrix[1, 0, 0], expected.detach())
    diagonal = covariance.diagonal(dim1=1, dim2=2)
    alone = -1 / (2 * eta[1]) + (J.square() * diagonal[1]).sum()
    assert_close(lik.predictive(mean, diagonal).variance[1, 0], alone.detach())


def test_a_covariance_of_another_shape_is_refused():
    for lik in (Categorical(), Bernoulli(), GaussianLikelihood(), Poisson(), HeteroscedasticGaussian()):
        with pytest.raises(ValueError, match=r"`covariance` should be \(3, 2, 2\), or \(3, 2\)"):
            lik.predictive(-torch.ones(3, 2), torch.zeros(2, 2))
