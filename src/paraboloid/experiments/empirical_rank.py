"""The Gauss-Newton matrix of N points and C outputs has rank at most N · C, however many parameters there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paraboloid.curvature.fit import curvature
from paraboloid.recipes.figures import Axis, Figure, Panel, Series
from paraboloid.recipes.log import Log
from paraboloid.recipes.models.mlp import mlp
from paraboloid.recipes.protocol import Card, Results, Target, by_seed

CARD = Card(
    title="The rank of the empirical Gauss-Newton matrix",
    source="thesis, section 3.6, (3.39)",
    claim="One point's Gauss-Newton matrix has at most the rank of the curvature at the outputs, so N points give at "
    "most N times as much, and the matrix of a large network is singular.",
    reported="rank ≤ N · dim(h_L); most pronounced for one output",
    cost={"smoke": "3 s", "laptop": "1 min", "paper": "10 min on two cores; no GPU needed"},
    differences=(
        "The thesis gives the bound without an experiment; sizes and data are ours (normal inputs, random labels).",
        "The softmax curvature diag(p) − ppᵀ has rank C − 1: its bound is N · (C − 1), one less a point than printed.",
        "The empirical Fisher (one gradient for each point) is measured beside it.",
    ),
)


@dataclass(frozen=True)
class Config:
    """A tanh network inputs – hidden – hidden – outputs, and the numbers of points that are tried."""

    inputs: int = 10
    hidden: int = 24
    outputs: int = 5
    points: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


SCALES = {
    "smoke": Config(hidden=6, outputs=3, points=(1, 2, 4, 16, 64, 128), seeds=(0, 1, 2)),
    "laptop": Config(hidden=14, points=(1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512)),
    "paper": Config(),
}
# what is measured: likelihood, estimate, and the rank that one point can add
KINDS = {
    "square loss": ("mse", "exact", lambda config: config.outputs),
    "softmax": ("categorical", "exact", lambda config: config.outputs - 1),
    "one logistic output": ("bernoulli", "exact", lambda config: 1),
    "empirical Fisher, softmax": ("categorical", "empirical", lambda config: 1),
}


def run(config: Config, log: Log) -> Results:
    """Ranks for every seed, loss and number of points."""
    cells = [cell for cell in log.map(one_seed, by_seed(config)) if cell is not None]
    values: dict[str, list[float]] = {}
    tables: dict[str, dict[str, list[float]]] = {}
    for kind in KINDS:
        rows = [cell[kind] for cell in cells]
        values[f"{kind}: largest rank / bound"] = [
            max(r / b for r, b in zip(c["rank"], c["bound"], strict=True)) for c in rows
        ]
        values[f"{kind}: rank / bound of one point"] = [c["rank"][0] / c["bound"][0] for c in rows]
        values[f"{kind}: share of flat directions, {config.points[0]} point"] = [
            1 - c["rank"][0] / c["size"] for c in rows
        ]
        columns = list(zip(*(c["rank"] for c in rows), strict=True))
        tables[kind] = {
            "points": list(config.points),
            "rank": [math.fsum(column) / len(column) for column in columns],
            "low": [min(column) for column in columns],
            "high": [max(column) for column in columns],
            "bound": rows[0]["bound"],
            "size": [rows[0]["size"]] * len(config.points),
        }
    return Results(values, tables)


def one_seed(config: Config, log: Log) -> dict[str, Any]:
    """The rank of the matrix of the first N points, for every N and every loss."""
    (seed,) = config.seeds
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(max(config.points), config.inputs, generator=generator, dtype=torch.float64).to(log.device)
    found: dict[str, Any] = {}
    for kind, (likelihood, estimate, per_point) in KINDS.items():
        outputs = 1 if likelihood == "bernoulli" else config.outputs
        widths = (config.inputs, config.hidden, config.hidden, outputs)
        model = mlp(widths, activation="tanh", generator=generator).double().to(log.device)
        y = _targets(likelihood, len(x), outputs, generator).to(log.device)
        size = sum(p.numel() for p in model.parameters())
        ranks = []
        for n in config.points:
            matrix = curvature(model, (x[:n], y[:n]), likelihood=likelihood, structure="dense", estimate=estimate)
            ranks.append(int(torch.linalg.matrix_rank(matrix.dense(), hermitian=True)))
            log(seed=seed, kind=kind, points=n, rank=ranks[-1])
        found[kind] = {"rank": ranks, "bound": [n * per_point(config) for n in config.points], "size": size}
    return found


def _targets(likelihood: str, count: int, outputs: int, generator: torch.Generator) -> Tensor:
    if likelihood == "mse":
        return torch.randn(count, outputs, generator=generator, dtype=torch.float64)
    if likelihood == "bernoulli":
        return torch.randint(2, (count, 1), generator=generator).double()
    return torch.randint(outputs, (count,), generator=generator)


TARGETS = (
    *(
        Target(
            f"{kind}: largest rank / bound",
            f"{kind}: the rank stays within its bound for every N",
            "≤ 1",
            high=1.0,
            source="(3.39)",
        )
        for kind in KINDS
    ),
    Target(
        "softmax: rank / bound of one point",
        "softmax: one point reaches C − 1",
        "rank(𝒢) ≤ C (printed for any loss)",
        low=1.0,
        high=1.0,
        source="(3.39), with the rank of diag(p) − ppᵀ",
    ),
)


def figures(results: Results) -> Sequence[Figure]:
    """Rank against the number of points, one panel for each loss."""
    panels = []
    for kind, table in results.tables.items():
        size = table["size"][0]
        bound = [min(b, size) for b in table["bound"]]
        series = (
            Series("measured", table["points"], table["rank"], table["low"], table["high"]),
            Series("bound", table["points"], bound),
        )
        panels.append(Panel(kind, Axis("points", "log"), Axis("rank", "log"), series, (("parameters", size),)))
    caption = (
        "The rank follows its bound until the network's own symmetries, and then its size, hold it back. "
        "Band: smallest and largest of the seeds."
    )
    return (Figure("rank", "Rank against the number of points", caption, panels),)
