"""Random crops, mirrored pictures and random black-and-white ones, drawn for a whole batch on its own device.

A crop of the padded picture and its mirror image are both a choice of rows and of columns, so one gather makes both,
without a loop:

    out[n, c, i, j] = x[n, c, row[n, i], column[n, j]]
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from paraboloid.datasets.draws import required

BORDERS = ("zero", "reflect")


@dataclass(frozen=True)
class Augmentation:
    """What happens to a batch of pictures (N, C, H, W), bytes or floats: a crop after padding by `padding` pixels, a
    mirror image with probability ½ if `flip`, and random binarisation if `binary`. Labels have no part in it.

    With `border="zero"` the padding is 0, which is black for bytes and the mean for normalised pictures.

    >>> augment = Augmentation(padding=4, flip=True)
    >>> augment(torch.zeros(8, 3, 32, 32, dtype=torch.uint8), torch.Generator().manual_seed(1)).shape
    torch.Size([8, 3, 32, 32])
    """

    padding: int = 0
    border: str = "zero"
    flip: bool = False
    binary: bool = False

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"`padding` should be a number of pixels, 0 or more, found {self.padding}.")
        if self.border not in BORDERS:
            raise ValueError(f"`border` should be one of {BORDERS}, found {self.border!r}.")

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        if self.border == "reflect" and self.padding >= min(x.shape[2:]):
            raise ValueError(
                f"a reflected border should be smaller than the picture, {min(x.shape[2:])} pixels; found "
                f"`padding` {self.padding}."
            )
        if self.padding or self.flip:
            shifts, mirrored = draw(len(x), self.padding, self.flip, generator, x.device)
            x = moved(x, shifts, mirrored, self.border)
        return binarise(x, generator) if self.binary else x


def draw(
    num: int, padding: int, flip: bool, generator: torch.Generator, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Shifts (num, 2) of rows and columns, uniform on −padding … padding, and which pictures are mirrored (num,).

    >>> shifts, mirrored = draw(100, 2, True, torch.Generator().manual_seed(0))
    >>> shifts.unique().tolist(), mirrored.dtype
    ([-2, -1, 0, 1, 2], torch.bool)
    """
    generator = required(generator, device)
    shifts = torch.randint(-padding, padding + 1, (num, 2), generator=generator, device=device)
    if not flip:
        return shifts, torch.zeros(num, dtype=torch.bool, device=device)
    return shifts, torch.randint(0, 2, (num,), generator=generator, device=device).bool()


def moved(x: Tensor, shifts: Tensor, mirrored: Tensor, border: str = "zero") -> Tensor:
    """Pixel (i, j) of the result is pixel (i, j) + shift of x; then the mirrored ones are turned left to right.

    >>> moved(torch.tensor([[[[1, 2, 3]]]]), torch.tensor([[0, 1]]), torch.tensor([True])).tolist()
    [[[[0, 3, 2]]]]
    """
    num, channels, height, width = x.shape
    row = torch.arange(height, device=x.device) + shifts[:, :1]
    column = torch.arange(width, device=x.device) + shifts[:, 1:]
    column = torch.where(mirrored[:, None], column.flip(1), column)
    if border == "zero":
        # all pixels outside are alike, so a frame of one pixel serves every shift
        x = F.pad(x, (1, 1, 1, 1))
        row, column = row.clamp(-1, height) + 1, column.clamp(-1, width) + 1
    else:
        # the pixel on the border is not repeated
        row, column = _reflected(row, height), _reflected(column, width)
    place = (row[:, :, None] * x.shape[3] + column[:, None, :]).flatten(1)[:, None, :]
    taken = x.flatten(2).gather(2, place.expand(num, channels, height * width))
    return taken.reshape(num, channels, height, width)


def binarise(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each pixel 1 with the probability of its grey value, else 0, as float32; bytes count as x/255.

    >>> binarise(torch.tensor([[0, 255]], dtype=torch.uint8), torch.Generator()).tolist()
    [[0.0, 1.0]]
    """
    generator = required(generator, x.device)
    probability = x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else x.to(torch.float32)
    return torch.bernoulli(probability, generator=generator)


def _reflected(place: Tensor, size: int) -> Tensor:
    place = place.abs()
    return (size - 1 - place).abs().neg_().add_(size - 1)
