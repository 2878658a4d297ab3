"""Outputs of a network whose weights are normal, to first order in the weights: means and covariances.

    f(x, θ) ≈ f(x, μ) + J (θ − μ),   θ ~ N(μ, P⁻¹)   ⇒   f ~ N(f(x, μ), J P⁻¹ Jᵀ)            (P.3)

J is never held: one backward for each output carries gradients to all layers, and each layer adds its share chunk by
chunk. Batches are cut so that what is held at once stays within a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from paraboloid.curvature.capture import Capture
from paraboloid.curvature.certificate import certified
from paraboloid.curvature.problem import Problem
from paraboloid.operators.base import LinearOperator
from paraboloid.prediction.whitening import Whitening, whitenings
from paraboloid.spaces.batches import Batch, Batches
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.params import Params

MEMORY = 256 * 2**20  # bytes of gradients that are held at once without asking
FIRST = 8  # examples that are tried first, to learn what one takes


class Rows:
    """Stands where a likelihood would: cuts outputs into rows of numbers, one row a term, without targets."""

    def __init__(self, class_axis: int | None) -> None:
        self.class_axis = class_axis

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of a term last."""
        if self.class_axis is None and out.ndim > 2:
            raise ValueError(
                f"on which axis of the outputs {tuple(out.shape)} the classes lie was not seen in data: say it by "
                f"likelihood=Categorical(class_axis={out.ndim - 1}), or give data that can be gone through twice."
            )
        axis = 1 if self.class_axis is None else self.class_axis
        rows = out.movedim(axis, -1) if out.ndim > 1 else out[:, None]
        return rows, torch.zeros(rows.shape[:-1], dtype=torch.long, device=out.device)

    def counted(self, y: Tensor) -> Tensor | None:
        """Every row counts."""
        return None

    def check(self, h: Tensor, y: Tensor) -> None:
        """Any numbers are outputs."""


@dataclass(frozen=True)
class Outputs:
    """Mean (*terms, C) and covariance (*terms, C, C) of the outputs of a batch."""

    mean: Tensor
    covariance: Tensor


def linearised(
    model: torch.nn.Module,
    params: Params,
    precision: LinearOperator,
    inputs: Batch,
    batches: Batches,
    class_axis: int | None = 1,
    memory: int | None = None,
) -> Outputs:
    """Means and covariances for every term of a batch whose weights are N(the model's, precision⁻¹)."""
    problem = Problem(model, params, cast(Likelihood, Rows(class_axis)), batches)
    memory = MEMORY if memory is None else memory
    examples = _examples(inputs)
    means, covariances = [], []
    low, step = 0, min(FIRST, examples)
    with torch.inference_mode(False), torch.no_grad():
        while low < examples:
            high = min(low + step, examples)
            mean, covariance, needed = _of_part(problem, precision, _rows_of(inputs, low, high, examples))
            means.append(mean)
            covariances.append(covariance)
            low, step = high, max(1, memory // needed)
    return Outputs(torch.cat(means), torch.cat(covariances))


def _of_part(problem: Problem, precision: LinearOperator, part: Batch) -> tuple[Tensor, Tensor, int]:
    """Means, covariances, and the bytes that one example took; the graph is gone when the next part begins."""
    capture = Capture(problem, part)
    bound = capture.bound()
    certified(capture, bound)
    rows = capture.rows.detach()
    examples, (count, C) = capture.examples, rows.shape
    covariance = rows.new_zeros(examples, count // examples, C, C)
    pieces = whitenings(precision, bound)
    for term in range(count // examples):
        _add_term(capture, term, pieces, covariance[:, term])
    out = capture.graph.output.detach()
    shape = problem.likelihood.arrange(out, out)[0].shape
    return rows.view(shape), covariance.view(*shape, C), _bytes_of_one(capture)


def _add_term(capture: Capture, term: int, pieces: Sequence[Whitening], covariance: Tensor) -> None:
    """The covariances (examples, C, C) of one term of every example."""
    stacks = capture.gradients(list(_unit_columns(capture, term)))
    for piece in pieces:
        for low, high, share in piece.covariances(stacks, covariance.shape[-1]):
            covariance[low:high] += share.to(covariance.dtype)


def _unit_columns(capture: Capture, term: int) -> Iterator[Tensor]:
    """For each output a cotangent that is 1 there, in the chosen term of every example."""
    for k in range(capture.rows.shape[1]):
        column = torch.zeros_like(capture.rows)
        column[capture.terms.position == term, k] = 1
        yield column


def _bytes_of_one(capture: Capture) -> int:
    """What one example takes: its activations, and its gradients for all outputs of a term."""
    held = sum(torch.Size(meta.shape).numel() for node in capture.nodes for meta in node._input_metadata)
    numbers = held * capture.rows.shape[1] + capture.graph.activations()
    return max(1, numbers * capture.rows.element_size() // capture.examples)


def _examples(batch: Batch) -> int:
    def found(value: Any) -> int | None:
        if isinstance(value, Tensor):
            return value.shape[0] if value.ndim else None
        inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
        return next((n for n in map(found, inside) if n is not None), None)

    examples = found((batch.args, batch.kwargs))
    if examples is None:
        raise ValueError("the inputs should hold a tensor with the examples on axis 0; found none.")
    return examples


def _rows_of(batch: Batch, low: int, high: int, examples: int) -> Batch:
    """Examples low to high of every tensor that has one row for each."""

    def cut(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: cut(inner) for key, inner in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(cut(inner) for inner in value)
        return value[low:high] if isinstance(value, Tensor) and value.ndim and value.shape[0] == examples else value

    targets = torch.zeros(high - low, dtype=torch.long)
    return Batch(cut(batch.args), cut(batch.kwargs), targets, None)
