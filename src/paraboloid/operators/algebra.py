"""A + B, A + cI and cA: the simplest structure that holds the result.

Whatever can be folded is folded here, so the other rule files meet few combinations: cA is `Scaled` only for
products and inverses, A + cI is `Shifted` for dense, low-rank, Kronecker, sums and products.
"""

from __future__ import annotations

import torch

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.decompositions import Eigen
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.sums import Scaled, Shifted, Sum

WRITTEN_OUT = (Dense, Diagonal, LowRank, Kronecker, EigenKronecker, BlockDiagonal)


@verbs.add.register
def add(A: LinearOperator, B: LinearOperator) -> LinearOperator:
    """A + B; shifts are carried outside, sums stay flat, a new term folds into the first that can take it."""
    if isinstance(B, Diagonal) and B.constant:
        return shifted(A, float(B.vector[0]))
    if isinstance(A, Diagonal) and A.constant:
        return shifted(B, float(A.vector[0]))
    A, a = (A.operator, A.c) if isinstance(A, Shifted) else (A, 0.0)
    B, b = (B.operator, B.c) if isinstance(B, Shifted) else (B, 0.0)
    terms = list(A.terms) if isinstance(A, Sum) else [A]
    for new in B.terms if isinstance(B, Sum) else (B,):
        for i, term in enumerate(terms):
            folded = verbs.merge(term, new) or verbs.merge(new, term)
            if folded is not None:
                terms[i] = folded
                break
        else:
            terms.append(new)
    return shifted(terms[0] if len(terms) == 1 else Sum(*terms), a + b)


# ---------------------------------------------------------------------- merge: A + B in one, or None
@verbs.merge.register
def merge_any(A: LinearOperator, B: LinearOperator) -> LinearOperator | None:
    return None


@verbs.merge.register
def merge_dense(A: Dense, B: LinearOperator) -> LinearOperator | None:
    """A matrix that is written out absorbs everything that costs nothing to write out."""
    return Dense(A.matrix + B.to_dense(), A.psd and B.psd) if isinstance(B, WRITTEN_OUT) else None


@verbs.merge.register
def merge_diagonal(A: Diagonal, B: LinearOperator) -> LinearOperator | None:
    return Diagonal(A.vector + B.vector, A.psd and B.psd) if isinstance(B, Diagonal) else None


@verbs.merge.register
def merge_lowrank(A: LowRank, B: LinearOperator) -> LinearOperator | None:
    if not isinstance(B, LowRank):
        return None
    return LowRank(torch.cat([A.factor, B.factor], 1), torch.cat([A.weights, B.weights]), A.psd and B.psd)


@verbs.merge.register
def merge_eigenkronecker(A: EigenKronecker, B: LinearOperator) -> LinearOperator | None:
    if not (isinstance(B, EigenKronecker) and A.left_basis is B.left_basis and A.right_basis is B.right_basis):
        return None
    return A.with_values(A.values + B.values, A.psd and B.psd) if A.sizes == B.sizes else None


@verbs.merge.register
def merge_blocks(A: BlockDiagonal, B: LinearOperator) -> LinearOperator | None:
    if isinstance(B, Diagonal):
        A = A.filled(0.0)
        B = BlockDiagonal(A.size, [Block(b.name, b.index, Diagonal(B.vector[b.index], B.psd)) for b in A.blocks])
    if not (isinstance(B, BlockDiagonal) and A.same_partition(B)):
        return None
    pairs = zip(A.blocks, B.blocks, strict=True)
    return BlockDiagonal(A.size, [Block(p.name, p.index, add(p.operator, q.operator)) for p, q in pairs])


def shifted(A: LinearOperator, c: float) -> LinearOperator:
    """A + cI for any sign of c."""
    return A if c == 0 else verbs.shift(A, c)


# ---------------------------------------------------------------------- shift: A + cI
@verbs.shift.register
def shift_any(A: LinearOperator, c: float) -> LinearOperator:
    return Shifted(A, c)


@verbs.shift.register
def shift_shifted(A: Shifted, c: float) -> LinearOperator:
    total = A.c + c
    return A.operator if total == 0 else Shifted(A.operator, total)


@verbs.shift.register
def shift_diagonal(A: Diagonal, c: float) -> LinearOperator:
    if A.constant:
        return Diagonal((A.vector[:1] + c).expand(A.size), A.psd and c >= 0)
    return Diagonal(A.vector + c, A.psd and c >= 0)


@verbs.shift.register
def shift_eigenkronecker(A: EigenKronecker, c: float) -> LinearOperator:
    values = A.values.clamp_min(0) if A.psd else A.values
    return A.with_values(values + c, A.psd and c >= 0)


@verbs.shift.register
def shift_blocks(A: BlockDiagonal, c: float) -> LinearOperator:
    if A.covered == A.size:
        return A.map(lambda block: shifted(block, c))
    return A.map(lambda block: shifted(block, c)).filled(c)


# ---------------------------------------------------------------------- scale: cA
@verbs.scale.register
def scale_any(A: LinearOperator, c: float) -> LinearOperator:
    return Scaled(A, c)


@verbs.scale.register
def scale_scaled(A: Scaled, c: float) -> LinearOperator:
    return Scaled(A.operator, A.c * c)


@verbs.scale.register
def scale_dense(A: Dense, c: float) -> Dense:
    scaled = Dense(c * A.matrix, A.psd and c >= 0)
    if "eigen" in vars(A) and c > 0:  # a grid of scales pays for one eigendecomposition
        vars(scaled)["eigen"] = Eigen(c * A.eigen.values, A.eigen.basis)
    return scaled


@verbs.scale.register
def scale_diagonal(A: Diagonal, c: float) -> Diagonal:
    if A.constant:
        return Diagonal((c * A.vector[:1]).expand(A.size), A.psd and c >= 0)
    return Diagonal(c * A.vector, A.psd and c >= 0)


@verbs.scale.register
def scale_lowrank(A: LowRank, c: float) -> LinearOperator:
    scaled = LowRank(A.factor, c * A.weights, A.psd and c >= 0)
    if "eigen" in vars(A) and c > 0:
        vars(scaled)["eigen"] = Eigen(c * A.eigen.values, A.eigen.basis)
    return scaled


@verbs.scale.register
def scale_kronecker(A: Kronecker, c: float) -> LinearOperator:
    return Kronecker(verbs.scale(A.factors[0], c), A.factors[1])


@verbs.scale.register
def scale_eigenkronecker(A: EigenKronecker, c: float) -> LinearOperator:
    return A.with_values(c * A.values, A.psd and c >= 0)


@verbs.scale.register
def scale_blocks(A: BlockDiagonal, c: float) -> LinearOperator:
    return A.map(lambda block: block * c)


@verbs.scale.register
def scale_sum(A: Sum, c: float) -> LinearOperator:
    return Sum(*[term * c for term in A.terms])


@verbs.scale.register
def scale_shifted(A: Shifted, c: float) -> LinearOperator:
    return shifted(A.operator * c, A.c * c)
