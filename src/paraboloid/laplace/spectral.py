"""A curvature in the basis in which adding a prior, scaling and determinants cost nothing.

    F = U diag(λ) Uᵀ   ⇒   N F + δ I = U diag(N λ + δ) Uᵀ                                       (P.2)

block by block: Kronecker blocks through the eigenvectors of their factors, dense blocks through their own. What has no
such basis that is worth its cost (a whole dense matrix with several prior precisions) stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.laplace.prior import Prior
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block, BlockDiagonal, positions
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank

ROUNDING = 1e-8  # of the largest eigenvalue: negative ones below it are zero
TOGETHER = 8  # eigenvalues multiplied before a logarithm is taken
SMALLEST = 1e-38  # whose eighth power is still a number, and its inverse too


@dataclass(frozen=True)
class Piece:
    """Eigenvalues of one block, between `low` and `high`; `missing` further ones are zero (a thin factor's).

    `group` numbers the block's prior precision; where the eigenvalues are single weights', each has its own.
    """

    values: Tensor  # float64
    low: float
    high: float
    group: int | Tensor
    missing: int = 0


def diagonalised(operator: LinearOperator) -> LinearOperator:
    """The same matrix with its eigenvectors found."""
    if isinstance(operator, Kronecker):
        G, A = operator.factors
        values = torch.outer(G.eigen.values, A.eigen.values)
        return EigenKronecker(G.eigen.basis, A.eigen.basis, values, operator.dtype)
    if isinstance(operator, Dense):
        values, basis = operator.eigen.values, operator.eigen.basis
        _require_positive(operator, values)
        return EigenKronecker(basis, None, values[:, None], operator.dtype)
    if isinstance(operator, BlockDiagonal):
        whole = operator.filled(0.0)
        return BlockDiagonal(whole.size, [Block(b.name, b.index, diagonalised(b.operator)) for b in whole.blocks])
    if isinstance(operator, Diagonal):
        _require_positive(operator, operator.vector)
    if isinstance(operator, Diagonal | EigenKronecker | LowRank):
        return operator
    raise ValueError(
        f"a Laplace posterior needs a curvature that is written down, found {type(operator).__name__}. Use "
        'structure="kronecker", "eigenkronecker", "diagonal", "block", "dense" or "lowrank".'
    )


def _require_positive(operator: LinearOperator, values: Tensor) -> None:
    if not operator.psd and float(values.min()) < -ROUNDING * float(values.abs().max()):
        raise ValueError(
            f"the curvature should be positive semi-definite, found the eigenvalue {float(values.min()):.3g}: a normal "
            'distribution has no negative precision. Use kind="ggn", or train to a minimum.'
        )


def pieces(operator: LinearOperator, prior: Prior) -> list[Piece] | None:
    """The eigenvalues of a diagonalised operator, block by block; None if the prior changes its eigenvectors."""
    if isinstance(operator, BlockDiagonal):
        wheres = [positions(b.index, operator.size, operator.device) for b in operator.blocks]
        return [_piece(b.operator, w, b.name, prior) for b, w in zip(operator.blocks, wheres, strict=True)]
    if len(prior.values) > 1 and not isinstance(operator, Diagonal):
        return None
    return [_piece(operator, torch.arange(operator.size, device=operator.device), "all", prior)]


def _piece(operator: LinearOperator, where: Tensor, name: str, prior: Prior) -> Piece:
    missing = 0
    if isinstance(operator, LowRank):
        values = operator.eigen.values.double()
        missing = operator.size - len(values)
    elif isinstance(operator, EigenKronecker):
        values = operator.values.reshape(-1)
    else:
        assert isinstance(operator, Diagonal)
        values = operator.vector.double()
    values = values.clamp_min(0)
    own = isinstance(operator, Diagonal) and len(prior.values) > 1
    group = prior.group[where] if own else prior.of_positions(where, name)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return Piece(values, low, high, group, missing)


def with_prior(operator: LinearOperator, num_data: float, prior: Prior) -> LinearOperator:
    """N F + diag(δ), in the structure of F (P.2)."""
    if len(prior.values) == 1:
        return num_data * operator + float(prior.values[0])
    if isinstance(operator, Diagonal):
        return num_data * operator + Diagonal(prior.vector)
    if isinstance(operator, BlockDiagonal):
        return BlockDiagonal(operator.size, [_block_with_prior(b, operator, num_data, prior) for b in operator.blocks])
    if isinstance(operator, LowRank):
        return num_data * operator + Diagonal(prior.vector)
    return Dense(num_data * operator.dense()) + Diagonal(prior.vector)


def _block_with_prior(block: Block, whole: BlockDiagonal, num_data: float, prior: Prior) -> Block:
    where = positions(block.index, whole.size, whole.device)
    if isinstance(block.operator, Diagonal):
        return Block(block.name, block.index, num_data * block.operator + Diagonal(prior.vector[where]))
    delta = float(prior.values[prior.of_positions(where, block.name)])
    return Block(block.name, block.index, num_data * block.operator + delta)


def logdet(operator: LinearOperator, found: Sequence[Piece] | None, num_data: Tensor | float, prior: Prior) -> Tensor:
    """log det(N F + diag(δ)) (P.6), differentiable in N and in the prior's values."""
    if found is None and isinstance(operator, LowRank):
        return _logdet_thin(operator, num_data, prior.values[prior.group])
    if found is None:
        return torch.linalg.slogdet(num_data * operator.dense().double() + prior.values[prior.group].diag())[1]
    total = prior.values.new_zeros(())
    for piece in found:
        delta = prior.values[piece.group]
        total = total + _log_sum(piece, num_data, delta) + (piece.missing * delta.log() if piece.missing else 0.0)
    return total


def _log_sum(piece: Piece, num_data: Tensor | float, delta: Tensor) -> Tensor:
    """Σ log(Nλ + δ): one logarithm for eight eigenvalues where their product cannot overflow."""
    if isinstance(num_data, Tensor):
        values, strength = num_data * piece.values + delta, float(num_data.detach())
    else:
        values, strength = torch.add(delta, piece.values, alpha=num_data), num_data
    low = strength * piece.low + float(delta.detach().min())
    high = strength * piece.high + float(delta.detach().max())
    n = len(values) // TOGETHER * TOGETHER
    if not (low > SMALLEST and high < 1 / SMALLEST):
        return values.log().sum()
    return values[:n].view(-1, TOGETHER).prod(1).log().sum() + values[n:].log().sum()


def _logdet_thin(operator: LowRank, num_data: Tensor | float, delta: Tensor) -> Tensor:
    """det(D + N B Bᵀ) = det D · det(I + N Bᵀ D⁻¹ B), B = U √w."""
    B = operator.factor.double() * operator.weights.double().clamp_min(0).sqrt()
    eye = torch.eye(B.shape[1], dtype=B.dtype, device=B.device)
    return delta.log().sum() + torch.linalg.slogdet(eye + num_data * (B.mT / delta) @ B)[1]
