"""Draws that are repeated: batch after batch, step after step."""

from __future__ import annotations

import torch

from paraboloid.spaces.randomness import Device, as_generator


def required(generator: torch.Generator, device: Device) -> torch.Generator:
    """The generator itself, on `device`. None is refused: a private one of seed 0 would draw the same every time.

    >>> required(None, "cpu")
    Traceback (most recent call last):
    TypeError: `generator` should be a torch.Generator, found None: without one every call would draw the same. ...
    """
    if generator is None:
        raise TypeError(
            "`generator` should be a torch.Generator, found None: without one every call would draw the same. "
            f'Make one by torch.Generator("{device}").manual_seed(seed) and keep it.'
        )
    return as_generator(generator, device)
