"""Running second moments: the upper triangle is accumulated in place and mirrored once, when it is read."""

from __future__ import annotations

import torch
from torch import Tensor

TRIANGLES_FROM = 384  # below this width a plain product is as fast as a triangle of blocks


class Moment:
    """Running sum of x xᵀ over rows x; a vector where the rows are one-hot, so that only the diagonal is not zero.

    ``bias`` appends a row and column for a constant 1 that every row ends with.
    """

    def __init__(
        self,
        width: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        bias: bool = False,
        onehot: bool = False,
    ):
        self.width, self.bias = width, bias
        size = width + int(bias)
        self.values = torch.zeros((size,) if onehot else (size, size), dtype=dtype, device=device)

    @property
    def onehot(self) -> bool:
        return self.values.dim() == 1

    def add_rows(self, rows: Tensor, scale: Tensor | None = None) -> None:
        """Add the rows of an (R, width) matrix, each times its scale if there is one."""
        rows = rows.to(self.values.dtype)
        if scale is not None:
            scale = scale.to(self.values.dtype)
            rows = rows * scale[:, None]
        accumulate_upper(self.values[: self.width, : self.width], rows)
        if self.bias:
            self.values[: self.width, self.width] += rows.sum(0) if scale is None else scale @ rows
            self.values[self.width, self.width] += rows.shape[0] if scale is None else scale @ scale

    def add_whole_rows(self, rows: Tensor, scale: Tensor | None = None) -> None:
        """The same for rows that bring their last entry with them, which need not be 1."""
        rows = rows.to(self.values.dtype)
        accumulate_upper(self.values, rows if scale is None else rows * scale.to(rows.dtype)[:, None])

    def add_moment(self, moment: Tensor, total: Tensor | None = None, count: Tensor | None = None) -> None:
        """Add Σ x xᵀ that was found elsewhere; with a bias also Σ x and the number of rows."""
        self.values[: self.width, : self.width] += moment.to(self.values.dtype)
        if self.bias and total is not None and count is not None:
            self.values[: self.width, self.width] += total.to(self.values.dtype)
            self.values[self.width, self.width] += count

    def add_counts(self, counts: Tensor) -> None:
        """Add one-hot rows, given how many there are of each."""
        target = self.values if self.onehot else self.values.diagonal()[: self.width]
        target += counts.to(self.values.dtype)

    def full(self) -> Tensor:
        """The symmetric matrix, or the vector of its diagonal; the sums themselves, not a copy."""
        if self.onehot:
            return self.values
        return mirror(self.values)


BLOCK = 256


def mirror(matrix: Tensor) -> Tensor:
    """The same tensor with what lies above its diagonal copied below, block by block and without a second matrix."""
    for start in range(0, len(matrix), BLOCK):
        stop = min(start + BLOCK, len(matrix))
        square = matrix[start:stop, start:stop]
        square.copy_(square.triu() + square.triu(1).T)
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
    return matrix


def accumulate_upper(out: Tensor, rows: Tensor) -> None:
    """out += rowsᵀ rows, on and above the diagonal (some of what lies below is overwritten with partial sums)."""
    width, count = out.shape[0], rows.shape[0]
    if width < TRIANGLES_FROM:
        out.addmm_(rows.T, rows)
        return
    blocks = 8 if count <= 512 else 4
    step = -(-width // blocks)
    for start in range(0, width, step):
        out[start : start + step, start:].addmm_(rows[:, start : start + step].T, rows[:, start:])
