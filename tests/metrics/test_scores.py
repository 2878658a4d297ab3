"""Likelihood, Brier score and accuracy against scikit-learn, loops and closed forms."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from scipy.stats import rankdata
from sklearn import metrics as sk

from paraboloid.metrics.scores import accuracy, brier_score, log_pointwise, negative_log_likelihood, top_k_accuracy
from paraboloid.metrics.ties import average_ranks, ordered_with_ties


@pytest.fixture
def classified(generator, device):
    p = torch.randn(200, 5, generator=generator, device=device).softmax(-1)
    return p, torch.randint(5, (200,), generator=generator, device=device)


def test_the_negative_log_likelihood_is_scikit_learns(classified):
    """(M.2)"""
    p, y = classified
    expected = sk.log_loss(y.cpu(), p.cpu(), labels=range(5))
    assert float(negative_log_likelihood(p, y)) == pytest.approx(expected, rel=1e-12)


def test_logits_and_their_softmax_have_the_same_likelihood(classified, generator, device):
    """(M.2)"""
    _, y = classified
    h = 3 * torch.randn(200, 5, generator=generator, device=device) + 100
    torch.testing.assert_close(log_pointwise(h, y, logits=True), log_pointwise(h.softmax(-1), y), rtol=1e-12, atol=0)


def test_a_label_that_was_excluded_has_infinite_loss_and_one_that_underflowed_in_logits_has_not():
    p, y = torch.tensor([[1.0, 0.0]]), torch.tensor([1])
    assert float(negative_log_likelihood(p, y)) == math.inf
    assert float(negative_log_likelihood(torch.tensor([[2000.0, 0.0]]), y, logits=True)) == 2000


def test_the_brier_score_is_the_sum_over_classes(classified):
    """(M.3), by loops; for two classes it is twice the one-sided score of scikit-learn."""
    p, y = classified
    loop = np.mean([sum((p[i, c].item() - (y[i].item() == c)) ** 2 for c in range(5)) for i in range(200)])
    assert float(brier_score(p, y)) == pytest.approx(loop, rel=1e-12)
    two = torch.stack([1 - p[:, 0], p[:, 0]], -1)
    one_sided = sk.brier_score_loss((y == 0).cpu().numpy(), p[:, 0].cpu().numpy())
    assert float(brier_score(two, (y == 0).long())) == pytest.approx(2 * one_sided, rel=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_k_accuracy_is_scikit_learns(classified, k):
    p, y = classified
    expected = sk.top_k_accuracy_score(y.cpu(), p.cpu(), k=k, labels=range(5))
    assert float(top_k_accuracy(p, y, k)) == pytest.approx(expected, rel=1e-12)


def test_accuracy_is_that_of_argmax_also_among_equal_classes(generator, device):
    """Rounded probabilities are often equal: the first class wins, in every k."""
    p = torch.randint(1, 3, (300, 4), generator=generator, device=device).double()
    p = p / p.sum(-1, keepdim=True)
    y = torch.randint(4, (300,), generator=generator, device=device)
    assert torch.equal(accuracy(p, y), (p.argmax(-1) == y).double().mean())
    order = p.sort(dim=-1, descending=True, stable=True).indices
    for k in (1, 2, 3):
        assert torch.equal(top_k_accuracy(p, y, k), (order[:, :k] == y[:, None]).any(-1).double().mean())


def test_axes_in_front_are_data_sets_of_their_own(classified):
    p, y = classified
    stacked_p, stacked_y = p.reshape(2, 100, 5), y.reshape(2, 100)
    for metric in (negative_log_likelihood, brier_score, accuracy, top_k_accuracy):
        each = torch.stack([metric(q, z) for q, z in zip(stacked_p, stacked_y, strict=True)])
        assert torch.equal(metric(stacked_p, stacked_y), each)


def test_likelihood_and_brier_score_are_differentiable(classified):
    _, y = classified
    h = torch.linspace(-1, 1, 15, device=y.device).reshape(3, 5).requires_grad_()
    for metric in (negative_log_likelihood, brier_score):
        assert torch.autograd.gradcheck(lambda h, metric=metric: metric(h.softmax(-1), y[:3]), h)


def test_both_precisions_are_computed_in_float64(classified):
    p, y = classified
    p32 = p.float()
    assert torch.equal(brier_score(p32, y), brier_score(p32.double(), y))


def test_equal_keys_share_the_mean_over_all_their_orders():
    """(M.1), by going through every permutation."""
    keys, values = torch.tensor([2.0, 1.0, 2.0, 2.0, 0.0]), torch.tensor([5.0, 1.0, 7.0, 0.0, 3.0])
    lists = []
    for order in permutations(range(5)):
        if all(keys[a] <= keys[b] for a, b in pairwise(order)):
            lists.append(values[list(order)])
    ordered, shared = ordered_with_ties(keys, values)
    torch.testing.assert_close(shared, torch.stack(lists).mean(0), rtol=1e-14, atol=1e-14)
    assert ordered.tolist() == [0, 1, 2, 2, 2]


def test_ranks_of_equal_numbers_are_scipys_average(generator, device):
    """(M.1)"""
    x = torch.randint(6, (3, 40), generator=generator, device=device).double()
    assert average_ranks(x).tolist() == rankdata(x.cpu().numpy(), axis=-1).tolist()
