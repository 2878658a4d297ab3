"""Equal numbers: ranks, sums and means in which the order of examples does not matter.

A sort puts equal keys into an arbitrary order. What is read off a sorted list here is therefore the average over all
orders of the ties, (M.1).
"""

from __future__ import annotations

import torch
from torch import Tensor


def average_ranks(values: Tensor) -> Tensor:
    """Ranks 1 to n along the last axis; equal numbers share the mean of theirs (M.1).

    >>> average_ranks(torch.tensor([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    values = values.contiguous()
    ordered = values.sort(-1).values
    below = torch.searchsorted(ordered, values)
    upto = torch.searchsorted(ordered, values, right=True)
    return (below + upto + 1).double() / 2


def ordered_with_ties(keys: Tensor, values: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Keys in order along the last axis, and with them the values, equal keys with the mean of their values (M.1).

    >>> keys, values = ordered_with_ties(torch.tensor([2.0, 1.0, 2.0]), torch.tensor([5.0, 3.0, 6.0]))
    >>> keys.tolist(), values.tolist()
    ([1.0, 2.0, 2.0], [3.0, 5.5, 5.5])
    """
    ordered, order = keys.sort(-1, descending=descending)
    carried = values.gather(-1, order)
    fresh = torch.ones_like(order)
    fresh[..., 1:] = (ordered[..., 1:] != ordered[..., :-1]).long()
    group = fresh.cumsum(-1) - 1
    sums = torch.zeros_like(carried).scatter_add(-1, group, carried)
    counts = torch.zeros_like(carried).scatter_add(-1, group, torch.ones_like(carried))
    return ordered, (sums / counts.clamp(min=1)).gather(-1, group)


def count_at_least(thresholds: Tensor, scores: Tensor) -> Tensor:
    """How many of `scores` (..., m) are ≥ each of `thresholds` (..., n).

    >>> count_at_least(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 2.0, 1.0])).tolist()
    [3, 2]
    """
    return scores.shape[-1] - torch.searchsorted(scores.sort(-1).values, thresholds.contiguous())
