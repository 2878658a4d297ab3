"""Lanczos: tridiagonal forms for quadrature, and a block Krylov method for the largest eigenpairs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paraboloid.operators.cg import NotConverged

Multiply = Callable[[Tensor], Tensor]


def tridiagonalise(multiply: Multiply, starts: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Lanczos from every column of `starts` (P, K) at once: diagonals (K, m) and off-diagonals (K, m − 1).

    Bases are orthogonalised in full, twice. A column whose Krylov space is exhausted goes on with zeros,
    which decouple the rest of its tridiagonal matrix (O.17).

    >>> alpha, beta = tridiagonalise(lambda X: 2 * X, torch.ones(3, 1), 2)
    >>> round(alpha[0, 0].item(), 5), abs(beta[0, 0].item()) < 1e-6
    (2.0, True)
    """
    P, K = starts.shape
    steps = min(steps, P)
    Q = starts.new_zeros(K, P, steps)
    alpha, beta = starts.new_zeros(K, steps), starts.new_zeros(K, max(steps - 1, 0))
    q = (starts / torch.linalg.vector_norm(starts, dim=0)).mT
    small = 10 * torch.finfo(starts.dtype).eps
    scale = starts.new_zeros(K)
    for j in range(steps):
        Q[:, :, j] = q
        w = multiply(q.mT.contiguous()).mT
        scale = torch.maximum(scale, torch.linalg.vector_norm(w, dim=1))
        alpha[:, j] = (q * w).sum(1)
        if j + 1 == steps:
            break
        basis = Q[:, :, : j + 1]
        for _ in range(2):
            w = w - (basis @ (basis.mT @ w[:, :, None]))[:, :, 0]
        norm = torch.linalg.vector_norm(w, dim=1)
        alive = norm > small * scale
        beta[:, j] = torch.where(alive, norm, torch.zeros_like(norm))
        q = torch.where(alive[:, None], w / norm[:, None], torch.zeros_like(w))
    return alpha, beta


def quadrature(alpha: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights (K, m) of the Gauss rule that a tridiagonal matrix stands for (O.17)."""
    T = torch.diag_embed(alpha) + torch.diag_embed(beta, 1) + torch.diag_embed(beta, -1)
    nodes, vectors = torch.linalg.eigh(T)
    return nodes, vectors[:, 0, :].square()


def largest_eigenpairs(
    multiply: Multiply, start: Tensor, k: int, *, tolerance: float | None = None, restarts: int = 200
) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues, descending (float64), and vectors (P, k), by restarted block Krylov (O.18).

    `start` (P, b), b ≥ k, is random: what is orthogonal to it is not found, multiplicities up to b are. Ends when
    every residual ‖A v − λ v‖ is below `tolerance` times the largest |λ| seen (eps^(2/3) by default), else raises
    `NotConverged`.

    >>> A = torch.diag(torch.arange(50.0, dtype=torch.float64))
    >>> values, _ = largest_eigenpairs(lambda X: A @ X, torch.eye(50, dtype=torch.float64)[:, ::17] + 0.1, 2)
    >>> [round(v, 6) for v in values.tolist()]
    [49.0, 48.0]
    """
    tolerance = torch.finfo(start.dtype).eps ** (2 / 3) if tolerance is None else tolerance
    depth = max(2, min(20, start.shape[0] // start.shape[1]))
    V, reached = start, float("inf")
    for _ in range(restarts):
        Q, AQ = _krylov(multiply, V, depth)
        values, Y = torch.linalg.eigh(((Q.mT @ AQ) + (Q.mT @ AQ).mT) / 2)
        Y = Y.flip(1)[:, : start.shape[1]]
        values, largest = values.flip(0), values.abs().max()
        V, AV = Q @ Y, AQ @ Y
        residuals = torch.linalg.vector_norm(AV[:, :k] - V[:, :k] * values[:k], dim=0)
        reached = (residuals.max() / largest.clamp_min(torch.finfo(start.dtype).tiny)).item()
        if reached <= tolerance:
            return values[:k].double(), V[:, :k]
    raise NotConverged(
        f"the {k} largest eigenpairs should have residuals below {tolerance:.3g} of the largest eigenvalue, "
        f"found {reached:.3g}. Ask for another k (close eigenvalues are cut apart) or use float64."
    )


def _krylov(multiply: Multiply, V: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """An orthonormal basis of span(V, AV, …, A^(depth−1) V) and its image under A."""
    P = V.shape[0]
    block = torch.linalg.qr(V).Q
    bases, images = [block], [multiply(block)]
    small, scale = 10 * torch.finfo(V.dtype).eps, 0.0
    for _ in range(depth - 1):
        Q = torch.cat(bases, 1)
        room = P - Q.shape[1]
        if room <= 0:
            break
        W = images[-1]
        scale = max(scale, float(torch.linalg.vector_norm(W, dim=0).max()))
        W = W - Q @ (Q.mT @ W)
        W, R = torch.linalg.qr(W)
        Y, sizes, _ = torch.linalg.svd(R)
        # directions that are rounding errors of zero would not be orthogonal to Q: the space is exhausted there
        W = W @ Y[:, sizes > small * scale]
        if W.shape[1] == 0:
            break
        for _ in range(2):  # what is left of Q in W is a rounding error over a singular value, then a rounding error
            W = torch.linalg.qr(W - Q @ (Q.mT @ W)).Q
        block = W[:, :room]
        bases.append(block)
        images.append(multiply(block))
    return torch.cat(bases, 1), torch.cat(images, 1)
