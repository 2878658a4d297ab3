"""Rules: eigenvalues and largest eigenpairs."""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator, written_out
from paraboloid.operators.blocks import BlockDiagonal, positions
from paraboloid.operators.decompositions import Eigen, symmetric_eigen
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.inverse import Inverse
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lanczos import largest_eigenpairs
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.sums import Scaled, Shifted
from paraboloid.spaces.randomness import as_generator

SMALL = 256  # below this size a dense eigendecomposition is cheaper than any iteration


# ---------------------------------------------------------------------- eigenvalues
@verbs.eigenvalues.register
def eigenvalues_any(A: LinearOperator) -> Tensor:
    return symmetric_eigen(written_out(A, "eigenvalues", "`top_eigenpairs`"), A.psd).values


@verbs.eigenvalues.register
def eigenvalues_dense(A: Dense) -> Tensor:
    return A.eigen.values


@verbs.eigenvalues.register
def eigenvalues_diagonal(A: Diagonal) -> Tensor:
    return A.eigen.values.sort().values


@verbs.eigenvalues.register
def eigenvalues_lowrank(A: LowRank) -> Tensor:
    values = A.eigen.values
    return torch.cat([values, values.new_zeros(A.size - len(values))]).sort().values


@verbs.eigenvalues.register
def eigenvalues_kronecker(A: Kronecker) -> Tensor:
    G, B = A.factors
    return torch.outer(G.eigen.values, B.eigen.values).reshape(-1).sort().values


@verbs.eigenvalues.register
def eigenvalues_eigenkronecker(A: EigenKronecker) -> Tensor:
    return A.values.reshape(-1).sort().values


@verbs.eigenvalues.register
def eigenvalues_blocks(A: BlockDiagonal) -> Tensor:
    values = torch.cat([block.eigenvalues() for block in A.operators])
    return torch.cat([values, values.new_zeros(A.size - A.covered)]).sort().values


@verbs.eigenvalues.register
def eigenvalues_shifted(A: Shifted) -> Tensor:
    return A.operator.eigenvalues() + A.c


@verbs.eigenvalues.register
def eigenvalues_scaled(A: Scaled) -> Tensor:
    return (A.c * A.operator.eigenvalues()).sort().values


@verbs.eigenvalues.register
def eigenvalues_inverse(A: Inverse) -> Tensor:
    return A.operator.eigenvalues().reciprocal().sort().values


# ---------------------------------------------------------------------- top eigenpairs
@verbs.top_eigenpairs.register
def top_any(A: LinearOperator, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    if A.size <= SMALL or 4 * k > A.size:
        values, basis = symmetric_eigen(written_out(A, "top_eigenpairs", "a smaller k"), A.psd)
        assert basis is not None
        return _top(Eigen(values, basis), k)
    width = min(A.size, k + 4)
    draw = as_generator(generator, A.device)
    start = torch.randn(A.size, width, generator=draw, dtype=A.dtype, device=A.device)
    return largest_eigenpairs(A.multiply, start, k)


@verbs.top_eigenpairs.register
def top_dense(A: Dense, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    if A.size <= SMALL or 4 * k > A.size or "eigen" in vars(A):
        return _top(A.eigen, k)
    return top_any(A, k, generator)


@verbs.top_eigenpairs.register
def top_diagonal(A: Diagonal, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    values, where = A.eigen.values.topk(k)
    vectors = torch.zeros(A.size, k, dtype=A.dtype, device=A.device)
    vectors[where, torch.arange(k, device=A.device)] = 1
    return values, vectors


@verbs.top_eigenpairs.register
def top_lowrank(A: LowRank, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """From the thin decomposition; the zeros beyond it would need vectors that it does not hold."""
    if int((A.eigen.values > 0).sum()) < k and A.size > len(A.eigen.values):
        return top_any(A, k, generator)
    return _top(A.eigen, k)


@verbs.top_eigenpairs.register
def top_kronecker(A: Kronecker, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    (g, U), (a, V) = A.factors[0].eigen, A.factors[1].eigen
    return _top_products(torch.outer(g, a), U, V, k, A.dtype)


@verbs.top_eigenpairs.register
def top_eigenkronecker(A: EigenKronecker, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    return _top_products(A.values, A.left_basis, A.right_basis, k, A.dtype)


@verbs.top_eigenpairs.register
def top_blocks(A: BlockDiagonal, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """The best of what the blocks offer, each at most k."""
    values, rows = [], []
    blocks = A.filled(0.0).blocks
    for block in blocks:
        found, vectors = block.operator.top_eigenpairs(min(k, block.operator.size), generator)
        values.append(found)
        rows.append((positions(block.index, A.size, A.device), vectors))
    owner = torch.cat([torch.full_like(v, i) for i, v in enumerate(values)]).long().tolist()
    inside = torch.cat([torch.arange(len(v)) for v in values]).tolist()
    best, where = torch.cat(values).topk(k)
    top = torch.zeros(A.size, k, dtype=A.dtype, device=A.device)
    for column, candidate in enumerate(where.tolist()):
        index, vectors = rows[owner[candidate]]
        top[index, column] = vectors[:, inside[candidate]]
    return best, top


@verbs.top_eigenpairs.register
def top_shifted(A: Shifted, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    values, vectors = A.operator.top_eigenpairs(k, generator)
    return values + A.c, vectors


@verbs.top_eigenpairs.register
def top_scaled(A: Scaled, k: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    if A.c < 0:
        return top_any(A, k, generator)
    values, vectors = A.operator.top_eigenpairs(k, generator)
    return A.c * values, vectors


def _top(eigen: Eigen, k: int) -> tuple[Tensor, Tensor]:
    assert eigen.basis is not None
    return eigen.values.flip(0)[:k], eigen.basis.flip(1)[:, :k]


def _top_products(
    values: Tensor, U: Tensor | None, V: Tensor | None, k: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The k largest of values (a, b) and their vectors u_i ⊗ v_j; (P, k) is the largest tensor made."""
    a, b = values.shape
    best, where = values.reshape(-1).topk(k)
    left = _columns(U, where // b, a, values, dtype)
    right = _columns(V, where % b, b, values, dtype)
    return best, (left[:, None, :] * right[None, :, :]).reshape(a * b, k)


def _columns(U: Tensor | None, which: Tensor, n: int, like: Tensor, dtype: torch.dtype) -> Tensor:
    if U is not None:
        return U[:, which]
    columns = torch.zeros(n, len(which), dtype=dtype, device=like.device)
    columns[which, torch.arange(len(which), device=like.device)] = 1
    return columns
