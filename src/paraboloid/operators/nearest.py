"""The Kronecker product nearest to a sum of Kronecker products."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paraboloid.operators.dense import Dense
from paraboloid.operators.kronecker import Kronecker, as_factor


def nearest_kronecker(terms: Sequence[Kronecker], iterations: int = 200) -> Kronecker:
    """The minimiser G ⊗ A of ‖Σ G_t ⊗ A_t − G ⊗ A‖_F, with G = Σ β_t G_t, A = Σ α_t A_t (O.14).

    The best rank-one approximation of a rank-T map, found by power iteration on T × T Gram matrices. For
    positive semi-definite terms the weights are non-negative, so the result is semi-definite too.

    >>> K = Kronecker(torch.tensor([1.0, 2.0]), torch.eye(2))
    >>> N = nearest_kronecker([K, 2 * K])
    >>> torch.allclose(N.dense(), 3 * K.dense())
    True
    """
    sizes = {term.sizes for term in terms}
    if len(sizes) != 1:
        raise ValueError(f"the Kronecker products should agree in their factors' sizes, found {sorted(sizes)}.")
    lefts = _alike([term.left for term in terms])
    rights = _alike([term.right for term in terms])
    gram_left, gram_right = _gram(lefts), _gram(rights)
    alpha = gram_right.diagonal().rsqrt().nan_to_num(posinf=0.0)
    beta = alpha
    for _ in range(iterations):
        beta = _normalised(gram_right @ alpha, gram_left)
        alpha = gram_left @ beta
    G, A = _combined(lefts, beta), _combined(rights, alpha)
    psd = all(term.psd for term in terms)
    return Kronecker(*[as_factor(F) if F.ndim == 1 else Dense(F, psd) for F in (G, A)])


def _alike(factors: list[Tensor]) -> list[Tensor]:
    """All vectors if all are diagonal, all matrices otherwise."""
    if all(F.ndim == 1 for F in factors):
        return factors
    return [torch.diag(F) if F.ndim == 1 else F for F in factors]


def _gram(factors: list[Tensor]) -> Tensor:
    rows = torch.stack([F.double().reshape(-1) for F in factors])
    return rows @ rows.mT


def _normalised(weights: Tensor, gram: Tensor) -> Tensor:
    """Weights for which the combined matrix has Frobenius norm 1."""
    norm = (weights @ gram @ weights).clamp_min(0).sqrt()
    return weights / torch.where(norm > 0, norm, torch.ones_like(norm))


def _combined(factors: list[Tensor], weights: Tensor) -> Tensor:
    return torch.tensordot(weights.to(factors[0].dtype), torch.stack(factors), dims=1)
