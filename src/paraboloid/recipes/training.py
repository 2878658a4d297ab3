"""The one training loop: epochs in random order over data that lie on the device, reported to a log.

A step is zero_grad, loss, backward, step. Nothing in it waits for the device: losses stay there until the epoch is
over, and one transfer brings them. Whatever changes is handed to the log, so that a run that was stopped goes on bit
for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paraboloid.recipes.evaluation import Precision, class_hits, measurement, products
from paraboloid.recipes.log import Log
from paraboloid.recipes.schedules import Schedule
from paraboloid.recipes.stacked import Loss, Stacked
from paraboloid.spaces.randomness import preserved_random_state


class Diverged(ArithmeticError):
    """The loss became NaN or infinite."""


class Optimizer(Protocol):
    """What the loop asks of an optimiser; every `torch.optim.Optimizer` has it."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...
    def zero_grad(self, set_to_none: bool = True) -> None: ...
    def step(self) -> Any: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> None: ...


class Average(Protocol):
    """Something of `paraboloid.recipes.averaging`."""

    def update(self, epoch: int, model: nn.Module) -> None: ...


Prepare = Callable[[Tensor, torch.Generator], Tensor]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


@dataclass(frozen=True)
class Training:
    """The settings of a training, as plain values that fit into a recipe's config.

    Weight decay is L2 on every parameter, added to the gradient. `precision` is "float32" (no TF32 anywhere), "tf32",
    or "bfloat16" (autocast, float32 parameters).

    >>> Training(epochs=200, batch_size=128, momentum=0.9, schedule=Schedule(drops=(100, 150))).optimizer
    'sgd'
    """

    epochs: int
    batch_size: int
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    schedule: Schedule = field(default_factory=Schedule)
    precision: Precision = "float32"
    channels_last: bool = False
    compile: bool = False
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.optimizer not in ("sgd", "adam"):
            raise ValueError(
                f'`optimizer` should be "sgd" or "adam", found {self.optimizer!r}. Others are given to train by '
                "optimizer=, a function of the parameters."
            )
        if self.optimizer == "adam" and (self.momentum or self.nesterov):
            raise ValueError("Adam has no `momentum` or `nesterov` to set; leave them out, or take optimizer='sgd'.")
        if self.precision not in ("float32", "tf32", "bfloat16"):
            raise ValueError(f'`precision` should be "float32", "tf32" or "bfloat16"; found {self.precision!r}.')
        if self.epochs < 0 or self.batch_size < 1:
            raise ValueError(f"`epochs` should be ≥ 0 and `batch_size` ≥ 1; found {self.epochs}, {self.batch_size}.")

    def build_optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser that the settings name.

        >>> type(Training(1, 1, optimizer="adam").build_optimizer(nn.Linear(1, 1).parameters())).__name__
        'Adam'
        """
        if self.optimizer == "adam":
            return torch.optim.Adam(parameters, self.lr, weight_decay=self.weight_decay, foreach=True)
        return torch.optim.SGD(
            parameters, self.lr, self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov, foreach=True
        )


class History:
    """Mean loss and accuracy of every epoch, while training: (epochs,), or (epochs, K) for K stacked copies.

    >>> history = History()
    >>> history.add(torch.tensor(0.5), None)
    >>> history.loss, history.accuracy
    (tensor([0.5000]), tensor([]))
    """

    def __init__(self) -> None:
        self.loss, self.accuracy = torch.empty(0), torch.empty(0)

    def add(self, loss: Tensor, accuracy: Tensor | None) -> None:
        """One more epoch."""
        self.loss = torch.cat([self.loss, loss[None]]) if len(self.loss) else loss[None]
        if accuracy is not None:
            self.accuracy = torch.cat([self.accuracy, accuracy[None]]) if len(self.accuracy) else accuracy[None]

    def state_dict(self) -> dict[str, Tensor]:
        return {"loss": self.loss, "accuracy": self.accuracy}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.loss, self.accuracy = state["loss"], state["accuracy"]


def train(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    settings: Training,
    log: Log,
    *,
    generator: torch.Generator | Sequence[torch.Generator],
    loss: Loss = F.cross_entropy,
    prepare: Prepare | None = None,
    optimizer: MakeOptimizer | None = None,
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
    average: Average | None = None,
    after_step: Callable[[int], None] | None = None,
    hits: Loss | None = class_hits,
    kept: Mapping[str, Any] | None = None,
    label: str = "training",
) -> History:
    """Trains the model in place and writes one line an epoch to the log; raises `Diverged` if the loss does.

    The model has to be in training mode; parts of it may be in eval mode, and stay there.

    `data` are inputs and targets on the model's device. `generator` draws their order, is passed to `prepare(x,
    generator)`, which makes inputs of raw bytes, and seeds Dropout. A list of generators gives each copy of a
    `Stacked` model its own order. `optimizer` makes one of the parameters, in the place of the settings'; the schedule
    multiplies the learning rates of its groups. `loss` takes the mean over a batch, or gives one mean per copy
    (`per_copy`), whose sum is trained. Where targets are classes, accuracies count `hits`.

    `after_step(step)` comes after each step of the run, `average.update(epoch, model)` and `evaluate(model)`, whose
    numbers join the line, after each epoch. What they change besides the model goes into `kept`, to be restored when
    a run resumes; the average is restored anyway.

    >>> from paraboloid.recipes.log import MemoryLog
    >>> generator, log = torch.Generator().manual_seed(0), MemoryLog()
    >>> x = torch.randn(64, 2, generator=generator)
    >>> y = (x[:, 0] > 0).long()
    >>> history = train(nn.Linear(2, 2), (x, y), Training(epochs=20, batch_size=16), log, generator=generator)
    >>> sorted(log.lines[0]), bool(history.loss[-1] < history.loss[0])
    (['accuracy', 'epoch', 'loss', 'lr'], True)
    """
    run = _Run(model, data, settings, generator, loss, prepare, optimizer, hits, after_step)
    history = History()
    drawing = {f"generator{number}": each for number, each in enumerate(run.generators)}
    changing = {**drawing, **({} if average is None else {"average": average}), **(kept or {})}
    for epoch in log.loop(settings.epochs, label, model=model, optimizer=run.optimizer, history=history, **changing):
        losses, counts = run.epoch(epoch)
        lr = float(run.optimizer.param_groups[0]["lr"])
        _require_finite(losses, epoch, lr)
        mean, accuracy = run.means(losses, counts)
        history.add(mean, accuracy)
        if average is not None:
            average.update(epoch, model)
        told = {} if evaluate is None else evaluate(model)
        log(epoch=epoch, **_line(mean, accuracy), lr=lr, **told)
    return history


@contextmanager
def global_draws(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, the global generators start from `seed`; outside they are as before.

    For what takes no generator: Dropout in training mode draws from the global ones.

    >>> with global_draws(3, torch.device("cpu")):
    ...     first = torch.rand(2)
    >>> with global_draws(3, torch.device("cpu")):
    ...     torch.equal(first, torch.rand(2))
    True
    """
    with preserved_random_state(device):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


class _Run:
    """What stays the same in a training, and one epoch of it."""

    def __init__(
        self,
        model: nn.Module,
        data: tuple[Tensor, Tensor],
        settings: Training,
        generator: torch.Generator | Sequence[torch.Generator],
        loss: Loss,
        prepare: Prepare | None,
        optimizer: MakeOptimizer | None,
        hits: Loss | None,
        after_step: Callable[[int], None] | None,
    ) -> None:
        self.x, self.y = data
        self.settings, self.prepare, self.after_step = settings, prepare, after_step
        self.generators = [generator] if isinstance(generator, torch.Generator) else list(generator)
        self.per_copy = not isinstance(generator, torch.Generator)
        _require_trainable(model, self.x, self.y, settings, self.generators if self.per_copy else None)
        whole, rest = divmod(len(self.x), settings.batch_size)
        self.sizes = [settings.batch_size] * whole + ([rest] if rest and not settings.drop_last else [])
        if not self.sizes:
            raise ValueError(f"drop_last leaves no batch of {settings.batch_size} among {len(self.x)} examples.")
        if settings.channels_last:
            model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.optimizer: Optimizer = (optimizer or settings.build_optimizer)(model.parameters())
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        measure = measurement(model, loss, hits, self.y, settings.precision)
        self.measure = torch.compile(measure, dynamic=False) if settings.compile else measure
        # Dropout's seed, drawn before the log restores the generators: it is the same when a run resumes. Each
        # generator draws one, so that a stacked copy's goes on as it would alone
        draws = [torch.randint(2**62, (), generator=g, device=g.device) for g in self.generators]
        self.seed = int(draws[0])

    def epoch(self, epoch: int) -> tuple[Tensor, Tensor | None]:
        """Losses of its steps, (steps,) or (steps, K), and how many were right; on the CPU, float64."""
        losses, counts = [], []
        with products(self.settings.precision), global_draws(self.seed + epoch, self.x.device):
            for number, (x, y) in enumerate(self._batches(), epoch * len(self.sizes)):
                self._set_rates(number)
                self.optimizer.zero_grad(set_to_none=True)
                loss, count = self.measure(x, y)
                loss.sum().backward()
                self.optimizer.step()
                losses.append(loss.detach())
                counts.append(count)
                if self.after_step is not None:
                    self.after_step(number)
        if counts[0] is None:
            return torch.stack(losses).double().cpu(), None
        both = torch.stack([torch.stack(losses).double(), torch.stack(counts).double()]).cpu()
        return both[0], both[1]

    def means(self, losses: Tensor, counts: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Over the examples of the epoch, whose last batch may be smaller."""
        sizes = torch.tensor(self.sizes, dtype=losses.dtype)
        weights = (sizes / sizes.sum()).view(-1, *[1] * (losses.ndim - 1))
        return (losses * weights).sum(0), None if counts is None else counts.sum(0) / sizes.sum()

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        orders = [torch.randperm(len(self.x), generator=g, device=g.device) for g in self.generators]
        order = torch.stack(orders) if self.per_copy else orders[0]
        for chosen in order[..., : sum(self.sizes)].split(self.settings.batch_size, dim=-1):
            x, y = _chosen(self.x, chosen), _chosen(self.y, chosen)
            if self.prepare is not None and self.per_copy:
                x = torch.stack([self.prepare(part, g) for part, g in zip(x, self.generators, strict=True)])
            elif self.prepare is not None:
                x = self.prepare(x, self.generators[0])
            yield x.contiguous(memory_format=torch.channels_last) if self.settings.channels_last else x, y

    def _set_rates(self, step: int) -> None:
        factor = self.settings.schedule.factor(step, len(self.sizes))
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor


def _chosen(tensor: Tensor, chosen: Tensor) -> Tensor:
    return tensor.index_select(0, chosen.flatten()).unflatten(0, chosen.shape)


def _line(loss: Tensor, accuracy: Tensor | None) -> dict[str, float]:
    """Means over the copies that have not diverged."""
    alive = loss.isfinite()
    line = {"loss": float(loss[alive].mean())}
    return line if accuracy is None else {**line, "accuracy": float(accuracy[alive].mean())}


def _require_trainable(
    model: nn.Module, x: Tensor, y: Tensor, settings: Training, generators: list[torch.Generator] | None
) -> None:
    if not model.training:
        raise RuntimeError("the model should be in training mode, found eval mode. Call model.train() first.")
    if len(x) != len(y):
        raise ValueError(f"inputs and targets should be as many, found {len(x)} and {len(y)}.")
    if generators is not None and (not isinstance(model, Stacked) or len(generators) != model.count):
        copies = model.count if isinstance(model, Stacked) else "no"
        raise ValueError(
            "a list of generators should have one for each copy of a Stacked model; found "
            f"{len(generators)} generators and {copies} copies."
        )
    if settings.channels_last and (isinstance(model, Stacked) or x.ndim != 4):
        raise ValueError(
            f"channels_last needs images (N, C, H, W) and a model that is not stacked; found {tuple(x.shape)} for "
            f"{type(model).__name__}. Leave it out."
        )


def _require_finite(losses: Tensor, epoch: int, lr: float) -> None:
    """Raises where no copy has a finite loss; single copies may diverge, and show it in the history."""
    lost = ~losses.isfinite().view(len(losses), -1).any(1)
    if lost.any():
        step = int(lost.nonzero()[0])
        raise Diverged(
            f"the loss should stay finite; found {float(losses[step].flatten()[0])} at step {step} of epoch {epoch} "
            f"(learning rate {lr:g} at its end). A smaller rate or a longer warm-up may help."
        )
