"""Choosing prior precisions and noise: where the evidence is largest.

Newton's method on the logarithms of the hyper-parameters, where the evidence is smooth: gradient and Hessian by
autograd, steps shortened until the evidence rises, and directions of negative curvature turned round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = 200
LONGEST = 2.0  # of one step, in logarithms
TOLERANCE = 1e-6
FLAT = 1e-4  # second derivative that is no maximum: the logarithm would be known to ± 100 only
LOWEST, HIGHEST = -30.0, 30.0  # logarithms of hyper-parameters beyond which nothing is found any more


class Degenerate(ValueError):
    """The evidence has no maximum inside any sensible range."""


@dataclass(frozen=True)
class Maximum:
    """Where the evidence is largest: logarithms of the hyper-parameters, the evidence, its gradient and Hessian
    there.
    """

    logarithms: Tensor
    evidence: float
    gradient: Tensor
    hessian: Tensor
    steps: int


def maximise(evidence: Callable[[Tensor], Tensor], start: Tensor, names: tuple[str, ...]) -> Maximum:
    """The maximum of evidence(logarithms); raises `Degenerate` if one of them runs away."""
    x = start.detach().clone()
    value = evidence(x)
    for step in range(STEPS):
        gradient, hessian = _derivatives(evidence, x)
        if float(gradient.abs().max()) < TOLERANCE:
            _require_peaked(x, gradient, hessian, names)
            return Maximum(x, float(value), gradient, hessian, step)
        moved = _climb(evidence, x, value, _direction(gradient, hessian))
        if moved is None:
            break
        x, value = moved
        _require_inside(x, names)
    raise Degenerate(
        f"the evidence did not settle in {STEPS} steps (gradient {float(gradient.abs().max()):.1e}). Start nearer "
        "with prior_precision=, or tune on validation data."
    )


def _derivatives(evidence: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(evidence(leaf), leaf, create_graph=True)
        rows = [torch.autograd.grad(g, leaf, retain_graph=True)[0] for g in gradient]
    return gradient.detach(), torch.stack(rows)


def _direction(gradient: Tensor, hessian: Tensor) -> Tensor:
    """−|H|⁻¹-scaled ascent: Newton where the evidence is concave, the same length uphill where it is not."""
    values, vectors = torch.linalg.eigh(hessian)
    size = values.abs().clamp_min(1e-8 * float(values.abs().max().clamp_min(1e-300)))
    step = vectors @ ((vectors.mT @ gradient) / size)
    return step * min(1.0, LONGEST / float(step.abs().max().clamp_min(1e-300)))


def _climb(
    evidence: Callable[[Tensor], Tensor], x: Tensor, value: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor] | None:
    """The first of the halved steps that does not lower the evidence, to its rounding; None if none is left."""
    length = 1.0
    while length > 1e-10:
        tried = x + length * direction
        found = evidence(tried)
        if bool(torch.isfinite(found)) and float(found) >= float(value) - 1e-12 * abs(float(value)):
            return tried, found
        length /= 2
    return None


def _require_inside(x: Tensor, names: tuple[str, ...]) -> None:
    outside = ((x < LOWEST) | (x > HIGHEST)).nonzero().flatten().tolist()
    if outside:
        name, value = names[outside[0]], float(x[outside[0]].exp())
        raise _degenerate(f"grows without end as {name} goes to {'0' if value < 1 else 'infinity'}", value)


def _require_peaked(x: Tensor, gradient: Tensor, hessian: Tensor, names: tuple[str, ...]) -> None:
    """Far out the evidence may level off instead of falling: its gradient vanishes there, but that is no maximum."""
    values, vectors = torch.linalg.eigh(hessian)
    if float(values[-1]) > -FLAT:
        which = int(vectors[:, -1].abs().argmax())
        slope = float(gradient[which])
        towards = f", and still rising towards {'infinity' if slope > 0 else '0'}" if slope else ""
        raise _degenerate(f"has no maximum: it is flat in {names[which]}{towards}", float(x[which].exp()))


def _degenerate(what: str, value: float) -> Degenerate:
    return Degenerate(
        f"the evidence {what} (reached {value:.1e}). Noise that vanishes means the model interpolates the data: fix "
        "the noise, or use more data; a prior precision that grows means these weights say nothing: leave them out "
        "with params=, or fix it."
    )
