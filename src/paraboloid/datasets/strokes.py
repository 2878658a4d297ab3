"""CURVES: pictures of smooth strokes, each from three random points, drawn by ourselves.

The thesis says only that three random points of the plane are chosen. Here they are the control points of a quadratic
Bézier curve, which stays inside their triangle:

    p(t) = (1−t)² a + 2t(1−t) b + t² c,      a, b, c uniform on [2, 26]²

The curve is drawn as 24 chords (never more than 0.03 pixels away from it). A pixel at distance d from it has
the grey value clamp(1.25 − d, 0, 1): a stroke that is 1.5 pixels wide, with edges one pixel soft.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from paraboloid.datasets.record import Dataset, Device, Split, dataset
from paraboloid.spaces.randomness import as_generator

SIZE = 28
CHORDS = 24
MARGIN = 2.0
REACH = 1.25
CHUNK = 128


def curves(
    *,
    train: int = 20_000,
    test: int = 10_000,
    generator: torch.Generator | None = None,
    device: Device = "cpu",
) -> Dataset:
    """Simulated strokes, 28 × 28; y (N, 6) holds the three points (x, y) that a picture was made of.

    >>> data = curves(train=5, test=2)
    >>> data.train.x.shape, data.train.x.dtype, data.train.y.shape
    (torch.Size([5, 1, 28, 28]), torch.uint8, torch.Size([5, 6]))
    """
    generator = as_generator(generator, "cpu")

    def drawn(num: int) -> Split:
        uniform = torch.rand(num, 3, 2, dtype=torch.float64, generator=generator)
        points = (MARGIN + (SIZE - 2 * MARGIN) * uniform).float()
        return Split(draw_curves(points), points.flatten(1))

    note = "simulated: quadratic Bézier curves of three uniform points; not the pictures of the original file"
    return dataset("curves", drawn(train), drawn(test), note=note, device=device)


def draw_curves(points: Tensor) -> Tensor:
    """Pictures (N, 1, 28, 28) as bytes of the Bézier curves with control points (N, 3, 2), in pixels (x, y).

    >>> draw_curves(torch.tensor([[[4.0, 14.0], [14.0, 14.0], [24.0, 14.0]]])).amax().item()
    191
    """
    pictures = [_drawn(chunk) for chunk in points.to(torch.float32).split(CHUNK)]
    return torch.cat(pictures).reshape(-1, 1, SIZE, SIZE)


def _drawn(points: Tensor) -> Tensor:
    """(n, 3, 2) -> (n, 784)."""
    centre = torch.arange(SIZE, dtype=torch.float32, device=points.device) + 0.5
    pixel_x, pixel_y = centre.repeat(SIZE), centre.repeat_interleave(SIZE)
    t = torch.linspace(0, 1, CHORDS + 1, dtype=torch.float32, device=points.device)
    weights = torch.stack([(1 - t) ** 2, 2 * t * (1 - t), t**2])
    ends = torch.einsum("kt,nkd->tnd", weights, points)[..., None]
    nearest = torch.full((len(points), SIZE * SIZE), torch.inf, device=points.device, dtype=torch.float32)
    for start, end in pairwise(ends):
        along = end - start
        from_x, from_y = pixel_x - start[:, 0], pixel_y - start[:, 1]
        length = along.square().sum(1).clamp_min(1e-12)  # of a chord between equal points, too
        place = (from_x * along[:, 0] + from_y * along[:, 1]).div_(length).clamp_(0, 1)
        from_x.sub_(place * along[:, 0]).square_()
        from_y.sub_(place * along[:, 1]).square_()
        torch.minimum(nearest, from_x.add_(from_y), out=nearest)
    return nearest.sqrt_().neg_().add_(REACH).clamp_(0, 1).mul_(255).round_().to(torch.uint8)
