"""Rules: trace, diagonal, and tr(AB), the root of Frobenius norms and divergences."""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator, inner_product, written_out
from paraboloid.operators.blocks import BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.inverse import Inverse
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.rectangular import basis_map, multiply_pair, sum_of
from paraboloid.operators.sums import Scaled, Shifted, Sum


# ---------------------------------------------------------------------- trace
@verbs.trace.register
def trace_any(A: LinearOperator) -> Tensor:
    return written_out(A, "trace", "`estimate_trace`").diagonal().double().sum()


@verbs.trace.register(Dense)
@verbs.trace.register(Diagonal)
@verbs.trace.register(LowRank)
@verbs.trace.register(Inverse)
def trace_by_diagonal(A: LinearOperator) -> Tensor:
    return A.diagonal().double().sum()


@verbs.trace.register
def trace_kronecker(A: Kronecker) -> Tensor:
    G, B = A.factors
    return G.trace() * B.trace()


@verbs.trace.register
def trace_eigenkronecker(A: EigenKronecker) -> Tensor:
    return A.values.sum()


@verbs.trace.register
def trace_blocks(A: BlockDiagonal) -> Tensor:
    return sum_of(block.trace() for block in A.operators)


@verbs.trace.register
def trace_sum(A: Sum) -> Tensor:
    return sum_of(term.trace() for term in A.terms)


@verbs.trace.register
def trace_shifted(A: Shifted) -> Tensor:
    return A.operator.trace() + A.c * A.size


@verbs.trace.register
def trace_scaled(A: Scaled) -> Tensor:
    return A.c * A.operator.trace()


# ---------------------------------------------------------------------- diagonal
@verbs.diagonal.register
def diagonal_any(A: LinearOperator) -> Tensor:
    return written_out(A, "diagonal", "`estimate_diagonal`").diagonal()


@verbs.diagonal.register
def diagonal_dense(A: Dense) -> Tensor:
    return A.matrix.diagonal()


@verbs.diagonal.register
def diagonal_diagonal(A: Diagonal) -> Tensor:
    return A.vector


@verbs.diagonal.register
def diagonal_lowrank(A: LowRank) -> Tensor:
    return A.factor.square() @ A.weights


@verbs.diagonal.register
def diagonal_kronecker(A: Kronecker) -> Tensor:
    G, B = A.factors
    return torch.outer(G.diagonal(), B.diagonal()).reshape(-1)


@verbs.diagonal.register
def diagonal_eigenkronecker(A: EigenKronecker) -> Tensor:
    """Squared bases times eigenvalues (O.2)."""
    bases = [basis_map(None if U is None else U.square()) for U in (A.left_basis, A.right_basis)]
    return multiply_pair(bases[0], bases[1], A.sizes, A.values.to(A.dtype).reshape(-1, 1))[:, 0]


@verbs.diagonal.register
def diagonal_blocks(A: BlockDiagonal) -> Tensor:
    d = torch.zeros(A.size, dtype=A.dtype, device=A.device)
    for block in A.blocks:
        d[block.index] = block.operator.diagonal()
    return d


@verbs.diagonal.register
def diagonal_sum(A: Sum) -> Tensor:
    return sum_of(term.diagonal() for term in A.terms)


@verbs.diagonal.register
def diagonal_shifted(A: Shifted) -> Tensor:
    return A.operator.diagonal() + A.c


@verbs.diagonal.register
def diagonal_scaled(A: Scaled) -> Tensor:
    return A.c * A.operator.diagonal()


@verbs.diagonal.register
def diagonal_inverse(A: Inverse) -> Tensor:
    found = A.operator.factorisation
    return diagonal_any(A) if found is None else found.inverse_diagonal()


# ---------------------------------------------------------------------- inner: tr(AB), or None
@verbs.inner.register
def inner_any(A: LinearOperator, B: LinearOperator) -> Tensor | None:
    return None


@verbs.inner.register
def inner_dense(A: Dense, B: LinearOperator) -> Tensor:
    if isinstance(B, Dense):
        return (A.matrix.double() * B.matrix.double()).sum()
    return (B @ A.matrix).diagonal().double().sum()


@verbs.inner.register
def inner_diagonal(A: Diagonal, B: LinearOperator) -> Tensor:
    return (A.vector.double() * B.diagonal().double()).sum()


@verbs.inner.register
def inner_lowrank(A: LowRank, B: LinearOperator) -> Tensor:
    """Σ w_i u_iᵀ B u_i."""
    return ((A.factor * (B @ A.factor)).double().sum(0) * A.weights.double()).sum()


@verbs.inner.register
def inner_kronecker(A: Kronecker, B: LinearOperator) -> Tensor | None:
    """tr(G G') tr(A A'), or uᵀGu and vᵀAv for the vectors of an eigen-Kronecker partner."""
    if isinstance(B, Kronecker) and A.sizes == B.sizes:
        (G, C), (H, D) = A.factors, B.factors
        return inner_product(G, H) * inner_product(C, D)
    if isinstance(B, EigenKronecker) and A.sizes == B.sizes:
        g = _in_basis(A.factors[0], B.left_basis)
        a = _in_basis(A.factors[1], B.right_basis)
        return g @ B.values @ a
    return None


@verbs.inner.register
def inner_eigenkronecker(A: EigenKronecker, B: LinearOperator) -> Tensor | None:
    """Σ s_ij s'_kl (u_i·u'_k)² (v_j·v'_l)²."""
    if not (isinstance(B, EigenKronecker) and A.sizes == B.sizes):
        return None
    left = _overlap(A.left_basis, B.left_basis)
    right = _overlap(A.right_basis, B.right_basis)
    values = B.values if left is None else left @ B.values
    return (A.values * (values if right is None else values @ right.mT)).sum()


@verbs.inner.register
def inner_blocks(A: BlockDiagonal, B: LinearOperator) -> Tensor | None:
    if not (isinstance(B, BlockDiagonal) and A.same_partition(B)):
        return None
    return sum_of(inner_product(p, q) for p, q in zip(A.operators, B.operators, strict=True))


@verbs.inner.register
def inner_sum(A: Sum, B: LinearOperator) -> Tensor:
    return sum_of(inner_product(term, B) for term in A.terms)


@verbs.inner.register
def inner_shifted(A: Shifted, B: LinearOperator) -> Tensor:
    return inner_product(A.operator, B) + A.c * B.trace()


@verbs.inner.register
def inner_scaled(A: Scaled, B: LinearOperator) -> Tensor:
    return A.c * inner_product(A.operator, B)


def _in_basis(F: Dense | Diagonal, U: Tensor | None) -> Tensor:
    """u_iᵀ F u_i for the columns of U."""
    if U is None:
        return F.diagonal().double()
    return (U * F.multiply(U)).double().sum(0)


def _overlap(U: Tensor | None, V: Tensor | None) -> Tensor | None:
    """(u_i · v_k)²; None where both bases are the same."""
    if U is V:
        return None
    if U is None or V is None:
        return V.double().square() if V is not None else U.double().mT.square() if U is not None else None
    return (U.double().mT @ V.double()).square()
