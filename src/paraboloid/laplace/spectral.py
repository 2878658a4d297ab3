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


@dataclass(frozen=True)
class Piece:
    """Eigenvalues of one block; `missing` further ones are zero (a thin factor's)."""

    name: str
    where: Tensor
    values: Tensor  # float64
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


def pieces(operator: LinearOperator) -> list[Piece]:
    """The eigenvalues of a diagonalised operator, block by block."""
    everything = torch.arange(operator.size, device=operator.device)
    if isinstance(operator, BlockDiagonal):
        wheres = [positions(b.index, operator.size, operator.device) for b in operator.blocks]
        return [Piece(b.name, w, _values(b.operator)) for b, w in zip(operator.blocks, wheres, strict=True)]
    if isinstance(operator, LowRank):
        values = operator.eigen.values.double()
        return [Piece("all", everything, values, operator.size - len(values))]
    return [Piece("all", everything, _values(operator))]


def _values(operator: LinearOperator) -> Tensor:
    if isinstance(operator, EigenKronecker):
        return operator.values.reshape(-1).clamp_min(0)
    assert isinstance(operator, Diagonal)
    return operator.vector.double().clamp_min(0)


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


def logdet(operator: LinearOperator, found: Sequence[Piece], num_data: Tensor | float, prior: Prior) -> Tensor:
    """log det(N F + diag(δ)) (P.6), differentiable in N and in the prior's values."""
    several = len(prior.values) > 1
    if several and isinstance(operator, LowRank):
        return _logdet_thin(operator, num_data, prior.values[prior.group])
    if several and not isinstance(operator, Diagonal | BlockDiagonal):
        return torch.linalg.slogdet(num_data * operator.dense().double() + prior.values[prior.group].diag())[1]
    total = prior.values.new_zeros(())
    for piece, diagonal in zip(found, _diagonal_pieces(operator), strict=True):
        if several and diagonal:
            total = total + log_sum(num_data * piece.values + prior.values[prior.group[piece.where]])
            continue
        delta = prior.values[prior.of_positions(piece.where, piece.name)]
        total = total + log_sum(num_data * piece.values + delta) + piece.missing * delta.log()
    return total


def _diagonal_pieces(operator: LinearOperator) -> list[bool]:
    """Which pieces are diagonal in the weights themselves."""
    if isinstance(operator, BlockDiagonal):
        return [isinstance(block.operator, Diagonal) for block in operator.blocks]
    return [isinstance(operator, Diagonal)]


def _logdet_thin(operator: LowRank, num_data: Tensor | float, delta: Tensor) -> Tensor:
    """det(D + N B Bᵀ) = det D · det(I + N Bᵀ D⁻¹ B), B = U √w."""
    B = operator.factor.double() * operator.weights.double().clamp_min(0).sqrt()
    eye = torch.eye(B.shape[1], dtype=B.dtype, device=B.device)
    return delta.log().sum() + torch.linalg.slogdet(eye + num_data * (B.mT / delta) @ B)[1]


def log_sum(values: Tensor) -> Tensor:
    """Σ log of positive numbers: one logarithm for eight of them where their product cannot overflow."""
    n = len(values) // TOGETHER * TOGETHER
    bounds = values.detach()
    if n and float(bounds.min()) > 1e-38 and float(bounds.max()) < 1e38:
        return values[:n].view(-1, TOGETHER).prod(1).log().sum() + values[n:].log().sum()
    return values.log().sum()
