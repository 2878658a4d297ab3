"""How time and memory grow with the data and with the classes: slopes in double-logarithmic scale.

An MLP 256-256-256-C. The data come in batches of 256, so memory should not depend on N; columns are made one at
a time, so it should not depend on C beyond the outputs themselves. Every size is measured in rounds over all
sizes, and the slope is that of the minima.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import measure
import torch
from torch import nn

import paraboloid

BATCH, WIDTH = 256, 256
EXAMPLES = (512, 1024, 2048, 4096)
CLASSES = (10, 20, 40, 80)
FITS = {
    "Kronecker, exact": dict(structure="kronecker", estimate="exact"),
    "Kronecker, sampled": dict(structure="kronecker", estimate="sampled"),
    "eigen-Kronecker, exact": dict(structure="eigenkronecker", estimate="exact"),
    "diagonal, exact": dict(structure="diagonal", estimate="exact"),
}
PAGE = """# Growth

Written by `./x bench growth`; do not edit.

{machine}. {versions}. Measured on {date}, minima of {rounds} rounds.

An MLP 256-256-256-C, batches of 256. The slope is d log(time) / d log(size) by least squares over the four sizes: 1
is linear. Memory is the peak of one call beyond what was held before, in megabytes.

"""


def fit(examples: int, classes: int, device: str, options: dict[str, str]) -> Callable[[], Any]:
    """A call over data of this size."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes)]
        model = nn.Sequential(*layers).to(device)
    x = torch.rand(examples, WIDTH, generator=generator).to(device)
    y = torch.randint(classes, (examples,), generator=generator).to(device)
    data = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
    return lambda: paraboloid.curvature(model, data, likelihood="categorical", **options).trace()


def slope(sizes: tuple[int, ...], seconds: list[float]) -> float:
    """Least squares of log(seconds) on log(sizes)."""
    a, b = [math.log(s) for s in sizes], [math.log(s) for s in seconds]
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    return sum((p - mean_a) * (q - mean_b) for p, q in zip(a, b, strict=True)) / sum((p - mean_a) ** 2 for p in a)


def row(name: str, axis: str, device: str, rounds: int) -> dict[str, Any]:
    """One fit over the four sizes of one axis."""
    sizes = EXAMPLES if axis == "N" else CLASSES
    calls = [fit(n, 10, device, FITS[name]) if axis == "N" else fit(1024, n, device, FITS[name]) for n in sizes]
    for call in calls:
        call()
    seconds = [
        min(times) for times in zip(*[[measure.clock(c, device) for c in calls] for _ in range(rounds)], strict=True)
    ]
    peaks = [measure.peak(call, device) for call in calls]
    return {
        "fit": name,
        "axis": axis,
        "sizes": sizes,
        "seconds": seconds,
        "megabytes": peaks,
        "slope": slope(sizes, seconds),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """A row for every fit and axis."""
    lines = ["| fit | grows with | sizes | milliseconds | slope | megabytes |", "|---|---|---|---|---|---|"]
    for found in rows:
        cells = [
            found["fit"],
            found["axis"],
            ", ".join(map(str, found["sizes"])),
            ", ".join(f"{1e3 * s:.3g}" for s in found["seconds"]),
            f"{found['slope']:.2f}",
            ", ".join(f"{m:.0f}" for m in found["megabytes"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run(device: str, rounds: int) -> list[dict[str, Any]]:
    """All fits along both axes, with a line of progress for each."""
    rows = []
    for name in FITS:
        for axis in ("N", "C"):
            rows.append(row(name, axis, device, rounds))
            print(f"{name:24} {axis}  slope {rows[-1]['slope']:.2f}  MB {rows[-1]['megabytes']}", flush=True)
    return rows
