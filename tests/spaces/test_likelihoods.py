"""What every likelihood promises, against torch.distributions, autograd and exact expectations."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, distributions
from torch.testing import assert_close

from paraboloid.spaces.likelihoods import (
    Bernoulli,
    Categorical,
    GaussianLikelihood,
    HeteroscedasticGaussian,
    LogDensity,
    Poisson,
    likelihood,
)

N, C = 6, 3
STANDARD_ERRORS = 5
COVARIANCE = torch.tensor([[1.0, 0.3, 0.1], [0.3, 2.0, -0.4], [0.1, -0.4, 0.7]], dtype=torch.float64)
VARIANCES = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)

Quadrature = Callable[[Tensor], tuple[Tensor, Tensor]]


def labels(h: Tensor) -> tuple[Tensor, Tensor]:
    """All classes (m, n) with their probabilities (m, n)."""
    y = torch.arange(h.shape[1]).unsqueeze(1).expand(-1, len(h))
    return y, h.softmax(1).mT


def patterns(h: Tensor) -> tuple[Tensor, Tensor]:
    """All vectors of zeros and ones."""
    y = torch.tensor(list(itertools.product([0.0, 1.0], repeat=h.shape[1]))).unsqueeze(1).expand(-1, len(h), -1)
    return y, torch.where(y == 1, h.sigmoid(), 1 - h.sigmoid()).prod(-1)


def counts(h: Tensor) -> tuple[Tensor, Tensor]:
    """Counts of a single output up to 80, beyond which nothing is left at these rates."""
    y = torch.arange(80.0).reshape(-1, 1, 1).expand(-1, len(h), 1)
    return y, distributions.Poisson(h.exp()).log_prob(y).exp().squeeze(-1)


def hermite(mean: Tensor, L: Tensor) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and weights for N(mean, LLᵀ): exact for polynomials up to degree 13."""
    x, w = (torch.tensor(a) for a in np.polynomial.hermite_e.hermegauss(7))
    D = mean.shape[1]
    z = torch.tensor(list(itertools.product(x.tolist(), repeat=D)))
    weight = torch.tensor([np.prod(c) for c in itertools.product((w / w.sum()).tolist(), repeat=D)])
    y = mean + torch.einsum("...ij,mj->m...i", L, z).reshape(len(z), -1, D)
    return y, weight.unsqueeze(1).expand(-1, len(mean))


def moments(h: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation behind natural parameters, by their definition."""
    eta1, eta2 = h.chunk(2, -1)
    return -eta1 / (2 * eta2), (-1 / (2 * eta2)).sqrt()


@dataclass
class Case:
    likelihood: Any
    h: Tensor
    y: Tensor
    law: Callable[[Tensor], Any]
    expectation: Quadrature


def gaussian(noise: Any, Sigma: Tensor, h: Tensor) -> Case:
    L = torch.linalg.cholesky(Sigma)
    return Case(
        GaussianLikelihood(noise),
        h,
        h.flip(0) + 0.3,
        lambda h: distributions.MultivariateNormal(h, Sigma),
        lambda h: hermite(h, L),
    )


def make_cases() -> dict[str, Case]:
    g = torch.Generator().manual_seed(1)
    h = 2 * torch.randn(N, C, generator=g, dtype=torch.float64)
    natural = torch.cat([h[:, :2], -0.1 - h[:, 1:].abs()], 1)
    index = torch.randint(C, (N,), generator=g)
    soft = torch.rand(N, C, generator=g, dtype=torch.float64)

    def bernoullis(h: Tensor):
        return distributions.Independent(distributions.Bernoulli(logits=h), 1)

    def normals(h: Tensor):
        mu, sigma = moments(h)
        return distributions.Independent(distributions.Normal(mu, sigma), 1)

    def poissons(h: Tensor):
        return distributions.Independent(distributions.Poisson(h.exp()), 1)

    def categorical_log_prob(h: Tensor, y: Tensor) -> Tensor:
        return h.log_softmax(0)[y]

    categoricals = lambda h: distributions.Categorical(logits=h)  # noqa: E731
    fisher = LogDensity(categorical_log_prob, "fisher", support=torch.arange(C))
    eye = torch.eye(C, dtype=torch.float64)
    return {
        "categorical": Case(Categorical(), h, index, categoricals, labels),
        "two_classes": Case(Categorical(), h[:, :2], index.clamp(max=1), categoricals, labels),
        "bernoulli": Case(Bernoulli(), h, soft.round(), bernoullis, patterns),
        "one_logit": Case(Bernoulli(), h[:, :1], soft[:, :1].round(), bernoullis, patterns),
        "gaussian": gaussian(1.0, eye, h),
        "gaussian_scalar": gaussian(0.3, 0.3 * eye, h),
        "gaussian_diagonal": gaussian(VARIANCES, torch.diag(VARIANCES), h),
        "gaussian_full": gaussian(COVARIANCE, COVARIANCE, h),
        "mse": gaussian("mse", C / 2 * eye, h),
        "poisson": Case(Poisson(), h[:, :1], index.unsqueeze(1), poissons, counts),
        "heteroscedastic": Case(
            HeteroscedasticGaussian(),
            natural,
            h[:, 1:],
            normals,
            lambda h: hermite(moments(h)[0], torch.diag_embed(moments(h)[1])),
        ),
        "log_density_hessian": Case(
            LogDensity(categorical_log_prob, support=torch.arange(C)), h, index, categoricals, labels
        ),
        "log_density_fisher": Case(fisher, h, index, categoricals, labels),
    }


CASES = make_cases()
every_case = pytest.mark.parametrize("name", CASES)


def on(case: Case, device: torch.device) -> tuple[Any, Tensor, Tensor]:
    return case.likelihood, case.h.to(device), case.y.to(device)


@every_case
def test_nll_is_minus_the_log_probability(name, device):
    """(L.1), (L.5), (L.11), (L.14), (L.18), (L.22), constants included."""
    lik, h, y = on(CASES[name], device)
    expected = -CASES[name].law(h.cpu()).log_prob(y.cpu())
    assert_close(lik.nll(h, y).cpu(), expected, rtol=1e-12, atol=1e-12)


@every_case
def test_gradient_is_that_of_autograd(name, device):
    """(L.6), (L.12), (L.15), (L.19), (L.23), (L.27)."""
    lik, h, y = on(CASES[name], device)
    leaf = h.clone().requires_grad_()
    (expected,) = torch.autograd.grad(lik.nll(leaf, y).sum(), leaf)
    assert_close(lik.gradient(h, y), expected, rtol=1e-11, atol=1e-11)


@every_case
def test_loss_hessian_is_that_of_autograd(name, device):
    """(L.7), (L.13), (L.16), (L.20), (L.24), (L.28)."""
    lik, h, y = on(CASES[name], device)
    per_row = torch.autograd.functional.hessian(lambda x: lik.nll(x, y).sum(), h)
    expected = torch.stack([per_row[i, :, i] for i in range(len(h))])
    assert_close(lik.loss_hessian(h, y), expected, rtol=1e-11, atol=1e-11)


@every_case
def test_the_output_curvature_is_the_fisher_and_the_hessian(name, device):
    """(L.4): the expectation over targets is summed exactly, not drawn."""
    lik, h, y = on(CASES[name], device)
    nodes, weights = CASES[name].expectation(h.cpu())
    gradients = torch.stack([lik.gradient(h, node.to(device)) for node in nodes]).cpu()
    fisher = torch.einsum("mn,mnc,mnd->ncd", weights, gradients, gradients)
    G = lik.hessian(h, y)
    assert_close(G.cpu(), fisher, rtol=1e-10, atol=1e-10)
    assert_close(G, lik.loss_hessian(h, y), rtol=1e-10, atol=1e-10)


@every_case
def test_gradients_are_zero_on_average(name, device):
    """(L.4): E[T - E T] = 0."""
    lik, h, _ = on(CASES[name], device)
    nodes, weights = CASES[name].expectation(h.cpu())
    gradients = torch.stack([lik.gradient(h, node.to(device)) for node in nodes]).cpu()
    mean = torch.einsum("mn,mnc->nc", weights, gradients)
    assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-10)


@every_case
def test_the_root_squares_to_the_curvature(name, device):
    """(L.3), (L.9), (L.17), (L.25)."""
    lik, h, y = on(CASES[name], device)
    R = lik.root(h, y)
    assert R.shape == (*h.shape, lik.rank(h.shape[1]))
    assert_close(R @ R.mT, lik.hessian(h, y), rtol=1e-12, atol=1e-13)


@every_case
def test_columns_one_by_one_are_the_root(name, device):
    lik, h, y = on(CASES[name], device)
    R = lik.root(h, y)
    for k, column in enumerate(lik.root_columns(h, y)):
        assert torch.equal(column, R[..., k])
        assert torch.equal(lik.root_column(h, k, y), R[..., k])
    with pytest.raises(IndexError, match=f"found k = {R.shape[-1]}"):
        lik.root_column(h, R.shape[-1], y)


@every_case
def test_multiply_is_the_product_with_the_curvature(name, device, generator):
    """(L.8) and its like."""
    lik, h, y = on(CASES[name], device)
    v = torch.randn(h.shape, generator=generator, device=device)
    expected = (lik.hessian(h, y) @ v.unsqueeze(-1)).squeeze(-1)
    assert_close(lik.multiply(h, v, y), expected, rtol=1e-11, atol=1e-12)


@every_case
def test_draws_have_the_moments_of_the_law(name, device, generator):
    """Score identities: gradients at drawn targets have mean 0 and second moment G, to five standard errors."""
    lik, h, y = on(CASES[name], device)
    S = 20_000
    drawn = lik.draw(h, generator, S)
    assert drawn.shape == (S, *y.shape)
    many = h.repeat(S, 1)
    g = lik.gradient(many, drawn.reshape(-1, *y.shape[1:])).reshape(S, *h.shape)
    G, floor = lik.hessian(h, y), 1e-12
    squares = g.unsqueeze(-1) * g.unsqueeze(-2)
    variance = fourth_moments(CASES[name]).to(device) - G.square()  # of the law: what was never drawn has one too
    error = (G.diagonal(dim1=1, dim2=2) / S).sqrt()
    assert (g.mean(0).abs() <= STANDARD_ERRORS * error + floor).all()
    assert ((squares.mean(0) - G).abs() <= STANDARD_ERRORS * (variance.clamp_min(0) / S).sqrt() + floor).all()


def fourth_moments(case: Case) -> Tensor:
    """E (g_c g_d)² of every row (n, C, C), by quadrature."""
    nodes, weights = case.expectation(case.h)
    g = torch.stack([case.likelihood.gradient(case.h, y) for y in nodes])
    return torch.einsum("mn,mncd->ncd", weights, (g.unsqueeze(-1) * g.unsqueeze(-2)).square())


@every_case
def test_draws_repeat_with_the_seed_and_without_a_generator(name, device):
    lik, h, _ = on(CASES[name], device)
    state = torch.get_rng_state()
    first, again = (lik.draw(h, torch.Generator(device).manual_seed(5), 4) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(lik.draw(h, None, 4), lik.draw(h, None, 4))
    assert torch.equal(torch.get_rng_state(), state)


@every_case
def test_drawn_targets_are_valid_targets(name, device):
    lik, h, _ = on(CASES[name], device)
    for y in lik.draw(h, None, 3):
        lik.check(h, y)
        assert torch.isfinite(lik.nll(h, y)).all()


@every_case
def test_no_rows_are_fine(name, device):
    lik, h, y = on(CASES[name], device)
    h, y = h[:0], y[:0]
    lik.check(h, y)
    assert lik.nll(h, y).shape == (0,)
    assert lik.gradient(h, y).shape == h.shape
    assert lik.hessian(h, y).shape == (0, h.shape[1], h.shape[1])
    assert lik.root(h, y).shape == (0, h.shape[1], lik.rank(h.shape[1]))
    assert lik.multiply(h, h, y).shape == h.shape
    assert lik.draw(h, None, 2).shape == (2, *y.shape)


@every_case
def test_results_have_the_precision_of_the_outputs(name, device):
    lik, h, y = on(CASES[name], device)
    h32 = h.float()
    y32 = y.float() if y.is_floating_point() else y
    for value in (lik.nll(h32, y32), lik.gradient(h32, y32), lik.hessian(h32, y32), lik.root(h32, y32)):
        assert value.dtype == torch.float32
    assert_close(lik.hessian(h32, y32).double(), lik.hessian(h, y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("log")])
def test_a_likelihood_can_be_written_down_and_made_again(name):
    case = CASES[name]
    again = likelihood(json.loads(json.dumps(case.likelihood.config())))
    assert type(again) is type(case.likelihood)
    assert torch.equal(again.nll(case.h, case.y), case.likelihood.nll(case.h, case.y))
    assert case.likelihood.name in case.likelihood.describe()
    assert type(again).__name__ in repr(again)


def test_names_give_likelihoods():
    for name in ("categorical", "bernoulli", "gaussian", "mse", "heteroscedastic", "poisson"):
        assert likelihood(name).name == name
    own = Categorical(ignore_index=-1)
    assert likelihood(own) is own


@pytest.mark.parametrize(
    ("spec", "near"),
    [
        ("categorial", "categorical"),
        ("classification", "categorical"),
        ("regression", "gaussian"),
        ("Poisson", "poisson"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(spec, near):
    with pytest.raises(ValueError, match=f'no likelihood is called .* Did you mean "{near}"'):
        likelihood(spec)


def test_a_loss_module_is_answered_with_its_likelihood():
    with pytest.raises(TypeError, match='found CrossEntropyLoss. For CrossEntropyLoss that is "categorical"'):
        likelihood(torch.nn.CrossEntropyLoss())
    with pytest.raises(TypeError, match="found int"):
        likelihood(3)
    with pytest.raises(ValueError, match=r"pass likelihood=LogDensity\(...\) again"):
        likelihood(CASES["log_density_hessian"].likelihood.config())


def test_mse_is_the_mean_squared_error_up_to_a_constant():
    """(L.14) with s² = C/2."""
    h, y = CASES["mse"].h, CASES["mse"].y
    difference = likelihood("mse").nll(h, y) - (h - y).square().mean(1)
    assert_close(difference, difference[:1].expand(N), rtol=1e-13, atol=1e-13)
    assert_close(likelihood("mse").gradient(h, y), 2 * (h - y) / C)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (0.0, "positive and finite, found 0.0"),
        (torch.tensor([1.0, -1.0]), "positive and finite"),
        (torch.tensor([[1.0, 2.0], [2.0, 1.0]]), "symmetric, positive definite"),
        (torch.tensor([[1.0, 0.5], [0.0, 1.0]]), "symmetric, positive definite"),
        (torch.ones(2, 3), r"a number, \(C,\) or \(C, C\), found shape \(2, 3\)"),
        ("rmse", "or \"mse\", found 'rmse'"),
    ],
)
def test_a_noise_that_is_no_covariance_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        GaussianLikelihood(noise)


def test_noise_for_another_number_of_outputs_is_refused():
    with pytest.raises(ValueError, match=r"given for 3 outputs, found outputs \(n, 2\)"):
        GaussianLikelihood(VARIANCES).nll(torch.zeros(1, 2), torch.zeros(1, 2))
