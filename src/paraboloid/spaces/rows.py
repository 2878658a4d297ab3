"""Where the terms are: which axis of an output holds the numbers of one term, and what fits what.

Outputs of classifiers come as (N, C, ...) or (N, ..., C); targets decide. All other likelihoods have their
numbers last, with targets shaped like the outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor


def class_rows(out: Tensor, targets: Tensor, class_axis: int | None, name: str) -> tuple[Tensor, Tensor]:
    """Outputs with the class axis last, and targets without one, or with theirs last when they are soft.

    >>> rows, _ = class_rows(torch.zeros(2, 5, 3), torch.zeros(2, 3, dtype=torch.long), None, "categorical")
    >>> rows.shape
    torch.Size([2, 3, 5])
    """
    if out.ndim < 2:
        raise ValueError(
            f"{name} outputs should have a class axis, (N, C) or more; found {tuple(out.shape)}. For one "
            "logit per "
            'example use likelihood="bernoulli", for real numbers "gaussian".'
        )
    soft = targets.shape == out.shape and targets.is_floating_point()
    if class_axis is not None:
        fitting = [_normal(class_axis, out)]
    elif out.ndim == 2:
        fitting = [1]
    else:
        fitting = [1, out.ndim - 1]
    if not soft:
        fitting = [axis for axis in fitting if _without(out, axis) == targets.shape]
    if len(fitting) > 1:
        raise ValueError(
            f"outputs {tuple(out.shape)} and targets {tuple(targets.shape)} fit with the classes on axis 1 "
            "and on "
            f"axis {out.ndim - 1}. Say which by class_axis=, as in Categorical(class_axis={out.ndim - 1})."
        )
    if not fitting:
        raise ValueError(_unfit_classes(out, targets, class_axis, name))
    return out.movedim(fitting[0], -1), targets.movedim(fitting[0], -1) if soft else targets


def dense_rows(out: Tensor, targets: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Outputs and targets of one shape, numbers of a term last; (N,) is (N, 1).

    >>> rows, y = dense_rows(torch.zeros(4, 1), torch.zeros(4), "gaussian")
    >>> rows.shape == y.shape == (4, 1)
    True
    """
    if out.ndim == 1:
        out = out.unsqueeze(-1)
    if targets.ndim == out.ndim - 1 and out.shape[-1] == 1:
        targets = targets.unsqueeze(-1)
    if targets.shape == out.shape:
        return out, targets
    integers = not targets.is_floating_point() and not targets.is_complex()
    hint = (
        'Integer class labels go with likelihood="categorical".'
        if integers and out.shape[:1] == targets.shape[:1] and targets.ndim < out.ndim
        else "Reshape one of them; nothing is broadcast."
    )
    raise ValueError(
        f"{name} targets should be shaped like the outputs, {tuple(out.shape)}; found {tuple(targets.shape)}. {hint}"
    )


def require_rows(h: Tensor, y: Tensor, width: int, name: str) -> None:
    """Rows of outputs (n, C) with real, finite targets (n, width)."""
    if h.ndim != 2 or y.shape != (h.shape[0], width):
        raise ValueError(
            f"{name} rows should be outputs (n, C) and targets (n, {width}); found {tuple(h.shape)} and "
            f"{tuple(y.shape)}."
        )
    if y.is_complex():
        raise TypeError(f"{name} targets should be real, found {y.dtype}.")
    require_finite(y, name)


def require_finite(y: Tensor, name: str) -> None:
    """No NaN or infinity among the targets."""
    if not y.is_floating_point():
        return
    bad = ~torch.isfinite(y)
    if bool(bad.any()):
        raise ValueError(
            f"{name} targets should be finite; found {int(bad.sum())} NaN or infinite among {y.numel()}. "
            "Drop or "
            "repair those examples first."
        )


def _normal(axis: int, out: Tensor) -> int:
    if not -out.ndim <= axis < out.ndim or axis % out.ndim == 0:
        raise ValueError(
            f"class_axis should name an axis 1 to {out.ndim - 1} of outputs {tuple(out.shape)}, found {axis}."
        )
    return axis % out.ndim


def _without(out: Tensor, axis: int) -> torch.Size:
    return out.shape[:axis] + out.shape[axis + 1 :]


def _unfit_classes(out: Tensor, targets: Tensor, class_axis: int | None, name: str) -> str:
    axis = _normal(class_axis, out) if class_axis is not None else 1
    found = f"found {targets.dtype} {tuple(targets.shape)} for outputs {tuple(out.shape)}"
    wanted = f"{name} targets should be class indices {tuple(_without(out, axis))}, or probabilities"
    if targets.shape == (*_without(out, axis), 1):
        way = "Use targets.squeeze(-1)."
    elif targets.shape == out.shape:
        way = "Give one-hot integers as targets.argmax(class_axis), or as probabilities by .float()."
    elif targets.is_floating_point():
        way = 'Real-valued targets go with likelihood="gaussian" or "mse".'
    elif targets.shape[:1] != out.shape[:1]:
        found_targets = targets.shape[0] if targets.ndim else "no"
        way = f"There are {out.shape[0]} examples in the outputs and {found_targets} in the targets."
    else:
        way = "Reshape the targets, or say where the classes are by class_axis=."
    return f"{wanted} shaped like the outputs; {found}. {way}"
