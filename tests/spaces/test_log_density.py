"""A user's log-density: which curvature, by which road, and what is refused."""

import pytest
import torch
from torch import distributions
from torch.testing import assert_close

from paraboloid.spaces.likelihoods import LogDensity


def student(h, y):
    """Student t with 3 degrees of freedom around h: log-concave near the mode only."""
    return distributions.StudentT(3.0, h[0], 1.0).log_prob(y)


def mean_and_log_scale(h, y):
    """Normal with outputs (μ, log σ), which are no natural parameters."""
    return -0.5 * ((y - h[0]) * (-h[1]).exp()).square() - h[1] - 0.5 * torch.tensor(2 * torch.pi).log()


def draw_normal(h, generator, samples):
    noise = torch.randn(samples, len(h), generator=generator, device=h.device, dtype=h.dtype)
    return h[:, 0] + h[:, 1].exp() * noise


def test_hessian_and_fisher_differ_where_outputs_are_not_natural(device):
    """(L.28) holds the target, (L.30) does not: closed forms [[1/σ², 2r/σ²·…], …] and diag(1/σ², 2)."""
    h = torch.tensor([[0.0, 0.2], [1.0, -0.3]], device=device)
    y = torch.tensor([0.5, 0.8], device=device)
    true = LogDensity(mean_and_log_scale).loss_hessian(h, y)
    r, s2 = y - h[:, 0], (2 * h[:, 1]).exp()
    expected = torch.stack([1 / s2, 2 * r / s2, 2 * r / s2, 2 * r.square() / s2], 1).reshape(-1, 2, 2)
    assert_close(true, expected, rtol=1e-12, atol=1e-12)

    lik = LogDensity(mean_and_log_scale, "fisher", draw=draw_normal, samples=40_000)
    g = lik.gradient(h.repeat(40_000, 1), lik.draw(h, None, 40_000).reshape(-1)).reshape(40_000, 2, 2)
    squares = g.unsqueeze(-1) * g.unsqueeze(-2)
    assert_close(lik.hessian(h), squares.mean(0))
    fisher = torch.diag_embed(torch.stack([1 / s2, torch.full_like(s2, 2)], 1))
    assert ((lik.hessian(h) - fisher).abs() <= 5 * squares.std(0) / 200).all()
    assert torch.equal(lik.hessian(h), lik.hessian(h))


def test_an_indefinite_hessian_is_refused_as_curvature_and_given_as_hessian():
    h, y = torch.zeros(2, 1), torch.tensor([0.0, 5.0])
    lik = LogDensity(student)
    assert lik.loss_hessian(h, y)[1, 0, 0] < 0
    for road in (lik.hessian, lik.root):
        with pytest.raises(
            ValueError, match=r"positive semi-definite.*eigenvalue -0.*curvature='fisher'.*kind='hessian'"
        ):
            road(h, y)
    lik.hessian(h[:1], y[:1])


def test_the_hessian_needs_targets():
    lik = LogDensity(student)
    assert lik.needs_targets
    with pytest.raises(ValueError, match="depends on the targets: pass y"):
        lik.hessian(torch.zeros(2, 1))


def test_rows_of_targets_may_have_axes(device):
    def log_prob(h, y):
        return -0.5 * (y - h).square().sum()

    lik = LogDensity(log_prob)
    h, y = torch.randn(3, 2, device=device), torch.randn(3, 4, 2, device=device)
    assert_close(lik.gradient(h, y), (4 * h - y.sum(1)))
    assert_close(lik.hessian(h, y), 4 * torch.eye(2, device=device).expand(3, 2, 2))


def test_the_choice_is_described():
    assert "Hessian of -log p at the targets" in LogDensity(student).describe()
    assert "Fisher, over 2 labels" in LogDensity(student, "fisher", support=torch.arange(2)).describe()
    assert "Fisher, by 9 draws" in LogDensity(student, "fisher", draw=draw_normal, samples=9).describe()


def test_the_predictive_is_the_users():
    lik = LogDensity(student, predictive=lambda mean, covariance: distributions.Normal(mean, covariance))
    assert lik.predictive(torch.zeros(1), torch.ones(1)).stddev == 1
    with pytest.raises(ValueError, match="give predictive="):
        LogDensity(student).predictive(torch.zeros(1), torch.ones(1))


def test_what_is_missing_is_asked_for():
    with pytest.raises(ValueError, match='"hessian" or "fisher", found \'ggn\''):
        LogDensity(student, "ggn")
    with pytest.raises(ValueError, match="give support=.* or draw="):
        LogDensity(student, "fisher")
    with pytest.raises(ValueError, match="at least 1, found 0"):
        LogDensity(student, "fisher", draw=draw_normal, samples=0)
    with pytest.raises(ValueError, match="give support= or draw= when making it"):
        LogDensity(student).draw(torch.zeros(1, 1), None, 1)
    with pytest.raises(ValueError, match=r"targets \(3, 2, ...\), found \(2, 3\)"):
        LogDensity(student, draw=lambda h, generator, samples: torch.zeros(2, 3)).draw(torch.zeros(2, 1), None, 3)


def test_probabilities_of_the_support_have_to_add_up():
    lik = LogDensity(lambda h, y: h.log_softmax(0)[y], "fisher", support=torch.arange(2))
    with pytest.raises(ValueError, match=r"2 targets in support= should add up to 1, found 0.666"):
        lik.hessian(torch.zeros(1, 3))


def test_checks_of_rows_and_of_the_function():
    with pytest.raises(ValueError, match=r"without axes, found shape \(2,\)"):
        LogDensity(lambda h, y: h).check(torch.zeros(1, 2), torch.zeros(1))
    with pytest.raises(ValueError, match="finite"):
        LogDensity(student).check(torch.zeros(1, 1), torch.tensor([float("nan")]))
    with pytest.raises(ValueError, match=r"begin with the axes \(4,\)"):
        LogDensity(student).arrange(torch.zeros(4, 1), torch.zeros(3))
