"""What a data set is in memory: two or three parts of (x, y), how x is normalised, and what a reader must know.

Pictures stay bytes, (N, C, H, W) on the device that was asked for, and are normalised batch by batch:

    data = mnist(device="cuda")
    x, y = data.train[index]
    loss = F.cross_entropy(model(data.normalise(x)), y)

Tables are float32 as they were measured, with a normalisation that standardises their columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

Device = torch.device | str


@dataclass(frozen=True)
class Split:
    """One part of a data set; `x, y = part` unpacks it, `part[:50_000]` and `part[index]` choose examples.

    >>> part = Split(torch.zeros(4, 2), torch.arange(4))
    >>> len(part), part[1:3].y.tolist(), part[torch.tensor([3, 0])].y.tolist()
    (4, [1, 2], [3, 0])
    """

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.x.shape[0] != self.y.shape[0]:
            raise ValueError(f"x and y should have one row per example each; found {len(self.x)} and {len(self.y)}.")

    def __len__(self) -> int:
        return self.x.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.x, self.y))

    def __getitem__(self, index: slice | Tensor) -> Split:
        if not isinstance(index, slice | Tensor):
            raise TypeError(
                f"an index should be a slice or a tensor, found {type(index).__name__}. One example is part[i : i + 1]."
            )
        return Split(self.x[index], self.y[index])

    def to(self, device: Device) -> Split:
        return Split(self.x.to(device), self.y.to(device))


@dataclass(frozen=True)
class Normalisation:
    """x -> (x - mean) / sd per channel or column; bytes become float32, and what is given is never changed.

    >>> halve = Normalisation(torch.tensor([1.0]), torch.tensor([2.0]))
    >>> halve(torch.tensor([[5]], dtype=torch.uint8)), halve.inverse(torch.tensor([[2.0]]))
    (tensor([[2.]]), tensor([[5.]]))
    """

    mean: Tensor
    sd: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean).div_(self.sd)

    def inverse(self, x: Tensor) -> Tensor:
        return x * self.sd + self.mean

    def to(self, device: Device) -> Normalisation:
        return Normalisation(self.mean.to(device), self.sd.to(device))


@dataclass(frozen=True)
class Dataset:
    """A data set; `normalise` comes from the training part, `normalise_targets` is there for regressions.

    `note` says what a reader must know of order, choice and origin. `digest` is one sha256 over the names, shapes,
    dtypes and bytes of all parts: two runs with the same digest have seen the same numbers.

    >>> part = Split(torch.zeros(4, 2), torch.arange(4))
    >>> data = dataset("toy", part, part)
    >>> data.name, data.validation, len(data.digest)
    ('toy', None, 64)
    """

    name: str
    train: Split
    test: Split
    validation: Split | None
    normalise: Normalisation
    classes: tuple[str, ...]
    note: str
    digest: str
    normalise_targets: Normalisation | None = None

    def to(self, device: Device) -> Dataset:
        """The same data set on another device."""
        return on(self, device)


def on(record: Any, device: Device) -> Any:
    """A frozen record whose tensors and records of tensors are on `device`.

    >>> on(Split(torch.zeros(4, 2), torch.arange(4)), "cpu").x.shape
    torch.Size([4, 2])
    """
    movable = {k: v for k, v in vars(record).items() if isinstance(v, Tensor) or hasattr(v, "to")}
    return replace(record, **{name: value.to(device) for name, value in movable.items()})


def dataset(
    name: str,
    train: Split,
    test: Split,
    validation: Split | None = None,
    *,
    classes: tuple[str, ...] = (),
    note: str = "",
    normalise_targets: bool = False,
    device: Device = "cpu",
) -> Dataset:
    """A data set from its parts on the CPU: its normalisation and digest are computed, then it is moved.

    >>> part = Split(torch.tensor([[1.0], [3.0]]), torch.arange(2))
    >>> dataset("toy", part, part).normalise(part.x).tolist()
    [[-1.0], [1.0]]
    """
    parts = {"train": train, "test": test} | ({"validation": validation} if validation is not None else {})
    tensors = {f"{part}.{letter}": tensor for part, split in parts.items() for letter, tensor in vars(split).items()}
    made = Dataset(
        name,
        train,
        test,
        validation,
        normalise=normalisation(train.x),
        classes=classes,
        note=note,
        digest=digest_of(tensors),
        normalise_targets=normalisation(train.y) if normalise_targets else None,
    )
    return made.to(device)


def normalisation(x: Tensor) -> Normalisation:
    """Mean and standard deviation over the examples: per channel of pictures (N, C, H, W), else per column.

    A column that varies less than float32 can hold keeps its scale.

    >>> normalisation(torch.tensor([[1.0, 7.0], [3.0, 7.0]])).sd.tolist()
    [1.0, 1.0]
    """
    shape = (x.shape[1], 1, 1) if x.dim() == 4 else x.shape[1:]
    channels = math.prod(shape)
    values = x.reshape(len(x), channels, -1)
    # moments about the first value: float64 loses nothing, even where a column is large and hardly varies
    shift = values[0, :, 0].double()
    total, squares = torch.zeros(2, channels, dtype=torch.float64)
    for chunk in values.split(512):
        centred = chunk.double() - shift[:, None]
        total += centred.sum((0, 2))
        squares += centred.square_().sum((0, 2))
    count = x.numel() // channels
    mean = total / count
    sd = (squares / count - mean**2).clamp_min_(0).sqrt_()
    mean += shift
    sd[sd <= 4 * torch.finfo(torch.float32).eps * mean.abs()] = 1.0
    return Normalisation(mean.reshape(shape).float(), sd.reshape(shape).float())


def intensities(x: Tensor) -> Tensor:
    """Grey values of bytes as float32 from 0 to 1, for models whose outputs are means of pixels.

    >>> intensities(torch.tensor([0, 51, 255], dtype=torch.uint8)).tolist()
    [0.0, 0.20000000298023224, 1.0]
    """
    if x.dtype != torch.uint8:
        raise TypeError(f"intensities are made from uint8 pictures, found {x.dtype}; do it before normalising.")
    return x.to(torch.float32).div_(255)


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """One sha256 over names, shapes, dtypes and bytes.

    >>> digest_of({"a": torch.zeros(2)}) == digest_of({"b": torch.zeros(2)})
    False
    """
    whole = hashlib.sha256()
    for name, tensor in tensors.items():
        whole.update(f"{name} {tuple(tensor.shape)} {tensor.dtype};".encode())
        whole.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
