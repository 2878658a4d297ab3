"""Small invented recipes and records: nothing here was measured."""

import math
from dataclasses import dataclass

from paraboloid.recipes.figures import Axis, Bars, Figure, Panel, Series, Surface
from paraboloid.recipes.protocol import Card, Recipe, Results, Target
from paraboloid.recipes.records import Cell, Provenance, Record

METHODS = ("sgd", "adam", "kfac", "ekfac", "laplace", "swag", "ensemble", "sgld")
STEPS = Axis("steps", "log")


@dataclass(frozen=True)
class Config:
    seeds: int = 3


def never(config, log):
    raise AssertionError("the report runs no recipe")


def recipe(figures=lambda results: [], targets=(), **card) -> Recipe:
    texts = dict(
        title="The factors of a linear network are exact",
        source="an invented thesis, section 3.6",
        claim="For a network with one linear layer the Kronecker-factored curvature equals the Gauss-Newton matrix.",
        reported="All entries agree to rounding; the accuracy of the resulting posterior is 69.7 %.",
        cost={"smoke": "2 s", "laptop": "40 s on two cores", "paper": "3 h on one GPU"},
        differences=("ten seeds instead of three, for an error", "float64, since the claim is about rounding"),
    )
    return Recipe("linear_factors", Card(**texts | card), Config, {}, never, tuple(targets), figures)


TARGETS = (
    Target("difference", "all entries of the two matrices agree", "equal", high=1e-9, source="eq. (3.39)"),
    Target("accuracy", "accuracy of the posterior", "69.7 %", 0.69, 0.71, "table 2"),
    Target("speed", "it is faster than the dense matrix", "> 2×", low=2.0),
    Target("regret", "regret stays below that of uniform play", "0.35", high=0.4, source="figure 4"),
)
VALUES = {
    "difference": (2.1e-12, 3.4e-12, 1.9e-12, 2.6e-12),
    "accuracy": (0.7012, 0.6988, 0.6969, 0.7001),
    "speed": (1.02, 1.11, 0.97, 1.05),
    "regret": (0.36, 0.49, 0.31, 0.44),
    "seconds": (12.5,),
}
PROVENANCE = Provenance(
    version="0.2.0",
    commit="4be1c0ffee4be1c0ffee",
    source="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    data={"digits": "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"},
    machine={"processor": "An invented processor, 8 cores", "cores": 8, "threads": 2, "memory": "32 GiB"},
    versions={"python": "3.12.4", "torch": "2.13.0", "numpy": "2.4.6"},
    started="2026-03-14T09:26:53+00:00",
    seconds=5025.0,
    sessions=3,
    command="paraboloid run linear_factors --scale laptop --seed 0",
)
CONFIG = {"seeds": 10, "model": {"widths": [64, 32, 10], "activation": "tanh"}, "damping": None, "steps": [{"lr": 0.1}]}
CELLS = (
    Cell("seed 0", "finished", 12.0),
    Cell("seed 1", "finished", 11.0),
    Cell("seed 2", "skipped", 3.0, "diverged at step 12"),
    Cell("seed 3", "failed", 1.0, "ValueError: the damping should be positive; found 0.0. Try 1e-4."),
)


def record(**parts) -> Record:
    whole = dict(
        recipe="linear_factors",
        scale="laptop",
        config=CONFIG,
        config_hash="5d41402abc4b2a76b9719d911017c592",
        provenance=PROVENANCE,
        values=VALUES,
        tables={"curves": {"step": [1, 2, 3], "loss": [3.0, 2.0, 1.0]}},
        cells=CELLS,
    )
    return Record(**whole | parts)


def wave(index: int, count: int) -> list[float]:
    """Different for each index, smooth, positive."""
    return [
        math.exp(-2.0 * i / count) * (1.2 + 0.1 * index + 0.08 * math.sin(0.05 * i * (index + 1))) for i in range(count)
    ]


def curves(count: int = 40, methods: tuple[str, ...] = METHODS[:3], bands: bool = True, title: str = "Loss") -> Panel:
    series = []
    for index, name in enumerate(methods):
        y = wave(index, count)
        band = dict(low=[v * 0.93 for v in y], high=[v * 1.07 for v in y]) if bands else {}
        series.append(Series(name, [float(i + 1) for i in range(count)], y, **band))
    return Panel(title, STEPS, Axis("training loss", "log"), series, levels=[("the source's", 0.4)])


def calibration(methods: tuple[str, ...] = METHODS[:3]) -> Bars:
    values = {name: [0.1 + 0.02 * i + 0.05 * k for k in range(3)] for i, name in enumerate(methods)}
    errors = {name: [0.01, 0.02, 0.015] for name in methods}
    return Bars("Calibration error", ["in distribution", "rotated", "another data set"], Axis("ECE"), values, errors)


def landscape(rows: int = 24, columns: int = 30) -> Surface:
    xs = [10 ** (-4 + 5 * i / (columns - 1)) for i in range(columns)]
    ys = [0.1 * (i + 1) for i in range(rows)]
    z = [[0.2 + (math.log10(x) + 1.5) ** 2 / 10 + (y - 1.2) ** 2 / 4 for x in xs] for y in ys]
    return Surface("Validation loss", Axis("damping", "log"), Axis("temperature"), xs, ys, z, "loss")


def gallery(results: Results) -> list[Figure]:
    """One figure of each kind, and one in which the kinds stand side by side."""
    cloud = [
        Series(name, [0.1 * i for i in range(20)], [0.05 * i * (k + 1) for i in range(20)], mark="points")
        for k, name in enumerate(METHODS[:5])
    ]
    steps = [
        Series("kfac", [0, 1, 2, 3], [0.2, 0.5, 0.8, 1.0], mark="steps"),
        Series("sgd", [0, 1, 2, 3], [0.1, 0.2, 0.6, 1.0], mark="steps"),
    ]
    return [
        Figure("race", "Loss against steps", "Mean and standard error over ten seeds.", [curves()]),
        Figure(
            "sides",
            "Side by side",
            "Curves, calibration and a cloud of points; one legend switches all three.",
            [
                curves(60, METHODS[:5]),
                calibration(METHODS[:5]),
                Panel("Entropy", Axis("angle"), Axis("entropy, nats"), cloud),
            ],
        ),
        Figure("valley", "Where the damping is best", "The valley is wide in the damping.", [landscape()]),
        Figure(
            "steps",
            "Distribution of the entropy",
            "Empirical distribution functions.",
            [Panel("", Axis("entropy"), Axis("share"), steps)],
        ),
    ]


def entry(**parts):
    return recipe(gallery, TARGETS), record(**parts)
