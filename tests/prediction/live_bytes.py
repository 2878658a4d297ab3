"""How many bytes of tensors are alive: every storage that an operation makes is counted until it is gone."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """`peak` is the largest sum of bytes of the storages that were made inside and were alive together.

    A storage lives as long as one of its tensors does, also one that autograd alone holds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._users: dict[int, int] = {}  # tensors of each storage that was made inside

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._count(tensor, before)
        return out

    def _count(self, tensor: Tensor, before: set[int]) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._users:
            if key in before:
                return  # a view of something from outside
            self._users[key] = 0
            self.live += size
            self.peak = max(self.peak, self.live)
        self._users[key] += 1
        weakref.finalize(tensor, self._drop, key, size).atexit = False

    def _drop(self, key: int, size: int) -> None:
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            self.live -= size


def peak_bytes(call) -> int:
    """Bytes that `call()` needs beside what was there, its result included."""
    with LiveBytes() as counter:
        call()
    return counter.peak


def largest(*shape: int) -> int:
    """Bytes of one tensor of this shape, double precision."""
    return torch.Size(shape).numel() * 8
