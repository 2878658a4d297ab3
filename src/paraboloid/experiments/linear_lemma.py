"""Deep linear networks: the scaled block step solves the Gauss-Newton system, whose matrix has no inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from paraboloid.curvature.fit import curvature
from paraboloid.recipes.figures import Axis, Figure, Panel, Series
from paraboloid.recipes.log import Log
from paraboloid.recipes.protocol import Card, Results, Target, by_seed

CARD = Card(
    title="Lemma 4.1: block steps of deep linear networks",
    source="thesis, section 4.2, lemma 4.1",
    claim="For a linear network of L layers of one width, without biases and with constant output curvature, the full "
    "Gauss-Newton step is the block-diagonal step divided by L.",
    reported="Ḡ⁻¹V = (1/L) Ḡ_diag⁻¹V for every gradient V",
    cost={"smoke": "2 s", "laptop": "10 s", "paper": "20 s on two cores; no GPU needed"},
    differences=(
        "Ḡ⁻¹ does not exist for two layers or more: the rank of Ḡ is at most d² of its L·d² rows. What holds is that "
        "(1/L) Ḡ_diag⁻¹V is one solution U of ḠU = V; that is measured beside the printed equation.",
        "It is not the shortest solution, which damping tends to: the distance is measured too.",
        "A constant output curvature is not needed for this: every layer's step changes the same linear map. So a "
        "softmax is measured too (there Ḡ_diag is singular, and Ḡ_diag⁺ takes its place).",
        "The thesis prints no experiment: width, data and weights are ours (normal, weights near a random rotation).",
    ),
)


@dataclass(frozen=True)
class Config:
    """Width d, the numbers of layers L that are tried, and points enough for an invertible input covariance."""

    width: int = 6
    layers: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    points: int = 60
    dampings: tuple[float, ...] = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
    seeds: tuple[int, ...] = tuple(range(20))


SCALES = {
    "smoke": Config(width=3, layers=(1, 2, 3), points=12, seeds=(0, 1, 2)),
    "laptop": Config(width=4, layers=(1, 2, 3, 4), seeds=tuple(range(10))),
    "paper": Config(),
}


def run(config: Config, log: Log) -> Results:
    """Every depth for every seed."""
    cells = [cell for cell in log.map(one_seed, by_seed(config)) if cell is not None]
    values = {name: [cell["values"][name] for cell in cells] for name in cells[0]["values"]}
    tables = {
        depth: {"damping": list(config.dampings)}
        | {
            name: [
                math.fsum(column) / len(cells)
                for column in zip(*(c["damped"][depth][name] for c in cells), strict=True)
            ]
            for name in ("to the printed solution", "to the pseudo-inverse")
        }
        for depth in cells[0]["damped"]
    }
    return Results(values, tables)


def one_seed(config: Config, log: Log) -> dict[str, Any]:
    """Rank, residual and distances for each depth."""
    (seed,) = config.seeds
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(config.points, config.width, generator=generator, dtype=torch.float64).to(log.device)
    y = torch.randn(config.points, config.width, generator=generator, dtype=torch.float64).to(log.device)
    values: dict[str, float] = {}
    damped: dict[str, Any] = {}
    for depth in config.layers:
        model = _network(config.width, depth, generator).to(log.device)
        measured, table = _measure(model, (x, y), "mse", config)
        values |= {f"{depth} layers: {name}": value for name, value in measured.items()}
        if depth > 1:
            damped[f"{depth} layers"] = table
    labels = torch.randint(config.width, (config.points,), generator=generator).to(log.device)
    measured, _ = _measure(_network(config.width, 2, generator).to(log.device), (x, labels), "categorical", config)
    values["2 layers, softmax: residual"] = measured["residual"]
    return {"values": values, "damped": damped}


def _network(width: int, depth: int, generator: torch.Generator) -> nn.Module:
    """Weights that are well invertible: a random rotation plus a small normal matrix."""
    layers = [
        nn.Linear(width, width, bias=False, dtype=torch.float64, device="meta").to_empty(device="cpu")
        for _ in range(depth)
    ]
    for layer in layers:
        drawn = torch.randn(2, width, width, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.linalg.qr(drawn[0])[0] + 0.2 * drawn[1] / math.sqrt(width))
    return nn.Sequential(*layers)


def _measure(model: nn.Module, data: tuple[Tensor, Tensor], loss: str, config: Config) -> tuple[dict[str, float], Any]:
    """Solve ḠU = V the lemma's way, by the pseudo-inverse and by damping, and compare."""
    depth = len(list(model.children()))
    whole = curvature(model, data, likelihood=loss, structure="dense")
    blocks = curvature(model, data, likelihood=loss, structure="block")
    G, V = whole.dense(), _gradient(model, data, loss)
    # softmax blocks are singular (adding a constant to all outputs changes nothing): pinv gives their shortest step
    printed = torch.linalg.pinv(blocks.dense(), hermitian=True, rtol=1e-12) @ V / depth
    shortest = torch.linalg.pinv(G, hermitian=True, rtol=1e-12) @ V
    values = {
        "rank / rows": int(torch.linalg.matrix_rank(G, hermitian=True)) / len(G),
        "residual": float((G @ printed - V).norm() / V.norm()),
        "distance to the pseudo-inverse": float((printed - shortest).norm() / shortest.norm()),
    }
    steps = [(whole + damping).solve(V) for damping in config.dampings]
    table = {
        "to the printed solution": [float((step - printed).norm() / shortest.norm()) for step in steps],
        "to the pseudo-inverse": [float((step - shortest).norm() / shortest.norm()) for step in steps],
    }
    return values, table


def _gradient(model: nn.Module, data: tuple[Tensor, Tensor], loss: str) -> Tensor:
    x, y = data
    function = nn.functional.cross_entropy if loss == "categorical" else nn.functional.mse_loss
    return torch.cat([g.flatten() for g in torch.autograd.grad(function(model(x), y), list(model.parameters()))])


def _targets(depth: int) -> tuple[Target, ...]:
    start = f"{depth} layer{'s' * (depth > 1)}"
    solves = f"{start}: (1/L) Ḡ_diag⁻¹V solves ḠU = V"
    shortest = f"{start}: it is the shortest solution, Ḡ⁺V"
    return (
        Target(
            f"{depth} layers: rank / rows", f"{start}: Ḡ can be inverted", "used as Ḡ⁻¹", low=1.0, source="lemma 4.1"
        ),
        Target(f"{depth} layers: residual", solves, "in its proof", high=1e-10, source="proof of lemma 4.1"),
        Target(f"{depth} layers: distance to the pseudo-inverse", shortest, "Ḡ⁻¹V", high=1e-6, source="lemma 4.1"),
    )


TARGETS = (
    *(target for depth in (1, 2, 3) for target in _targets(depth)),
    Target(
        "2 layers, softmax: residual",
        "2 layers, softmax: (1/L) Ḡ_diag⁺V solves ḠU = V, whose curvature is not constant",
        "assumed away",
        high=1e-10,
        source="not in the thesis",
    ),
)


def figures(results: Results) -> Sequence[Figure]:
    """Where damped steps go as the damping falls."""
    panels = []
    for depth, table in results.tables.items():
        names = ("to the printed solution", "to the pseudo-inverse")
        series = tuple(Series(name, table["damping"], table[name]) for name in names)
        panels.append(Panel(depth, Axis("damping", "log"), Axis("distance of the damped step", "log"), series))
    caption = "With less damping the step tends to the pseudo-inverse's solution, not to the lemma's. Means over seeds."
    return (Figure("damping", "Which solution damping chooses", caption, panels),)
