"""The operators that the contract is checked on: every structure, every sum with its own rule."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal, identity
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.matrixfree import MatrixFree

Maker = Callable[["Source"], LinearOperator]


class Source:
    """Random ingredients of one dtype; drawn in float64, so both dtypes see the same numbers."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.generator = torch.Generator().manual_seed(3)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.device, self.dtype)

    def definite(self, n: int) -> Tensor:
        root = torch.randn(n, n + 2, generator=self.generator, dtype=torch.float64)
        matrix = root @ root.mT / n + 0.1 * torch.eye(n, dtype=torch.float64)
        return matrix.to(self.device, self.dtype)

    def positive(self, *shape: int) -> Tensor:
        return (torch.rand(shape, generator=self.generator, dtype=torch.float64) + 0.2).to(self.device, self.dtype)

    def orthogonal(self, n: int) -> Tensor:
        square = torch.randn(n, n, generator=self.generator, dtype=torch.float64)
        return torch.linalg.qr(square).Q.to(self.device, self.dtype)

    def kronecker(self, a: int = 3, b: int = 4) -> Kronecker:
        return Kronecker(self.definite(a), self.definite(b))

    def eigenkronecker(self, a: int = 3, b: int = 4) -> EigenKronecker:
        return EigenKronecker(self.orthogonal(a), self.orthogonal(b), self.positive(a, b))

    def blocks(self, size: int = 12) -> BlockDiagonal:
        scattered = torch.tensor([3, 1, 0, 7, 8, 9], device=self.device)
        return BlockDiagonal(
            size,
            [
                Block("kronecker", scattered, self.kronecker(2, 3)),
                Block("dense", slice(10, 12), Dense(self.definite(2))),
                Block("diagonal", torch.tensor([2, 4], device=self.device), Diagonal(self.positive(2))),
            ],
        )

    def matrixfree(self, n: int = 12) -> MatrixFree:
        matrix = self.definite(n)
        return MatrixFree(n, lambda X: matrix @ X, self.dtype, self.device)


# Definite operators: every verb has an answer.
DEFINITE: dict[str, Maker] = {
    "dense": lambda s: Dense(s.definite(12)),
    "dense_1x1": lambda s: Dense(s.definite(1)),
    "dense_shifted": lambda s: Dense(s.definite(12)) + 0.3,
    "diagonal": lambda s: Diagonal(s.positive(12)),
    "diagonal_1x1": lambda s: Diagonal(s.positive(1)),
    "identity": lambda s: 3 * identity(12, s.dtype, s.device),
    "lowrank_shifted": lambda s: LowRank(s.normal(12, 3), s.positive(3)) + 0.3,
    "lowrank_rank0_shifted": lambda s: LowRank(s.normal(12, 0)) + 0.3,
    "lowrank_wide_shifted": lambda s: LowRank(s.normal(5, 9)) + 0.3,
    "lowrank_full": lambda s: LowRank(s.normal(5, 9)),
    "lowrank_plus_diagonal": lambda s: LowRank(s.normal(12, 3), s.positive(3)) + Diagonal(s.positive(12)),
    "kronecker": lambda s: s.kronecker(),
    "kronecker_left_diagonal": lambda s: Kronecker(s.positive(3), s.definite(4)),
    "kronecker_right_diagonal": lambda s: Kronecker(s.definite(3), s.positive(4)),
    "kronecker_both_diagonal": lambda s: Kronecker(s.positive(3), s.positive(4)),
    "kronecker_1x1": lambda s: s.kronecker(1, 1),
    "kronecker_shifted": lambda s: s.kronecker() + 0.3,
    "kronecker_diagonal_shifted": lambda s: Kronecker(s.positive(3), s.definite(4)) + 0.3,
    "kronecker_scaled_shifted": lambda s: (2 * s.kronecker() + 0.3) / 5,
    "kronecker_pair": lambda s: s.kronecker() + 2 * s.kronecker(),
    "kronecker_pair_diagonal": lambda s: Kronecker(s.positive(3), s.definite(4)) + s.kronecker(),
    "kronecker_triple": lambda s: s.kronecker() + s.kronecker() + Kronecker(s.positive(3), s.positive(4)),
    "kronecker_pair_shifted": lambda s: s.kronecker() + s.kronecker() + 0.3,
    "eigenkronecker": lambda s: s.eigenkronecker(),
    "eigenkronecker_left": lambda s: EigenKronecker(s.orthogonal(3), None, s.positive(3, 4)),
    "eigenkronecker_right": lambda s: EigenKronecker(None, s.orthogonal(4), s.positive(3, 4)),
    "eigenkronecker_bare": lambda s: EigenKronecker(None, None, s.positive(3, 4)),
    "eigenkronecker_shifted": lambda s: 2 * s.eigenkronecker() + 0.3,
    "blocks_shifted": lambda s: s.blocks() + 0.3,
    "blocks_sum": lambda s: s.blocks() + s.blocks() + 0.3,
    "blocks_triple": lambda s: s.blocks() + s.blocks() + s.blocks() + 0.3,
    "blocks_plus_diagonal": lambda s: s.blocks() + Diagonal(s.positive(12)),
    "blocks_damped": lambda s: s.blocks().damped(0.3),
    "matrixfree": lambda s: s.matrixfree(),
    "matrixfree_scaled_shifted": lambda s: 3 * s.matrixfree() + 0.3,
    "mixed_sum": lambda s: s.kronecker() + s.eigenkronecker() + s.blocks(),
    "inverse_lowrank": lambda s: (LowRank(s.normal(12, 3)) + 0.3).inverse(),
    "inverse_pair": lambda s: (s.kronecker() + s.kronecker()).inverse(),
    "inverse_matrixfree": lambda s: s.matrixfree().inverse(),
}

# Semi-definite or indefinite operators: everything but inverses and log-determinants.
SINGULAR: dict[str, Maker] = {
    "dense_singular": lambda s: Dense(torch.ones(6, 6, dtype=s.dtype, device=s.device)),
    "diagonal_singular": lambda s: Diagonal(torch.tensor([1.0, 0.0, 2.0], dtype=s.dtype, device=s.device)),
    "lowrank": lambda s: LowRank(s.normal(12, 3), s.positive(3)),
    "lowrank_rank0": lambda s: LowRank(s.normal(4, 0)),
    "kronecker_singular": lambda s: Kronecker(torch.ones(3, 3, dtype=s.dtype, device=s.device), s.definite(4)),
    "kronecker_counts": lambda s: Kronecker(
        s.definite(3), torch.tensor([2.0, 0.0, 1.0], dtype=s.dtype, device=s.device)
    ),
    "eigenkronecker_singular": lambda s: s.eigenkronecker().with_values(
        torch.tensor([[1.0, 0.0, 3.0, 4.0]] * 3, device=s.device)
    ),
    "blocks": lambda s: s.blocks(),
    "blocks_zero": lambda s: 0 * s.blocks(),
}

INDEFINITE: dict[str, Maker] = {
    "dense_negated": lambda s: -Dense(s.definite(12)),
    "dense_indefinite": lambda s: Dense(s.definite(12) - s.definite(12), psd=False),
    "difference": lambda s: s.kronecker() - s.kronecker(),
    "shifted_down": lambda s: s.kronecker() - 5 * identity(12, s.dtype, s.device),
    "kronecker_negated": lambda s: -s.kronecker(),
    "matrixfree_negated": lambda s: -s.matrixfree(),
    "lowrank_indefinite": lambda s: LowRank(s.normal(12, 3), s.normal(3), psd=False),
    "eigenkronecker_negated": lambda s: -s.eigenkronecker() + 0.5,
    "one_minus": lambda s: 1 - s.blocks(),
}

ALL = DEFINITE | SINGULAR | INDEFINITE


class Products:
    """X ↦ M X, counted; `spoil(count, Y)` may falsify a product."""

    def __init__(self, matrix: Tensor, spoil: Callable[[int, Tensor], Tensor] | None = None) -> None:
        self.matrix, self.spoil, self.count = matrix, spoil, 0

    def __call__(self, X: Tensor) -> Tensor:
        self.count += 1
        Y = self.matrix @ X
        return Y if self.spoil is None else self.spoil(self.count, Y)


def with_spectrum(s: Source, values: Tensor) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    U = s.orthogonal(len(values))
    matrix = (U * values.to(U)) @ U.mT
    return (matrix + matrix.mT) / 2
