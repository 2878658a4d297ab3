"""Rows sorted by the example that owns them."""

from __future__ import annotations

import torch
from torch import Tensor


class RowSplit:
    """Turns an axis of R rows into (examples, positions); a row that nobody owns is left out.

    The two regular layouts (example-major and position-major) are views; any other is one gather, padded with
    zero rows where the examples own different numbers of rows.
    """

    def __init__(self, owner: Tensor, examples: int):
        self.examples, self.rows = examples, len(owner)
        places = torch.arange(self.rows, device=owner.device)
        per = max(self.rows // examples, 1)
        self.layout, self.table = "gather", None
        if self.rows % examples == 0 and torch.equal(owner, places // per):
            self.layout, self.positions = "example-major", per
        elif self.rows % examples == 0 and torch.equal(owner, places % examples):
            self.layout, self.positions = "position-major", per
        else:
            self.table = _table(owner, examples)
            self.positions = self.table.shape[1]
        self.owner = owner
        self.whole = self.table is None or bool((owner >= 0).all())

    def take(self, rows: Tensor, axis: int, low: int, high: int) -> Tensor:
        """Rows of the examples low to high: the axis of length R becomes two, (high - low, positions)."""
        axis %= rows.dim()
        if self.layout == "example-major":
            return rows.narrow(axis, low * self.positions, (high - low) * self.positions).unflatten(
                axis, (high - low, self.positions)
            )
        if self.layout == "position-major":
            parts = rows.unflatten(axis, (self.positions, self.examples))
            return parts.transpose(axis, axis + 1).narrow(axis, low, high - low)
        assert self.table is not None
        places = self.table[low:high].to(rows.device)
        if bool((places == self.rows).any()):
            pad = rows.new_zeros(*rows.shape[:axis], 1, *rows.shape[axis + 1 :])
            rows = torch.cat([rows, pad], axis)
        return rows.index_select(axis, places.reshape(-1)).unflatten(axis, (high - low, self.positions))

    def spread(self, keep: Tensor) -> Tensor:
        """One number per example to one number per row (0 where nobody owns the row)."""
        known = self.owner >= 0
        return torch.where(known, keep[self.owner.clamp_min(0)], torch.zeros((), dtype=keep.dtype, device=keep.device))

    def counts(self) -> Tensor:
        """How many rows each example owns."""
        return torch.bincount(self.owner[self.owner >= 0], minlength=self.examples)


def _table(owner: Tensor, examples: int) -> Tensor:
    """(examples, most) row numbers; the number of rows stands for a zero row."""
    counts = torch.bincount(owner[owner >= 0], minlength=examples)
    order = torch.argsort(owner, stable=True)[int((owner < 0).sum()) :]
    start = counts.cumsum(0) - counts
    place = torch.arange(len(order), device=owner.device) - start[owner[order]]
    table = torch.full((examples, max(int(counts.max()), 1)), len(owner), dtype=torch.long, device=owner.device)
    table[owner[order], place] = order
    return table
