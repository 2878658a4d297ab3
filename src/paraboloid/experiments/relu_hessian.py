"""For ReLU networks the Hessian's diagonal blocks are the Gauss-Newton blocks, and the loss has no smooth maxima."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp, vmap

from paraboloid.curvature.fit import curvature
from paraboloid.recipes.figures import Axis, Bars, Figure, Surface
from paraboloid.recipes.log import Log
from paraboloid.recipes.models.mlp import mlp
from paraboloid.recipes.protocol import Card, Results, Target, by_seed
from paraboloid.spaces.params import Params

CARD = Card(
    title="ReLU networks: the Hessian and the Gauss-Newton matrix, block by block",
    source="thesis, section 3.4, lemmas 3.17 and 3.18, figure 3.1",
    claim="Where the second derivative of every activation is zero, the diagonal blocks of the Hessian are positive "
    "semi-definite (they are those of the Gauss-Newton matrix), so the loss has no differentiable strict maximum.",
    reported="a proof, and three surfaces without smooth maxima",
    cost={"smoke": "5 s", "laptop": "30 s on two cores", "paper": "20 min on two cores; no GPU needed"},
    differences=(
        "The thesis prints no sizes, data or directions: inputs are normal, targets a random function of them with "
        "noise, weights as He starts them.",
        "The thesis shows pictures; here blocks are compared too, and the surfaces' second derivatives.",
        "A tanh network is measured beside the ReLU network, for which the lemma does not hold.",
    ),
)


@dataclass(frozen=True)
class Config:
    """`grid` points a side of each surface, over −`reach` … `reach`."""

    inputs: int = 5
    hidden: int = 20
    outputs: int = 3
    points: int = 50
    grid: int = 161
    reach: float = 2.0
    seeds: tuple[int, ...] = tuple(range(20))


SCALES = {
    "smoke": Config(hidden=6, points=10, grid=21, seeds=(0, 1, 2)),
    "laptop": Config(grid=61, seeds=tuple(range(5))),
    "paper": Config(),
}
ACTIVATIONS = {"ReLU": "relu", "tanh": "tanh"}
PLANES = {"first layer": (0, 0), "second layer": (1, 1), "both layers": (0, 1)}  # the layers that x and y move
CHUNK = 2048  # points of a surface at once


def run(config: Config, log: Log) -> Results:
    """Blocks for every seed; surfaces of the first."""
    cells = log.map(one_seed, by_seed(config))
    found = [cell for cell in cells if cell is not None]
    values = {name: [cell["values"][name] for cell in found] for name in found[0]["values"]}
    return Results(values, found[0]["surfaces"])


def one_seed(config: Config, log: Log) -> dict[str, Any]:
    """Random data, a random network, its Hessian and Gauss-Newton matrix, and three planes through weight space."""
    (seed,) = config.seeds
    generator = torch.Generator().manual_seed(seed)
    values: dict[str, float] = {}
    for name, activation in ACTIVATIONS.items():
        for loss in ("mse", "categorical"):
            model = _network(config, activation, generator, log.device)
            values |= {f"{name}, {loss}: {key}": v for key, v in _blocks(model, config, loss, generator).items()}
    surfaces: dict[str, Any] = {}
    for name, activation in ACTIVATIONS.items():
        drawn, lowest = _surfaces(_network(config, activation, generator, log.device), config, generator)
        values |= {f"{name}, {plane}: lowest curvature / highest": value for plane, value in lowest.items()}
        surfaces |= drawn if name == "ReLU" and seed == config.seeds[0] else {}
    return {"values": values, "surfaces": surfaces}


def _network(config: Config, activation: str, generator: torch.Generator, device: torch.device) -> nn.Module:
    widths = (config.inputs, config.hidden, config.hidden, config.outputs)
    return mlp(widths, activation=activation, generator=generator).double().to(device)


def _data(config: Config, loss: str, generator: torch.Generator, device: torch.device) -> tuple[Tensor, Tensor]:
    x = torch.randn(config.points, config.inputs, generator=generator, dtype=torch.float64)
    if loss == "categorical":
        y = torch.randint(config.outputs, (config.points,), generator=generator)
    else:
        mixing = torch.randn(config.inputs, config.outputs, generator=generator, dtype=torch.float64)
        y = torch.sin(x @ mixing) + 0.1 * torch.randn(config.points, config.outputs, generator=generator).double()
    return x.to(device), y.to(device)


def _blocks(model: nn.Module, config: Config, loss: str, generator: torch.Generator) -> dict[str, float]:
    """Relative Frobenius distance of Hessian and Gauss-Newton matrix, in the layers' blocks and between them."""
    data = _data(config, loss, generator, next(model.parameters()).device)
    likelihood: Literal["mse", "categorical"] = "categorical" if loss == "categorical" else "mse"
    hessian = curvature(model, data, likelihood=likelihood, structure="dense", kind="hessian").dense()
    ggn = curvature(model, data, likelihood=likelihood, structure="dense").dense()
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in model.children() if isinstance(layer, nn.Linear)]
    owner = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(ggn.device)
    inside = owner[:, None] == owner
    difference = hessian - ggn
    lowest = min(float(torch.linalg.eigvalsh(hessian[owner == k][:, owner == k])[0]) for k in range(len(sizes)))
    return {
        "difference inside layers": float(difference[inside].norm() / ggn[inside].norm()),
        "difference between layers": float(difference[~inside].norm() / ggn[~inside].norm()),
        "lowest eigenvalue of a block / largest": lowest / float(torch.linalg.eigvalsh(hessian)[-1]),
        "trace of the Hessian / trace of the Gauss-Newton matrix": float(hessian.trace() / ggn.trace()),
    }


def _surfaces(model: nn.Module, config: Config, generator: torch.Generator) -> tuple[dict[str, Any], dict[str, float]]:
    """The loss over three planes, and its lowest second derivative along their two axes, as a share of the highest."""
    x, y = _data(config, "mse", generator, next(model.parameters()).device)
    params = Params.of(model)
    theta = params.flatten(params.tensors(model)).detach()
    axis = torch.linspace(-config.reach, config.reach, config.grid, dtype=torch.float64, device=theta.device)
    grid = torch.cartesian_prod(axis, axis)  # rows (y, x)
    tables, lowest = {}, {}
    for plane, layers in PLANES.items():
        u, v = (_direction(params, theta, layer, generator) for layer in layers)
        fixed = torch.where((u != 0) | (v != 0), 0.0, theta)

        def loss(point: Tensor, fixed: Tensor = fixed, u: Tensor = u, v: Tensor = v) -> Tensor:
            weights = params.unflatten(fixed + point[0] * v + point[1] * u)
            return (functional_call(model, weights, (x,)) - y).square().mean()

        heights = vmap(loss, chunk_size=CHUNK)(grid).view(config.grid, config.grid)
        along = torch.stack([vmap(_second(loss, k), chunk_size=CHUNK)(grid) for k in (0, 1)])
        lowest[plane] = float(along.min() / along.max())
        rows = [[float(f"{value:.5g}") for value in row] for row in heights.tolist()]
        tables[plane] = {"axis": [round(a, 6) for a in axis.tolist()], "height": rows}
    return tables, lowest


def _direction(params: Params, theta: Tensor, layer: int, generator: torch.Generator) -> Tensor:
    """A random direction in one layer's weights, of the size of the weights that training starts with."""
    names = [name for name in params.names if name.endswith("weight")]
    shape = dict(zip(params.names, params.shapes, strict=True))[names[layer]]
    drawn = math.sqrt(2 / shape[1]) * torch.randn(shape, generator=generator, dtype=torch.float64).to(theta.device)
    zeros = {name: torch.zeros_like(part) for name, part in params.unflatten(theta).items()}
    return params.flatten(zeros | {names[layer]: drawn})


def _second(loss: Callable[[Tensor], Tensor], axis: int) -> Callable[[Tensor], Tensor]:
    """The second derivative along one axis of the plane, by forward mode twice; it does not see kinks."""

    def derivative(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def along(point: Tensor) -> Tensor:
            direction = torch.zeros_like(point)
            direction[axis] = 1
            return jvp(function, (point,), (direction,))[1]

        return along

    return derivative(derivative(loss))


def _equal(activation: str, loss: str) -> Target:
    return Target(
        f"{activation}, {loss}: difference inside layers",
        f"{activation}, {loss}: each layer's Hessian block is its Gauss-Newton block",
        "equal",
        high=1e-10,
        source="lemma 3.17 with (3.30)",
    )


def _different(activation: str, loss: str, where: str, statement: str) -> Target:
    return Target(
        f"{activation}, {loss}: difference {where} layers", statement, "–", low=1e-3, source="not in the thesis"
    )


TARGETS = (
    *(_equal("ReLU", loss) for loss in ("mse", "categorical")),
    *(
        Target(
            f"ReLU, {loss}: lowest eigenvalue of a block / largest",
            f"ReLU, {loss}: each layer's block is positive semi-definite (to rounding)",
            "≥ 0",
            low=-1e-12,
            source="lemma 3.17",
        )
        for loss in ("mse", "categorical")
    ),
    *(
        Target(
            f"ReLU, {plane}: lowest curvature / highest",
            f"ReLU: wherever it is smooth, the surface never curves down along an axis, {plane} varied",
            "no smooth local maxima",
            low=-1e-12,
            source="figure 3.1",
        )
        for plane in PLANES
    ),
    Target(
        "tanh, first layer: lowest curvature / highest",
        "tanh: the surface does curve down, first layer varied",
        "–",
        high=-1e-3,
        source="not in the thesis",
    ),
    _different("ReLU", "mse", "between", "between layers, Hessian and Gauss-Newton matrix differ even for ReLU"),
    _different("tanh", "mse", "inside", "for tanh they differ inside layers too"),
)


def figures(results: Results) -> Sequence[Figure]:
    """Figure 3.1, and the distances."""
    axes = {"first layer": ("x", "y"), "second layer": ("x", "y"), "both layers": ("x, first layer", "y, second layer")}
    surfaces = [
        Surface(
            plane, Axis(axes[plane][0]), Axis(axes[plane][1]), table["axis"], table["axis"], table["height"], "loss"
        )
        for plane, table in results.tables.items()
    ]
    groups = [(activation, loss) for activation in ACTIVATIONS for loss in ("mse", "categorical")]
    heights = {
        where: [_mean(results.values[f"{a}, {loss}: difference {where} layers"]) for a, loss in groups]
        for where in ("inside", "between")
    }
    shown = {f"{where} layers": [max(h, 1e-17) for h in column] for where, column in heights.items()}
    labels = [f"{a}, {loss}" for a, loss in groups]
    bars = Bars("Hessian against Gauss-Newton", labels, Axis("relative Frobenius distance", "log"), shown)
    caption = (
        "The squared error of a ReLU network over planes in weight space (both layers: x scales the first, y the "
        "second): ridges and valleys, no smooth maximum."
    )
    return (
        Figure("surfaces", "Loss surfaces (figure 3.1)", caption, surfaces),
        Figure("blocks", "Where the two matrices differ", "Inside layers ReLU networks agree to rounding.", [bars]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
