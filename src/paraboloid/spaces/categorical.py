"""Classes: the softmax likelihood, with curvature that stays right in float32.

diag(p) - ppᵀ loses half its digits where a class is nearly certain, for 1 - p cancels. Every formula here
takes differences from a pivot c = argmax p instead, whose row follows from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, distributions

from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.probit import probit_scaled
from paraboloid.spaces.randomness import as_generator
from paraboloid.spaces.rows import class_rows, require_finite


class Categorical(Likelihood):
    """p(y|h) = softmax(h)_y, equations (L.5) to (L.10).

    Targets are class indices, or probabilities shaped like the outputs (the loss is then their mean over
    labels; the curvature does not depend on them). Indices equal to `ignore_index` are no terms. The class
    axis is decided by the targets' shape; `class_axis` says it where two fit. Targets are taken as they
    are: for next-token prediction shift them yourself.

    >>> h, y = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
    >>> likelihood = Categorical()
    >>> R = likelihood.root(h)
    >>> R.shape, torch.allclose(R @ R.mT, likelihood.hessian(h))
    (torch.Size([1, 3, 2]), True)
    """

    name = "categorical"

    def __init__(self, class_axis: int | None = None, ignore_index: int = -100) -> None:
        self.class_axis = class_axis
        self.ignore_index = ignore_index

    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """-h_y + log Σ exp h (L.5)."""
        return F.cross_entropy(h, y.to(h.dtype) if _soft(y) else y.long(), reduction="none", ignore_index=_NONE)

    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """p - e_y (L.6); 1 - p_y as the sum of the other probabilities, which does not cancel."""
        p = h.softmax(-1)
        if _soft(y):
            y = y.to(p.dtype)
            return p * y.sum(-1, keepdim=True) - y
        label = y.long().unsqueeze(-1)
        others = p.scatter(-1, label, 0.0)
        return others.scatter(-1, label, -others.sum(-1, keepdim=True))

    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """diag(p) - ppᵀ (L.7); rows sum to zero, so the diagonal is minus the sum of the rest."""
        p = h.softmax(-1)
        off = -p.unsqueeze(-1) * p.unsqueeze(-2)
        off = off - torch.diag_embed(off.diagonal(dim1=-2, dim2=-1))
        return off - torch.diag_embed(off.sum(-1))

    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """The same as `hessian`: logits are natural parameters."""
        return self.hessian(h)

    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """p ∘ (u - pᵀu) with u = v - v_c (L.8)."""
        p = h.softmax(-1)
        u = v - v.gather(-1, h.argmax(-1, keepdim=True))
        return p * (u - (p * u).sum(-1, keepdim=True))

    def rank(self, C: int) -> int:
        """C - 1: adding a constant to all logits changes nothing."""
        return C - 1

    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """The root of (L.9); column k belongs to the k-th class that is not the pivot."""
        p = h.softmax(-1)
        pivot = h.argmax(-1, keepdim=True)
        s = p.sqrt()
        s_pivot = s.gather(-1, pivot)
        common = (p / (1 + s_pivot)).scatter(-1, pivot, s_pivot)

        def column(k: int) -> Tensor:
            label = k + (pivot <= k).long()
            s_label = s.gather(-1, label)
            return torch.scatter_add(-common * s_label, -1, label, s_label)

        return column

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """Class indices (samples, n)."""
        if h.shape[0] == 0:
            return torch.empty(samples, 0, dtype=torch.long, device=h.device)
        generator = as_generator(generator, h.device)
        return torch.multinomial(h.softmax(-1), samples, replacement=True, generator=generator).mT

    def predictive(self, mean: Tensor, covariance: Tensor) -> distributions.Categorical:
        """Categorical with each logit scaled by 1/√(1 + π/8 var) (L.10)."""
        return distributions.Categorical(logits=probit_scaled(mean, covariance))

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Classes last, on the axis that the targets' shape leaves, or on `class_axis`."""
        return class_rows(out, targets, self.class_axis, self.name)

    def counted(self, y: Tensor) -> Tensor | None:
        """Rows whose index is not `ignore_index`."""
        return None if _soft(y) else y != self.ignore_index

    def check(self, h: Tensor, y: Tensor) -> None:
        """Indices 0 to C - 1, or probabilities that are non-negative and sum to 1."""
        C = h.shape[-1]
        if C < 2:
            raise ValueError(
                f"categorical outputs should have at least two classes, found C = {C}: its softmax is "
                "always 1. "
                'For one logit use likelihood="bernoulli", for one real number "gaussian".'
            )
        if _soft(y):
            return _check_probabilities(h, y)
        if y.dtype == torch.bool or y.is_floating_point() or y.is_complex():
            raise TypeError(
                f"categorical targets should be class indices of an integer type, found {y.dtype}. Use "
                'targets.long(), or likelihood="bernoulli" for yes/no, "gaussian" or "mse" for real numbers.'
            )
        if y.shape != h.shape[:1]:
            raise ValueError(f"class indices should be ({h.shape[0]},), found {tuple(y.shape)}.")
        bad = (y < 0) | (y >= C)
        if bool(bad.any()):
            raise ValueError(
                f"class indices should be 0 to {C - 1}, for the outputs have {C} classes; found "
                f"{y[bad][0].item()} "
                f"({int(bad.sum())} of {y.numel()} are outside). Rows to leave out: "
                f"ignore_index={self.ignore_index}."
            )
        return None

    def config(self) -> dict[str, Any]:
        """Name, `class_axis` and `ignore_index`."""
        return {"name": self.name, "class_axis": self.class_axis, "ignore_index": self.ignore_index}


# rows are dropped before they get here, so no index may be skipped by the loss itself
_NONE = -(2**62)


def _soft(y: Tensor) -> bool:
    return y.ndim == 2 and y.is_floating_point()


def _check_probabilities(h: Tensor, y: Tensor) -> None:
    if y.shape != h.shape:
        raise ValueError(f"probabilities should be shaped like the outputs, {tuple(h.shape)}; found {tuple(y.shape)}.")
    require_finite(y, "categorical")
    # rounding of a half-precision softmax over many classes is allowed, a forgotten softmax is not
    wrong = (y < 0).any(-1) | ((y.double().sum(-1) - 1).abs() > 1e-2)
    if bool(wrong.any()):
        row = y[wrong][0]
        raise ValueError(
            "probabilities should be non-negative and sum to 1; found a row with smallest entry "
            f"{row.min().item():g} "
            f"and sum {row.sum().item():g} ({int(wrong.sum())} of {len(y)} rows). Divide by the sum, or use "
            'likelihood="gaussian" for real numbers.'
        )
