"""The data sets themselves, where their files are: shapes, counts and figures that were published elsewhere.

Without its file a data set has to say so; with PARABOLOID_DATA set, none may be missing there.
"""

import hashlib

import numpy as np
import pytest
import torch

from paraboloid.datasets import Bandit, Dataset, DatasetMissing, Text, catalogue, windows
from paraboloid.datasets.catalogue import CATALOGUE, available
from paraboloid.datasets.files import checked
from paraboloid.datasets.places import data_folder
from paraboloid.datasets.sources import ADULT_CLASSES, ADULT_NUMBERS, UCI_TABLES

FROM_FILES = [name for name, listed in CATALOGUE.items() if listed.file]


def here(name, **options):
    """The data set, or None where its file is not, after it was seen to say so. Nothing is downloaded."""
    if available(name).path is not None:
        return catalogue.load(name, download=False, **options)
    with pytest.raises(DatasetMissing, match="is not on this machine"):
        catalogue.load(name, download=False, **options)
    return None


def counts(part):
    return part.y.bincount().tolist()


def test_a_named_folder_of_data_is_complete():
    folder = data_folder()
    missing = [name for name in catalogue.needed_files() if folder is not None and not (folder / name).is_file()]
    assert not missing, f"PARABOLOID_DATA is {folder}, and these files are not in it: {missing}"


@pytest.mark.parametrize("name", sorted(set(FROM_FILES) - {"uci_regression", "faces"}))
def test_a_set_is_what_its_kind_promises(name):
    data = here(name)
    if isinstance(data, Dataset):
        assert data.train.x.is_contiguous()
        assert data.train.y.dtype == torch.int64
        assert data.train.y.max() < len(data.classes)
        assert data.note and len(data.digest) == 64
        if data.train.x.dim() == 4:
            assert data.train.x.dtype == torch.uint8
            x = data.train.x.numpy()
            # whole sums of bytes are exact
            mean = x.sum((0, 2, 3), dtype=np.int64) / (x.size / x.shape[1])
            assert np.allclose(data.normalise.mean.flatten(), mean, rtol=1e-6)
    elif isinstance(data, Bandit):
        assert (data.contexts.dtype, data.labels.dtype) == (torch.float32, torch.int64)
        assert data.contexts.shape == (len(data), len(data.columns))
        assert data.rewards.outcomes.shape == (len(data.classes), len(data.arms), 2)
        z = data.normalise(data.contexts)
        assert z.double().mean(0).abs().max() < 1e-4
        sd = z.double().std(0, correction=0)
        constant = data.contexts.amax(0) == data.contexts.amin(0)
        assert torch.allclose(sd[~constant], torch.ones_like(sd[~constant]), atol=1e-4)


@pytest.mark.parametrize("name", FROM_FILES)
def test_a_file_that_is_here_is_in_order(name):
    if available(name).path is not None:
        assert catalogue.check(name).edition
    else:
        assert available(name).kind == "online"


def test_mnist_has_the_published_counts_and_moments():
    data = here("mnist")
    if data is not None:
        assert data.train.x.shape == (60_000, 1, 28, 28)
        assert counts(data.train) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert counts(data.test) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert data.train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
        assert abs(data.normalise.mean.item() / 255 - 0.13066047) < 1e-7
        assert abs(data.normalise.sd.item() / 255 - 0.30810780) < 1e-7


def test_mnist_keeps_its_last_images_for_validation():
    data = here("mnist", validation=10_000)
    if data is not None:
        whole = here("mnist")
        assert torch.equal(data.train.x, whole.train.x[:50_000])
        assert torch.equal(data.validation.x, whole.train.x[50_000:])
        assert data.normalise.mean != whole.normalise.mean


def test_fashion_mnist_has_the_published_counts_and_moments():
    data = here("fashion_mnist")
    if data is not None:
        assert (counts(data.train), counts(data.test)) == ([6000] * 10, [1000] * 10)
        assert abs(data.normalise.mean.item() / 255 - 0.2860406) < 1e-7
        assert abs(data.normalise.sd.item() / 255 - 0.3530242) < 1e-7


def test_cifar100_has_the_published_counts_and_moments():
    data = here("cifar100")
    if data is not None:
        assert (data.train.x.shape, data.test.x.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
        assert (counts(data.train), counts(data.test)) == ([500] * 100, [100] * 100)
        mean, sd = [0.50707516, 0.48654887, 0.44091784], [0.26733429, 0.25643846, 0.27615047]
        assert np.allclose(data.normalise.mean.flatten() / 255, mean, atol=1e-7)
        assert np.allclose(data.normalise.sd.flatten() / 255, sd, atol=1e-7)


def test_halves_of_the_cifar100_test_images_share_no_image_and_are_not_cut_by_class():
    data = here("cifar100", halves=True)
    if data is not None:
        halves = [data.validation, data.test]
        assert [len(half) for half in halves] == [5000, 5000]
        assert torch.equal(sum(half.y.bincount(minlength=100) for half in halves), torch.full((100,), 100))
        seen = [{image.tobytes() for image in half.x.numpy()} for half in halves]
        assert not seen[0] & seen[1]
        # without replacement: variance n p (1 − p) (N − n)/(N − 1) with n = 5,000 of N = 10,000 and p = 1/100
        sd = (5000 * 0.01 * 0.99 * 5000 / 9999) ** 0.5
        assert (data.validation.y.bincount(minlength=100) - 50).abs().max() < 5 * sd


@pytest.mark.parametrize("name", ["cifar10", "svhn"])
def test_a_subset_is_balanced_and_says_so(name):
    data = here(name)
    if data is not None:
        assert data.train.x.shape[1:] == (3, 32, 32)
        if "a balanced subset" in data.note:
            size = {"cifar10": (1200, 400), "svhn": (1000, 500)}[name]
            assert (counts(data.train), counts(data.test)) == ([size[0]] * 10, [size[1]] * 10)
            assert f"({size[0]:,} of each class)" in data.note
        held = here(name, validation=2000)
        fewest = held.validation.y.bincount(minlength=10).min()
        assert (len(held.train), len(held.validation)) == (len(data.train) - 2000, 2000)
        assert fewest > 100


def test_notmnist_is_cut_so_that_no_image_is_in_both_parts():
    data = here("notmnist")
    if data is not None:
        assert [len(data.train), len(data.test)] == [14_000, 4724]
        total = data.train.y.bincount() + data.test.y.bincount()
        assert set(total.tolist()) == {1872, 1873}
        seen = [{image.tobytes() for image in part.x.numpy()} for part in (data.train, data.test)]
        assert not seen[0] & seen[1]
        assert len(seen[0]) + len(seen[1]) == 18_232


def test_the_olivetti_faces_are_parted_by_person():
    data = here("olivetti")
    if data is not None:
        assert [len(part) for part in (data.train, data.validation, data.test)] == [250, 50, 100]
        assert counts(data.train) == [10] * 25
        assert (data.validation.y.min(), data.test.y.min()) == (25, 30)
        assert max(part.x.max() for part in (data.train, data.validation, data.test)) == 242


def test_faces_are_103_500_pictures_of_the_first_25_people():
    data = here("faces")
    if data is not None:
        assert data.train.x.shape == (103_500, 1, 25, 25)
        assert (len(data.validation), len(data.test)) == (50 * 414, 100 * 414)
        assert counts(data.train) == [10 * 414] * 25
        few = here("faces", pairs=2)
        assert few.train.x.shape == (500, 1, 25, 25)
        assert few.digest == here("faces", pairs=2).digest


def test_projected_mnist_is_one_random_matrix_away_from_mnist():
    data = here("projected_mnist")
    if data is not None:
        whole = here("mnist")
        assert (data.train.x.shape, data.test.x.shape) == ((1024, 10), (10_000, 10))
        assert torch.equal(data.train.y, whole.train.y[:1024])
        matrix = torch.randn(784, 10, generator=torch.Generator().manual_seed(0)).numpy()
        for part, pictures in ((data.train, whole.train.x[:1024]), (data.test, whole.test.x)):
            pixels = pictures.flatten(1).numpy() / 255
            assert np.allclose(part.x.numpy(), pixels @ matrix, atol=1e-5)
        other = here("projected_mnist", generator=torch.Generator().manual_seed(1))
        assert other.digest != data.digest


BANDITS = {
    "mushroom": (117, 2, [4208, 3916]),
    "shuttle": (9, 7, [45586, 50, 171, 8903, 3267, 10, 13]),
    "covertype": (54, 7, [211840, 283301, 35754, 2747, 9493, 17367, 20510]),
    "census": (92, 14, None),
}


@pytest.mark.parametrize("name", BANDITS)
def test_a_bandit_has_the_published_size_and_classes(name):
    data = here(name)
    if data is not None:
        columns, arms, classes = BANDITS[name]
        assert (data.contexts.shape[1], len(data.arms)) == (columns, arms)
        if classes:
            assert data.labels.bincount().tolist() == classes
        else:
            assert (len(data), sum(data.labels.bincount().tolist())) == (45_222, 45_222)


def test_the_mushroom_pays_as_the_paper_says(generator):
    data = here("mushroom")
    if data is not None:
        assert data.rewards.expected(torch.tensor([0, 1])).tolist() == [[0.0, 5.0], [0.0, -15.0]]
        assert data.contexts.sum(1).eq(22).all()
        assert [data.columns[n] for n in data.contexts[0].nonzero().flatten()[:2]] == ["cap-shape=x", "cap-surface=s"]


def test_one_hot_columns_of_the_census_are_one_per_attribute():
    data = here("census")
    if data is not None:
        assert data.columns[:2] == ("age", "fnlwgt")
        assert data.contexts[:, 6:].sum(1).eq(8).all()
        assert data.contexts[0, :6].tolist() == [39, 77516, 13, 2174, 0, 40]
        assert data.classes[data.labels[0]] == "Adm-clerical"
        assert not any("?" in column for column in data.columns)


@pytest.mark.parametrize("table", UCI_TABLES)
def test_a_regression_split_parts_the_table_and_standardises_by_its_training_part(table):
    whole = None
    for split in (0, UCI_TABLES[table][1] - 1):
        data = here("uci_regression", table=table, split=split)
        if data is not None:
            assert 0.095 < len(data.test) / (len(data.train) + len(data.test)) < 0.105
            rows = torch.cat([torch.cat([part.x, part.y[:, None]], 1) for part in (data.train, data.test)])
            ordered = sorted(map(tuple, rows.tolist()))
            assert whole is None or ordered == whole
            whole = ordered
            z = data.normalise_targets(data.train.y).double()
            assert z.mean().abs() < 1e-4
            assert abs(z.std(correction=0) - 1) < 1e-4


def test_an_unknown_table_or_split_is_refused_before_any_file_is_looked_for():
    with pytest.raises(ValueError, match="`table` should be one of boston, concrete, .*; found 'yatch'"):
        catalogue.load("uci_regression", table="yatch")
    with pytest.raises(ValueError, match="`split` of protein should lie between 0 and 4, found 5"):
        catalogue.load("uci_regression", table="protein", split=5)


def test_the_tables_spell_the_texts_of_their_archive():
    """The archive's sha256 of each text, which other people's code holds too."""
    if here("mushroom") is not None:
        arrays = checked("mushroom").arrays
        lines = [b",".join([label, *row]) for row, label in zip(arrays["x"], arrays["y"], strict=True)]
        text = b"\n".join(lines) + b"\n"
        found = hashlib.sha256(text).hexdigest()
        assert found == "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"
    if here("shuttle") is not None:
        arrays = checked("shuttle").arrays
        rows = zip(arrays["x"][:43_500].tolist(), arrays["y"].tolist(), strict=False)
        text = "".join(" ".join(map(str, [*row, label])) + "\n" for row, label in rows).encode()
        found = hashlib.sha256(text).hexdigest()
        assert found == "87b24ee9fb5137e1d417659cf905d84d0e15342bbaa60770f1ae83da1a38200a"
    if here("census") is not None:
        arrays = checked("adult").arrays
        columns = {place: arrays["x_num"][:, n].astype(str) for n, place in enumerate(ADULT_NUMBERS.values())}
        for n, (name, place) in enumerate(ADULT_CLASSES.items()):
            columns[place] = arrays[f"levels_{name}"][arrays["x_cat"][:, n]]
        rows = list(zip(*(columns[place][:32_561] for place in range(15)), strict=True))
        text = ("\n".join(", ".join(row) for row in rows) + "\n\n").encode()
        found = hashlib.sha256(text).hexdigest()
        assert found == "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"


def test_the_text_is_the_one_that_everybody_trains_on():
    text = here("tinyshakespeare")
    if isinstance(text, Text):
        everything = torch.cat([text.train, text.validation, text.test])
        assert [len(part) for part in (text.train, text.validation, text.test)] == [1_003_854, 55_770, 55_770]
        assert len(text.vocabulary) == 65
        written = text.decode(everything)
        digest = hashlib.sha256(written.encode()).hexdigest()
        assert digest == "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
        assert torch.equal(text.encode("First Citizen"), text.train[:13])
        piece = windows(text.train, torch.tensor([0, 100]), 8)
        assert torch.equal(piece.x[:, 1:], piece.y[:, :-1])
        with pytest.raises(ValueError, match=r"every character should be in the vocabulary; found \['é'\]"):
            text.encode("é")


def test_digits_are_parted_by_content():
    data = catalogue.load("digits")
    assert (data.train.x.shape, data.test.x.shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert (data.train.x.max(), data.train.y.bincount().sum()) == (16, 1437)
    assert (data.train.y.bincount() + data.test.y.bincount()).tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]
    assert data.digest == catalogue.load("digits").digest


@pytest.mark.parametrize("name", ["mnist", "notmnist", "digits", "projected_mnist"])
def test_a_part_of_an_impossible_size_is_refused(name):
    if name == "digits" or here(name) is not None:
        option = "validation" if name == "mnist" else "train"
        with pytest.raises(ValueError, match=f"`{option}` should lie between . and .* images, found 1000000"):
            catalogue.load(name, **{option: 1_000_000})
