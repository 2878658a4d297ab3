"""Entropies and disagreement against loops, closed forms and each other."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paraboloid.metrics.uncertainty import (
    entropy,
    expected_entropy,
    max_probability,
    mutual_information,
    predictive_entropy,
    variation_ratio,
)


@pytest.fixture
def sets(generator, device):
    return (2 * torch.randn(6, 20, 4, generator=generator, device=device)).softmax(-1)


def test_entropies_are_scipys(sets):
    """(M.8), (M.9)"""
    p = sets.cpu().numpy()
    np.testing.assert_allclose(entropy(sets).cpu(), scipy.stats.entropy(p, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(predictive_entropy(sets).cpu(), scipy.stats.entropy(p.mean(0), axis=-1), rtol=1e-12)
    np.testing.assert_allclose(expected_entropy(sets).cpu(), scipy.stats.entropy(p, axis=-1).mean(0), rtol=1e-12)


def test_entropy_lies_between_certainty_and_ignorance():
    """(M.8): 0 at a corner, log C in the middle."""
    assert entropy(torch.eye(7)).tolist() == [0.0] * 7
    assert float(entropy(torch.full((1, 7), 1 / 7))) == pytest.approx(math.log(7), rel=1e-14)


def test_mutual_information_is_the_difference_of_entropies(sets):
    """(M.10), the first form against the second."""
    difference = predictive_entropy(sets) - expected_entropy(sets)
    torch.testing.assert_close(mutual_information(sets), difference, rtol=0, atol=1e-14)


def test_mutual_information_is_that_of_the_joint_distribution_of_draw_and_label(sets):
    """(M.10): draw uniform, label given the draw; by the definition of mutual information."""
    joint = sets.cpu().numpy() / 6
    independent = joint.sum(0, keepdims=True) * joint.sum(-1, keepdims=True)
    expected = (joint * np.log(joint / independent)).sum((0, -1))
    np.testing.assert_allclose(mutual_information(sets).cpu(), expected, rtol=1e-10)


def test_small_disagreement_is_not_lost_in_rounding():
    """p = ½ ± ε: mutual information 2ε² + O(ε⁴), where the difference of entropies is noise (M.10)."""
    e = 1e-6
    p = torch.tensor([[[0.5 + e, 0.5 - e]], [[0.5 - e, 0.5 + e]]], dtype=torch.float64)
    assert float(mutual_information(p)) == pytest.approx(2 * e * e, rel=1e-3)


def test_sets_that_agree_have_no_mutual_information_and_opposite_corners_have_all(sets):
    """(M.10)"""
    assert mutual_information(sets[:1].expand(5, -1, -1)).abs().max() < 1e-15
    assert float(mutual_information(torch.eye(3)[:, None])) == pytest.approx(math.log(3), rel=1e-14)


def test_the_variation_ratio_counts_votes(sets):
    """(M.11)"""
    votes = sets.argmax(-1).cpu().numpy()
    expected = [1 - np.bincount(votes[:, i]).max() / 6 for i in range(20)]
    np.testing.assert_allclose(variation_ratio(sets).cpu(), expected, atol=1e-15)


def test_the_confidence_is_the_largest_probability(sets):
    assert torch.equal(max_probability(sets), sets.max(-1).values)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any), min_size=1, max_size=5))
def test_nothing_is_negative_and_zeros_do_no_harm(rows):
    """0 log 0 = 0, in values (M.8) to (M.10) and in gradients of the mutual information."""
    weights = torch.tensor(rows, dtype=torch.float64)[:, None]
    p = (weights / weights.sum(-1, keepdim=True)).requires_grad_()
    for f in (predictive_entropy, expected_entropy, mutual_information, variation_ratio):
        assert bool(f(p) >= 0)
    assert bool(expected_entropy(p) <= predictive_entropy(p) + 1e-14)
    (slope,) = torch.autograd.grad(mutual_information(p).sum(), p)
    assert bool(slope.isfinite().all())
