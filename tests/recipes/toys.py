"""A toy recipe in one file, as a newcomer would write it: two loops one after the other, and every kind of state."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.discovery import load
from paraboloid.recipes.figures import Axis, Figure, Panel, Series
from paraboloid.recipes.log import Skip
from paraboloid.recipes.protocol import Card, Results, Target, by_seed
from paraboloid.recipes.runs import Plan

CARD = Card(
    title="A toy",
    source="nowhere",
    claim="The loss of a small network is positive.",
    reported="> 0",
    cost={"smoke": "1 s", "laptop": "1 s", "paper": "1 s"},
)


@dataclass(frozen=True)
class Config:
    """`cells`: seeds are cells of the run. `failing` and `skipping` ones stop after their first loop."""

    steps: tuple[int, int] = (12, 10)
    dropout: float = 0.5
    cells: bool = True
    pause: float = 0.0
    failing: tuple[int, ...] = ()
    skipping: tuple[int, ...] = ()
    mine: str = ""  # a file whose finder is killed
    seeds: tuple[int, ...] = (0, 1)


SCALES = {"smoke": Config(), "laptop": Config(steps=(20, 20)), "paper": Config(steps=(40, 40))}
TARGETS = (Target("loss", "the loss is positive", "> 0", low=0.0), Target("loss", "it is small", "< 1", high=1.0))


def run(config, log):
    found = log.map(one_seed, by_seed(config)) if config.cells else [one_seed(c, log) for c in by_seed(config)]
    cells = [cell for cell in found if cell is not None]
    curve = [sum(column) / len(column) for column in zip(*(cell["losses"] for cell in cells), strict=True)]
    values = {"loss": [c["losses"][-1] for c in cells], "draw": [c["draw"] for c in cells]}
    return Results(values, {"curve": {"step": list(range(len(curve))), "loss": curve}})


def one_seed(config, log):
    """Train with Dropout and Adam, then go on with SGD; everything that changes is kept."""
    (seed,) = config.seeds
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(8, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    losses, mean, about = [], torch.zeros(2), {0: "nothing yet"}
    adam = torch.optim.Adam(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, config.steps[0])
    kept = {"model": model, "adam": adam, "generator": generator, "losses": losses, "mean": mean, "about": about}
    log(seed=seed, begun=True)
    for step in log.loop(config.steps[0], "adam", schedule=schedule, **kept):
        losses.append(_step(model, adam, generator, config))
        schedule.step()
        mean += torch.tensor([1.0, losses[-1]])
        about[step % 3] = (step, losses[-1])
        log(seed=seed, step=step, loss=losses[-1], draw=torch.rand(()))
    _trouble(config, seed)
    log(seed=seed, mean=float(mean[1] / mean[0]), last=about[0][0])
    sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in log.loop(config.steps[1], "sgd", sgd=sgd, **kept):
        losses.append(_step(model, sgd, generator, config))
        log(seed=seed, step=step, loss=losses[-1])
    log(seed=seed, ended=True)
    log.keep(f"seed-{seed}", {"mean": mean})
    return {"losses": losses, "draw": float(torch.rand(()))}


def _step(model, optimizer, generator, config):
    time.sleep(config.pause)
    x = torch.randn(16, 3, generator=generator)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def _trouble(config, seed):
    if seed in config.failing:
        raise ArithmeticError(f"seed {seed} cannot be divided")
    if seed in config.skipping:
        raise Skip(f"diverged with seed {seed}")
    if config.mine and seed == 1 and Path(config.mine).exists():
        Path(config.mine).unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def figures(results):
    series = Series("toy", results.tables["curve"]["step"], results.tables["curve"]["loss"])
    return [Figure("curve", "Loss", "The mean over seeds.", [Panel("", Axis("step"), Axis("loss", "log"), [series])])]


def plan(out: Path, config: Config | None = None, **circumstances) -> Plan:
    """A run of this file, checkpoints after every step if nothing else is said."""
    how = Circumstances(recipe=str(Path(__file__).resolve()), **{"checkpoint_seconds": 0.0} | circumstances)
    recipe = load(how.recipe)
    changed = {name: getattr(config or Config(), name) for name in Config.__dataclass_fields__}
    return Plan(recipe, "smoke", recipe.config(**changed), out, how, "paraboloid run toys")


def left(folder: Path) -> dict[str, bytes]:
    """What a run leaves that must not depend on its history: streams and results by bytes, artefacts by tensors."""
    names = {"metrics.jsonl", "results.json"}
    found = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.name in names}
    for path in sorted(folder.rglob("artefacts/*")):  # the order of the keys in its header is drawn anew each time
        found[path] = repr({name: tensor.tolist() for name, tensor in load_file(path).items()}).encode()
    return {str(path.relative_to(folder)): content for path, content in found.items()}
