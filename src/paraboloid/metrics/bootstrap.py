"""An error bar for any metric: resampling the examples, (M.28)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from paraboloid.metrics.checked import require_count, require_share
from paraboloid.spaces.randomness import as_generator

CHUNK = 1 << 22  # numbers that are resampled at once


class Bootstrap(NamedTuple):
    """A metric on the data, and over resamples its mean, standard deviation and percentile interval.

    >>> Bootstrap(*torch.tensor([0.9, 0.91, 0.01, 0.88, 0.92])).standard_error
    tensor(0.0100)
    """

    value: Tensor
    mean: Tensor
    standard_error: Tensor
    low: Tensor
    high: Tensor


def bootstrap(
    metric: Callable[..., Tensor],
    *data: Tensor,
    resamples: int = 1000,
    level: float = 0.95,
    paired: bool = True,
    generator: torch.Generator | None = None,
) -> Bootstrap:
    """Bootstrap of `metric(*data)` over the examples, axis 0 of every tensor (M.28).

    `metric` is called on stacks of data sets: with every tensor as (K, n, ...) it returns K results, as the means of
    this package do; torch.vmap(f) makes one of a function f of a single data set. With `paired=False` the tensors
    are independent samples, as the scores of positives and negatives, and each is resampled by itself.

    >>> from paraboloid.metrics.scores import accuracy
    >>> p = torch.tensor([[0.9, 0.1]] * 100)
    >>> found = bootstrap(accuracy, p, torch.arange(100) % 2)
    >>> float(found.value), 0.04 < float(found.standard_error) < 0.06
    (0.5, True)
    """
    sizes = _sizes(data, paired)
    require_count(resamples, "resamples")
    if resamples < 2:
        raise ValueError("`resamples` should be at least 2, found 1. A spread needs two numbers; 1000 are usual.")
    require_share(level, "level")
    device = data[0].device
    generator = as_generator(generator, device)
    with torch.no_grad():
        value = _call(metric, [x.unsqueeze(0) for x in data], 1)[0]
        step = max(1, CHUNK // max(x.numel() for x in data))
        parts = []
        for start in range(0, resamples, step):
            K = min(step, resamples - start)
            drawn = [torch.randint(n, (K, n), generator=generator, device=device) for n in sizes]
            picks = drawn * len(data) if paired else drawn
            parts.append(_call(metric, [x[pick] for x, pick in zip(data, picks, strict=True)], K))
        replicates = torch.cat(parts)
        tails = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=replicates.dtype, device=replicates.device)
        low, high = torch.quantile(replicates, tails, dim=0)
        return Bootstrap(value, replicates.mean(0), replicates.std(0), low, high)


def _sizes(data: tuple[Tensor, ...], paired: bool) -> list[int]:
    """How many examples are drawn, once for all tensors if they are paired."""
    if not data or not all(isinstance(x, Tensor) for x in data):
        kinds = [type(x).__name__ for x in data]
        raise TypeError(f"`data` should be tensors, found {kinds}. Call bootstrap(metric, probabilities, labels).")
    shapes = [tuple(x.shape) for x in data]
    if any(not shape or shape[0] == 0 for shape in shapes):
        raise ValueError(f"`data` should be tensors with examples on axis 0, found {shapes}. Nothing can be drawn.")
    sizes = [shape[0] for shape in shapes]
    if paired and len(set(sizes)) > 1:
        raise ValueError(
            f"paired `data` should have as many examples each, found {shapes}. Samples of their own, as positives and "
            "negatives, take paired=False."
        )
    return sizes[:1] if paired else sizes


def _call(metric: Callable[..., Tensor], stacks: list[Tensor], K: int) -> Tensor:
    found = metric(*stacks)
    if not isinstance(found, Tensor) or found.ndim == 0 or found.shape[0] != K:
        kind = f"{tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"`metric` should return a tensor with a result for each of {K} stacked data sets, ({K}, ...); found "
            f"{kind}. Wrap a function of one data set as torch.vmap(metric); of a record take one field."
        )
    return found.double()
