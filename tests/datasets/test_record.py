"""Parts, normalisations and digests."""

import dataclasses

import numpy as np
import pytest
import torch

from paraboloid.datasets import Split, intensities
from paraboloid.datasets.record import dataset, digest_of, normalisation


@pytest.fixture
def pictures():
    return torch.randint(0, 256, (700, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_a_part_unpacks_and_is_cut_by_slices_masks_and_indices():
    part = Split(torch.arange(8).reshape(4, 2), torch.arange(4))
    x, y = part
    assert torch.equal(x, part.x) and torch.equal(y, part.y)
    assert len(part) == 4
    assert part[:3].y.tolist() == [0, 1, 2]
    assert part[torch.tensor([3, 3, 1])].x[:, 0].tolist() == [6, 6, 2]
    assert part[part.y > 1].y.tolist() == [2, 3]


def test_a_part_with_other_numbers_of_inputs_and_labels_is_refused():
    with pytest.raises(ValueError, match="one row per example each; found 3 and 2"):
        Split(torch.zeros(3, 1), torch.zeros(2))


def test_a_number_is_no_index_of_a_part():
    with pytest.raises(TypeError, match="should be a slice or a tensor, found int. One example is"):
        Split(torch.zeros(3, 1), torch.zeros(3))[0]


def test_pictures_are_normalised_by_channel_and_tables_by_column(pictures):
    table = torch.randn(900, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 1e3, 1e-3, 5.0]) + 10
    for x, axes in ((pictures, (0, 2, 3)), (table.float(), (0,))):
        oracle = x.numpy().astype(np.float64)
        normalise = normalisation(x)
        assert np.allclose(normalise.mean.flatten(), oracle.mean(axes), rtol=1e-6)
        assert np.allclose(normalise.sd.flatten(), oracle.std(axes), rtol=1e-6)
        assert normalise(x).dtype == torch.float32


def test_normalised_pictures_have_mean_0_and_sd_1_and_come_back(pictures):
    normalise = normalisation(pictures)
    z = normalise(pictures)
    assert z.mean((0, 2, 3)).abs().max() < 1e-5
    assert (z.std((0, 2, 3), correction=0) - 1).abs().max() < 1e-5
    assert torch.equal(normalise.inverse(z).round().to(torch.uint8), pictures)


def test_normalising_leaves_what_it_is_given(pictures):
    x = pictures.float()
    normalisation(x)(x)
    assert torch.equal(x, pictures.float())


def test_gradients_pass_through_a_normalisation(pictures):
    normalise, x = normalisation(pictures), pictures[:2].float().requires_grad_()
    normalise(x).sum().backward()
    assert torch.allclose(x.grad, (1 / normalise.sd).expand_as(x))


def test_a_constant_column_keeps_its_scale():
    x = torch.tensor([[0.998, 1.0, 0.0], [0.998, 2.0, 0.0], [0.998, 4.0, 0.0]], dtype=torch.float32)
    normalise = normalisation(x)
    assert normalise.sd[[0, 2]].tolist() == [1, 1]
    assert normalise(x)[:, [0, 2]].abs().max() < 1e-6


def test_one_dimensional_targets_are_normalised_as_one_column():
    y = torch.tensor([1.0, 3.0, 5.0, 7.0])
    normalise = normalisation(y)
    assert normalise.mean.shape == ()
    assert torch.allclose(normalise(y), (y - 4) / 5**0.5)


def test_the_digest_changes_with_a_name_a_shape_a_type_and_a_byte():
    x = torch.arange(6, dtype=torch.uint8)
    changed = x.clone()
    changed[5] = 0
    variants = [{"x": x}, {"y": x}, {"x": x.reshape(2, 3)}, {"x": x.to(torch.int8)}, {"x": changed}, {"x": x, "y": x}]
    assert len({digest_of(variant) for variant in variants}) == len(variants)


def test_the_digest_of_a_data_set_is_that_of_all_its_parts(pictures):
    part, labels = Split(pictures, torch.zeros(700)), torch.ones(700)
    plain = dataset("a", part, part)
    assert plain.digest == dataset("another name", part, part, note="x").digest
    assert plain.digest != dataset("a", part, part, part).digest
    assert plain.digest != dataset("a", part, Split(pictures, labels)).digest


def test_everything_of_a_data_set_moves_to_a_device(pictures):
    part = Split(pictures, torch.zeros(700))
    data = dataset("a", part, part, part, normalise_targets=True).to("meta")
    held = [getattr(data, field.name) for field in dataclasses.fields(data)]
    tensors = [t for record in held if dataclasses.is_dataclass(record) for t in vars(record).values()]
    assert len(tensors) == 10
    assert all(tensor.is_meta for tensor in tensors)


def test_intensities_are_grey_values_from_0_to_1():
    x = torch.arange(256, dtype=torch.uint8)
    assert intensities(x).dtype == torch.float32
    assert torch.equal(intensities(x), torch.arange(256, dtype=torch.float32) / 255)
    with pytest.raises(TypeError, match="made from uint8 pictures, found torch.float32"):
        intensities(x.float())
