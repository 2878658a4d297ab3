"""Detection and selection against all pairs, scikit-learn, and every order of ties."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from paraboloid.metrics.detection import auroc, average_precision, by_label, detection, empirical_cdf, fpr_at_tpr
from paraboloid.metrics.selective import accuracy_at_coverage, aurc, risk_coverage

TIED = st.lists(st.integers(0, 6), min_size=1, max_size=25)


@pytest.fixture(params=["free", "tied"])
def scores(request, generator, device):
    """Positives a little above negatives; rounded to tenths, most are tied."""
    s = torch.randn(83, generator=generator, device=device) + 1
    r = torch.randn(121, generator=generator, device=device)
    return (s, r) if request.param == "free" else ((10 * s / 5).round() / 10, (10 * r / 5).round() / 10)


def labelled(s, r):
    return np.r_[np.ones(len(s)), np.zeros(len(r))], torch.cat([s, r]).cpu().numpy()


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)


def test_auroc_is_the_share_of_pairs_in_order(scores):
    """(M.12), by all pairs; exactly."""
    s, r = scores
    pairs = (s[:, None] > r).double() + 0.5 * (s[:, None] == r).double()
    assert float(auroc(s, r)) == float(pairs.sum()) / pairs.numel()


def test_auroc_and_average_precision_are_scikit_learns(scores):
    """(M.12), (M.13)"""
    assert float(auroc(*scores)) == pytest.approx(sk.roc_auc_score(*labelled(*scores)), rel=1e-12)
    expected = sk.average_precision_score(*labelled(*scores))
    assert float(average_precision(*scores)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("tpr", [0.05, 0.5, 0.95, 1.0])
def test_fpr_is_the_least_of_all_thresholds_that_reach_the_tpr(scores, tpr):
    """(M.14), by scikit-learn's whole curve."""
    fprs, tprs, _ = sk.roc_curve(*labelled(*scores), drop_intermediate=False)
    assert float(fpr_at_tpr(*scores, tpr=tpr)) == pytest.approx(fprs[tprs >= tpr - 1e-12].min(), abs=1e-15)


def test_the_wanted_share_of_positives_is_not_one_too_many_by_rounding():
    """0.07 · 100 is 7.000000000000001 in floating point, and 7 positives are meant (M.14)."""
    s = torch.arange(100.0).flip(0)
    for share in range(1, 100):
        negative = numbers([100 - share - 0.5])
        assert float(fpr_at_tpr(s, negative, tpr=share / 100)) == 0.0
        assert float(fpr_at_tpr(s, negative + 0.5, tpr=share / 100)) == (1.0 if negative + 0.5 >= 100 - share else 0.0)


@settings(max_examples=100, deadline=None)
@given(TIED, TIED)
def test_increasing_maps_of_the_scores_change_nothing_and_swapping_turns_auroc_around(positive, negative):
    """(M.12) to (M.14) know only the order."""
    s, r = numbers(positive), numbers(negative)
    for f in (auroc, average_precision, fpr_at_tpr):
        assert torch.equal(f(s, r), f(s.exp() - 3, r.exp() - 3))
        torch.testing.assert_close(f(s, r), f(s.flip(0), r.flip(0)), rtol=1e-14, atol=0)
    assert float(auroc(s, r) + auroc(r, s)) == pytest.approx(1, abs=1e-15)
    assert float(auroc(s, r)) == pytest.approx(float(auroc(-r, -s)), abs=1e-15)


def test_a_single_score_tells_nothing():
    """All tied: AUROC ½ (M.12), AP the share of positives (M.13), FPR 1 (M.14)."""
    s, r = torch.zeros(3), torch.zeros(5)
    assert [float(f(s, r)) for f in (auroc, average_precision, fpr_at_tpr)] == [0.5, 3 / 8, 1.0]


def test_infinite_scores_are_ordered_like_others():
    s, r = numbers([math.inf, 0.0]), numbers([-math.inf, math.inf])
    assert float(auroc(s, r)) == (0.5 + 1 + 0 + 1) / 4


def test_the_row_of_a_table_has_inside_and_outside_as_positives(scores):
    """(M.13): AUPR-out by scikit-learn with labels turned around and scores negated."""
    inside, outside = scores
    y, x = labelled(inside, outside)
    row = detection(inside, outside)
    expected = [sk.roc_auc_score(y, x), sk.average_precision_score(y, x), sk.average_precision_score(1 - y, -x)]
    np.testing.assert_allclose([float(v) for v in row[:3]], expected, rtol=1e-12)
    assert row.fpr == fpr_at_tpr(inside, outside)


def test_scores_with_labels_are_two_sets_of_scores(scores):
    s, r = scores
    mixed, y = torch.cat([s, r]), torch.tensor([1] * len(s) + [0] * len(r), device=s.device)
    for labels in (y, y.bool(), y.double()):
        positive, negative = by_label(mixed, labels)
        assert torch.equal(positive, s) and torch.equal(negative, r)


def test_the_distribution_function_counts_values_up_to_a_point(scores):
    """(M.15)"""
    s, _ = scores
    at = torch.cat([s[:10], torch.tensor([-math.inf, 0.05, 99.0], device=s.device)])
    expected = [float((s <= t).double().mean()) for t in at]
    assert empirical_cdf(s, at).tolist() == pytest.approx(expected, abs=1e-15)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=6))
def test_risk_is_the_average_over_all_orders_of_ties(pairs):
    """(M.1), (M.16), (M.17): every permutation that is sorted by confidence, one after the other."""
    curves = []
    for order in permutations(pairs):
        if all(a[0] >= b[0] for a, b in pairwise(order)):
            losses = [loss for _, loss in order]
            curves.append([sum(losses[:k]) / k for k in range(1, len(losses) + 1)])
    confidence, loss = numbers([k for k, _ in pairs]), numbers([v for _, v in pairs])
    np.testing.assert_allclose(risk_coverage(confidence, loss).risk, np.mean(curves, 0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(aurc(confidence, loss), np.mean(curves), rtol=1e-12, atol=1e-12)


def test_full_coverage_has_the_mean_loss_and_constant_confidence_has_it_everywhere(generator, device):
    """(M.16), (M.17)"""
    loss = torch.rand(50, generator=generator, device=device)
    curve = risk_coverage(torch.randn(50, generator=generator, device=device), loss)
    assert float(curve.risk[-1]) == pytest.approx(float(loss.mean()), rel=1e-12)
    assert curve.coverage.tolist() == [k / 50 for k in range(1, 51)]
    assert float(aurc(torch.ones(50, device=device), loss)) == pytest.approx(float(loss.mean()), rel=1e-12)


def test_accuracy_at_coverage_is_one_minus_the_risk(generator, device):
    """(M.16): the ⌈c n⌉ most confident by hand; 0.07 · 100 is 7.000000000000001 in floating point, and 7 is meant."""
    confidence = torch.randn(100, generator=generator, device=device)
    correct = torch.arange(100, device=device) % 3 > 0
    confidence = confidence.sort(descending=True).values
    for c, k in ((0.001, 1), (0.015, 2), (0.07, 7), (0.14, 14), (0.293, 30), (0.55, 55), (1.0, 100)):
        expected = correct[:k].double().mean()
        assert float(accuracy_at_coverage(confidence, correct, coverage=c)) == pytest.approx(float(expected), rel=1e-12)


def test_axes_in_front_are_data_sets_of_their_own(generator, device):
    s = torch.randint(5, (3, 20), generator=generator, device=device).double()
    r = torch.randint(5, (3, 30), generator=generator, device=device).double()
    for f in (auroc, average_precision, fpr_at_tpr):
        assert torch.equal(f(s, r), torch.stack([f(a, b) for a, b in zip(s, r, strict=True)]))
    at = torch.arange(4.0, device=device)
    assert torch.equal(empirical_cdf(s, at), torch.stack([empirical_cdf(a, at) for a in s]))
    torch.testing.assert_close(aurc(s, r[:, :20]), torch.stack([aurc(a, b[:20]) for a, b in zip(s, r, strict=True)]))
