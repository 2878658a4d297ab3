"""Running means along a run: of predictions (Bayesian model averaging over kept weights), and of the weights.

    m ← m + (x − m) / n        for the n-th x

Predictions are averaged in float64, weights in their own precision (float32 at least). Both know their window of
epochs, take one sample per epoch of it, and resume by `state_dict`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Window:
    """Epochs first, first + every, … up to last (the end, if there is none).

    >>> [epoch for epoch in range(9) if Window(first=2, last=6, every=2).has(epoch)]
    [2, 4, 6]
    """

    first: int = 0
    last: int | None = None
    every: int = 1

    def __post_init__(self) -> None:
        if self.first < 0 or self.every < 1 or (self.last is not None and self.last < self.first):
            raise ValueError(f"a window should have 0 ≤ first ≤ last and every ≥ 1; found {self}.")

    def has(self, epoch: int) -> bool:
        """Whether this epoch's weights count."""
        inside = epoch >= self.first and (self.last is None or epoch <= self.last)
        return inside and (epoch - self.first) % self.every == 0


class RunningMean:
    """The mean of what was added, tensor by tensor.

    >>> mean = RunningMean()
    >>> for value in (1.0, 2.0, 6.0):
    ...     mean.add({"x": torch.tensor([value])})
    >>> mean.count, mean.values()
    (3, {'x': tensor([3.])})
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype, self.count = dtype, 0
        self._mean: dict[str, Tensor] = {}

    def add(self, tensors: Mapping[str, Tensor]) -> None:
        """One more sample of each tensor; names and shapes are those of the first."""
        self.count += 1
        for name, tensor in tensors.items():
            x = tensor.detach().to(self.dtype or torch.promote_types(tensor.dtype, torch.float32))
            if self.count == 1:
                self._mean[name] = x.clone()
            else:
                mean = self._mean[name].to(x.device)  # a mean that was loaded may lie elsewhere
                self._mean[name] = mean.add_((x - mean).div_(self.count))

    def values(self) -> dict[str, Tensor]:
        """The mean of each tensor; raises before the first sample."""
        if not self.count:
            raise RuntimeError(
                "a mean needs at least one sample; found none. Does the window begin before the run ends?"
            )
        return dict(self._mean)

    def state_dict(self) -> dict[str, Tensor]:
        return {"count": torch.tensor(self.count), **{f"mean.{name}": mean for name, mean in self._mean.items()}}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.count = int(state["count"])
        means = {key.removeprefix("mean."): mean for key, mean in state.items() if key != "count"}
        # a copy: the mean is changed in place, what was saved is not
        self._mean = {name: mean.clone() for name, mean in means.items()}


class PredictionAverage:
    """The mean over a window of epochs of what `predict(model)` gives: probabilities, for a model average.

    >>> model, x = nn.Linear(2, 3), torch.zeros(5, 2)
    >>> average = PredictionAverage(lambda model: model(x).softmax(-1), Window(first=1))
    >>> for epoch in range(3):
    ...     average.update(epoch, model)
    >>> average.count, average.mean().shape
    (2, torch.Size([5, 3]))
    """

    def __init__(self, predict: Callable[[nn.Module], Tensor], window: Window = Window()) -> None:
        self.predict, self.window = predict, window
        self._running = RunningMean(torch.float64)

    @property
    def count(self) -> int:
        """How many weights were averaged so far."""
        return self._running.count

    @torch.no_grad()
    def update(self, epoch: int, model: nn.Module) -> None:
        """Counts this epoch's weights if the window has them."""
        if self.window.has(epoch):
            self._running.add({"predictions": self.predict(model)})

    def mean(self) -> Tensor:
        """The averaged predictions, float64."""
        return self._running.values()["predictions"]

    def state_dict(self) -> dict[str, Tensor]:
        return self._running.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._running.load_state_dict(state)


class WeightAverage:
    """The mean over a window of epochs of parameters and floating buffers.

    The average of BatchNorm's running statistics is not the statistics of the averaged weights: after `copy_to`,
    such a network goes once through its data in training mode (`torch.optim.swa_utils.update_bn`).

    >>> model, average = nn.Linear(1, 1, bias=False), WeightAverage()
    >>> for epoch, value in enumerate((1.0, 3.0)):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     average.update(epoch, model)
    >>> average.copy_to(model)
    >>> model.weight.item()
    2.0
    """

    def __init__(self, window: Window = Window()) -> None:
        self.window = window
        self._running = RunningMean()

    @property
    def count(self) -> int:
        """How many weights were averaged so far."""
        return self._running.count

    def update(self, epoch: int, model: nn.Module) -> None:
        """Counts this epoch's weights if the window has them."""
        if self.window.has(epoch):
            self._running.add(_floating(model))

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Writes the average into the model."""
        for name, tensor in _floating(model).items():
            tensor.copy_(self._running.values()[name])

    def state_dict(self) -> dict[str, Tensor]:
        return self._running.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._running.load_state_dict(state)


def _floating(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
