"""R-hat and effective sizes against loops over the equations, ArviZ's numbers, and chains of known correlation."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from paraboloid.metrics.chains import ess_bulk, ess_mean, ess_tail, mcse_mean, rhat

ALL = [rhat, ess_bulk, ess_tail, ess_mean, mcse_mean]


def congruential(count, seed=1):
    """Numbers in [-½, ½) that are the same on every machine."""
    state, out = seed, []
    for _ in range(count):
        state = (1103515245 * state + 12345) % 2**31
        out.append(state / 2**31 - 0.5)
    return out


def series(chains, draws, phi, shift=0.0, power=1):
    """Autoregressive chains x_t = φ x_{t-1} + noise, shifted from chain to chain, with powers for heavy tails."""
    x = np.array(congruential(chains * draws)).reshape(chains, draws)
    for t in range(1, draws):
        x[:, t] += phi * x[:, t - 1]
    return np.sign(x) * np.abs(x) ** power + shift * np.arange(chains)[:, None]


def halves(x):
    """(M.23)"""
    n = x.shape[1] // 2
    return np.concatenate([x[:, :n], x[:, -n:]])


def scores(x):
    """(M.23)"""
    return scipy.stats.norm.ppf((scipy.stats.rankdata(x, axis=None) - 3 / 8) / (x.size + 1 / 4)).reshape(x.shape)


def plain_rhat(x):
    """(M.24)"""
    n = x.shape[1]
    return math.sqrt((n - 1) / n + x.mean(1).var(ddof=1) / x.var(1, ddof=1).mean())


def plain_ess(x):
    """(M.25), lag by lag and pair by pair; S for what never changes (M.26)."""
    M, n = x.shape
    if x.min() == x.max():
        return M * n
    centred = x - x.mean(1, keepdims=True)
    gamma = [np.mean([c[: n - t] @ c[t:] / n for c in centred]) for t in range(n)]
    V = gamma[0] + x.mean(1).var(ddof=1)
    rho = [1.0] + [1 - (gamma[0] * n / (n - 1) - g) / V for g in gamma[1:]]
    tau, k, previous = -1.0, 0, math.inf
    while rho[2 * k] + rho[2 * k + 1] > 0 and 2 * (k + 1) + 1 < n - 1:
        previous = min(previous, rho[2 * k] + rho[2 * k + 1])
        tau, k = tau + 2 * previous, k + 1
    tau += max(rho[2 * k], 0) if rho[2 * k] + rho[2 * k + 1] <= 0 else rho[2 * k]
    return M * n / max(tau, 1 / math.log10(M * n))


def by_loops(x):
    """All five numbers of chains (M, draws), from (M.23) to (M.27)."""
    split = halves(x)
    folded = np.abs(split - np.median(split))
    tails = [plain_ess(halves((x <= np.quantile(x, q)).astype(float))) for q in (0.05, 0.95)]
    mean = plain_ess(split)
    return [
        max(plain_rhat(scores(split)), plain_rhat(scores(folded))),
        plain_ess(scores(split)),
        min(tails),
        mean,
        x.std(ddof=1) / math.sqrt(mean),
    ]


@pytest.mark.parametrize("phi", [-0.9, 0.0, 0.6, 0.98])
@pytest.mark.parametrize(("chains", "draws"), [(1, 40), (2, 9), (4, 4), (4, 73), (5, 120)])
@pytest.mark.parametrize("power", [1, 7])
def test_all_numbers_are_those_of_loops(chains, draws, phi, power, device):
    """(M.23), (M.24), (M.25), (M.26), (M.27); odd draws lose the middle one, few draws end the sequence early."""
    x = series(chains, draws, phi, power=power)
    found = [float(f(torch.from_numpy(x).to(device))) for f in ALL]
    np.testing.assert_allclose(found, by_loops(x), rtol=1e-8)


def test_repeated_draws_share_ranks(device):
    """A sampler that rejects repeats itself: ties in (M.23), (M.24) and (M.26)."""
    x = np.round(4 * series(4, 120, 0.7))
    assert len(np.unique(x)) < 20
    np.testing.assert_allclose([float(f(torch.from_numpy(x).to(device))) for f in ALL], by_loops(x), rtol=1e-8)


ARVIZ = {  # R-hat rank, ESS bulk, tail, mean and MCSE mean of ArviZ 0.23.4; arviz-stats 0.8.0 says the same
    (4, 200, 0.5, 0.0, 1): (1.01822881715937, 261.864519702127, 349.667019777289, 261.173997034375, 0.0212649031397148),
    (4, 201, -0.6, 0.0, 1): (0.999261296692, 2322.4719895936, 647.39389847258, 2322.4719895936, 0.0071809796651319),
    (3, 150, 0.9, 0.3, 1): (1.05427523402007, 40.9776995178349, 98.7624880982974, 41.0576452630002, 0.0992172868515244),
    (2, 80, 0.2, 0.0, 7): (1.00086553779, 88.491349303343, 131.06544211523, 103.80388960651, 0.00026449435621938),
    (5, 40, 0.0, 1.0, 3): (3.337356043137, 6.89858584042244, 29.6053243849064, 6.25515010289432, 0.56614027009283),
}  # fmt: skip


@pytest.mark.parametrize("which", ARVIZ, ids=str)
def test_all_numbers_are_those_of_arviz(which, device):
    """(M.24) to (M.27)"""
    x = torch.from_numpy(series(*which)).to(device)
    np.testing.assert_allclose([float(f(x)) for f in ALL], ARVIZ[which], rtol=1e-9)


def test_a_sequence_that_never_turns_negative_ends_with_the_sign_of_its_last_term(device):
    """Two halves of five draws: P_0 and P_1 are positive and ρ_2 is not (M.25)."""
    x = np.array(congruential(22, seed=34)).reshape(2, 11)
    assert float(ess_mean(torch.from_numpy(x).to(device))) == pytest.approx(plain_ess(halves(x)), rel=1e-9)
    assert plain_ess(halves(x)) == pytest.approx(17.759672141544726, rel=1e-9)  # what ArviZ says


def test_quantities_are_treated_one_by_one(generator, device):
    x = torch.randn(3, 50, 2, 4, generator=generator, device=device).cumsum(1)
    for f in ALL:
        found = f(x)
        assert found.shape == (2, 4)
        each = torch.stack([f(x[..., i, j]) for i in range(2) for j in range(4)]).reshape(2, 4)
        torch.testing.assert_close(found, each, rtol=1e-12, atol=1e-14)


def test_independent_draws_count_one_each_and_correlated_ones_as_theory_says(generator, device):
    """x_t = φ x_{t-1} + noise has τ = (1 + φ)/(1 - φ) (M.25); the estimate is good to a few percent here."""
    noise = torch.randn(8, 20_000, generator=generator, device=device)
    for phi in (0.0, 0.5, -0.3):
        x, columns = noise[:, 0] / math.sqrt(1 - phi * phi), []
        for t in range(1, 20_000):
            columns.append(x)
            x = phi * x + noise[:, t]
        expected = 8 * 19_999 * (1 - phi) / (1 + phi)
        assert float(ess_mean(torch.stack(columns, 1))) == pytest.approx(expected, rel=0.05)


def test_the_error_of_the_mean_is_the_spread_of_means(generator, device):
    """(M.27): 500 sets of chains, against the standard deviation of their means, known to 1/√1000."""
    noise = torch.randn(4, 250, 500, generator=generator, device=device)
    x = noise.clone()
    for t in range(1, 250):
        x[:, t] += 0.5 * x[:, t - 1]
    ratio = float(mcse_mean(x).median() / x.mean((0, 1)).std())
    assert abs(ratio - 1) < 5 / math.sqrt(1000)


def test_increasing_maps_change_neither_bulk_nor_tail_nor_the_order_of_chains(device):
    """Ranks are the same (M.23). The folded part of R-hat is not invariant: here the chains differ in place."""
    x = torch.from_numpy(series(4, 100, 0.5, shift=0.4)).to(device)
    for f in (ess_bulk, rhat):
        torch.testing.assert_close(f(x), f(2 * x + 3), rtol=1e-9, atol=0)
        torch.testing.assert_close(f(x), f(x.flip(0)), rtol=1e-9, atol=0)
    torch.testing.assert_close(ess_bulk(x), ess_bulk(x.exp()), rtol=1e-12, atol=0)
    torch.testing.assert_close(rhat(x), rhat(x.exp()), rtol=1e-12, atol=0)


def test_merging_identical_chains_doubles_no_disagreement(device):
    """W and γ stay, the variance of chain means has 2M' - 1 in place of M' - 1: R-hat can only fall (M.24)."""
    x = torch.from_numpy(series(3, 100, 0.5, shift=0.4)).to(device)
    twice = torch.cat([x, x])
    assert 1.1 < float(rhat(twice)) < float(rhat(x))
    # ranks of doubled draws move by O(1/S), the between-chain variance by (M' - 1)·2/(2M' - 1)
    ratio = (float(rhat(twice)) ** 2 - 0.98) / (float(rhat(x)) ** 2 - 0.98)
    assert ratio == pytest.approx(5 * 2 / 11, rel=0.02)


def test_a_drift_is_seen_by_splitting_and_a_spread_by_folding(generator, device):
    """(M.23), (M.24)"""
    x = torch.randn(4, 500, generator=generator, device=device)
    assert float(rhat(x)) < 1.01
    assert float(rhat(x + torch.linspace(-1.5, 1.5, 500, device=device))) > 1.2
    assert float(rhat(x * torch.tensor([1.0, 1.0, 1.0, 5.0], device=device)[:, None])) > 1.1


def test_chains_that_stand_still_have_not_mixed(device):
    """Each at its own place: R-hat beyond every bound, and about as many effective draws as chains."""
    x = torch.arange(4.0, device=device)[:, None].expand(4, 100)
    assert float(rhat(x)) > 1e6
    assert float(ess_bulk(x)) < 9


def test_a_quantity_that_never_moves_is_nan_and_spoils_no_other(generator, device):
    x = torch.randn(4, 100, 2, generator=generator, device=device)
    x[..., 1] = 3.0
    for f in ALL:
        found = f(x)
        assert bool(found[0].isfinite()) and bool(found[1].isnan())


def test_the_tail_of_two_values_is_known_where_it_never_changes(generator, device):
    """[x ≤ 95 % quantile] is always one if x = 0 or 1: it counts S, the other tail decides (M.26)."""
    x = (torch.rand(4, 100, generator=generator, device=device) < 0.5).double()
    assert 0 < float(ess_tail(x)) <= 400
    # as many ones as zeros: all are ½ away from the median, and the folded R-hat, 0/0, has nothing to say
    balanced = (x.flatten().argsort() % 2).double().reshape(4, 100)
    assert float(balanced.mean()) == 0.5
    assert float(rhat(balanced)) == pytest.approx(plain_rhat(scores(halves(balanced.cpu().numpy()))), rel=1e-12)


def test_quantiles_that_fall_on_a_draw_include_it(device):
    """101 draws: the 5 % quantile is the sixth number exactly, whatever 0.05 · 101 + 0.95 rounds to (M.26)."""
    x = series(1, 101, 0.0)
    ordered = np.sort(x, axis=None)
    tails = [plain_ess(halves((x <= ordered[k]).astype(float))) for k in (5, 95)]
    assert float(ess_tail(torch.from_numpy(x).to(device))) == pytest.approx(min(tails), rel=1e-8)
