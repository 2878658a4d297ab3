"""Terms: the rows of a batch's output, one per likelihood factor, and whose they are.

A term is one label, token or pixel; an example is a row of axis 0. All counts, averages and `num_data` count
terms, or add up their weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.spaces.likelihood import Likelihood


@dataclass(frozen=True)
class Terms:
    """Rows of outputs and targets; rows of one example lie together, in the order of their axes.

    >>> from paraboloid.spaces.likelihoods import Categorical
    >>> y = torch.tensor([[0, 1], [2, -100]])
    >>> rows = terms(torch.zeros(2, 2, 3), y, Categorical())
    >>> rows.example.tolist(), rows.position.tolist(), rows.count
    ([0, 0, 1], [0, 1, 0], 3.0)
    """

    outputs: Tensor
    """(n, C), differentiable; ignored rows are gone."""
    targets: Tensor
    """(n, ...)"""
    weights: Tensor | None
    """(n,) or None"""
    example: Tensor
    """(n,) long, the row of axis 0 that a term belongs to."""
    position: Tensor
    """(n,) long, number of a term among the terms of its example: 0, 1, 2, …"""
    examples: int
    """Size of axis 0."""
    complete: bool = True
    """Whether no row was ignored, so that `example` follows from the shapes."""

    @property
    def count(self) -> float:
        """n, or the sum of the weights."""
        return float(len(self.outputs)) if self.weights is None else float(self.weights.double().sum())


def terms(
    out: Tensor,
    targets: Tensor,
    likelihood: Likelihood,
    weights: Tensor | None = None,
    *,
    check: bool = True,
) -> Terms:
    """Cut a model's output into terms, checked against the targets.

    `weights` has one number per term, or one per example, which then holds for each of its terms. Outputs in
    half precision become float32 rows.
    `check=False` leaves out the checks that look at values (they wait for the device).

    >>> from paraboloid.spaces.likelihoods import likelihood
    >>> terms(torch.zeros(4, 1), torch.ones(4), likelihood("mse")).targets.shape
    torch.Size([4, 1])
    """
    targets = _require_batch(out, targets)
    # a softmax in half precision has three digits; the loss of an autocast model is float32 as well
    out = out.float() if out.dtype in (torch.float16, torch.bfloat16) else out
    rows, labels = likelihood.arrange(out, targets)
    shape = rows.shape[:-1]
    each = None if weights is None else _per_term(weights, shape, rows, check)
    h = rows.reshape(-1, rows.shape[-1])
    y = labels.reshape(h.shape[0], *labels.shape[len(shape) :])
    example = torch.arange(shape[0], device=h.device).repeat_interleave(shape[1:].numel())
    keep = likelihood.counted(y)
    complete = keep is None or bool(keep.all())
    if keep is not None and not complete:
        h, y, example = h[keep], y[keep], example[keep]
        each = None if each is None else each[keep]
    if check:
        likelihood.check(h, y)
    return Terms(h, y, each, example, _positions(example, shape[0]), shape[0], complete)


def _require_batch(out: Tensor, targets: Tensor) -> Tensor:
    if not isinstance(out, Tensor) or not isinstance(targets, Tensor):
        raise TypeError(
            "outputs and targets should be tensors, found "
            f"{type(out).__name__} and {type(targets).__name__}. Say where they are by outputs= and targets=."
        )
    if out.ndim == 0:
        raise ValueError(
            "the model returned one number without axes (a loss?); it should return one row of outputs per example."
        )
    if not out.is_floating_point():
        raise TypeError(f"outputs should be real and floating, found {out.dtype}.")
    if targets.ndim == 0 or out.shape[0] != targets.shape[0]:
        raise ValueError(
            "outputs and targets should have the same number of examples on axis 0; found outputs "
            f"{tuple(out.shape)} "
            f"and targets {tuple(targets.shape)}."
        )
    return targets.to(out.device)


def _per_term(weights: Tensor, shape: torch.Size, rows: Tensor, check: bool) -> Tensor:
    weights = torch.as_tensor(weights, device=rows.device)
    if weights.shape == shape:
        each = weights.reshape(-1)
    elif weights.shape == shape[:1]:
        each = weights.repeat_interleave(shape[1:].numel())
    else:
        raise ValueError(
            f"weights should be one per example {tuple(shape[:1])} or one per term {tuple(shape)}, found "
            f"{tuple(weights.shape)}."
        )
    each = each.to(rows.dtype)
    if check:
        bad = ~(torch.isfinite(each) & (each >= 0))
        if bool(bad.any()):
            raise ValueError(
                f"weights should be finite and not negative, found {each[bad][0].item():g} "
                f"({int(bad.sum())} of "
                f"{each.numel()})."
            )
    return each


def _positions(example: Tensor, examples: int) -> Tensor:
    """0, 1, 2, … within each run of equal numbers."""
    counts = torch.bincount(example, minlength=examples) if example.numel() else example.new_zeros(examples)
    first = counts.cumsum(0) - counts
    return torch.arange(len(example), device=example.device) - first[example]
