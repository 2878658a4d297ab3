"""FACES: the Olivetti faces turned and enlarged, 25 × 25, made by ourselves.

The thesis draws 414 pairs of an angle (−90 to 90 degrees) and a scale (1.4 to 1.8) and applies them to the first 25
people's 250 pictures. What it does not print is chosen here: all pictures share the 414 pairs, angle and scale are
uniform, and a picture is turned about its centre, enlarged, cut to its middle 50 × 50 pixels (which lies inside the
turned picture at every angle) and halved by means of 2 × 2 pixels; values between pixels are bilinear.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from paraboloid.datasets.images import olivetti
from paraboloid.datasets.record import Dataset, Device, Split, dataset
from paraboloid.spaces.randomness import as_generator

SIZE = 25


def faces(
    *,
    pairs: int = 414,
    generator: torch.Generator | None = None,
    device: Device = "cpu",
    download: bool = True,
) -> Dataset:
    """103,500 training pictures (1, 25, 25) of people 1 to 25; validation: 26 to 30, test: 31 to 40, by the same pairs.

    Examples run through the pictures for each pair in turn; y is the person.

        faces().train.x.shape                           # (103500, 1, 25, 25)
    """
    angles, scales = draw_pairs(pairs, as_generator(generator, "cpu"))
    originals = olivetti(download=download)
    assert originals.validation is not None  # its split by person has one
    parts = (originals.train, originals.test, originals.validation)
    train, test, validation = (Split(turned(part.x, angles, scales), part.y.repeat(pairs)) for part in parts)
    note = f"made of the Olivetti faces with {pairs} pairs of an angle and a scale that all pictures share"
    return dataset("faces", train, test, validation, classes=originals.classes, note=note, device=device)


def draw_pairs(pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Angles, uniform from −π/2 to π/2, and scales, uniform from 1.4 to 1.8.

    >>> angles, scales = draw_pairs(414, torch.Generator().manual_seed(0))
    >>> bool(angles.abs().max() < 1.58), bool(scales.min() > 1.39)
    (True, True)
    """
    if pairs < 1:
        raise ValueError(f"`pairs` should be at least 1, found {pairs}.")
    turn, scale = torch.rand(2, pairs, dtype=torch.float64, generator=generator)
    return torch.pi * (turn - 0.5), 1.4 + 0.4 * scale


def turned(x: Tensor, angles: Tensor, scales: Tensor) -> Tensor:
    """Every picture of x (N, 1, H, W) at every pair of an angle (radians, clockwise) and scale: (pairs · N, 1, 25, 25).

    >>> turned(torch.full((2, 1, 64, 64), 7, dtype=torch.uint8), torch.zeros(3), torch.full((3,), 1.5)).shape
    torch.Size([6, 1, 25, 25])
    """
    height, width = x.shape[2:]
    # pictures stand where channels are: one grid serves all of them, and is computed once
    channels = x.transpose(0, 1).to(torch.float32)
    centre = torch.arange(2 * SIZE, dtype=torch.float64, device=x.device) + 0.5 - SIZE
    down, right = torch.meshgrid(centre, centre, indexing="ij")
    made = []
    for angle, scale in zip(angles.tolist(), scales.tolist(), strict=True):
        cos, sin = math.cos(angle), math.sin(angle)
        grid = torch.stack([cos * right + sin * down, cos * down - sin * right], -1) / scale
        grid = (grid * 2 / torch.tensor([width, height], dtype=torch.float64, device=x.device)).float()
        sampled = F.grid_sample(channels, grid[None], mode="bilinear", padding_mode="border", align_corners=False)
        made.append(F.avg_pool2d(sampled, 2).round_().to(torch.uint8))
    return torch.cat(made).reshape(-1, 1, SIZE, SIZE)
