"""Augmentation against a picture-by-picture oracle with the same draws."""

import pytest
import torch
import torch.nn.functional as F

from paraboloid.datasets import Augmentation, binarise
from paraboloid.datasets.augment import draw, moved


def one_by_one(x, shifts, mirrored, padding, border):
    """Pad, cut and mirror each picture by itself."""
    out = []
    for picture, (down, right), mirror in zip(x, shifts.tolist(), mirrored.tolist(), strict=True):
        mode = {"zero": "constant", "reflect": "reflect"}[border]
        padded = F.pad(picture[None].double(), (padding,) * 4, mode=mode)[0]
        top, left = padding + down, padding + right
        cut = padded[:, top : top + x.shape[2], left : left + x.shape[3]]
        out.append(cut.flip(2) if mirror else cut)
    return torch.stack(out).to(x.dtype)


@pytest.fixture
def pictures(device):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (64, 3, 9, 7), dtype=torch.uint8, generator=generator).to(device)


@pytest.mark.parametrize("border", ["zero", "reflect"])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 4, 6])
def test_a_batch_is_cut_and_mirrored_as_each_picture_alone(pictures, generator, border, flip, padding):
    shifts, mirrored = draw(64, padding, flip, generator, pictures.device)
    expected = one_by_one(pictures.cpu(), shifts, mirrored, padding, border).to(pictures.device)
    assert torch.equal(moved(pictures, shifts, mirrored, border), expected)
    floats = pictures.float() / 7
    expected = one_by_one(floats.cpu(), shifts, mirrored, padding, border).to(pictures.device)
    assert torch.equal(moved(floats, shifts, mirrored, border), expected)


@pytest.mark.parametrize("border", ["zero", "reflect"])
def test_the_record_does_what_its_draws_say(pictures, device, border):
    augment = Augmentation(padding=3, border=border, flip=True)
    out = augment(pictures, torch.Generator(device).manual_seed(5))
    shifts, mirrored = draw(64, 3, True, torch.Generator(device).manual_seed(5), device)
    assert torch.equal(out, moved(pictures, shifts, mirrored, border))
    assert (out.dtype, out.device) == (pictures.dtype, pictures.device)


def test_every_offset_is_equally_probable_and_mirrors_are_a_fair_coin(device, generator):
    num, padding = 50_000, 2
    shifts, mirrored = draw(num, padding, True, generator, device)
    counts = ((shifts[:, 0] + padding) * 5 + shifts[:, 1] + padding).bincount(minlength=25)
    assert counts.numel() == 25
    p = 1 / 25
    assert (counts - num * p).abs().max() < 5 * (num * p * (1 - p)) ** 0.5
    assert abs(mirrored.sum().item() - num / 2) < 5 * (num / 4) ** 0.5


def test_the_offset_says_nothing_about_the_mirror(device, generator):
    num = 50_000
    shifts, mirrored = draw(num, 1, True, generator, device)
    product = shifts.double() * (2 * mirrored.double() - 1)[:, None]
    assert product.mean(0).abs().max() < 5 * (2 / 3 / num) ** 0.5


def test_a_picture_stays_in_its_row_so_its_label_stays_right(device, generator):
    x = torch.arange(200, dtype=torch.uint8, device=device)[:, None, None, None].expand(200, 2, 6, 6)
    out = Augmentation(padding=3, border="reflect", flip=True)(x, generator)
    assert torch.equal(out, x)


def test_what_is_given_is_left_as_it_was(pictures, generator):
    before = pictures.clone()
    Augmentation(padding=4, flip=True, binary=True)(pictures, generator)
    assert torch.equal(pictures, before)


def test_the_same_generator_gives_the_same_batch_and_the_next_one_another(pictures, device):
    augment = Augmentation(padding=4, flip=True)
    generators = [torch.Generator(device).manual_seed(3) for _ in range(2)]
    first, second = (augment(pictures, generator) for generator in generators)
    assert torch.equal(first, second)
    assert not torch.equal(augment(pictures, generators[0]), first)


@pytest.mark.parametrize("floats", [False, True])
def test_a_binarised_pixel_is_1_with_the_probability_of_its_grey_value(device, generator, floats):
    grey = torch.tensor([0, 1, 64, 128, 254, 255], dtype=torch.uint8, device=device)
    p, num = grey.double() / 255, 40_000
    x = (p.float() if floats else grey).expand(num, 6)
    out = binarise(x, generator)
    assert out.dtype == torch.float32
    assert set(out.unique().tolist()) == {0.0, 1.0}
    assert ((out.double().mean(0) - p).abs() <= 5 * (p * (1 - p) / num).sqrt()).all()


def test_binarisation_comes_after_the_crop(device, generator):
    white = torch.full((8, 1, 6, 6), 255, dtype=torch.uint8, device=device)
    out = Augmentation(padding=5, binary=True)(white, generator)
    shifts, mirrored = draw(8, 5, False, torch.Generator(device).manual_seed(0), device)
    assert torch.equal(out, moved(white, shifts, mirrored).float() / 255)


def test_values_that_are_no_probabilities_are_not_binarised():
    with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
        binarise(torch.tensor([1.5]), torch.Generator())


def test_an_augmentation_that_cannot_be_meant_is_refused(pictures, generator):
    with pytest.raises(ValueError, match="`padding` should be a number of pixels, 0 or more, found -1"):
        Augmentation(padding=-1)
    with pytest.raises(ValueError, match=r"`border` should be one of \('zero', 'reflect'\), found 'wrap'"):
        Augmentation(border="wrap")
    with pytest.raises(ValueError, match="smaller than the picture, 7 pixels; found `padding` 7"):
        Augmentation(padding=7, border="reflect")(pictures, generator)
    with pytest.raises(
        TypeError, match="should be a torch.Generator, found None: without one every call would draw the same"
    ):
        Augmentation(flip=True)(pictures, None)
