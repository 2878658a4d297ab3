"""Operators as named tensors and JSON: every part of every structure, nested ones under dotted names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FORMAT = "operator"


def repeated(part: Tensor) -> bool:
    """Whether this is a vector of one number, held once however often it is repeated."""
    return part.ndim == 1 and part.numel() > 1 and part.stride(0) == 0


def pack(name: str, part: Any, tensors: dict[str, Tensor]) -> Any:
    """JSON for one part; the tensors met on the way go into `tensors` under dotted names.

    >>> found = {}
    >>> pack("x", [torch.ones(2), 3.0, slice(0, 2)], found), list(found)
    ([{'tensor': 'x.0'}, 3.0, {'slice': [0, 2]}], ['x.0'])
    """
    if isinstance(part, Tensor):
        if repeated(part):
            tensors[name] = part[:1]
            return {"tensor": name, "repeat": len(part)}
        tensors[name] = part
        return {"tensor": name}
    if isinstance(part, torch.dtype):
        return {"dtype": str(part).removeprefix("torch.")}
    if isinstance(part, slice):
        return {"slice": [part.start, part.stop]}
    if isinstance(part, (list, tuple)):
        return [pack(f"{name}.{i}", p, tensors) for i, p in enumerate(part)]
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    parts = {key: pack(f"{name}.{key}".removeprefix("."), p, tensors) for key, p in part.parts().items()}
    return {"structure": type(part).__name__, "parts": parts}


def unpack(packed: Any, tensors: dict[str, Tensor], structures: dict[str, type]) -> Any:
    """The part that `pack` described."""
    if isinstance(packed, list):
        return [unpack(p, tensors, structures) for p in packed]
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        tensor = tensors[packed["tensor"]]
        return tensor.expand(packed["repeat"]) if "repeat" in packed else tensor
    if "dtype" in packed:
        return getattr(torch, packed["dtype"])
    if "slice" in packed:
        return slice(*packed["slice"])
    name = packed["structure"]
    if name not in structures:
        raise ValueError(
            f"the file holds an operator of structure {name!r}; known are {', '.join(sorted(structures))}. "
            "Import the module that defines it first."
        )
    parts = {key: unpack(p, tensors, structures) for key, p in packed["parts"].items()}
    return structures[name].rebuild(**parts)  # type: ignore[attr-defined]
