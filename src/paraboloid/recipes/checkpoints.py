"""States to go on from: everything that changes in a loop, in one file without pickle.

What has `state_dict` and `load_state_dict` is asked for it; generators give their state, tensors themselves, lists and
dictionaries their contents. The global generators are saved too, since Dropout draws from them. A state dictionary is
kept as JSON in which tensors are replaced by their names, so it comes back exactly: tuples as tuples, integer keys
as integers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from paraboloid.recipes.refused import Refused
from paraboloid.spaces import storage


def write(path: Path, kept: Mapping[str, Any], position: Mapping[str, Any]) -> None:
    """The states of `kept`, the global generators', and a JSON-able `position`, all or nothing."""
    tensors, metadata = packed(kept, position)
    storage.save(path, tensors, metadata)


def packed(kept: Mapping[str, Any], position: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The same in memory: copies that later steps do not change."""
    tensors: dict[str, Tensor] = {}
    states = {name: _pack(_state(thing, name), name, tensors) for name, thing in kept.items()}
    surroundings = _pack(_surroundings(), "", tensors)  # the only paths that begin with a stroke
    return tensors, {"states": states, "global": surroundings, "position": dict(position)}


def read_position(path: Path) -> dict[str, Any]:
    """Where the file's run stood, without restoring anything."""
    return _load(path)[1]["position"]


def restore(path: Path, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Put everything back as it was, in place; returns the position."""
    tensors, metadata = _load(path)
    states = metadata["states"]
    if set(states) != set(kept):
        raise ValueError(
            f"{path} holds the states of {', '.join(sorted(states)) or 'nothing'}, but the loop keeps "
            f"{', '.join(sorted(kept)) or 'nothing'}: the recipe has changed since. Start the run anew."
        )
    for name, thing in kept.items():
        try:
            _restore(thing, _unpack(states[name], tensors))
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} holds a state of {name} that does not fit: {' '.join(str(error).split())} "
                "The recipe has changed since. Start the run anew."
            ) from error
    _restore_surroundings(_unpack(metadata["global"], tensors))
    return metadata["position"]


def _load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        return storage.load(path)
    except ValueError as error:
        raise Refused(f"{error} Delete it to go on from what was saved before, or begin anew by --restart.") from error


def _state(thing: Any, name: str) -> Any:
    if isinstance(thing, torch.Generator):
        return thing.get_state()
    if hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict"):
        return thing.state_dict()
    if isinstance(thing, Tensor | list | MutableMapping):
        return thing
    raise TypeError(
        f"a loop keeps modules, optimisers, generators, tensors, lists, dictionaries and what has state_dict and "
        f"load_state_dict; {name} is a {type(thing).__name__}, which cannot be restored in place."
    )


def _restore(thing: Any, state: Any) -> None:
    if isinstance(thing, torch.Generator):
        thing.set_state(state)
    elif hasattr(thing, "load_state_dict"):
        thing.load_state_dict(state)
    elif isinstance(thing, Tensor):
        if not isinstance(state, Tensor) or (state.shape, state.dtype) != (thing.shape, thing.dtype):
            raise ValueError(f"it should be a tensor of shape {tuple(thing.shape)} and type {thing.dtype}.")
        with torch.no_grad():
            thing.copy_(state)
    elif isinstance(thing, list):
        thing[:] = state
    else:
        thing.clear()
        thing.update(state)


def _surroundings() -> dict[str, Any]:
    """The global generators. Numpy's and Python's are asked too: a data library may draw from them."""
    version, inner, gauss = random.getstate()
    kind, keys, *rest = numpy.random.get_state()
    numpy_state = (kind, torch.from_numpy(numpy.asarray(keys).astype("int64")), *(float(x) for x in rest))
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    return {"torch": torch.get_rng_state(), "cuda": cuda, "numpy": numpy_state, "python": (version, list(inner), gauss)}


def _restore_surroundings(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
    kind, keys, position, has_gauss, gauss = state["numpy"]
    numpy.random.set_state((kind, keys.numpy().astype("uint32"), int(position), int(has_gauss), gauss))
    version, inner, cached = state["python"]
    random.setstate((version, tuple(inner), cached))


def _pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        copied = value.detach().to("cpu", copy=True)
        # safetensors knows no complex numbers of double precision
        tensors[path] = torch.view_as_real(copied.resolve_conj()) if copied.is_complex() else copied
        return {"complex" if copied.is_complex() else "tensor": path}
    if isinstance(value, Mapping):
        items = enumerate(value.items())
        return {"dict": [[_pack_key(key, path), _pack(inner, f"{path}/{i}", tensors)] for i, (key, inner) in items]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_pack(inner, f"{path}/{i}", tensors) for i, inner in enumerate(value)]}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(
        f"{path} is a {type(value).__name__}; a state is made of tensors, numbers, texts, lists and dictionaries."
    )


def _pack_key(key: Any, path: str) -> Any:
    tensors: dict[str, Tensor] = {}
    packed = _pack(key, f"a key of {path}", tensors)
    if tensors:
        raise TypeError(f"{path} has a key that is a {type(key).__name__}; keys are numbers, texts and tuples of them.")
    return packed


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "complex":
        return torch.view_as_complex(tensors[inner])
    if kind == "dict":
        return {_unpack(key, tensors): _unpack(item, tensors) for key, item in inner}
    items = [_unpack(item, tensors) for item in inner]
    return items if kind == "list" else tuple(items)
