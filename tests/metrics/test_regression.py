"""Gaussian predictives against integrals, loops and distributions of known shape."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch

from paraboloid.metrics.regression import (
    ence,
    gaussian_crps,
    gaussian_nll,
    interval_coverage,
    pit,
    quantile_calibration_error,
    rmse,
    sharpness,
    standardised_residuals,
)


@pytest.fixture
def predicted(generator, device):
    """Means, variances and targets drawn from them, but half as wide again."""
    m = torch.randn(157, generator=generator, device=device)
    v = torch.rand(157, generator=generator, device=device) + 0.1
    return m, v, m + 1.5 * v.sqrt() * torch.randn(157, generator=generator, device=device)


def arrays(*tensors):
    return [x.cpu().numpy() for x in tensors]


def test_the_likelihood_is_scipys_density(predicted):
    """(M.18)"""
    m, v, y = arrays(*predicted)
    expected = -scipy.stats.norm.logpdf(y, m, np.sqrt(v)).mean()
    assert float(gaussian_nll(*predicted)) == pytest.approx(expected, rel=1e-12)


def test_the_crps_is_the_integral_of_squared_differences():
    """(M.19): ∫ (F(t) - [t ≥ y])² dt, cut at y."""
    for m, sigma, y in [(0.0, 1.0, 0.0), (1.0, 0.5, -1.0), (-2.0, 3.0, 4.0), (0.3, 0.1, 0.35)]:
        below, _ = scipy.integrate.quad(
            lambda t, m=m, sigma=sigma: scipy.stats.norm.cdf(t, m, sigma) ** 2, min(m - 40 * sigma, y), y, epsabs=1e-12
        )
        above, _ = scipy.integrate.quad(
            lambda t, m=m, sigma=sigma: scipy.stats.norm.sf(t, m, sigma) ** 2, y, max(m + 40 * sigma, y), epsabs=1e-12
        )
        found = gaussian_crps(torch.tensor([m]), torch.tensor([sigma**2]), torch.tensor([y]))
        assert float(found) == pytest.approx(below + above, abs=1e-9)


def test_the_crps_of_a_certain_prediction_is_the_absolute_error(predicted):
    """(M.19) as the variance goes to 0."""
    m, v, y = predicted
    assert float(gaussian_crps(m, 1e-20 * v, y)) == pytest.approx(float((y - m).abs().mean()), rel=1e-8)


def test_pit_values_are_the_distribution_function_at_the_target(predicted):
    """(M.20)"""
    m, v, y = arrays(*predicted)
    np.testing.assert_allclose(pit(*predicted).cpu(), scipy.stats.norm.cdf(y, m, np.sqrt(v)), rtol=1e-10)
    np.testing.assert_allclose(standardised_residuals(*predicted).cpu(), (y - m) / np.sqrt(v), rtol=1e-13)


@pytest.mark.parametrize("levels", [1, 9, 99])
def test_the_quantile_error_compares_shares_with_levels(predicted, levels):
    """(M.20), level by level."""
    m, v, y = arrays(*predicted)
    gaps = []
    for j in range(1, levels + 1):
        p = j / (levels + 1)
        gaps.append(abs(np.mean(y <= m + np.sqrt(v) * scipy.stats.norm.ppf(p)) - p))
    assert float(quantile_calibration_error(*predicted, levels=levels)) == pytest.approx(np.mean(gaps), rel=1e-10)


def test_the_quantile_error_of_the_right_predictive_is_small_and_of_wrong_spreads_near_a_quarter(generator, device):
    """(M.20): by Dvoretzky, Kiefer and Wolfowitz all gaps are below √(log(2/δ)/2n) but with probability δ."""
    y = torch.randn(20_000, generator=generator, device=device)
    zero, one = torch.zeros_like(y), torch.ones_like(y)
    assert float(quantile_calibration_error(zero, one, y)) < math.sqrt(math.log(2 / 1e-6) / 2 / 20_000)
    for factor in (1e-6, 1e6):
        assert float(quantile_calibration_error(zero, factor * one, y)) == pytest.approx(0.25, abs=0.02)
    assert float(quantile_calibration_error(zero + 99, one, y)) == pytest.approx(0.5, abs=1e-12)


def test_ence_is_a_loop_over_the_sorted_variances(predicted):
    """(M.21)"""
    m, v, y = arrays(*predicted)
    order = np.argsort(v)
    terms = []
    for b in range(10):
        part = order[[i for i in range(157) if i * 10 // 157 == b]]
        rmv, error = math.sqrt(v[part].mean()), math.sqrt(((y - m)[part] ** 2).mean())
        terms.append(abs(rmv - error) / rmv)
    assert float(ence(*predicted)) == pytest.approx(np.mean(terms), rel=1e-11)


def test_ence_with_equal_variances_does_not_depend_on_the_order(generator, device):
    """(M.1): one variance, so that every bin has the same mean square, and ENCE is |1 - RMSE/σ| (M.21)."""
    y = torch.randn(40, generator=generator, device=device)
    zero, v = torch.zeros_like(y), torch.full_like(y, 4.0)
    expected = abs(1 - float(y.square().mean().sqrt()) / 2)
    assert float(ence(zero, v, y)) == pytest.approx(expected, rel=1e-12)
    assert float(ence(zero, v, y.flip(0))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_counts_targets_between_the_quantiles(predicted, level):
    """(M.22)"""
    m, v, y = arrays(*predicted)
    low, high = scipy.stats.norm.interval(level, m, np.sqrt(v))
    assert float(interval_coverage(*predicted, level=level)) == np.mean((low <= y) & (y <= high))


def test_sharpness_is_the_root_of_the_mean_variance(predicted):
    """(M.22)"""
    m, v, y = arrays(*predicted)
    assert float(sharpness(predicted[1])) == pytest.approx(math.sqrt(v.mean()), rel=1e-13)
    assert float(rmse(predicted[0], predicted[2])) == pytest.approx(math.sqrt(((y - m) ** 2).mean()), rel=1e-13)


def test_errors_scale_with_the_units_of_the_targets(predicted):
    """In units a times smaller: CRPS, RMSE and sharpness times a, likelihood plus log a, the rest unchanged."""
    m, v, y = predicted
    a = 7.0
    scaled = (a * m, a * a * v, a * y)
    assert float(gaussian_crps(*scaled)) == pytest.approx(a * float(gaussian_crps(m, v, y)), rel=1e-12)
    assert float(sharpness(scaled[1])) == pytest.approx(a * float(sharpness(v)), rel=1e-12)
    assert float(gaussian_nll(*scaled)) == pytest.approx(float(gaussian_nll(m, v, y)) + math.log(a), rel=1e-12)
    for f in (ence, interval_coverage, quantile_calibration_error):
        assert float(f(*scaled)) == pytest.approx(float(f(m, v, y)), rel=1e-10)


def test_axes_in_front_are_data_sets_of_their_own(predicted):
    stacked = [x[:156].reshape(3, 52) for x in predicted]
    for f in (gaussian_nll, gaussian_crps, quantile_calibration_error, ence, interval_coverage):
        each = torch.stack([f(*row) for row in zip(*stacked, strict=True)])
        torch.testing.assert_close(f(*stacked), each, rtol=1e-13, atol=1e-14)


def test_scores_are_differentiable(predicted):
    m, v, y = (x[:6].clone().requires_grad_() for x in predicted)
    for f in (gaussian_nll, gaussian_crps, pit, lambda m, v, y: ence(m, v, y, bins=3)):
        assert torch.autograd.gradcheck(f, (m, v, y))
