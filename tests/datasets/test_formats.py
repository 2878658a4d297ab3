"""Readers of containers, against writers that know nothing of them."""

import gzip
import io
import random
import tarfile
import zipfile

import numpy as np
import pytest

from datasets.containers import compressed, idx, png
from paraboloid.datasets import formats
from paraboloid.datasets.sources import SOURCES, UCI_TABLES


def pack(path, files):
    """A tar.gz or a zip, by the name's ending."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)])
def test_an_idx_file_is_read_with_its_axes_gzipped_or_not(shape):
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    assert np.array_equal(formats.idx(idx(array)), array)
    assert np.array_equal(formats.idx(gzip.compress(idx(array))), array)


def test_an_idx_file_that_was_cut_is_refused():
    with pytest.raises(ValueError, match="cannot reshape"):
        formats.idx(idx(np.zeros((3, 4), np.uint8))[:-1])
    with pytest.raises(ValueError, match="should begin with 0, 0, 8; found"):
        formats.idx(b"<html>")


@pytest.mark.parametrize("widest", [9, 10, 12, 16])
@pytest.mark.parametrize("length", [0, 1, 2, 500, 20_000])
def test_a_z_file_gives_back_the_text_whatever_its_widest_code(widest, length):
    text = bytes(random.Random(0).choices(b"0123456789 \n", k=length))
    assert formats.lzw(compressed(text, widest)) == text


def test_a_z_file_gives_back_a_text_that_repeats_itself():
    assert formats.lzw(compressed(b"a" * 5000)) == b"a" * 5000


def test_what_is_no_z_file_is_refused():
    with pytest.raises(ValueError, match="a .Z file should begin with 1f 9d and use block mode; found 50 4b 03"):
        formats.lzw(b"PK\x03\x04")
    with pytest.raises(ValueError, match="should name texts that it has shown; found code 300 of 257"):
        formats.lzw(b"\x1f\x9d\x90" + (300).to_bytes(2, "little"))


def test_every_filter_of_a_png_is_undone():
    pictures = np.random.default_rng(0).integers(0, 256, (5, 6, 7)).astype(np.uint8)
    filters = [[0, 1, 2, 3, 4, 1], [4] * 6, [3] * 6, [2, 4, 3, 1, 0, 2], [1] * 6]
    lines = [formats.png_lines(png(picture, kinds)) for picture, kinds in zip(pictures, filters, strict=True)]
    assert np.array_equal(formats.unfiltered(np.stack(lines)), pictures)


def test_what_is_no_grey_png_is_refused():
    grey = png(np.zeros((2, 2), np.uint8), [0, 0])
    with pytest.raises(ValueError, match="should begin with its signature"):
        formats.png_lines(b"")
    with pytest.raises(ValueError, match="should have a header of 13 bytes, found 0"):
        formats.png_lines(grey[:8])
    with pytest.raises(ValueError, match=r"should be grey, of 8 bits, not interlaced; found \(8, 2, 0\)"):
        formats.png_lines(grey[:25] + b"\x02" + grey[26:])
    with pytest.raises(ValueError, match="filters of a PNG file should be 0 to 4, found 9"):
        formats.unfiltered(np.full((1, 1, 2), 9, np.uint8))


def test_a_table_whose_rows_differ_in_length_is_refused():
    with pytest.raises(ValueError, match=r"rows of one length; found \[2, 3\]"):
        formats.texts(b"a,b\na,b,c\n")


def test_cifar_rows_become_pictures_in_the_order_of_the_batches(tmp_path):
    draws = np.random.default_rng(0)
    planes = draws.integers(0, 256, (12, 3, 32, 32)).astype(np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    rows = np.concatenate([labels[:, None], planes.reshape(12, -1)], 1)
    batches = {f"cifar/data_batch_{i + 1}.bin": rows[2 * i : 2 * i + 2].tobytes() for i in (4, 2, 0, 1, 3)}
    pack(
        tmp_path / "cifar-10.tar.gz", batches | {"cifar/test_batch.bin": rows[10:].tobytes(), "cifar/readme.html": b"x"}
    )
    arrays = SOURCES["cifar10"].convert(tmp_path)
    assert np.array_equal(arrays["x_train"], planes[:10].transpose(0, 2, 3, 1))
    assert np.array_equal(arrays["x_test"], planes[10:].transpose(0, 2, 3, 1))
    assert arrays["y_train"].tolist() == labels[:10].tolist()


def test_cifar100_keeps_the_fine_labels_and_the_coarse_one_of_each(tmp_path):
    labels = np.array([[7, 0], [3, 1], [7, 2], [3, 1]], np.uint8)
    rows = np.concatenate([labels, np.zeros((4, 3072), np.uint8)], 1).tobytes()
    names = b"apple\nbear\ncan\n"
    pack(tmp_path / "cifar-100.tar.gz", {"c/train.bin": rows, "c/test.bin": rows, "c/fine_label_names.txt": names})
    arrays = SOURCES["cifar100"].convert(tmp_path)
    assert arrays["y_train"].tolist() == [0, 1, 2, 1]
    assert arrays["coarse"].tolist() == [7, 3, 7]
    assert arrays["class_names"].tolist() == ["apple", "bear", "can"]


def test_notmnist_leaves_out_files_that_are_no_pictures(tmp_path):
    pictures = np.random.default_rng(0).integers(0, 256, (2, 28, 28)).astype(np.uint8)
    good = [png(picture, [4] * 28) for picture in pictures]
    pack(
        tmp_path / "notmnist.tar.gz", {"n/J/a.png": good[0], "n/A/z.png": good[1], "n/A/b.png": b"", "n/F/x.png": b"?"}
    )
    arrays = SOURCES["notmnist"].convert(tmp_path)
    assert np.array_equal(arrays["x_test"], pictures[::-1])
    assert arrays["y_test"].tolist() == [0, 9]


def test_shuttle_is_the_training_file_then_the_test_file(tmp_path):
    train, test = b"50 21 77 0 28 0 27 48 22 2\n55 0 92 0 0 26 36 92 56 4\n", b"-1 2 3 4 5 6 7 8 9 1\n"
    pack(tmp_path / "shuttle.zip", {"shuttle.trn.Z": compressed(train), "shuttle.tst": test})
    arrays = SOURCES["shuttle"].convert(tmp_path)
    assert arrays["x"].dtype == np.int16
    assert arrays["x"][:, 0].tolist() == [50, 55, -1]
    assert (arrays["y"].tolist(), int(arrays["n_train"])) == ([2, 4, 1], 2)


def test_adult_loses_the_remark_and_the_full_stops_of_its_test_file(tmp_path):
    row = "{}, Private, 7, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 40, {}, {}"
    (tmp_path / "adult.data").write_text(row.format(39, "Peru", "<=50K") + "\n" + row.format(40, "?", ">50K") + "\n\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + row.format(41, "Peru", ">50K.") + "\n")
    arrays = SOURCES["adult"].convert(tmp_path)
    assert arrays["x_num"][:, 0].tolist() == [39, 40, 41]
    assert arrays["levels_income"].tolist() == ["<=50K", ">50K"]
    assert arrays["x_cat"][:, -2:].tolist() == [[1, 0], [0, 1], [1, 1]]
    assert int(arrays["n_train"]) == 2


def test_a_regression_table_is_cut_as_its_index_files_say(tmp_path):
    files = {"root/": b""}
    for folder, splits in UCI_TABLES.values():
        place = f"root/UCI_Datasets/{folder}/data"
        files |= {f"{place}/data.txt": b"1 2 30\n4 5 60\n7 8 90\n", f"{place}/index_target.txt": b"2\n"}
        files |= {f"{place}/index_features.txt": b"0\n1\n"}
        files |= {f"{place}/index_test_{split}.txt": f"{split % 3}.0\n0\n".encode() for split in range(splits)}
    pack(tmp_path / "splits.zip", files)
    arrays = SOURCES["uci_regression"].convert(tmp_path)
    assert arrays["x_yacht"].tolist() == [[1, 2], [4, 5], [7, 8]]
    assert arrays["y_yacht"].tolist() == [30, 60, 90]
    assert (arrays["test_yacht"].shape, arrays["test_protein"].shape) == ((20, 2), (5, 2))
    assert arrays["test_yacht"][4].tolist() == [1, 0]


def test_covertype_and_mushroom_are_split_into_features_and_label(tmp_path):
    (tmp_path / "covtype.data.gz").write_bytes(gzip.compress(",".join(map(str, range(55))).encode() + b"\n"))
    forest = SOURCES["covertype"].convert(tmp_path)
    assert (forest["x"].tolist(), forest["y"].tolist()) == ([list(range(54))], [54])
    (tmp_path / "agaricus-lepiota.data").write_text("p" + ",x" * 22 + "\n" + "e" + ",?" * 22 + "\n")
    mushrooms = SOURCES["mushroom"].convert(tmp_path)
    assert mushrooms["y"].tolist() == [b"p", b"e"]
    assert mushrooms["x"].tolist() == [[b"x"] * 22, [b"?"] * 22]
