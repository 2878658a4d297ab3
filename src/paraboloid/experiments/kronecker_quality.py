"""How good is a Kronecker product? Each approximation against the exact block, layer by layer, during training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paraboloid import datasets
from paraboloid.curvature.fit import curvature
from paraboloid.curvature.running import Curvature
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import BlockDiagonal
from paraboloid.recipes.figures import Axis, Bars, Figure, Panel, Series
from paraboloid.recipes.log import Log
from paraboloid.recipes.models.mlp import mlp
from paraboloid.recipes.protocol import Card, Results, Target, by_seed
from paraboloid.recipes.summary import Summary

CARD = Card(
    title="Quality of Kronecker approximations, layer by layer",
    source="thesis, section 4.5.2, figure 4.2",
    claim="In an autoencoder, steps from Kronecker factors align with steps from the exact Gauss-Newton block of a "
    "layer: worse the further it is from the output, well around the bottleneck; factored damping does not hurt.",
    reported="curves of cosine similarity for the eight layers, K-FAC and KFRA, exact and factored damping",
    cost={"smoke": "10 s", "laptop": "6 min on two cores", "paper": "about 1 h on one large GPU"},
    differences=(
        "The relative Frobenius error is measured beside the cosine, and more approximations: exact factors (KFLR), 1, "
        "10 and 100 drawn labels, a random projection, corrected eigenvalues, the diagonal. KFRA is missing.",
        "The thesis follows its own second-order optimisers; here Adam trains (learning rate 1e-3), so that all "
        "approximations are compared at the same points.",
        "Damping and activation are not printed: 1e-3 and tanh. The loss has no weight penalty. Pixels above one half "
        "count as ones.",
        "laptop and smoke use 8 × 8 digits and narrow layers (64-50-30-20-10-…); the exact block is written down. "
        "At paper scale (MNIST) it is used in products: steps by conjugate gradients, errors estimated.",
    ),
)

EXACT = "kronecker, exact"
FACTORED = "kronecker, factored damping"
METHODS: dict[str, dict[str, Any]] = {
    EXACT: {"structure": "kronecker"},
    "kronecker, 1 draw": {"structure": "kronecker", "estimate": "sampled", "samples": 1},
    "kronecker, 10 draws": {"structure": "kronecker", "estimate": "sampled", "samples": 10},
    "kronecker, 100 draws": {"structure": "kronecker", "estimate": "sampled", "samples": 100},
    "kronecker, 1 projection": {"structure": "kronecker", "estimate": "projected", "samples": 1},
    "eigenkronecker": {"structure": "eigenkronecker"},
    "diagonal": {"structure": "diagonal"},
}


@dataclass(frozen=True)
class Config:
    """`code` holds the widths down to the bottleneck; the decoder mirrors them. `written` bounds dense exact blocks."""

    data: Literal["mnist", "digits"] = "mnist"
    code: tuple[int, ...] = (1000, 500, 250, 30)
    train: int = 50_000
    batch: int = 1000
    lr: float = 1e-3
    snapshots: tuple[int, ...] = (0, 100, 500, 1000, 2500, 5000)
    damping: float = 1e-3
    written: int = 4000
    samples: int = 30  # random vectors behind each estimated Frobenius norm
    seeds: tuple[int, ...] = (0, 1, 2)


SCALES = {
    "smoke": Config("digits", (16, 6), 400, 100, snapshots=(0, 40), seeds=(0, 1)),
    "laptop": Config("digits", (50, 30, 20, 10), 1500, 500, snapshots=(0, 50, 200, 500, 1000, 2000)),
    "paper": Config(),
}


def run(config: Config, log: Log) -> Results:
    """Every seed trains one autoencoder; at each snapshot every layer and approximation is measured."""
    rows = [row for cell in log.map(one_seed, by_seed(config)) if cell is not None for row in cell["rows"]]
    layers = 2 * len(config.code)
    values = _values(rows, config, layers)
    tables = {f"layer {layer}": _table(rows, config, layer) for layer in range(1, layers + 1)}
    return Results(values, tables)


def one_seed(config: Config, log: Log) -> dict[str, Any]:
    """Train, stopping at the snapshots to measure."""
    (seed,) = config.seeds
    generator = torch.Generator().manual_seed(seed)
    x = _pixels(config, log)
    widths = (x.shape[1], *config.code)
    model = mlp((*widths, *reversed(widths[:-1])), activation="tanh", generator=generator).to(log.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    rows: list[dict[str, Any]] = []
    kept = {"model": model, "optimizer": optimizer, "generator": generator, "rows": rows}
    for step in log.loop(config.snapshots[-1] + 1, "training", **kept):
        batch = x[torch.randint(len(x), (config.batch,), generator=generator).to(log.device)]
        loss = _loss(model, batch)
        if step in config.snapshots:
            rows += [{"step": step, "seed": seed, **row} for row in _measure(model, x[: config.batch], config, seed)]
            log(step=step, loss=loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {"rows": rows}


def _pixels(config: Config, log: Log) -> Tensor:
    """Binary pixels (N, D) of the training images."""
    data = datasets.digits(device=log.device) if config.data == "digits" else datasets.mnist(device=log.device)
    log.uses(data)
    images = data.train.x[: config.train].flatten(1).float()
    return (images > images.max() / 2).float()


def _loss(model: nn.Module, x: Tensor) -> Tensor:
    """Cross-entropy, summed over the pixels and averaged over the images, as the curvature's likelihood counts."""
    return F.binary_cross_entropy_with_logits(model(x), x, reduction="sum") / len(x)


def _measure(model: nn.Module, x: Tensor, config: Config, seed: int) -> list[dict[str, Any]]:
    """Error and alignment for every layer and approximation."""
    names_of_all = [name for name, _ in model.named_parameters()]
    gradients = dict(zip(names_of_all, torch.autograd.grad(_loss(model, x), list(model.parameters())), strict=True))
    rows = []
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    for number, layer in enumerate(layers, 1):
        names = [f"{layer}.weight", f"{layer}.bias"]
        g = torch.cat([gradients[name].flatten() for name in names])
        written = len(g) <= config.written
        exact = _fit(model, x, names, seed, structure="dense" if written else "products").operator
        size, step = _norm(exact, written, config, seed), (exact + config.damping).solve(g)
        for method, arguments in METHODS.items():
            fit = _fit(model, x, names, seed, **arguments).operator
            error = _norm(exact - fit, written, config, seed) / size
            damped = {method: fit + config.damping}
            if method == EXACT:
                damped[FACTORED] = cast(BlockDiagonal, fit).damped(config.damping)
            for name, operator in damped.items():
                cosine = float(F.cosine_similarity(operator.solve(g), step, dim=0))
                rows.append({"layer": number, "method": name, "error": error, "cosine": cosine})
    return rows


def _fit(model: nn.Module, x: Tensor, names: list[str], seed: int, **arguments: Any) -> Curvature:
    generator = torch.Generator(x.device).manual_seed(seed)
    return curvature(model, (x, x), likelihood="bernoulli", params=names, generator=generator, **arguments)


def _norm(operator: LinearOperator, written: bool, config: Config, seed: int) -> float:
    """The Frobenius norm: exact where the block is written down, estimated by random products elsewhere."""
    if written:
        return float(operator.frobenius())
    generator = torch.Generator(operator.device).manual_seed(seed)
    return float(operator.estimate_frobenius(config.samples, generator).value)


def _values(rows: Sequence[dict[str, Any]], config: Config, layers: int) -> dict[str, list[float]]:
    """One number for each seed: means over snapshots after the first, and over layers."""
    trained = [row for row in rows if row["step"] > 0]

    def mean(seed: int, what: str, method: str, among: Sequence[int] = range(1, layers + 1)) -> float:
        chosen = [r[what] for r in trained if r["seed"] == seed and r["method"] == method and r["layer"] in among]
        return math.fsum(chosen) / len(chosen)

    middle = (layers // 2, layers // 2 + 1)
    outer = [layer for layer in range(1, layers + 1) if layer not in middle]
    values: dict[str, list[float]] = {}
    for method in (*METHODS, FACTORED):
        values[f"cosine: {method}"] = [mean(seed, "cosine", method) for seed in config.seeds]
        if method != FACTORED:
            values[f"error: {method}"] = [mean(seed, "error", method) for seed in config.seeds]
    for name, one, other in (
        ("last layer − first layer", (EXACT, [layers]), (EXACT, [1])),
        ("bottleneck − other layers", (EXACT, middle), (EXACT, outer)),
        ("factored − exact damping", (FACTORED, outer + list(middle)), (EXACT, outer + list(middle))),
        ("exact − 1 draw", (EXACT, outer + list(middle)), ("kronecker, 1 draw", outer + list(middle))),
        ("exact − diagonal", (EXACT, outer + list(middle)), ("diagonal", outer + list(middle))),
    ):
        values[f"cosine: {name}"] = [mean(seed, "cosine", *one) - mean(seed, "cosine", *other) for seed in config.seeds]
    values["error: exact − eigenkronecker"] = [
        a - b for a, b in zip(values[f"error: {EXACT}"], values["error: eigenkronecker"], strict=True)
    ]
    return values


def _table(rows: Sequence[dict[str, Any]], config: Config, layer: int) -> dict[str, list[float]]:
    """For the figures: the mean and the extremes over seeds, by method and step."""
    table: dict[str, list[float]] = {"step": list(config.snapshots)}
    for method in (*METHODS, FACTORED):
        for what in ("cosine", "error"):
            chosen = [r for r in rows if r["layer"] == layer and r["method"] == method]
            by_step = [[r[what] for r in chosen if r["step"] == step] for step in config.snapshots]
            table[f"{what}, {method}"] = [round(math.fsum(found) / len(found), 6) for found in by_step]
            table[f"{what} low, {method}"] = [round(min(found), 6) for found in by_step]
            table[f"{what} high, {method}"] = [round(max(found), 6) for found in by_step]
    return table


def _positive(value: str, statement: str, published: str, source: str = "section 4.5.2, figure 4.2") -> Target:
    return Target(value, statement, published, low=0.0, source=source)


TARGETS = (
    _positive(
        "cosine: last layer − first layer", "alignment falls with the distance from the output", "lower further away"
    ),
    _positive(
        "cosine: bottleneck − other layers", "layers at the bottleneck are well aligned", "always relatively high"
    ),
    _positive(
        "cosine: factored − exact damping",
        "factored damping aligns better than exact damping",
        "better on MNIST, FACES",
    ),
    Target(
        "cosine: exact − 1 draw",
        "one drawn label aligns as well as exact factors",
        "almost identical (section 4.5.3, other network)",
        low=-0.05,
        high=0.05,
        source="section 4.5.3; ± 0.05 is our reading of 'almost'",
    ),
    _positive("cosine: exact − diagonal", "Kronecker factors align better than the diagonal", "–", "not in the thesis"),
    _positive(
        "error: exact − eigenkronecker",
        "corrected eigenvalues never lose in Frobenius norm",
        "–",
        "a theorem, docs/maths",
    ),
)


def figures(results: Results) -> Sequence[Figure]:
    """Figure 4.2 with more methods, the same for the error, and the means over layers."""
    alignment = _by_layer(results, "cosine", Axis("cosine with the exact step"), (*METHODS, FACTORED))
    error = _by_layer(results, "error", Axis("relative Frobenius error", "log"), tuple(METHODS))
    names = (*METHODS, FACTORED)
    means = Bars(
        "Mean over layers and trained snapshots",
        list(names),
        Axis("cosine"),
        {"cosine": [Summary.of(results.values[f"cosine: {name}"]).mean for name in names]},
        {"cosine": [Summary.of(results.values[f"cosine: {name}"]).standard_error for name in names]},
    )
    band = "Mean over seeds; band: smallest and largest."
    return (
        Figure(
            "alignment", "Alignment of the step (figure 4.2)", f"Cosine with the exact block's step. {band}", alignment
        ),
        Figure("error", "Distance from the exact block", f"‖K − F‖ / ‖F‖ in Frobenius norm. {band}", error),
        Figure("means", "Which approximation aligns best", "Bars: one standard error over seeds.", (means,)),
    )


def _by_layer(results: Results, what: str, y: Axis, methods: Sequence[str]) -> list[Panel]:
    panels = []
    for layer, table in results.tables.items():
        x = [step + 1 for step in table["step"]]
        series = tuple(
            Series(m, x, table[f"{what}, {m}"], table[f"{what} low, {m}"], table[f"{what} high, {m}"]) for m in methods
        )
        panels.append(Panel(layer, Axis("update + 1", "log"), y, series))
    return panels
