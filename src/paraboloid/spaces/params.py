"""A choice of a model's named tensors, and its flat vector.

The flat vector is `named_parameters()` in order, each tensor flattened by rows, as
`torch.nn.utils.parameters_to_vector` does. A tied tensor appears once, under its first name.

Symbols
    P    number of chosen elements
    K    leading axes: draws, columns, chains
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter


@dataclass(frozen=True)
class Params:
    """Names and shapes of chosen tensors; maps between them and a vector (P,).

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> params = Params.of(model, "1.*")
    >>> params.names, params.numel
    (('1.weight', '1.bias'), 4)
    >>> flat = params.flatten(params.tensors(model))
    >>> {name: tuple(t.shape) for name, t in params.unflatten(flat).items()}
    {'1.weight': (1, 3), '1.bias': (1,)}
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]

    @classmethod
    def of(cls, model: nn.Module, which: Any = None) -> Params:
        """Choose parameters of `model`, in the order of `named_parameters()`.

        `which`: None (all that require gradients), a name or glob, a module or tensor of the model, an
        iterable of these, a predicate `(name, tensor) -> bool`, or a `Params`. Globs, modules and
        predicates pass over frozen parameters; naming a frozen one is an error.

        >>> model = nn.Linear(2, 1)
        >>> Params.of(model, lambda name, tensor: tensor.ndim > 1).names
        ('weight',)
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` should be a torch.nn.Module, found {type(model).__name__}.")
        parameters = dict(model.named_parameters())
        chosen = _chosen(model, parameters, which)
        names = tuple(name for name in parameters if name in chosen)
        if not names:
            raise ValueError(_empty(parameters, which))
        for name in names:
            _require_real(name, parameters[name])
        params = cls(names, tuple(parameters[name].shape for name in names))
        if isinstance(which, Params):
            _require_same_shapes(params, which)
        return params

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each tensor lies in the flat vector.

        >>> Params.of(nn.Linear(2, 1)).slices
        {'weight': slice(0, 2, None), 'bias': slice(2, 3, None)}
        """
        found, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            found[name] = slice(start, start + prod(shape))
            start += prod(shape)
        return found

    @cached_property
    def numel(self) -> int:
        """P, the length of the flat vector."""
        return sum(prod(shape) for shape in self.shapes)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def tensors(self, model: nn.Module) -> dict[str, Tensor]:
        """The live parameters of `model`, in order; a tied name is found under any of its names.

        >>> list(Params.of(nn.Linear(2, 1)).tensors(nn.Linear(2, 1)))
        ['weight', 'bias']
        """
        live = dict(model.named_parameters(remove_duplicate=False))
        for name, shape in zip(self.names, self.shapes, strict=True):
            if name not in live:
                raise ValueError(_unknown(name, live))
            if live[name].shape != shape:
                raise ValueError(
                    f"parameter {name!r} should have shape {tuple(shape)}, found {tuple(live[name].shape)} "
                    "in this "
                    "model. Make new Params for it by Params.of(model)."
                )
        return {name: live[name] for name in self.names}

    def flatten(self, tensors: Mapping[str, Tensor] | Sequence[Tensor]) -> Tensor:
        """(..., *shape) tensors, all with the same leading axes, to one (..., P). Other names are ignored.

        >>> params = Params.of(nn.Linear(2, 1))
        >>> params.flatten([torch.ones(5, 1, 2), torch.zeros(5, 1)]).shape
        torch.Size([5, 3])
        """
        pieces, leading = [], None
        for name, shape, tensor in zip(self.names, self.shapes, self._ordered(tensors), strict=True):
            split = tensor.ndim - len(shape)
            if split < 0 or tensor.shape[split:] != shape:
                raise ValueError(
                    f"tensor {name!r} should have shape {tuple(shape)}, after leading axes if any; found "
                    f"{tuple(tensor.shape)}."
                )
            if leading is not None and tensor.shape[:split] != leading:
                raise ValueError(
                    f"all tensors should have the same leading axes, {tuple(leading)} as {self.names[0]!r} "
                    "has; "
                    f"found {tuple(tensor.shape[:split])} in {name!r}."
                )
            leading = tensor.shape[:split]
            pieces.append(tensor.reshape(*leading, prod(shape)))
        return torch.cat(pieces, dim=-1)

    def unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        """(..., P) to views (..., *shape) by name.

        >>> Params.of(nn.Linear(2, 1)).unflatten(torch.zeros(7, 3))["weight"].shape
        torch.Size([7, 1, 2])
        """
        if flat.ndim == 0 or flat.shape[-1] != self.numel:
            raise ValueError(
                f"the flat vector of these {len(self)} tensors: expected {self.numel} numbers along the "
                "last axis, "
                f"found shape {tuple(flat.shape)}."
            )
        lead = flat.shape[:-1]
        return {
            name: flat[..., self.slices[name]].view((*lead, *shape))
            for name, shape in zip(self.names, self.shapes, strict=True)
        }

    def select(self, which: str | Iterable[str] | Callable[[str, torch.Size], bool] | Params) -> Params:
        """A part of this choice: by name or glob, several of them, or a predicate `(name, shape) -> bool`.

        >>> Params.of(nn.Linear(2, 1)).select("b*").names
        ('bias',)
        """
        table = dict(zip(self.names, self.shapes, strict=True))
        if callable(which) and not isinstance(which, Params):
            chosen = {name for name, shape in table.items() if which(name, shape)}
        else:
            patterns = (which,) if isinstance(which, str) else tuple(which)
            chosen = set().union(*(_matching(pattern, table) for pattern in patterns))
        names = tuple(name for name in self.names if name in chosen)
        if not names:
            raise ValueError(f"the selection {which!r} is empty. These Params hold: {_listed(self.names)}.")
        part = Params(names, tuple(table[name] for name in names))
        if isinstance(which, Params):
            _require_same_shapes(part, which)
        return part

    def _ordered(self, tensors: Mapping[str, Tensor] | Sequence[Tensor]) -> list[Tensor]:
        if isinstance(tensors, Mapping):
            missing = [name for name in self.names if name not in tensors]
            if missing:
                raise ValueError(f"a tensor for {missing[0]!r} is missing; found {_listed(tuple(tensors))}.")
            return [tensors[name] for name in self.names]
        ordered = list(tensors)
        if len(ordered) != len(self):
            raise ValueError(f"expected {len(self)} tensors ({_listed(self.names)}), found {len(ordered)}.")
        return ordered


def _chosen(model: nn.Module, parameters: Mapping[str, Tensor], which: Any) -> set[str]:
    """First names of the parameters that `which` means; frozen ones only ever lead to an error."""
    if which is None:
        return {name for name, tensor in parameters.items() if tensor.requires_grad}
    if isinstance(which, nn.Module):
        inside = {id(tensor) for tensor in which.parameters()}
        found = {name for name, tensor in parameters.items() if id(tensor) in inside}
        if inside and len(found) < len(inside):
            raise ValueError(
                f"the module chosen ({type(which).__name__}) should be part of the model "
                f"({type(model).__name__}); "
                f"{len(inside) - len(found)} of its {len(inside)} parameters were not found there."
            )
        return {name for name in found if parameters[name].requires_grad}
    if isinstance(which, Tensor):
        found = {name for name, tensor in parameters.items() if tensor is which}
        if not found:
            raise ValueError(f"the tensor chosen, of shape {tuple(which.shape)}, is no parameter of the model.")
        return {_require_trainable(name, parameters[name]) for name in found}
    if isinstance(which, str):
        return _named(model, parameters, which)
    if callable(which) and not isinstance(which, Params):
        return {name for name, tensor in parameters.items() if tensor.requires_grad and which(name, tensor)}
    if isinstance(which, Iterable):
        return set().union(*(_chosen(model, parameters, one) for one in which))
    raise TypeError(
        "`params` should be None, a name or glob, a module, a predicate, Params, or an iterable of these; "
        f"found {type(which).__name__}."
    )


def _named(model: nn.Module, parameters: Mapping[str, Tensor], pattern: str) -> set[str]:
    """Names that match, each as the first name of its tensor."""
    live = dict(model.named_parameters(remove_duplicate=False))
    first = {id(tensor): name for name, tensor in parameters.items()}
    found = {first[id(live[name])] for name in _matching(pattern, live)}
    if pattern in live:
        return {_require_trainable(name, parameters[name]) for name in found}
    trainable = {name for name in found if parameters[name].requires_grad}
    if not trainable:
        _require_trainable(min(found), parameters[min(found)])
    return trainable


def _matching(pattern: str, table: Mapping[str, Any]) -> set[str]:
    if not isinstance(pattern, str):
        raise TypeError(f"a parameter's name or glob should be a str, found {type(pattern).__name__}.")
    found = {pattern} if pattern in table else {name for name in table if fnmatchcase(name, pattern)}
    if not found:
        raise ValueError(_unknown(pattern, table))
    return found


def _require_trainable(name: str, tensor: Tensor) -> str:
    _require_real(name, tensor)
    if not tensor.requires_grad:
        raise ValueError(
            f"parameter {name!r} is frozen (requires_grad is False), so no curvature can be found for it. "
            "Unfreeze "
            f'it by model.get_parameter("{name}").requires_grad_(True), or leave it out.'
        )
    return name


def _require_real(name: str, tensor: Tensor) -> None:
    if isinstance(tensor, UninitializedParameter):
        raise ValueError(f"parameter {name!r} has no shape yet (a lazy module): run the model once on some input.")
    if not tensor.is_floating_point():
        kind = "complex" if tensor.is_complex() else "of an integer type"
        raise TypeError(
            f"parameter {name!r} should be real and floating, found {tensor.dtype}; it is {kind}. Leave it "
            "out: "
            f"params=lambda name, tensor: name != {name!r}."
        )


def _require_same_shapes(found: Params, expected: Params) -> None:
    table = dict(zip(expected.names, expected.shapes, strict=True))
    for name, shape in zip(found.names, found.shapes, strict=True):
        if table.get(name, shape) != shape:
            raise ValueError(f"parameter {name!r} should have shape {tuple(table[name])}, found {tuple(shape)}.")


def _unknown(name: str, table: Iterable[str]) -> str:
    names = tuple(table)
    inside = [known for known in names if known.startswith(f"{name}.")]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    hint = f'For all of the module {name!r} use "{name}.*".' if inside else f"Did you mean {near[0]!r}?" if near else ""
    return f"no parameter is called {name!r}. {hint} There are: {_listed(names)}."


def _empty(parameters: Mapping[str, Tensor], which: Any) -> str:
    if not parameters:
        return "the model has no parameters at all."
    if not any(tensor.requires_grad for tensor in parameters.values()):
        return "every parameter of the model is frozen; unfreeze some by model.requires_grad_(True)."
    asked = "" if which is None else f" by {which!r}"
    return f"no parameter is chosen{asked}. There are: {_listed(tuple(parameters))}."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown}, … ({len(names)} in all)"
