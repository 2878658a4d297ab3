"""Draws: where random numbers come from, and how nothing else is disturbed.

Every draw takes a `torch.Generator`. A function called without one uses a private generator seeded 0,
so the same call gives the same numbers; the global generator is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

Device = torch.device | str


def default_generator(device: Device) -> torch.Generator:
    """A new private generator on `device`, seeded 0.

    >>> a, b = default_generator("cpu"), default_generator("cpu")
    >>> bool(torch.rand((), generator=a) == torch.rand((), generator=b))
    True
    """
    return torch.Generator(torch.device(device)).manual_seed(0)


def as_generator(generator: torch.Generator | None, device: Device) -> torch.Generator:
    """`generator` itself, or the private one when it is None; its device has to be `device`.

    >>> g = torch.Generator().manual_seed(3)
    >>> as_generator(g, "cpu") is g
    True
    """
    device = torch.device(device)
    if generator is None:
        return default_generator(device)
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"`generator` should be a torch.Generator, found {type(generator).__name__}. "
            f'Make one by torch.Generator("{device}").manual_seed(seed).'
        )
    if _placed(generator.device) != _placed(device):
        raise ValueError(
            f"`generator` should live where the draws are needed, on {device}; found one on "
            f'{generator.device}. Make one by torch.Generator("{device}").manual_seed(seed).'
        )
    return generator


@contextmanager
def preserved_random_state(device: Device) -> Iterator[None]:
    """Whatever is drawn inside, the global states (CPU, and `device` if CUDA) are as before at the end.

    >>> before = torch.get_rng_state()
    >>> with preserved_random_state("cpu"):
    ...     _ = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    device = torch.device(device)
    before = _global_states(device)
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        if device.type == "cuda":
            torch.cuda.set_rng_state(before[1], device)


@contextmanager
def without_draws(device: Device) -> Iterator[None]:
    """The same around a model's forward, which should not draw from the global states: raises if it does.

    >>> with without_draws("cpu"):
    ...     _ = torch.rand(3)
    Traceback (most recent call last):
    RuntimeError: the forward draws random numbers (functional dropout?), so nothing it gives is a fixed function ...
    """
    device = torch.device(device)
    with preserved_random_state(device):
        before = _global_states(device)
        yield
        if not all(map(torch.equal, before, _global_states(device))):
            raise RuntimeError(
                "the forward draws random numbers (functional dropout?), so nothing it gives is a fixed function of "
                "the parameters. Call model.eval(), or let the layer draw from a generator of its own."
            )


def _global_states(device: torch.device) -> list[Tensor]:
    cpu = torch.get_rng_state()
    return [cpu, torch.cuda.get_rng_state(device)] if device.type == "cuda" else [cpu]


class Replayed:
    """Data whose own draws are the same at every pass, from generators that are left as they were.

    A shuffling loader then gives the same batches each time, and the user's next epoch is not disturbed.

    >>> loader = torch.utils.data.DataLoader(torch.arange(9), shuffle=True)
    >>> replayed = Replayed(loader)
    >>> torch.equal(torch.cat(list(replayed)), torch.cat(list(replayed)))
    True
    """

    def __init__(self, data: Iterable[Any]) -> None:
        self.data = data
        holders = (data, getattr(data, "sampler", None))
        own = [g for g in (getattr(holder, "generator", None) for holder in holders) if isinstance(g, torch.Generator)]
        self._generators = list({id(generator): generator for generator in (torch.default_generator, *own)}.values())
        self._start = self._states()

    def __iter__(self) -> Iterator[Any]:
        inside = self._start
        iterator: Iterator[Any] | None = None
        while True:
            outside = self._states()
            self._set(inside)
            try:
                iterator = iter(self.data) if iterator is None else iterator
                found = next(iterator)
            except StopIteration:
                return
            finally:
                inside = self._states()
                self._set(outside)
            yield found

    def _states(self) -> list[Tensor]:
        return [generator.get_state() for generator in self._generators]

    def _set(self, states: list[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)


def rademacher(
    shape: Sequence[int],
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: Device | None = None,
) -> Tensor:
    """Independent signs ±1 of the given shape (dtype: the default one; device: the generator's).

    >>> sorted(set(rademacher((20,)).tolist()))
    [-1.0, 1.0]
    """
    place = _place(generator, device)
    dtype = dtype or torch.get_default_dtype()
    draws = torch.randint(0, 2, tuple(shape), generator=as_generator(generator, place), dtype=dtype, device=place)
    return draws.mul_(2).sub_(1)


def normal(
    shape: Sequence[int],
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = None,
    device: Device | None = None,
) -> Tensor:
    """Independent standard normal numbers of the given shape.

    >>> normal((2, 3)).shape
    torch.Size([2, 3])
    """
    place = _place(generator, device)
    return torch.randn(tuple(shape), generator=as_generator(generator, place), dtype=dtype, device=place)


def _place(generator: torch.Generator | None, device: Device | None) -> torch.device:
    if device is not None:
        return torch.device(device)
    return generator.device if isinstance(generator, torch.Generator) else torch.device("cpu")


def _placed(device: torch.device) -> tuple[str, int | None]:
    """Kind and number of a device; "cuda" without a number is the current one."""
    if device.type == "cuda" and device.index is None:
        return device.type, torch.cuda.current_device()
    return device.type, device.index if device.type == "cuda" else None
