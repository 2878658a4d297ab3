"""Bootstrap: closed forms for a mean, the same draws as a loop, coverage, and generators."""

import math

import pytest
import torch

from paraboloid.metrics import bootstrap as module
from paraboloid.metrics.bootstrap import bootstrap
from paraboloid.metrics.calibration import expected_calibration_error
from paraboloid.metrics.detection import auroc
from paraboloid.metrics.scores import accuracy


def mean(x):
    return x.mean(-1)


def test_the_standard_error_of_a_mean_is_the_closed_form(generator, device):
    """(M.28): √Σ(x - x̄)²/n, estimated from K resamples to within 5/√(2K)."""
    x = torch.randn(60, generator=generator, device=device)
    found = bootstrap(mean, x, resamples=20_000, generator=generator)
    exact = float((x - x.mean()).square().sum().sqrt() / 60)
    assert float(found.standard_error) == pytest.approx(exact, rel=5 / math.sqrt(40_000))
    assert float(found.mean) == pytest.approx(float(x.mean()), abs=5 * exact / math.sqrt(20_000))
    assert float(found.value) == pytest.approx(float(x.mean()), rel=1e-14)


@pytest.mark.parametrize("chunk", [1, 700, 1 << 22])
def test_resamples_are_those_of_a_loop_whatever_is_held_at_once(chunk, generator, device, monkeypatch):
    """(M.28), pair by pair: an example keeps its label."""
    p = torch.rand(50, 3, generator=generator, device=device).softmax(-1)
    y = torch.randint(3, (50,), generator=generator, device=device)
    monkeypatch.setattr(module, "CHUNK", chunk)
    found = bootstrap(expected_calibration_error, p, y, resamples=40, level=0.9)
    step = max(1, chunk // p.numel())
    again, picks = torch.Generator(device).manual_seed(0), []
    for start in range(0, 40, step):
        picks += torch.randint(50, (min(step, 40 - start), 50), generator=again, device=device)
    replicates = torch.stack([expected_calibration_error(p[i], y[i]) for i in picks])
    torch.testing.assert_close(found.mean, replicates.mean())
    torch.testing.assert_close(found.standard_error, replicates.std())
    torch.testing.assert_close(found.low, replicates.quantile(0.05))
    torch.testing.assert_close(found.high, replicates.quantile(0.95))


def test_the_interval_covers_the_truth_as_often_as_it_says(generator, device):
    """(M.28): 95 % of 400 intervals for a mean, 5 standard errors, less 2 % for n = 80; the sets are one metric."""
    x = torch.randn(80, 400, generator=generator, device=device)
    found = bootstrap(lambda x: x.mean(1), x, resamples=400, generator=generator)
    covered = ((found.low <= 0) & (found.high >= 0)).double().mean()
    assert 0.93 - 5 * math.sqrt(0.95 * 0.05 / 400) < float(covered) <= 1
    assert found.low.shape == (400,)


def test_samples_of_their_own_are_resampled_each_by_itself(generator, device):
    """AUROC, whose variance under independence of 40 and 30 scores of one distribution is (n + m + 1)/12nm, about."""
    s = torch.randn(40, generator=generator, device=device)
    r = torch.randn(30, generator=generator, device=device)
    found = bootstrap(auroc, s, r, paired=False, resamples=4000, generator=generator)
    assert torch.equal(found.value, auroc(s, r))
    assert float(found.standard_error) == pytest.approx(math.sqrt(71 / 12 / 40 / 30), rel=0.15)


def test_a_function_of_one_data_set_is_stacked_by_vmap(generator, device):
    x = torch.randn(30, generator=generator, device=device)
    there, here = bootstrap(torch.vmap(torch.median), x), bootstrap(lambda x: x.median(-1).values, x)
    assert torch.equal(there.standard_error, here.standard_error)


def test_without_a_generator_the_same_call_gives_the_same_numbers_and_with_one_it_moves_on(generator, device):
    p = torch.rand(50, 3, generator=generator, device=device).softmax(-1)
    y = torch.randint(3, (50,), generator=generator, device=device)
    before = torch.get_rng_state()
    assert torch.equal(torch.stack(bootstrap(accuracy, p, y)), torch.stack(bootstrap(accuracy, p, y)))
    first, second = (bootstrap(accuracy, p, y, generator=generator) for _ in range(2))
    assert not torch.equal(first.mean, second.mean)
    assert torch.equal(torch.get_rng_state(), before)
