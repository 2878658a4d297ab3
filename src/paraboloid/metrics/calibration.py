"""Whether confidence is accuracy: reliability bins and the calibration errors read off them.

The confidence of an example is its largest probability, its hit whether that class is the label. Examples are put into
B bins by their confidence, (M.4): `binning="width"` cuts [0, 1] into intervals (b/B, (b+1)/B], with 0 in the first;
`binning="mass"` cuts the sorted examples into B parts whose sizes differ by one at most. Biased upwards on few
examples: compare only numbers with the same bins and the same n.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from paraboloid.metrics.checked import checked_labels, checked_probabilities, require_count
from paraboloid.metrics.ties import ordered_with_ties

Binning = Literal["width", "mass"]


class ReliabilityBins(NamedTuple):
    """What a reliability diagram shows, bin by bin, each (..., B): NaN where a bin holds no example.

    >>> bins = ReliabilityBins(torch.tensor([2]), torch.tensor([0.75]), torch.tensor([0.5]))
    >>> bins.confidence - bins.accuracy
    tensor([0.2500])
    """

    count: Tensor
    confidence: Tensor
    accuracy: Tensor


def reliability(
    probabilities: Tensor, labels: Tensor, *, bins: int = 15, binning: Binning = "width"
) -> ReliabilityBins:
    """Counts, mean confidence and accuracy of every bin (M.4).

    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], dtype=torch.float64)
    >>> reliability(p, torch.tensor([0, 1, 1]), bins=2).count.tolist()
    [0, 3]
    """
    sums = _sums(*_confidence_and_hits(probabilities, labels), bins, binning)
    n_b = sums.count.double()
    return ReliabilityBins(sums.count, sums.confidence / n_b, sums.accuracy / n_b)


def expected_calibration_error(
    probabilities: Tensor, labels: Tensor, *, bins: int = 15, binning: Binning = "width"
) -> Tensor:
    """ECE = Σ_b (n_b / n) |confidence - accuracy| (M.5).

    >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25]])
    >>> float(expected_calibration_error(p, torch.tensor([0, 1])))
    0.25
    """
    return _expected(*_confidence_and_hits(probabilities, labels), bins, binning)


def adaptive_calibration_error(probabilities: Tensor, labels: Tensor, *, bins: int = 15) -> Tensor:
    """ECE with bins of equal mass (M.5).

    >>> p = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    >>> float(adaptive_calibration_error(p, torch.tensor([0, 1]), bins=2))
    0.375
    """
    return expected_calibration_error(probabilities, labels, bins=bins, binning="mass")


def maximum_calibration_error(
    probabilities: Tensor, labels: Tensor, *, bins: int = 15, binning: Binning = "width"
) -> Tensor:
    """MCE: the largest |confidence - accuracy| of a bin that is not empty (M.6).

    >>> p = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    >>> float(maximum_calibration_error(p, torch.tensor([0, 1])))
    0.5
    """
    return _gaps(_sums(*_confidence_and_hits(probabilities, labels), bins, binning)).amax(-1)


def rms_calibration_error(
    probabilities: Tensor, labels: Tensor, *, bins: int = 15, binning: Binning = "width"
) -> Tensor:
    """√Σ_b (n_b / n) (confidence - accuracy)² (M.6).

    >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25]])
    >>> float(rms_calibration_error(p, torch.tensor([0, 1])))
    0.25
    """
    confidence, hits = _confidence_and_hits(probabilities, labels)
    sums = _sums(confidence, hits, bins, binning)
    return (sums.count * _gaps(sums).square()).sum(-1).div(confidence.shape[-1]).sqrt()


def classwise_calibration_error(
    probabilities: Tensor, labels: Tensor, *, bins: int = 15, binning: Binning = "width"
) -> Tensor:
    """The mean over classes c of the ECE whose confidence is p_c and whose hit is y = c (M.7).

    >>> p = torch.tensor([[0.75, 0.25], [0.75, 0.25]])
    >>> float(classwise_calibration_error(p, torch.tensor([0, 1])))
    0.25
    """
    p = checked_probabilities(probabilities)
    y = checked_labels(labels, p).unsqueeze(-1)
    hits = torch.zeros_like(p).scatter(-1, y, 1.0)
    return _expected(p.mT, hits.mT, bins, binning).mean(-1)


def _confidence_and_hits(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    p = checked_probabilities(probabilities)
    y = checked_labels(labels, p)
    confidence, predicted = p.max(-1)
    return confidence, (predicted == y).to(p.dtype)


def _sums(confidence: Tensor, hits: Tensor, bins: int, binning: str) -> ReliabilityBins:
    """Counts, and *sums* of confidence and of hits: empty bins are zeros in them, and gradients have no NaN."""
    require_count(bins, "bins")
    n = confidence.shape[-1]
    if binning == "width":
        # k/B as a float64 is what a user's own k/B is, so that 0.3 lies in the third of ten bins
        edges = torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins
        place = torch.bucketize(confidence.detach().contiguous(), edges)
    elif binning == "mass":
        confidence, hits = ordered_with_ties(confidence, hits)
        place = (torch.arange(n, device=confidence.device) * bins // n).expand_as(confidence)
    else:
        raise ValueError(f'`binning` should be "width" or "mass", found {binning!r}. "mass" is the adaptive one.')
    empty = confidence.new_zeros(*confidence.shape[:-1], bins)
    count = empty.long().scatter_add(-1, place, torch.ones_like(place))
    return ReliabilityBins(count, empty.scatter_add(-1, place, confidence), empty.scatter_add(-1, place, hits))


def _gaps(sums: ReliabilityBins) -> Tensor:
    return (sums.confidence - sums.accuracy).abs() / sums.count.clamp(min=1)


def _expected(confidence: Tensor, hits: Tensor, bins: int, binning: str) -> Tensor:
    sums = _sums(confidence, hits, bins, binning)
    return (sums.confidence - sums.accuracy).abs().sum(-1) / confidence.shape[-1]
