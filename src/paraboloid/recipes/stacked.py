"""K copies of one architecture as one model, so that seeds and grids of learning rates train in batched products.

The parameters of `Stacked` have a leading axis K, and so have its buffers: BatchNorm keeps statistics for each copy.
The loss to train is the sum of the copies' mean losses, whose gradient in one copy does not see the others. With an
optimiser that works element by element (SGD, momentum, Adam; not with gradients clipped by their norm) this is exactly
K separate trainings. Learning rates per copy come from `PerCopy`, orders of the data per copy from a list of K
generators given to `paraboloid.recipes.training.train`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

Loss = Callable[[Tensor, Tensor], Tensor]


class Stacked(nn.Module):
    """The given models side by side; they are copied, and have to be alike in all but their numbers.

    `axes` is the number of axes of one example: 1 for features, 3 for images. An input with one axis more is a
    batch for all copies, with two more it has a batch (B, ...) for each. The output is (K, B, ...).
    Dropout draws new masks for each copy from one stream, so no copy has the masks that it would have alone: it is
    refused unless `randomness="different"` says that this is meant.

    >>> stacked = Stacked([nn.Linear(2, 3) for _ in range(4)], axes=1)
    >>> stacked(torch.zeros(5, 2)).shape, stacked(torch.zeros(4, 5, 2)).shape
    (torch.Size([4, 5, 3]), torch.Size([4, 5, 3]))
    """

    def __init__(self, models: Sequence[nn.Module], axes: int, randomness: str = "error") -> None:
        super().__init__()
        _require_alike(models)
        dropping = [name for name, part in models[0].named_modules() if isinstance(part, _DropoutNd) and part.p]
        if dropping and randomness != "different":
            raise ValueError(
                f"the models should draw nothing in their forward, found dropout in {', '.join(dropping)}: a copy "
                'would not have the masks it has alone. If that is meant, say randomness="different".'
            )
        self.count, self.axes, self.randomness = len(models), axes, randomness
        with torch.no_grad():
            # deepcopy takes what the memo holds in the place of a tensor, also where a tensor is tied
            stacks = {id(own[0]): _stack(own) for own in zip(*map(_tensors, models), strict=True)}
            self.copies = copy.deepcopy(models[0], stacks)

    def forward(self, x: Tensor) -> Tensor:
        def one(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], x: Tensor) -> Tensor:
            return torch.func.functional_call(self.copies, (dict(parameters), dict(buffers)), (x,))

        parameters, buffers = dict(self.copies.named_parameters()), dict(self.copies.named_buffers())
        dimensions = (0, 0, None if self._is_shared(x) else 0)
        return torch.vmap(one, dimensions, randomness=self.randomness)(parameters, buffers, x)

    def unstack(self) -> list[nn.Module]:
        """The K models, with copies of their numbers.

        >>> [type(model).__name__ for model in Stacked([nn.Linear(2, 3)] * 2, axes=1).unstack()]
        ['Linear', 'Linear']
        """
        own = _tensors(self.copies)
        with torch.no_grad():
            return [copy.deepcopy(self.copies, {id(t): _like(t, t[k].clone()) for t in own}) for k in range(self.count)]

    def _is_shared(self, x: Tensor) -> bool:
        if x.ndim == self.axes + 1:
            return True
        if x.ndim == self.axes + 2 and len(x) == self.count:
            return False
        raise ValueError(
            f"the input should be a batch of examples with {self.axes} axes, or {self.count} batches, one for each "
            f"copy; found shape {tuple(x.shape)}."
        )


def per_copy(loss: Loss) -> Loss:
    """The loss of each copy, (K,), from outputs (K, B, ...) and targets for all copies or for each.

    Targets are classes, of an integer type, or floating and as the outputs in shape; `loss` takes means over a batch.

    >>> loss = per_copy(nn.functional.cross_entropy)
    >>> loss(torch.zeros(4, 5, 3), torch.zeros(5, dtype=torch.long)).shape
    torch.Size([4])
    """

    def losses(outputs: Tensor, targets: Tensor) -> Tensor:
        axes = outputs.ndim - (0 if targets.is_floating_point() else 1)
        if targets.ndim not in (axes, axes - 1):
            raise ValueError(
                f"targets should have {axes - 1} axes, or {axes} with one batch for each copy, for outputs "
                f"{tuple(outputs.shape)}; found shape {tuple(targets.shape)}."
            )
        return torch.vmap(loss, (0, 0 if targets.ndim == axes else None))(outputs, targets)

    return losses


class PerCopy:
    """An optimiser of a stacked model whose step in copy k is multiplied by `factors[k]`.

    It is exact where the step is proportional to the learning rate and the optimiser's state does not depend on it, as
    in SGD, momentum, Nesterov's, Adam and AdamW: with lr 1 the factors are the learning rates. They are a tensor (K,)
    which may be changed in place between steps, so every copy can have its own schedule.

    >>> stacked = Stacked([nn.Linear(1, 1, bias=False)] * 2, axes=1)
    >>> optimizer = PerCopy(torch.optim.SGD(stacked.parameters(), lr=1.0), torch.tensor([0.0, 0.1]))
    >>> before = stacked.copies.weight.detach().clone()
    >>> per_copy(nn.functional.mse_loss)(stacked(torch.ones(1, 1)), 9 * torch.ones(1, 1)).sum().backward()
    >>> optimizer.step()
    >>> (stacked.copies.weight != before).flatten().tolist()
    [False, True]
    """

    def __init__(self, optimizer: torch.optim.Optimizer, factors: Tensor) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        wrong = [tuple(parameter.shape) for parameter in parameters if parameter.shape[:1] != factors.shape]
        if factors.ndim != 1 or wrong:
            raise ValueError(
                "`factors` should be (K,) for parameters (K, ...), as those of a Stacked model; found "
                f"{tuple(factors.shape)} for {', '.join(map(str, wrong)) or 'them'}."
            )
        self.optimizer, self.factors = optimizer, factors

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of the optimiser, for schedules."""
        return self.optimizer.param_groups

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none=set_to_none)

    @torch.no_grad()
    def step(self) -> None:
        """θ ← θ + f (θ' − θ), with θ' where the optimiser would go."""
        moved = [
            parameter for group in self.param_groups for parameter in group["params"] if parameter.grad is not None
        ]
        before = [parameter.clone() for parameter in moved]
        self.optimizer.step()
        factors = [self.factors.view(-1, *[1] * (parameter.ndim - 1)) for parameter in moved]
        torch._foreach_sub_(moved, before)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_mul_(moved, factors)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_add_(moved, before)  # pyright: ignore[reportPrivateImportUsage]

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "factors": self.factors}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.factors.copy_(state_dict["factors"])


def _tensors(model: nn.Module) -> list[Tensor]:
    """Parameters and buffers, a tied one once."""
    return [*model.parameters(), *model.buffers()]


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    return _like(tensors[0], torch.stack([tensor.detach() for tensor in tensors]))


def _like(old: Tensor, new: Tensor) -> Tensor:
    return nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new


def _require_alike(models: Sequence[nn.Module]) -> None:
    def shapes(model: nn.Module) -> dict[str, Any]:
        return {name: (t.shape, t.dtype, t.device) for name, t in (*model.named_parameters(), *model.named_buffers())}

    if not models:
        raise ValueError("at least one model is needed to stack; found none.")
    first = models[0]
    for number, model in enumerate(models[1:], 1):
        if str(model) != str(first) or shapes(model) != shapes(first) or model.training != first.training:
            raise ValueError(
                f"the models should be alike in layers, shapes, device and mode; number {number} differs from the "
                "first. Build them by the same call, with generators of different seeds."
            )
