"""Pictures: digits, clothes, letters, objects and faces, as bytes (N, C, H, W) with labels (N,) int64.

Where a part has to be chosen and the file's own order means nothing, examples are taken in the order of the sha256 of
their pictures: every copy of a set gives the same parts, however it is ordered, and equal pictures stay together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from paraboloid.datasets.files import Checked, checked
from paraboloid.datasets.known import OFFICIAL
from paraboloid.datasets.record import Dataset, Device, Split, dataset

DIGITS = tuple("0123456789")


def mnist(*, validation: int = 0, device: Device = "cpu", download: bool = True) -> Dataset:
    """MNIST: 60,000 and 10,000 handwritten digits, 28 × 28. The last `validation` training images become a part of
    their own (10,000 in the thesis, which trains on the first 50,000).

        mnist(validation=10_000).train.x.shape          # (50000, 1, 28, 28)
    """
    return _official("mnist", checked("mnist", download), DIGITS, validation, device)


def fashion_mnist(*, validation: int = 0, device: Device = "cpu", download: bool = True) -> Dataset:
    """Fashion-MNIST: 60,000 and 10,000 pictures of clothes in ten classes, 28 × 28.

    For instance:

        fashion_mnist().classes[9]                      # 'Ankle boot'
    """
    file = checked("fashion_mnist", download)
    return _official("fashion_mnist", file, _texts(file.arrays["class_names"]), validation, device)


def cifar10(*, validation: int = 0, device: Device = "cpu", download: bool = True) -> Dataset:
    """CIFAR-10: colour pictures in ten classes, 32 × 32; the note says whether it is the whole or a subset.

    For instance:

        cifar10().train.x.shape                         # (50000, 3, 32, 32), or (12000, 3, 32, 32)
    """
    file = checked("cifar10", download)
    return _official("cifar10", file, _texts(file.arrays["class_names"]), validation, device)


def svhn(*, validation: int = 0, device: Device = "cpu", download: bool = True) -> Dataset:
    """SVHN: colour pictures of house numbers, 32 × 32, labelled with the digit in the middle. Non-commercial use only.

    For instance:

        svhn().test.y.bincount()
    """
    file = checked("svhn", download)
    cropped = "cropped again from the full pictures, so single grey levels may differ from the official file"
    remark = "" if file.edition.name == OFFICIAL else cropped
    return _official("svhn", file, DIGITS, validation, device, remark)


def cifar100(*, halves: bool = False, device: Device = "cpu", download: bool = True) -> Dataset:
    """CIFAR-100: 50,000 and 10,000 colour pictures in 100 classes, 32 × 32.

    `halves` makes 5,000 test images the validation part and leaves 5,000 for the test, as the thesis does with the
    first and the last in the official order; here they are the first and the last by the sha256 of their pictures.

        data = cifar100(halves=True)
        len(data.validation), len(data.test)            # (5000, 5000)
    """
    file = checked("cifar100", download)
    train, test = (_part(file.arrays, part) for part in ("train", "test"))
    note = f"{file.edition.name}; {_counted(train, test)}"
    validation = None
    if halves:
        test = test[by_content(file.arrays["x_test"])]
        validation, test = test[:5000], test[5000:]
        note += "; validation and test are the first and the last 5,000 test images by the sha256 of their pictures"
    names = _texts(file.arrays["class_names"])
    return dataset("cifar100", train, test, validation, classes=names, note=note, device=device)


def notmnist(*, train: int = 14_000, device: Device = "cpu", download: bool = True) -> Dataset:
    """notMNIST, the small set: 18,724 letters A to J in many fonts, 28 × 28, the first `train` of them for training.

    The set has no parts of its own. 492 pictures are copies of another; ordered by content, copies stay together.

        data = notmnist()
        len(data.train), len(data.test)                 # (14000, 4724)
    """
    file = checked("notmnist", download)
    x, y, names = (file.arrays[key] for key in ("x_test", "y_test", "class_names"))
    return parted_by_content("notmnist", x, y, train, classes=_texts(names), note=file.edition.name, device=device)


def olivetti(*, device: Device = "cpu", download: bool = True) -> Dataset:
    """The Olivetti faces: ten pictures each of 40 people, 64 × 64. People 1 to 25 are the training part, 26 to 30 the
    validation and 31 to 40 the test part, so that no person is in two parts.

        olivetti().train.x.shape                        # (250, 1, 64, 64)
    """
    file = checked("olivetti_faces", download)
    x, y = _pictures(file.arrays["x"]), torch.from_numpy(file.arrays["y"]).long()
    train, validation, test = (Split(x[a:b], y[a:b]) for a, b in ((0, 250), (250, 300), (300, 400)))
    people = tuple(f"person {person}" for person in range(1, 41))
    note = "split by person: 25 for training, 5 for validation, 10 for the test"
    return dataset("olivetti", train, test, validation, classes=people, note=note, device=device)


def by_content(x: np.ndarray) -> Tensor:
    """The order of examples by the sha256 of their bytes; equal ones keep the order they have.

    >>> by_content(np.array([[1, 2], [3, 4]], np.uint8)).tolist()
    [1, 0]
    """
    digests = [hashlib.sha256(example.tobytes()).digest() for example in x]
    return torch.tensor(sorted(range(len(x)), key=digests.__getitem__))


def parted_by_content(
    name: str, x: np.ndarray, y: np.ndarray, train: int, *, classes: tuple[str, ...], note: str, device: Device
) -> Dataset:
    """A set that has no parts of its own: the first `train` pictures by their content are the training part.

    >>> x = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    >>> parted_by_content("toy", x, np.arange(3), 2, classes=("a", "b", "c"), note="", device="cpu").train.y.tolist()
    [0, 1]
    """
    if not 0 < train < len(x):
        raise ValueError(f"`train` should lie between 1 and {len(x) - 1} images, found {train}.")
    everything = Split(_pictures(x), torch.from_numpy(y).long())[by_content(x)]
    note += f"; ordered by the sha256 of the pictures, the first {train:,} are the training part"
    return dataset(name, everything[:train], everything[train:], classes=classes, note=note, device=device)


def _official(
    name: str, file: Checked, classes: tuple[str, ...], held_out: int, device: Device, remark: str = ""
) -> Dataset:
    """A set that has a training and a test part; the last `held_out` training images become the validation part."""
    train, test = (_part(file.arrays, part) for part in ("train", "test"))
    if not 0 <= held_out < len(train):
        raise ValueError(f"`validation` should lie between 0 and {len(train) - 1} images, found {held_out}.")
    notes = [file.edition.name, _counted(train, test), *([remark] if remark else [])]
    validation = None
    if held_out:
        if file.edition.name != OFFICIAL:
            # the end of a file that is ordered by class, or of a subset, would hold few classes
            train = train[by_content(file.arrays["x_train"])]
            notes.append("training images ordered by the sha256 of their pictures")
        train, validation = train[:-held_out], train[-held_out:]
        notes.append(f"the last {held_out:,} training images are the validation part")
    return dataset(name, train, test, validation, classes=classes, note="; ".join(notes), device=device)


def _part(arrays: dict[str, np.ndarray], part: str) -> Split:
    return Split(_pictures(arrays[f"x_{part}"]), torch.from_numpy(arrays[f"y_{part}"]).long())


def _pictures(x: np.ndarray) -> Tensor:
    """(N, H, W) or (N, H, W, 3) -> (N, C, H, W), contiguous."""
    planes = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(planes))


def _counted(train: Split, test: Split) -> str:
    """How many there are of each class, if it is one number."""
    counts = []
    for part in (train, test):
        each = part.y.bincount()
        counts.append(
            f"{each[0]:,} of each class" if (each == each[0]).all() else f"{each.min():,}–{each.max():,} a class"
        )
    return f"{len(train):,} training images ({counts[0]}) and {len(test):,} test images ({counts[1]})"


def _texts(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(name) for name in names)
