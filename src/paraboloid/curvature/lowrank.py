"""A thin factor of the curvature: from its columns where they are few, else from products with a random block.

Columns are exact: every (column, example) gradient is one, and a Gram matrix of them has the curvature's spectrum.
Where they are many, the matrix is written out if it is small; else a randomised range finder with power iterations
(C.10) asks for the leading part through products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paraboloid.curvature.capture import BoundBlock, Capture
from paraboloid.curvature.columns import Columns
from paraboloid.curvature.sums import example_rows
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.lowrank import LowRank

FEW = 1024  # columns that are held without asking, where the memory allows
DEFAULT_RANK = 100
WRITTEN_OUT = 4096  # parameters up to which the whole matrix and its eigenvectors are cheaper than products
OVERSAMPLING, POWER_ITERATIONS = 10, 2
MEMORY = 2**30  # bytes of columns that are held without asking


class ColumnStore:
    """The columns of all batches, as long as they are few."""

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device, rank: int | None, memory: int | None):
        self.size, self.dtype, self.rank, self.device = size, dtype, rank, device
        few = FEW if rank is None else max(FEW, 4 * rank)
        self.room = max(1, min(few, (memory or MEMORY) // max(size * dtype.itemsize, 1)))
        self.rows: list[Tensor] = []
        self.held = 0

    @property
    def full(self) -> bool:
        """Whether there were more columns than are held."""
        return self.held > self.room

    def add(self, capture: Capture, bound: list[BoundBlock], columns: Columns) -> None:
        """Add one batch; stops collecting once there are too many."""
        self.held += columns.count * capture.examples
        if self.full:
            self.rows.clear()
            return
        positions = torch.arange(self.size, device=self.device)
        for column in columns:
            stacks = capture.gradients([column])
            self.rows.extend(rows.to(self.dtype) for rows in example_rows(bound, stacks, positions))

    def operator(self, count: float) -> LinearOperator:
        """Σ x xᵀ / count with orthonormal vectors, cut at the rank asked for or at the rank there is."""
        return thin(torch.cat(self.rows) / count**0.5, self.rank)


def thin(rows: Tensor, rank: int | None) -> LowRank:
    """XᵀX as U diag(w) Uᵀ from the smaller of the two Gram matrices of X."""
    wide = rows.shape[0] <= rows.shape[1]
    gram = (rows @ rows.T if wide else rows.T @ rows).double()
    values, vectors = _largest(gram, rank, rows.dtype)
    if not wide:
        return LowRank(vectors.to(rows.dtype), values.to(rows.dtype))
    factor = (rows.T.double() @ vectors) / values.sqrt()
    return LowRank(factor.to(rows.dtype), values.to(rows.dtype))


def leading(matrix: Tensor, rank: int | None) -> LowRank:
    """The leading eigenpairs of a matrix that is written out; all that are not rounding if the rank is None."""
    values, vectors = _largest(matrix.double(), rank, matrix.dtype)
    return LowRank(vectors.to(matrix.dtype), values.to(matrix.dtype))


def _largest(matrix: Tensor, rank: int | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(matrix)
    keep = values > values[-1].clamp_min(0) * len(matrix) * torch.finfo(dtype).eps
    if rank is not None:
        keep &= torch.arange(len(values), device=values.device) >= len(values) - rank
    return values[keep], vectors[:, keep]


def randomised(operator: LinearOperator, rank: int, generator: torch.Generator) -> LowRank:
    """The leading eigenpairs of an operator from a few blocks of products."""
    width = min(operator.size, rank + OVERSAMPLING)
    start = torch.randn(operator.size, width, generator=generator, dtype=operator.dtype, device=operator.device)
    block = operator @ start
    for _ in range(POWER_ITERATIONS):
        block = operator @ torch.linalg.qr(block).Q
    basis = torch.linalg.qr(block).Q
    small = (basis.T @ (operator @ basis)).double()
    values, vectors = torch.linalg.eigh((small + small.T) / 2)
    values, vectors = values[-rank:].clamp_min(0), vectors[:, -rank:]
    return LowRank((basis.double() @ vectors).to(operator.dtype), values.to(operator.dtype))
