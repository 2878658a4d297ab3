"""Data in any of the forms people have it: what goes into the model, what are the targets, what comes out.

One batch is `(x, y)`, `(x, y, weights)`, a mapping or a dataclass; data are one batch or an iterable of them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from paraboloid.spaces.functional import model_output
from paraboloid.spaces.randomness import Replayed

TARGETS = ("labels", "targets", "target", "label", "y")
WEIGHTS = ("weights", "sample_weight")


@dataclass(frozen=True)
class Batch:
    """The model is called as `model(*args, **kwargs)`; weights belong to examples or terms.

    >>> Batch((torch.zeros(2, 3),), {}, torch.zeros(2), None).args[0].shape
    torch.Size([2, 3])
    """

    args: tuple
    kwargs: dict[str, Any]
    targets: Any
    weights: Tensor | None


class Batches:
    """Iterates over data as `Batch`es, moved to `device` when one is given.

    A pair or triple of tensors, a mapping or a dataclass is one batch. In a mapping or dataclass the targets
    are under labels, targets, target, label or y, the weights under weights or sample_weight, and the rest
    are keyword arguments of the model. `inputs(batch)` returns a tensor, a tuple of arguments or a mapping of
    keyword arguments; `targets(batch)`, `weights(batch)` and `outputs(out)` return tensors.

    >>> batches = Batches((torch.zeros(4, 2), torch.zeros(4)))
    >>> [batch.targets.shape for batch in batches], batches.one_pass
    ([torch.Size([4])], False)
    """

    def __init__(
        self,
        data: Any,
        inputs: Callable[[Any], Any] | None = None,
        targets: Callable[[Any], Any] | None = None,
        outputs: Callable[[Any], Tensor] | None = None,
        *,
        weights: Callable[[Any], Tensor] | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.data = _require_data(data)
        self._replayed: Replayed | None = None
        self.inputs, self.targets, self.outputs, self.weights = inputs, targets, outputs, weights
        self.device = None if device is None else torch.device(device)
        self.single = _is_batch(data)
        self._used = False

    @property
    def one_pass(self) -> bool:
        """Whether the data can be gone through only once, as a generator can."""
        # asking iter(data) would start a DataLoader's workers and draw from the global generator
        return not self.single and isinstance(self.data, Iterator)

    def restartable(self) -> Batches:
        """Itself; raises where only one pass is possible. Call it where several are needed.

        >>> Batches(iter([])).restartable()
        Traceback (most recent call last):
        ValueError: several passes over the data are needed, but list_iterator gives one.
        Pass a list or a DataLoader.
        """
        if self.one_pass:
            raise ValueError(
                f"several passes over the data are needed, but {type(self.data).__name__} gives one.\n"
                "Pass a list or a DataLoader."
            )
        return self

    def on(self, device: torch.device | str) -> Batches:
        """The same data, read in the same way, on `device`; one that was asked for before stays.

        >>> Batches((torch.zeros(4, 2), torch.zeros(4))).on("cpu").device
        device(type='cpu')
        """
        moved_there = copy.copy(self)
        moved_there.device = torch.device(device) if self.device is None else self.device
        return moved_there

    def replayed(self) -> Batches:
        """The same data, whose loader draws the same at every pass and leaves the user's generators as they are.

        >>> Batches((torch.zeros(4, 2), torch.zeros(4))).replayed().single
        True
        """
        found = copy.copy(self)
        found._replayed = None if self.single or isinstance(self.data, (tuple, list)) else Replayed(self.data)
        return found

    def __iter__(self) -> Iterator[Batch]:
        if self._used and self.one_pass:
            raise ValueError(
                f"the data ({type(self.data).__name__}) give one pass, and it is over. Pass a list or a DataLoader."
            )
        self._used = True
        found = False
        for raw in (self.data,) if self.single else self._replayed or self.data:
            found = True
            yield self.batch(raw)
        if not found:
            raise ValueError(
                f"no batches in the data: {type(self.data).__name__} was empty. Check its length, and drop_last."
            )

    def batch(self, raw: Any) -> Batch:
        """One batch in the common form.

        >>> Batches([]).batch({"input_ids": torch.zeros(1, 2), "labels": torch.zeros(1)}).kwargs.keys()
        dict_keys(['input_ids'])
        """
        if self.inputs is not None and self.targets is not None:
            args, kwargs = _arguments(self.inputs(raw))
            weights = None if self.weights is None else self.weights(raw)
            return self._moved(Batch(args, kwargs, self.targets(raw), weights))
        plain = _read(raw, self.inputs is None, self.targets is None)
        if self.inputs is not None:
            args, kwargs = _arguments(self.inputs(raw))
            plain = dataclasses.replace(plain, args=args, kwargs=kwargs)
        if self.targets is not None:
            plain = dataclasses.replace(plain, targets=self.targets(raw))
        if self.weights is not None:
            plain = dataclasses.replace(plain, weights=self.weights(raw))
        return self._moved(plain)

    def output(self, out: Any) -> Tensor:
        """The tensor in what the model returned.

        >>> Batches([], outputs=lambda out: out[0]).output((torch.zeros(2, 1), None)).shape
        torch.Size([2, 1])
        """
        if self.outputs is None:
            return model_output(out)
        tensor = self.outputs(out)
        if not isinstance(tensor, Tensor):
            raise TypeError(f"outputs= should return a tensor, found {type(tensor).__name__}.")
        return tensor

    def _moved(self, batch: Batch) -> Batch:
        if self.device is None:
            return batch
        with torch.inference_mode(False):
            args, kwargs, targets, weights = (
                moved(part, self.device) for part in (batch.args, batch.kwargs, batch.targets, batch.weights)
            )
        return Batch(args, kwargs, targets, weights)


def moved(value: Any, device: torch.device) -> Any:
    """Tensors on `device`, also those inside tuples, lists and mappings.

    >>> moved({"a": [torch.zeros(1)]}, torch.device("cpu"))
    {'a': [tensor([0.])]}
    """
    if isinstance(value, Tensor):
        # autograd cannot save a tensor that was made in inference mode
        value = value.clone() if value.is_inference() else value
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: moved(one, device) for key, one in value.items()}
    if callable(getattr(value, "to", None)):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(one, device) for one in value))
    if isinstance(value, (tuple, list)):
        return type(value)(moved(one, device) for one in value)
    return value


def _require_data(data: Any) -> Any:
    if isinstance(data, Tensor):
        raise TypeError(f"the data should hold targets too, as (x, y); found one tensor of shape {tuple(data.shape)}.")
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        raise TypeError(
            f"a dataset gives single examples, found {type(data).__name__}. Wrap it: "
            "torch.utils.data.DataLoader(dataset, batch_size=...)."
        )
    if not _is_batch(data) and not isinstance(data, Iterable):
        raise TypeError(f"the data should be (x, y) or an iterable of batches, found {type(data).__name__}.")
    return data


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, (type, Mapping))


def _is_batch(data: Any) -> bool:
    if isinstance(data, Mapping) or _is_record(data):
        return True
    return isinstance(data, (tuple, list)) and len(data) in (2, 3) and isinstance(data[1], Tensor)


def _read(raw: Any, needs_inputs: bool, needs_targets: bool) -> Batch:
    """Batch by the usual names and places; at most one of inputs and targets is found by the user."""
    if _is_record(raw):
        raw = {field.name: getattr(raw, field.name) for field in dataclasses.fields(raw)}
    if isinstance(raw, Mapping):
        return _read_mapping(raw, needs_targets)
    if not isinstance(raw, (tuple, list)) or len(raw) not in (2, 3):
        size = f" of {len(raw)}" if isinstance(raw, (tuple, list)) else ""
        arrays = type(raw).__module__.split(".")[0] == "numpy"
        one = isinstance(raw, (tuple, list)) and len(raw) == 1
        way = "Say where things are: paraboloid.Batches(data, inputs=..., targets=...), two functions of a batch."
        way = "Make tensors of arrays by torch.from_numpy." if arrays else "It holds no targets. " + way if one else way
        raise TypeError(
            f"a batch should be (x, y), (x, y, weights), a mapping or a dataclass; found {type(raw).__name__}{size}. "
            + way
        )
    if len(raw) == 3 and not (needs_inputs and needs_targets):
        raise TypeError(
            "in a batch of three it is unclear what the other parts are: give both inputs= and targets= (and weights=)."
        )
    weights = raw[2] if len(raw) == 3 else None
    if weights is not None and not (isinstance(weights, Tensor) and weights.is_floating_point()):
        found = str(weights.dtype) if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(
            f"the third part of a batch should be weights, floating; found {found}. If it holds the "
            "targets, say "
            "so: inputs=lambda batch: batch[:2], targets=lambda batch: batch[2]."
        )
    args, kwargs = _arguments(raw[0])
    return Batch(args, kwargs, raw[1], weights)


def _read_mapping(raw: Mapping[str, Any], needs_targets: bool) -> Batch:
    labels = [key for key in TARGETS if raw.get(key) is not None]
    weights = [key for key in WEIGHTS if raw.get(key) is not None]
    if needs_targets and len(labels) != 1:
        found = f"several: {', '.join(labels)}" if labels else f"none among {', '.join(map(str, raw))}"
        raise ValueError(
            f"one of {', '.join(TARGETS)} should hold the targets; found {found}. Say which by targets=, "
            "as in "
            'targets=lambda batch: batch["name"].'
        )
    if len(weights) > 1:
        raise ValueError(f"found weights under several names, {', '.join(weights)}; say which by weights=.")
    kwargs = {key: value for key, value in raw.items() if key not in (*TARGETS, *WEIGHTS)}
    return Batch((), kwargs, raw[labels[0]] if labels else None, raw[weights[0]] if weights else None)


def _arguments(x: Any) -> tuple[tuple, dict[str, Any]]:
    if isinstance(x, Mapping):
        return (), dict(x)
    if isinstance(x, (tuple, list)):
        return tuple(x), {}
    return (x,), {}
