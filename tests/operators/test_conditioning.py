"""Condition 1e12: solves stay backward stable in both precisions, and accurate as far as float64 allows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import operator_zoo as zoo
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank

CONDITION = 1e12
MODEST = 200.0  # the constant in ‖A x − b‖ ≤ c · eps · ‖A‖ ‖x‖


def spread(s: zoo.Source, n: int, condition: float) -> Tensor:
    """A symmetric matrix with eigenvalues from 1 down to 1/condition, evenly in the logarithm."""
    values = torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), n, dtype=torch.float64)
    Q = torch.linalg.qr(torch.randn(n, n, generator=s.generator, dtype=torch.float64)).Q
    matrix = (Q * values) @ Q.mT
    return ((matrix + matrix.mT) / 2).to(s.device, s.dtype)


def flat(s: zoo.Source, n: int, rank: int) -> Tensor:
    """A projector of the given rank."""
    Q = s.orthogonal(n)[:, :rank]
    return Q @ Q.mT


ILL: dict[str, zoo.Maker] = {
    "dense_shifted": lambda s: Dense(flat(s, 20, 5)) + 1 / CONDITION,
    "diagonal": lambda s: Diagonal(torch.logspace(0, -12, 20, dtype=s.dtype, device=s.device)),
    "lowrank_shifted": lambda s: LowRank(s.orthogonal(20)[:, :5]) + 1 / CONDITION,
    "lowrank_plus_diagonal": lambda s: LowRank(s.orthogonal(20)[:, :5]) + Diagonal(s.positive(20) / CONDITION),
    "kronecker": lambda s: Kronecker(spread(s, 4, 1e6), spread(s, 5, 1e6)),
    "kronecker_diagonal": lambda s: Kronecker(
        torch.logspace(0, -6, 4, dtype=s.dtype, device=s.device), spread(s, 5, 1e6)
    ),
    "kronecker_shifted": lambda s: Kronecker(flat(s, 4, 2), flat(s, 5, 3)) + 1 / CONDITION,
    "eigenkronecker": lambda s: EigenKronecker(
        s.orthogonal(4), s.orthogonal(5), torch.logspace(0, -12, 20, dtype=torch.float64).reshape(4, 5)
    ),
    "kronecker_pair": lambda s: (
        Kronecker(flat(s, 4, 2), flat(s, 5, 3))
        + Kronecker(torch.ones(4, dtype=s.dtype), torch.full((5,), 1 / CONDITION, dtype=s.dtype))
    ),
    "kronecker_pair_ill": lambda s: (
        Kronecker(spread(s, 4, 1e6), spread(s, 5, 1e6)) + Kronecker(spread(s, 4, 1e6), spread(s, 5, 1e6))
    ),
    "blocks": lambda s: BlockDiagonal(
        20,
        [
            Block("a", slice(0, 8), LowRank(s.orthogonal(8)[:, :3]) + 1 / CONDITION),
            Block("b", slice(8, 20), Kronecker(flat(s, 3, 1), flat(s, 4, 2)) + 1 / CONDITION),
        ],
    ),
}
TRUE_IN_DOUBLE = dict(ILL, dense=lambda s: Dense(spread(s, 20, CONDITION)))


def relative_residual(A: LinearOperator, matrix: Tensor, x: Tensor, b: Tensor) -> float:
    residual = (matrix @ x.double() - b.double()).norm()
    norm = torch.linalg.matrix_norm(matrix, 2)
    return float(residual / (torch.finfo(A.dtype).eps * norm * x.double().norm()))


@pytest.mark.parametrize("inside", [False, True], ids=["any_b", "b_in_the_range_of_the_large_eigenvalues"])
@pytest.mark.parametrize("name", TRUE_IN_DOUBLE)
def test_residual_in_float64(name, inside, device):
    s = zoo.Source(torch.float64, device)
    A = TRUE_IN_DOUBLE[name](s)
    b = s.normal(20)
    b = A @ b if inside else b
    assert relative_residual(A, A.dense(), A.solve(b), b) < MODEST


@pytest.mark.parametrize("inside", [False, True], ids=["any_b", "b_in_the_range_of_the_large_eigenvalues"])
@pytest.mark.parametrize("name", ILL)
def test_residual_in_float32(name, inside, device):
    s = zoo.Source(torch.float32, device)
    A = ILL[name](s)
    matrix = A.to(torch.float64).dense()  # in float32 the shift would vanish from the oracle, not from A
    b = s.normal(20)
    b = A @ b if inside else b
    assert relative_residual(A, matrix, A.solve(b), b) < MODEST


@pytest.mark.parametrize("name", TRUE_IN_DOUBLE)
def test_forward_error_in_float64(name, device):
    """‖x − x*‖ ≤ c · eps · condition · ‖x*‖, x* by refinement-free mathematics: b is made from x*."""
    s = zoo.Source(torch.float64, device)
    A = TRUE_IN_DOUBLE[name](s)
    truth = s.normal(20)
    error = (A.solve(A.dense() @ truth) - truth).norm() / truth.norm()
    assert float(error) < MODEST * torch.finfo(torch.float64).eps * CONDITION


def test_float32_cholesky_that_fails_is_repeated_in_float64(device):
    A = Dense(torch.ones(6, 6, dtype=torch.float32, device=device)) + 1e-9  # 1 + 1e-9 is 1 in float32
    assert A.factorisation.L.dtype == torch.float64
    b = zoo.Source(torch.float32, device).normal(6)
    assert relative_residual(A, A.to(torch.float64).dense(), A.solve(b), b) < MODEST


def test_not_a_number_is_refused_before_eigh_can_hide_it():
    matrix = torch.eye(300)
    matrix[3, 4] = float("nan")
    with pytest.raises(ValueError, match="should be finite, found NaN or inf"):
        Dense(matrix).eigenvalues()
    with pytest.raises(ValueError, match="should be finite, found NaN or inf"):
        Dense(matrix).solve(torch.ones(300))
