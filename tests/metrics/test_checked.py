"""What is no probability, no label and no number is refused, with what was found and what to do."""

import pytest
import torch

from paraboloid.metrics.bootstrap import bootstrap
from paraboloid.metrics.calibration import expected_calibration_error, reliability
from paraboloid.metrics.chains import ess_bulk
from paraboloid.metrics.checked import checked_probabilities
from paraboloid.metrics.detection import auroc, by_label, empirical_cdf, fpr_at_tpr
from paraboloid.metrics.regression import ence, gaussian_nll, interval_coverage, rmse, sharpness
from paraboloid.metrics.scores import accuracy, brier_score, negative_log_likelihood, top_k_accuracy
from paraboloid.metrics.selective import accuracy_at_coverage, aurc
from paraboloid.metrics.uncertainty import entropy, mutual_information

HALVES = torch.full((3, 2), 0.5, dtype=torch.float64)
LABELS = torch.tensor([0, 1, 1])
ONES = torch.ones(3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (torch.full((3, 2), 0.6), r"sum to one .* found a sum of 1.2. Apply softmax"),
        (torch.tensor([[1.5, -0.5]] * 3), r"not be negative; found 3 negative numbers, the smallest -0.5"),
        (torch.tensor([[0.5, 0.5], [0.5, float("nan")], [0.5, 0.5]]), r"found 1 NaN among 6"),
        (torch.zeros(0, 2), r"at least one number, .* found \(0, 2\)"),
        (torch.zeros(3, 0), r"at least one number, .* found \(3, 0\)"),
        (torch.tensor([0.5, 0.5, 1.0]), r"\(n, C\) with the classes last; found torch.float.. \(3,\)"),
        (torch.tensor([[0, 1]] * 3), r"floating-point .* found torch.int64"),
    ],
)
@pytest.mark.parametrize("metric", [brier_score, accuracy, expected_calibration_error, negative_log_likelihood])
def test_what_is_no_probability_is_refused(metric, probabilities, message):
    with pytest.raises(ValueError, match=message):
        metric(probabilities, LABELS)


@pytest.mark.parametrize(
    ("labels", "kind", "message"),
    [
        (torch.tensor([0, 1, 2]), ValueError, r"lie in 0 to 1, for there are 2 classes; found 0 to 2"),
        (torch.tensor([0, 1, -100]), ValueError, r"found -100 to 1. Drop ignored examples first"),
        (torch.tensor([0.0, 1.0, 1.0]), TypeError, r"integer dtype, found torch.float... Use labels.long\(\)"),
        (torch.tensor([0, 1]), ValueError, r"one class index per row of probabilities, \(3,\); found \(2,\)"),
        (torch.tensor([[0], [1], [1]]), ValueError, r"found \(3, 1\). Reshape it"),
    ],
)
@pytest.mark.parametrize("metric", [brier_score, accuracy, expected_calibration_error, negative_log_likelihood])
def test_what_is_no_label_is_refused(metric, labels, kind, message):
    with pytest.raises(kind, match=message):
        metric(HALVES, labels)


def test_the_sum_may_miss_one_by_the_rounding_of_its_dtype(generator, device):
    logits = 5 * torch.randn(50, 1000, generator=generator, device=device)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        p = logits.to(dtype).softmax(-1)
        assert torch.equal(checked_probabilities(p), p.double())
    # a float32 softmax that became float64 is still one
    p = logits.float().softmax(-1).double()
    assert torch.equal(checked_probabilities(p), p)


def test_a_sum_that_misses_one_by_a_thousandth_is_refused_in_float32():
    with pytest.raises(ValueError, match="found a sum of 1.001"):
        entropy(torch.tensor([[0.5, 0.501]], dtype=torch.float32))


def test_logits_are_refused_where_their_softmax_does_not_exist():
    infinite = torch.tensor([[0.0, float("inf")]] * 3)
    excluded = torch.full((3, 2), -float("inf"))
    for logits in (infinite, excluded):
        with pytest.raises(ValueError, match="finite maximum"):
            negative_log_likelihood(logits, LABELS, logits=True)
    with pytest.raises(ValueError, match=r"\(n, C\) with the classes last"):
        negative_log_likelihood(torch.zeros(3), LABELS, logits=True)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: accuracy([[0.5, 0.5]], LABELS), TypeError, "should be a tensor, found list"),
        (lambda: top_k_accuracy(HALVES, LABELS, 3), ValueError, r"`k` should be a whole number, 1 to 2; found 3"),
        (lambda: reliability(HALVES, LABELS, bins=0), ValueError, r"`bins` .* at least 1; found 0"),
        (lambda: reliability(HALVES, LABELS, binning="adaptive"), ValueError, r'"width" or "mass", found \'adaptive\''),
        (lambda: mutual_information(HALVES), ValueError, r"\(K, n, C\) with the sets in front; found .* \(3, 2\)"),
        (lambda: auroc(ONES, ONES[:0]), ValueError, r"`negative` should hold at least one number"),
        (lambda: auroc(ONES, ONES / 0 * 0), ValueError, r"`negative` .* found 3 NaN among 3"),
        (lambda: auroc(ONES[None], ONES), ValueError, r"same axes in front; found \(1, 3\) and \(3,\)"),
        (lambda: by_label(ONES, ONES), ValueError, r"0 and 1, or booleans, with both present; found \[1.0\]"),
        (lambda: by_label(ONES, LABELS + 1), ValueError, r"found \[1, 2\]. Compare first"),
        (lambda: by_label(ONES, LABELS[:2]), ValueError, r"should be \(n,\) both, found \(3,\) and \(2,\)"),
        (lambda: fpr_at_tpr(ONES, ONES, tpr=95), ValueError, r"`tpr` .* found 95. 95 % is written 0.95"),
        (lambda: empirical_cdf(ONES, ONES[:, None]), ValueError, r"points \(m,\), found \(3, 1\)"),
        (lambda: aurc(ONES, ONES[:2]), ValueError, r"`loss` should be shaped like `confidence`, \(3,\); found \(2,\)"),
        (lambda: aurc(ONES, ONES / 0), ValueError, r"`loss` should be finite, found 3 infinities among 3"),
        (lambda: accuracy_at_coverage(ONES, 2 * ONES, coverage=0.5), ValueError, "shares in .0, 1., found 2 to 2"),
        (lambda: accuracy_at_coverage(ONES, ONES, coverage=0), ValueError, "above 0 and at most 1, found 0"),
        (
            lambda: gaussian_nll(ONES, 0 * ONES, ONES),
            ValueError,
            "found 3 of 3 at or below 0, the smallest 0",
        ),
        (lambda: gaussian_nll(ONES[:, None], ONES, ONES), ValueError, r"`mean` .* \(3,\); found \(3, 1\)"),
        (lambda: sharpness(-ONES), ValueError, "`variance` should be positive"),
        (lambda: rmse(ONES, ONES + 1j), ValueError, "`targets` should be real numbers"),
        (lambda: ence(ONES, ONES, ONES, bins=4), ValueError, "`bins` .* 1 to 3; found 4"),
        (lambda: interval_coverage(ONES, ONES, ONES, level=1), ValueError, "`level` .* between 0 and 1, found 1"),
        (
            lambda: ess_bulk(torch.ones(4, 3)),
            ValueError,
            r"at least 4 draws; found \(4, 3\). A single chain is samples",
        ),
        (lambda: ess_bulk(torch.ones(40)), ValueError, r"\(chains, draws\)"),
        (lambda: bootstrap(accuracy), TypeError, r"should be tensors, found \[\]"),
        (lambda: bootstrap(accuracy, HALVES, LABELS[:2]), ValueError, "paired=False"),
        (lambda: bootstrap(accuracy, HALVES[:0], LABELS[:0]), ValueError, "Nothing can be drawn"),
        (lambda: bootstrap(accuracy, HALVES, LABELS, resamples=1), ValueError, "at least 2, found 1"),
        (lambda: bootstrap(torch.mean, ONES), ValueError, r"each of 1 stacked data sets, \(1, ...\); found \(\)"),
        (lambda: bootstrap(reliability, HALVES, LABELS), ValueError, "found ReliabilityBins"),
    ],
)
def test_other_misuse_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
