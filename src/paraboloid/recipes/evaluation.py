"""What a model says and how well, batch by batch; and the precision in which it is run, also while training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paraboloid.recipes.stacked import Loss, Stacked
from paraboloid.spaces.functional import model_output

Precision = Literal["float32", "tf32", "bfloat16"]
Measure = Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]


class Evaluation(NamedTuple):
    """Mean loss, and the share of right classes (None where targets are no classes); lists for stacked copies."""

    loss: Any
    accuracy: Any


def class_hits(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether the largest output is the target's, example by example.

    >>> class_hits(torch.eye(2), torch.tensor([0, 0]))
    tensor([ True, False])
    """
    return outputs.argmax(-1) == targets


def predict(
    model: nn.Module,
    x: Tensor,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    batch_size: int = 1000,
    precision: Precision = "float32",
) -> Tensor:
    """Outputs for all examples, (N, ...), in eval mode and batch by batch; (K, N, ...) for stacked copies.

    `prepare` makes inputs of a raw batch, without drawing. The modes of the model's parts are as before.

    >>> predict(nn.Linear(2, 3), torch.zeros(5, 2), batch_size=2).shape
    torch.Size([5, 3])
    """
    with _evaluating(model, precision), casting(precision, x.device):
        parts = [model_output(model(prepare(part) if prepare else part)) for part in x.split(batch_size)]
    return torch.cat(parts, dim=1 if isinstance(model, Stacked) else 0)


def evaluate(
    model: nn.Module,
    split: tuple[Tensor, Tensor],
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    batch_size: int = 1000,
    precision: Precision = "float32",
    loss: Loss = F.cross_entropy,
    hits: Loss | None = class_hits,
) -> Evaluation:
    """Mean loss and accuracy over a split, in eval mode; `loss` takes means over a batch.

    >>> data = torch.zeros(5, 2), torch.tensor([0, 0, 0, 1, 1])
    >>> evaluate(nn.Linear(2, 2, bias=False), data, batch_size=2).accuracy
    0.6
    """
    x, y = split
    measure = measurement(model, loss, hits, y, precision)
    losses, counts = [], []
    with _evaluating(model, precision):
        for part, targets in zip(x.split(batch_size), y.split(batch_size), strict=True):
            value, count = measure(prepare(part) if prepare else part, targets)
            losses.append(value.double() * (len(part) / len(x)))
            counts.append(count)
        accuracy = None if counts[0] is None else (torch.stack(counts).sum(0).double() / len(x)).tolist()
        return Evaluation(torch.stack(losses).sum(0).tolist(), accuracy)


def measurement(model: nn.Module, loss: Loss, hits: Loss | None, targets: Tensor, precision: Precision) -> Measure:
    """(x, y) -> the loss and the number of hits, each one number or one per copy; None for targets without classes.

    >>> y = torch.tensor([0, 1])
    >>> measurement(nn.Linear(2, 2, bias=False), F.cross_entropy, class_hits, y, "float32")(torch.zeros(2, 2), y)[1]
    tensor(1)
    """
    counted = None if targets.is_floating_point() else hits
    copies = (model.count,) if isinstance(model, Stacked) else ()

    def measure(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor | None]:
        with casting(precision, x.device):
            outputs = model_output(model(x))
            value = loss(outputs, y)
        if value.shape != copies:
            raise ValueError(
                f"the loss should be {'one mean per copy' if copies else 'the mean over a batch'}, of shape "
                f"{copies}; found {tuple(value.shape)}. Stacked models take per_copy(loss)."
            )
        return value, None if counted is None else counted(outputs.detach(), y).sum(-1)

    return measure


def casting(precision: Precision, device: torch.device) -> torch.autocast:
    """Inside, a forward runs in bfloat16 where that is the precision; backward passes stay outside.

    >>> with casting("bfloat16", torch.device("cpu")):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


@contextmanager
def products(precision: Precision) -> Iterator[None]:
    """Inside, float32 products and convolutions use TF32 unless the precision is "float32".

    >>> with products("float32"):
    ...     torch.backends.cudnn.allow_tf32
    False
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest" if precision == "float32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@contextmanager
def _evaluating(model: nn.Module, precision: Precision) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad(), products(precision):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
