"""Rules: X ↦ A⁻¹X, and A⁻¹ as an operator.

Closed form where the structure has a factorisation; preconditioned conjugate gradients otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import BlockDiagonal
from paraboloid.operators.cg import conjugate_gradient
from paraboloid.operators.decompositions import singular
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.factorisations import Cholesky
from paraboloid.operators.inverse import Inverse
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.nearest import nearest_kronecker
from paraboloid.operators.sums import Scaled, Shifted, Sum


@verbs.solve.register
def solve_any(A: LinearOperator, X: Tensor, tolerance: float | None) -> Tensor:
    found = A.factorisation
    if found is not None:
        return found.solve(X)
    return conjugate_gradient(A.multiply, X, precondition=preconditioner(A), tolerance=tolerance)


@verbs.solve.register
def solve_scaled(A: Scaled, X: Tensor, tolerance: float | None) -> Tensor:
    if A.c == 0:
        raise singular(0.0, 0.0)
    return verbs.solve(A.operator, X, tolerance) / A.c


@verbs.solve.register
def solve_inverse(A: Inverse, X: Tensor, tolerance: float | None) -> Tensor:
    return A.operator.multiply(X)


@verbs.solve.register
def solve_blocks(A: BlockDiagonal, X: Tensor, tolerance: float | None) -> Tensor:
    Y = torch.empty_like(X)
    for block in A.filled(0.0).blocks:
        Y[block.index] = verbs.solve(block.operator, X[block.index], tolerance)
    return Y


def preconditioner(A: LinearOperator) -> Callable[[Tensor], Tensor] | None:
    """The nearest Kronecker product for sums of them, the diagonal where it is at hand, else nothing."""
    terms = kronecker_terms(A)
    if terms is not None:
        nearest = nearest_kronecker(terms)
        return nearest.factorisation.solve if all(map(_definite, nearest.factors)) else None
    if not has_cheap_diagonal(A):
        return None
    d = A.diagonal()
    return (lambda X: X / d[:, None]) if bool((d > 0).all()) else None


def kronecker_terms(A: LinearOperator) -> list[Kronecker] | None:
    """The Kronecker products whose sum is A, if it is such a sum of equal sizes."""
    inner, c = (A.operator, A.c) if isinstance(A, Shifted) else (A, 0.0)
    if not isinstance(inner, Sum):
        return None
    terms = [term for term in inner.terms if isinstance(term, Kronecker) and term.psd]
    if len(terms) != len(inner.terms) or len({term.sizes for term in terms}) != 1 or c < 0:
        return None
    if c > 0:
        ones = [torch.ones(n, dtype=A.dtype, device=A.device) for n in terms[0].sizes]
        terms.append(Kronecker(c * ones[0], ones[1]))
    return terms


def has_cheap_diagonal(A: LinearOperator) -> bool:
    """Whether diag A is known without products."""
    if isinstance(A, Sum):
        return all(has_cheap_diagonal(term) for term in A.terms)
    if isinstance(A, (Shifted, Scaled)):
        return has_cheap_diagonal(A.operator)
    if isinstance(A, BlockDiagonal):
        return all(has_cheap_diagonal(block) for block in A.operators)
    return isinstance(A, (Dense, Diagonal, LowRank, Kronecker, EigenKronecker))


def _definite(factor: Dense | Diagonal) -> bool:
    if isinstance(factor, Diagonal):
        return bool((factor.vector > 0).all())
    return isinstance(factor.factorisation, Cholesky)


# ---------------------------------------------------------------------- inverse
@verbs.inverse.register
def inverse_any(A: LinearOperator) -> LinearOperator:
    return Inverse(A)


@verbs.inverse.register
def inverse_inverse(A: Inverse) -> LinearOperator:
    return A.operator


@verbs.inverse.register
def inverse_dense(A: Dense) -> Dense:
    return Dense(_symmetric(A.factorisation.solve(torch.eye(A.size, dtype=A.dtype, device=A.device))), A.psd)


@verbs.inverse.register
def inverse_diagonal(A: Diagonal) -> Diagonal:
    return Diagonal(A.factorisation.inverse_diagonal(), A.psd)


@verbs.inverse.register
def inverse_kronecker(A: Kronecker) -> Kronecker:
    G, B = A.factors
    return Kronecker(verbs.inverse(G), verbs.inverse(B))


@verbs.inverse.register
def inverse_eigenkronecker(A: EigenKronecker) -> EigenKronecker:
    return A.with_values(A.factorisation.invertible().reciprocal())


@verbs.inverse.register
def inverse_blocks(A: BlockDiagonal) -> BlockDiagonal:
    return A.filled(0.0).map(verbs.inverse)


@verbs.inverse.register
def inverse_shifted(A: Shifted) -> LinearOperator:
    found = A.factorisation
    if isinstance(A.operator, Kronecker):
        return EigenKronecker(found.left, found.right, found.invertible().reciprocal(), A.dtype, A.psd)
    if isinstance(A.operator, Dense):
        return Dense(_symmetric(found.solve(torch.eye(A.size, dtype=A.dtype, device=A.device))), A.psd)
    return Inverse(A)


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2
