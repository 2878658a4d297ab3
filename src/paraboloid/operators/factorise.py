"""Rules: which factorisation a structure has; None where there is no closed form."""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator, written_out
from paraboloid.operators.blocks import BlockDiagonal
from paraboloid.operators.compound import Blocks, Congruent, Pair, Product, Thin
from paraboloid.operators.decompositions import require_finite
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.factorisations import Cholesky, Entries, Factorisation, Spectral
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.sums import Shifted, Sum


def rounding(dtype: torch.dtype, size: int) -> float:
    """Relative size below which an eigenvalue of a matrix given in this dtype is a rounding error of zero."""
    return 4 * size**0.5 * torch.finfo(dtype).eps


@verbs.factorise.register
def factorise_any(A: LinearOperator) -> Factorisation | None:
    return None


@verbs.factorise.register
def factorise_dense(A: Dense, c: float = 0.0) -> Factorisation:
    """A + cI: Cholesky as given, then in float64, then by eigenvalues clamped at 0 (O.6)."""
    require_finite(A.matrix)
    for dtype in dict.fromkeys((A.dtype, torch.float64)) if A.psd else ():
        matrix = A.matrix.to(dtype, copy=True)
        matrix.diagonal().add_(c)
        L, info = torch.linalg.cholesky_ex(matrix)
        pivots = L.diagonal().square()
        # a shift was asked for, so it is no rounding error, however small beside A
        # the last pivot may be n times the smallest eigenvalue; what is doubtful is decided by eigenvalues
        largest = matrix.abs().sum(1).max() if A.size else pivots.max()
        smallest = A.size * rounding(A.dtype if c == 0 else dtype, 1) * largest
        if bool((info == 0) & (pivots.min() > smallest)):
            return Cholesky(L, A.dtype)
    values, basis = A.eigen
    return Spectral(basis, None, (values + c)[:, None], A.dtype, rounding(A.dtype, A.size) if c == 0 else 0.0)


@verbs.factorise.register
def factorise_diagonal(A: Diagonal) -> Factorisation:
    return Entries(A.vector)


@verbs.factorise.register
def factorise_lowrank(A: LowRank, c: float = 0.0) -> Factorisation:
    values, Q = A.eigen
    assert Q is not None
    return Thin(Q, values, c, rounding(A.dtype, A.size) if c == 0 else 0.0)


@verbs.factorise.register
def factorise_kronecker(A: Kronecker, c: float = 0.0) -> Factorisation:
    """Unshifted factor by factor (O.3); shifted in the product of the eigenbases, exactly (O.10)."""
    G, B = A.factors
    if c == 0:
        return Product(G.factorisation, B.factorisation, A.sizes)
    return Spectral(G.eigen.basis, B.eigen.basis, torch.outer(G.eigen.values, B.eigen.values) + c, A.dtype)


@verbs.factorise.register
def factorise_eigenkronecker(A: EigenKronecker) -> Factorisation:
    return Spectral(A.left_basis, A.right_basis, A.values, A.dtype)


@verbs.factorise.register
def factorise_blocks(A: BlockDiagonal) -> Factorisation | None:
    A = A.filled(0.0)
    parts = [block.operator.factorisation for block in A.blocks]
    if any(part is None for part in parts):
        return None
    return Blocks(parts, A.indices, torch.empty(A.size, dtype=A.dtype, device=A.device))


@verbs.factorise.register
def factorise_shifted(A: Shifted) -> Factorisation | None:
    inner = A.operator
    if isinstance(inner, Dense):
        return factorise_dense(inner, A.c)
    if isinstance(inner, LowRank):
        return factorise_lowrank(inner, A.c)
    if isinstance(inner, Kronecker):
        return factorise_kronecker(inner, A.c)
    return None


@verbs.factorise.register
def factorise_sum(A: Sum) -> Factorisation | None:
    """Two terms at most: Kronecker with Kronecker (O.11), low rank with diagonal (O.9)."""
    if len(A.terms) == 1:
        return A.terms[0].factorisation
    if len(A.terms) != 2 or not A.psd:
        return None
    first, second = A.terms
    if isinstance(first, Kronecker) and isinstance(second, Kronecker) and first.sizes == second.sizes:
        return factorise_pair(first, second)
    if isinstance(first, Diagonal):
        first, second = second, first
    if isinstance(first, LowRank) and isinstance(second, Diagonal) and bool((second.vector > 0).all()):
        e = second.vector.sqrt()
        scaled = LowRank(first.factor / e[:, None], first.weights)
        return Congruent(e, factorise_lowrank(scaled, 1.0))
    return None


def factorise_pair(first: Kronecker, second: Kronecker) -> Factorisation | None:
    """G₁ ⊗ A₁ + G₂ ⊗ A₂ by congruences that diagonalise (G₁, G₂) and (A₁, A₂) at once (O.11).

    G₁ + G₂ and A₁ + A₂ have to be definite; if one is not, the sum is singular, and None is returned.
    """
    left = _simultaneous(first.factors[0].to_dense(), second.factors[0].to_dense())
    right = _simultaneous(first.factors[1].to_dense(), second.factors[1].to_dense())
    if left is None or right is None:
        return None
    s = torch.outer(left[2], right[2]) + torch.outer(left[3], right[3])
    precise = Sum(first.to(torch.float64), second.to(torch.float64))
    return Pair((left[0], right[0]), (left[1], right[1]), s, precise.multiply, first.dtype)


def _simultaneous(M: Tensor, N: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """W, V = W⁻ᵀ, m, n with M = W diag(m) Wᵀ and N = W diag(n) Wᵀ; None if M + N is singular."""
    require_finite(M)
    require_finite(N)
    dtype, M, N = M.dtype, M.double(), N.double()
    weights = [X.diagonal().mean().clamp_min(torch.finfo(torch.float64).tiny) for X in (M, N)]
    L, info = torch.linalg.cholesky_ex(M / weights[0] + N / weights[1])
    pivots = L.diagonal().square()
    if not bool((info == 0) & (pivots.min() > rounding(dtype, len(L)) * pivots.max())):
        return None
    half = torch.linalg.solve_triangular(L, M / weights[0], upper=False)
    whitened = torch.linalg.solve_triangular(L, half.mT, upper=False)
    m, Q = torch.linalg.eigh((whitened + whitened.mT) / 2)
    m = m.clamp(0, 1)
    W, V = L @ Q, torch.linalg.solve_triangular(L.mT, Q, upper=True)
    return W, V, m * weights[0], (1 - m) * weights[1]


def require_factorised(A: LinearOperator, verb: str, instead: str) -> Factorisation:
    """The factorisation of A, of its written-out matrix where it has none of its own."""
    found = A.factorisation
    return factorise_dense(Dense(written_out(A, verb, instead), A.psd)) if found is None else found
