"""Conjugate gradients for blocks of right-hand sides, with a certificate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Multiply = Callable[[Tensor], Tensor]


class NotConverged(RuntimeError):
    """An iterative method did not reach its tolerance; the message says how far it came.

    >>> conjugate_gradient(lambda X: 0 * X, torch.ones(2, 1))
    Traceback (most recent call last):
    paraboloid.operators.cg.NotConverged: conjugate gradients should reach a relative residual of ..., found 1. ...
    """


def default_tolerance(dtype: torch.dtype) -> float:
    """Relative residual for conjugate gradients: eps^(2/3), 4e-11 in float64, 2e-5 in float32."""
    return torch.finfo(dtype).eps ** (2 / 3)


def conjugate_gradient(
    multiply: Multiply,
    B: Tensor,
    *,
    precondition: Multiply | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
) -> Tensor:
    """X with ‖A X − B‖ ≤ tolerance · ‖B‖ for every column, A positive definite (O.16).

    The residual is computed anew from X at the end: the recursion's own drifts. If it is too large, the
    iteration starts again from X, as long as that helps; then `NotConverged` names what was reached.

    >>> A = torch.diag(torch.tensor([1.0, 2.0, 3.0]))
    >>> torch.allclose(conjugate_gradient(lambda X: A @ X, torch.ones(3, 1)), A.inverse() @ torch.ones(3, 1))
    True
    """
    tolerance = default_tolerance(B.dtype) if tolerance is None else tolerance
    remaining = 10 * B.shape[0] + 100 if max_iterations is None else max_iterations
    # squares of tiny or huge entries leave the range of float32, so columns are brought to size 1, by a power of 2
    unit = torch.exp2(B.abs().amax(0).log2().floor().nan_to_num(neginf=0.0))
    B = B / unit
    scale = _norm(B).clamp_min(torch.finfo(B.dtype).tiny)
    X, R = torch.zeros_like(B), B
    reached = (_norm(R) / scale).amax().item()
    while reached > tolerance and remaining > 0:
        step, used = _run(multiply, R, precondition or _same, tolerance * scale, remaining)
        remaining -= used
        candidate = X + step
        residual = B - multiply(candidate)
        now = (_norm(residual) / scale).amax().item()
        if not now < reached:
            break
        X, R, reached = candidate, residual, now
    if not reached <= tolerance:
        raise NotConverged(
            f"conjugate gradients should reach a relative residual of {tolerance:.3g}, found {reached:.3g}. "
            "Add damping, for example `A + 1e-3`, use float64, or pass a larger `tolerance`."
        )
    return X * unit


def _run(multiply: Multiply, R: Tensor, precondition: Multiply, target: Tensor, limit: int) -> tuple[Tensor, int]:
    """One run of the recursion from zero; columns that are done stand still."""
    X = torch.zeros_like(R)
    Z = precondition(R)
    D, rz = Z, (R * Z).sum(0)
    for iteration in range(limit):
        active = _norm(R) > target
        if not bool(active.any()):
            return X, iteration
        AD = multiply(D)
        curvature = (D * AD).sum(0)
        if bool((active & ~(curvature > 0)).any()):
            return X, iteration + 1  # not positive definite along D, or out of precision: the caller decides
        step = torch.where(active, rz / curvature, torch.zeros_like(rz))
        X = X + step * D
        R = R - step * AD
        Z = precondition(R)
        rz, previous = (R * Z).sum(0), rz
        D = Z + torch.where(active, rz / previous, torch.zeros_like(rz)) * D
    return X, limit


def _norm(X: Tensor) -> Tensor:
    return torch.linalg.vector_norm(X, dim=0)


def _same(X: Tensor) -> Tensor:
    return X
