"""Zoo cases as data for the library, and their dense oracles over several batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn

import oracles
from case_record import Case
from cases import by_name
from paraboloid import Batches

Batch = tuple[tuple[Tensor, ...], Tensor]


def network(case: Case, device: torch.device, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The case's network on a device."""
    return case.build().to(device, dtype)


def batches(case: Case, sizes: Sequence[int], device: torch.device, dtype: torch.dtype = torch.float64) -> list[Batch]:
    """One batch of inputs (a tuple) and targets for each size."""
    made = [case.batch(n) for n in sizes]
    return [(tuple(_moved(x, device, dtype) for x in inputs), _moved(y, device, dtype)) for inputs, y in made]


def as_data(found: Sequence[Batch]) -> Batches:
    """Batches whose inputs are a tuple of arguments."""
    return Batches(list(found), inputs=lambda batch: batch[0], targets=lambda batch: batch[1])


def usual_sizes(case: Case) -> tuple[int, int]:
    """Two batches of different sizes."""
    return case.size, case.size - 1 or 2


def _moved(x: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return x.to(device, dtype) if x.is_floating_point() else x.to(device)


def over(found: Sequence[Batch], matrix: Callable[[tuple, Tensor], Tensor], terms: Callable[[Batch], int]) -> Tensor:
    """The average of a per-batch average, weighted by the batches' terms."""
    counts = [terms(batch) for batch in found]
    return sum(n * matrix(*batch) for n, batch in zip(counts, found, strict=True)) / sum(counts)  # type: ignore[return-value]


@cache
def exact(name: str, oracle: str, device: str, sizes: tuple[int, ...] | None = None) -> Tensor:
    """`oracles.ggn`, `.hessian` or `.empirical_fisher` of a case over its usual batches, float64."""
    case, place = by_name(name), torch.device(device)
    model = network(case, place)
    made = batches(case, sizes or usual_sizes(case), place)

    def matrix(inputs: tuple, targets: Tensor) -> Tensor:
        return getattr(oracles, oracle)(model, inputs, targets, case.likelihood)

    def terms(batch: Batch) -> int:
        with torch.no_grad():
            return len(oracles.rows_of(model(*batch[0]), batch[1], case.likelihood).outputs)

    return over(made, matrix, terms)
