"""What a metric is given: probabilities, labels and numbers, refused with a reason or returned in float64."""

from __future__ import annotations

import torch
from torch import Tensor

# Rounding of a float32 softmax and of printed digits stays below; a forgotten softmax or mean over samples does not.
SUM_TOLERANCE = 1e-4


def checked_probabilities(probabilities: Tensor, name: str = "probabilities", sets: bool = False) -> Tensor:
    """`probabilities` (..., n, C) in float64: rows that are not negative and sum to one; (K, ..., n, C) with `sets`.

    Sums may miss one by 1e-4, or by 4 eps of a coarser dtype; nothing is renormalised.

    >>> checked_probabilities(torch.tensor([[0.5, 0.5]]))
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    _require_tensor(probabilities, name)
    wanted = "(K, n, C) with the sets in front" if sets else "(n, C) with the classes last"
    if probabilities.ndim < 2 + sets or not probabilities.is_floating_point():
        raise ValueError(
            f"`{name}` should be floating-point and {wanted}; found {probabilities.dtype} "
            f"{tuple(probabilities.shape)}. Reshape or convert it, or apply softmax(-1) to logits."
        )
    _require_numbers(probabilities, name, wanted)
    _require_not_nan(probabilities, name)
    p = probabilities.double().contiguous()
    if bool((p < 0).any()):
        raise ValueError(
            f"`{name}` should not be negative; found {int((p < 0).sum())} negative numbers, the smallest "
            f"{float(p.min()):.4g}. Apply softmax(-1) if these are logits."
        )
    off = (p.sum(-1) - 1).abs()
    if bool((off > max(SUM_TOLERANCE, 4 * torch.finfo(probabilities.dtype).eps)).any()):
        row = p.sum(-1).flatten()[off.argmax()]
        raise ValueError(
            f"every row of `{name}` should sum to one over the classes, its last axis; found a sum of "
            f"{float(row):.6g}. Apply softmax(-1) to logits; a single p(y=1) becomes torch.stack([1 - p, p], -1)."
        )
    return p


def checked_logits(logits: Tensor) -> Tensor:
    """`logits` (..., n, C) in float64: finite, but for classes excluded by -inf.

    >>> checked_logits(torch.zeros(1, 2)).dtype
    torch.float64
    """
    _require_tensor(logits, "logits")
    if logits.ndim < 2 or not logits.is_floating_point():
        raise ValueError(
            f"`logits` should be floating-point and (n, C) with the classes last; found {logits.dtype} "
            f"{tuple(logits.shape)}. Reshape or convert it."
        )
    _require_numbers(logits, "logits", "(n, C)")
    _require_not_nan(logits, "logits")
    h = logits.double()
    if not bool(h.amax(-1).isfinite().all()):
        raise ValueError(
            "every row of `logits` should have a finite maximum; found one of +inf, or of -inf everywhere. Repair the "
            "outputs that overflowed."
        )
    return h


def checked_labels(labels: Tensor, probabilities: Tensor) -> Tensor:
    """`labels` (..., n) as int64, each of them a class of `probabilities` (..., n, C).

    >>> checked_labels(torch.tensor([1], dtype=torch.uint8), torch.ones(1, 2) / 2)
    tensor([1])
    """
    _require_tensor(labels, "labels")
    wanted, C = tuple(probabilities.shape[:-1]), probabilities.shape[-1]
    if labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            f"`labels` should be class indices of an integer dtype, found {labels.dtype}. Use labels.long(), or "
            "labels.argmax(-1) if they are one-hot."
        )
    if tuple(labels.shape) != wanted:
        raise ValueError(
            f"`labels` should be one class index per row of probabilities, {wanted}; found {tuple(labels.shape)}. "
            "Reshape it, or use labels.argmax(-1) if they are one-hot; nothing is broadcast."
        )
    y = labels.long()
    if bool(((y < 0) | (y >= C)).any()):
        raise ValueError(
            f"`labels` should lie in 0 to {C - 1}, for there are {C} classes; found {int(y.min())} to {int(y.max())}. "
            "Drop ignored examples first, and count classes from 0."
        )
    return y


def checked_numbers(values: Tensor, name: str, finite: bool = True) -> Tensor:
    """`values` (..., n) in float64, without NaN; infinities pass only where `finite` is False.

    >>> checked_numbers(torch.tensor([1, 2]), "scores")
    tensor([1., 2.], dtype=torch.float64)
    """
    _require_tensor(values, name)
    if values.ndim < 1 or values.is_complex():
        raise ValueError(
            f"`{name}` should be real numbers (n,), found {values.dtype} {tuple(values.shape)}. Give one per example."
        )
    _require_numbers(values, name, "(n,)")
    _require_not_nan(values, name)
    x = values.double().contiguous()
    if finite and not bool(x.isfinite().all()):
        raise ValueError(
            f"`{name}` should be finite, found {int((~x.isfinite()).sum())} infinities among {x.numel()}. Drop or "
            "repair those examples first."
        )
    return x


def require_like(values: Tensor, name: str, like: Tensor, like_name: str) -> None:
    """Both have one shape; nothing is broadcast, for (n, 1) against (n,) would become (n, n).

    >>> require_like(torch.zeros(3), "loss", torch.zeros(3), "confidence")
    """
    if values.shape != like.shape:
        raise ValueError(
            f"`{name}` should be shaped like `{like_name}`, {tuple(like.shape)}; found {tuple(values.shape)}. Reshape "
            "one of them; nothing is broadcast."
        )


def require_share(value: float, name: str, one: bool = False) -> None:
    """A number strictly between 0 and 1; 1 itself passes where `one` is True.

    >>> require_share(0.95, "level")
    """
    if not (0 < value < 1 or (one and value == 1)):
        raise ValueError(
            f"`{name}` should lie between 0 and 1, found {value}. 95 % is written 0.95."
            if not one
            else f"`{name}` should be above 0 and at most 1, found {value}. 95 % is written 0.95."
        )


def require_count(value: int, name: str, most: int | None = None) -> None:
    """A whole number of at least 1, and at most `most`.

    >>> require_count(15, "bins")
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        limit = "at least 1" if most is None else f"1 to {most}"
        raise ValueError(f"`{name}` should be a whole number, {limit}; found {value!r}. Choose another.")


def _require_tensor(values: object, name: str) -> None:
    if not isinstance(values, Tensor):
        raise TypeError(f"`{name}` should be a tensor, found {type(values).__name__}. Use torch.as_tensor(...).")


def _require_numbers(values: Tensor, name: str, wanted: str) -> None:
    if values.numel() == 0:
        raise ValueError(
            f"`{name}` should hold at least one number, {wanted}; found {tuple(values.shape)}. A mean over no examples "
            "does not exist: check what selected them."
        )


def _require_not_nan(values: Tensor, name: str) -> None:
    if bool(values.isnan().any()):
        raise ValueError(
            f"`{name}` should hold numbers, found {int(values.isnan().sum())} NaN among {values.numel()}. Drop or "
            "repair those examples first."
        )
