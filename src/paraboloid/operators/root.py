"""Rules: roots R Rᵀ = A and R Rᵀ = A⁻¹, rectangular where that is cheaper."""

from __future__ import annotations

import torch

from paraboloid.operators import verbs
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import BlockDiagonal
from paraboloid.operators.compound import block_root
from paraboloid.operators.factorise import require_factorised
from paraboloid.operators.inverse import Inverse
from paraboloid.operators.rectangular import Root, beside, diagonal_root
from paraboloid.operators.sums import Shifted, Sum


@verbs.root.register
def root_any(A: LinearOperator) -> Root:
    return require_factorised(A, "root", "a low-rank operator made of `top_eigenpairs`").root()


@verbs.root.register
def root_blocks(A: BlockDiagonal) -> Root:
    """Block by block; positions in no block need no noise at all."""
    like = torch.empty(A.size, dtype=A.dtype, device=A.device)
    return block_root([block.operator.root() for block in A.blocks], A.indices, like)


@verbs.root.register
def root_sum(A: Sum) -> Root:
    """[R₁ R₂ …] (O.5): no factorisation of the sum is needed, only that every term has a root."""
    return beside([term.root() for term in A.terms]) if A.psd else root_any(A)


@verbs.root.register
def root_shifted(A: Shifted) -> Root:
    if A.factorisation is not None or not A.psd:
        return root_any(A)
    scale = torch.full((1,), A.c**0.5, dtype=A.dtype, device=A.device)
    return beside([A.operator.root(), diagonal_root(scale.expand(A.size))])


@verbs.root.register
def root_inverse(A: Inverse) -> Root:
    return A.operator.inverse_root()


@verbs.inverse_root.register
def inverse_root_any(A: LinearOperator) -> Root:
    return require_factorised(A, "inverse_root", "`solve`, or a structure with a closed form").inverse_root()


@verbs.inverse_root.register
def inverse_root_inverse(A: Inverse) -> Root:
    return A.operator.root()
