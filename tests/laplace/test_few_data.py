"""With fewer data than weights most directions are the prior's, and a thin curvature says so without holding them."""

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal

from paraboloid import GaussianLikelihood, laplace

NOISE, DELTA = 0.3, 0.7


@pytest.mark.parametrize("structure", ["lowrank", "dense", "block", "kronecker"])
@pytest.mark.parametrize("points", [1, 3])
def test_the_evidence_of_few_points_is_the_density_of_their_targets(structure, points, generator):
    """Linear regression in six dimensions: y ~ N(0, s²I + xxᵀ/δ), rank at most `points` (P.6, P.7)."""
    x = torch.randn(points, 6, generator=generator)
    y = torch.randn(points, 1, generator=generator)
    ridge = x.T @ x / NOISE + DELTA * torch.eye(6)
    model = nn.Linear(6, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.linalg.solve(ridge, x.T @ y / NOISE).T)
    posterior = laplace(model, (x, y), likelihood=GaussianLikelihood(NOISE), structure=structure, prior_precision=DELTA)
    for delta in (DELTA, 5.0):
        marginal = MultivariateNormal(torch.zeros(points), NOISE * torch.eye(points) + x @ x.T / delta)
        at_mean = posterior.evidence(prior_precision=delta)
        # at another precision the mean is no minimum: what it lacks is ½ gᵀP⁻¹g
        P = x.T @ x / NOISE + delta * torch.eye(6)
        g = P @ posterior.mean - (x.T @ y / NOISE)[:, 0]
        expected = marginal.log_prob(y[:, 0]) - 0.5 * g @ torch.linalg.solve(P, g)
        torch.testing.assert_close(at_mean, expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(posterior.gaussian.logdet, torch.linalg.slogdet(ridge)[1], rtol=0, atol=1e-9)
