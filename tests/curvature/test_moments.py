"""Running moments against one dense product, at widths below and above the one from which triangles are used."""

from __future__ import annotations

import pytest
import torch

from curvature.pairs import draw
from paraboloid.curvature.moments import TRIANGLES_FROM, Moment, mirror


@pytest.mark.parametrize("rows", [1, 40, 700])
@pytest.mark.parametrize("width", [1, 7, TRIANGLES_FROM - 1, TRIANGLES_FROM, 2 * TRIANGLES_FROM + 3])
@pytest.mark.parametrize("bias", [False, True])
def test_running_moments_are_those_of_all_rows(width, rows, bias, device):
    """Three batches, read twice in between: reading changes nothing."""
    moment = Moment(width, torch.float64, device, bias=bias)
    batches = [draw(rows, width, seed=seed).to(device) for seed in range(3)]
    for batch in batches:
        moment.add_rows(batch)
        moment.full()
    every = torch.cat(batches)
    every = torch.cat([every, torch.ones_like(every[:, :1])], 1) if bias else every
    wanted = every.T @ every
    assert (moment.full() - wanted).norm() <= 1e-13 * wanted.norm()
    assert torch.equal(moment.full(), moment.full().T)


def test_scaled_rows_are_rows_times_their_scale(device):
    rows, scale = draw(50, 5).to(device), draw(50, seed=1).abs().to(device)
    moment = Moment(5, torch.float64, device, bias=True)
    moment.add_rows(rows, scale)
    every = torch.cat([rows, torch.ones_like(rows[:, :1])], 1) * scale[:, None]
    assert (moment.full() - every.T @ every).norm() <= 1e-13 * (every.T @ every).norm()


@pytest.mark.parametrize("size", [1, 255, 256, 257, 700])
def test_mirroring_copies_the_upper_triangle(size, device):
    matrix = draw(size, size).to(device)
    wanted = torch.triu(matrix) + torch.triu(matrix, 1).T
    assert torch.equal(mirror(matrix), wanted)
