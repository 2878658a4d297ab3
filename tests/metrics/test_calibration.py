"""Calibration errors against loops over bins, and against what must not change them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paraboloid.metrics.calibration import (
    adaptive_calibration_error,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability,
    rms_calibration_error,
)

ERRORS = [expected_calibration_error, maximum_calibration_error, rms_calibration_error, classwise_calibration_error]


@pytest.fixture
def classified(generator, device):
    p = (2 * torch.randn(303, 4, generator=generator, device=device)).softmax(-1)
    return p, torch.randint(4, (303,), generator=generator, device=device)


def confidences(p, y):
    p, y = p.cpu().numpy(), y.cpu().numpy()
    return p.max(1), (p.argmax(1) == y).astype(float)


def width_bins(confidence, hits, B):
    """Members of (b/B, (b+1)/B], one bin after the other (M.4)."""
    for b in range(B):
        inside = (confidence > b / B) & (confidence <= (b + 1) / B) if b else confidence <= 1 / B
        yield confidence[inside], hits[inside]


def mass_bins(confidence, hits, B):
    """Parts of the sorted list; without ties (M.4)."""
    order, n = np.argsort(confidence), len(hits)
    for b in range(B):
        places = [i for i in range(n) if i * B // n == b]
        yield confidence[order[places]], hits[order[places]]


CUTS = {"width": width_bins, "mass": mass_bins}


@pytest.mark.parametrize("binning", CUTS)
@pytest.mark.parametrize("bins", [1, 7, 15, 40])
def test_errors_are_those_of_loops_over_bins(classified, bins, binning):
    """(M.4), (M.5), (M.6)"""
    confidence, hits = confidences(*classified)
    parts = list(CUTS[binning](confidence, hits, bins))
    gaps = [abs(c.mean() - h.mean()) if len(h) else 0.0 for c, h in parts]
    shares = [len(h) / len(hits) for _, h in parts]
    found = [f(*classified, bins=bins, binning=binning) for f in ERRORS[:3]]
    ece = sum(w * g for w, g in zip(shares, gaps, strict=True))
    rms = math.sqrt(sum(w * g * g for w, g in zip(shares, gaps, strict=True)))
    np.testing.assert_allclose([float(x) for x in found], [ece, max(gaps), rms], rtol=1e-11)


@pytest.mark.parametrize("binning", CUTS)
def test_the_record_holds_counts_confidence_and_accuracy_of_every_bin(classified, binning):
    """(M.4)"""
    bins = reliability(*classified, bins=10, binning=binning)
    parts = list(CUTS[binning](*confidences(*classified), 10))
    assert bins.count.tolist() == [len(h) for _, h in parts]
    for b, (c, h) in enumerate(parts):
        if len(h):
            np.testing.assert_allclose([float(bins.confidence[b]), float(bins.accuracy[b])], [c.mean(), h.mean()])
        else:
            assert bins.confidence[b].isnan() and bins.accuracy[b].isnan()


def test_the_classwise_error_is_the_mean_of_one_error_per_class(classified):
    """(M.7)"""
    p, y = classified
    errors = []
    for c in range(4):
        confidence, hits = p[:, c].cpu().numpy(), (y == c).double().cpu().numpy()
        errors.append(sum(abs(k.sum() - h.sum()) for k, h in width_bins(confidence, hits, 15)) / len(hits))
    assert float(classwise_calibration_error(p, y)) == pytest.approx(np.mean(errors), rel=1e-11)


def test_bins_are_closed_on_the_right():
    """0.3 lies in the third of ten bins, 0.7 in the seventh, whatever 0.3 · 10 rounds to (M.4)."""
    for confidence in (0.3, 0.6, 0.7, 0.9, 1.0):
        rest = (1 - confidence) / 20
        p = torch.tensor([[confidence, *([rest] * 20)]])
        count = reliability(p, torch.tensor([0]), bins=10).count
        assert count.tolist().index(1) == round(confidence * 10) - 1


def test_equal_mass_gives_bins_whose_sizes_differ_by_at_most_one(classified):
    """(M.4)"""
    for bins in (1, 7, 13, 303):
        count = reliability(*classified, bins=bins, binning="mass").count
        assert int(count.max() - count.min()) <= 1 and int(count.sum()) == 303


def test_the_adaptive_error_is_the_expected_error_with_equal_mass(classified):
    """(M.5)"""
    p, y = classified
    expected = sum(abs(c.sum() - h.sum()) for c, h in mass_bins(*confidences(p, y), 15)) / 303
    assert float(adaptive_calibration_error(p, y)) == pytest.approx(expected, rel=1e-11)


def test_a_single_confidence_gives_the_same_error_in_every_binning():
    """All examples are tied, so bins of equal mass have one accuracy, however they are cut (M.1)."""
    p, y = torch.tensor([[0.8, 0.2]] * 30), torch.tensor([0] * 10 + [1] * 20)
    for f in ERRORS[:3]:
        for bins in (1, 4, 15):
            for binning in CUTS:
                assert float(f(p, y, bins=bins, binning=binning)) == pytest.approx(0.8 - 1 / 3, abs=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(5, 10), st.booleans()), min_size=1, max_size=30), st.integers(1, 12), st.data())
def test_the_order_of_examples_does_not_matter(pairs, bins, data):
    """Also among ties, of which tenths have many (M.1)."""
    p = torch.tensor([[k / 10, 1 - k / 10] for k, _ in pairs], dtype=torch.float64)
    y = torch.tensor([int(b) for _, b in pairs])
    order = data.draw(st.permutations(range(len(pairs))))
    for f in ERRORS:
        for binning in CUTS:
            there, back = f(p, y, bins=bins, binning=binning), f(p[order], y[order], bins=bins, binning=binning)
            torch.testing.assert_close(there, back, rtol=0, atol=1e-14)


def test_the_maximum_is_at_least_the_root_mean_square_is_at_least_the_mean(classified):
    """(M.6)"""
    for binning in CUTS:
        ece, mce, rms = (float(f(*classified, binning=binning)) for f in ERRORS[:3])
        assert mce >= rms >= ece > 0


def test_labels_that_follow_the_probabilities_are_calibrated(generator, device):
    """Up to five standard errors: a bin's gap has a standard deviation of at most ½/√n_b (M.4)."""
    p = (2 * torch.randn(100_000, 3, generator=generator, device=device)).softmax(-1)
    y = torch.multinomial(p, 1, generator=generator)[:, 0]
    bins = reliability(p, y)
    used = bins.count > 0
    gaps = (bins.confidence - bins.accuracy)[used].abs()
    assert bool((gaps < 5 * 0.5 / bins.count[used].double().sqrt()).all())


def test_axes_in_front_are_data_sets_of_their_own(classified):
    p, y = classified[0].reshape(3, 101, 4), classified[1].reshape(3, 101)
    for f in ERRORS:
        for binning in CUTS:
            each = torch.stack([f(a, b, binning=binning) for a, b in zip(p, y, strict=True)])
            torch.testing.assert_close(f(p, y, binning=binning), each, rtol=1e-14, atol=1e-15)


def test_gradients_are_those_of_differences_and_empty_bins_give_no_nan(device):
    h = torch.tensor([[0.3, 1.0], [2.0, 0.1], [0.5, -1.0]], device=device, requires_grad=True)
    y = torch.tensor([0, 0, 1], device=device)
    for f in ERRORS:
        for binning in CUTS:
            assert torch.autograd.gradcheck(lambda h, f=f, k=binning: f(h.softmax(-1), y, bins=5, binning=k), h)
