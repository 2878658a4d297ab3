"""A first look: the curvature of a small network, in every structure that paraboloid knows.

    ./x demo        # installs what is missing; or, in an environment of your own: python examples/demo.py

A classifier of handwritten digits is trained. Then the curvature of its loss (the Gauss-Newton matrix) is measured
seven times: once written down in full, six times in structures that larger networks can afford. The network is so
small that the full matrix fits, so every shortcut can be compared with the truth.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MISSING = """the demo needs {name}, which is not installed here. Either
    ./x demo                                          (makes its own environment)
or, in the environment of {python}, from the repository's root:
    python -m pip install -c constraints.txt -e '.[demo]'"""

try:
    import torch
    from sklearn.datasets import load_digits
    from torch import Tensor, nn
    from torch.nn import functional as F

    import paraboloid
except ModuleNotFoundError as error:
    sys.exit(MISSING.format(name=error.name, python=sys.executable))

DAMPING = 1e-2  # what is added to the diagonal before solving: without it, a curvature with flat directions is singular
STRUCTURES: dict[str, dict[str, Any]] = {
    "dense": {},
    "block": {},
    "kronecker": {},
    "eigenkronecker": {},
    "diagonal": {},
    "lowrank": {"rank": 50},
    "products": {},
}
Data = tuple[Tensor, Tensor]

# ---------------------------------------------------------------------------- the network and its data


class Net(nn.Module):
    """A convolution, a normalisation, a linear layer, and two parameters that belong to no layer."""

    def __init__(self, width: int, mean_image: Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.mean = nn.Parameter(mean_image, requires_grad=False)  # frozen
        self.gain = nn.Parameter(torch.ones_like(mean_image))  # one factor for every pixel
        self.conv = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(1, width)
        self.head = nn.Linear(16 * width, 10)
        for layer in (self.conv, self.head):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, 1, 8, 8) to ten class scores each, (n, 10)."""
        h = torch.tanh(self.norm(self.conv((x - self.mean) * self.gain)))
        return self.head(h.flatten(1))


def digits(train: int, generator: torch.Generator) -> tuple[Data, Data]:
    """Scikit-learn's 1797 handwritten digits, shuffled: ``train`` of them for training, the others unseen."""
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=generator)
    x = torch.tensor(bunch.images, dtype=torch.get_default_dtype())[order, None] / 16
    y = torch.tensor(bunch.target)[order]
    return (x[:train], y[:train]), (x[train:], y[train:])


def train(model: nn.Module, data: Data, epochs: int, generator: torch.Generator) -> None:
    """An ordinary training loop: paraboloid has no part in it."""
    x, y = data
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    model.eval()


def gradient(model: nn.Module, data: Data) -> Tensor:
    """The gradient of the mean loss as one vector, in the order that every operator here uses."""
    x, y = data
    params = paraboloid.Params.of(model)  # the parameters that require gradients
    loss = F.cross_entropy(model(x), y)
    return params.flatten(torch.autograd.grad(loss, list(params.tensors(model).values())))


# ---------------------------------------------------------------------------- measuring


@dataclass
class Measured:
    """One structure: the curvature, the solution of a damped system, and the seconds that both took."""

    curvature: paraboloid.Curvature
    solution: Tensor
    fit_seconds: float
    solve_seconds: float


def timed(call: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """What the call returns, and the median of its times in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def measure(model: nn.Module, data: Data, g: Tensor, structure: str) -> Measured:
    """Fit the curvature, then solve (curvature + damping) s = g, as a second-order optimiser would."""

    def fit() -> paraboloid.Curvature:
        options = STRUCTURES[structure]
        return paraboloid.curvature(model, data, likelihood="categorical", structure=structure, **options)

    ggn, fit_seconds = timed(fit)
    solution, solve_seconds = timed(lambda: (ggn + DAMPING).solve(g))
    return Measured(ggn, solution, fit_seconds, solve_seconds)


def spectrum(structure: str, ggn: paraboloid.Curvature, generator: torch.Generator) -> tuple[str, str, str]:
    """Trace, largest eigenvalues and condition number, as text."""
    top = ggn.top_eigenpairs(3)[0].tolist()
    largest = "  ".join(f"{value:.2f}" for value in top)
    if structure == "products":  # nothing is written down, so the trace is estimated and the smallest eigenvalue unknown
        estimate = ggn.estimate_trace(100, generator)
        return f"{estimate.value:.2f} ± {estimate.standard_error:.2f}", largest, f"<= {top[0] / DAMPING + 1:.0f}"
    values = (ggn + DAMPING).eigenvalues()
    return f"{ggn.trace():.2f}", largest, f"{values[-1] / values[0]:.0f}"


def distance(structure: str, ggn: paraboloid.Curvature, exact: paraboloid.Curvature, generator: torch.Generator) -> float:
    """The relative Frobenius distance to the exact matrix."""
    if structure == "products":  # from products with ten random vectors: the matrix itself would take minutes
        return float((ggn - exact).estimate_frobenius(10, generator).value / exact.frobenius())
    truth = exact.dense()
    return float((ggn.dense() - truth).norm() / truth.norm())


def step_kept(s: Tensor, g: Tensor, exact: Measured) -> float:
    """How much of the decrease that the exact solution promises the direction s reaches, at its best length."""
    curved = s @ ((exact.curvature + DAMPING) @ s)
    return float((g @ s) ** 2 / curved / (g @ exact.solution))


# ---------------------------------------------------------------------------- printing


def announced(console: Any, names: Iterable[str]) -> Iterator[str]:
    """The names one by one, each announced: by a live line on a terminal, by a line of its own elsewhere."""
    names = list(names)
    with console.status("") as status:
        for number, name in enumerate(names, 1):
            text = f"{name} ({number} of {len(names)})"
            if console.is_terminal:
                status.update(text)
            else:
                console.print(f"... {text}")
            yield name


def show(console: Any, title: str, columns: dict[str, str], rows: Iterable[Iterable[str]]) -> None:
    """A table, and what each of its columns means."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    legend = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for name, meaning in columns.items():
        table.add_column(name, no_wrap=True)
        legend.add_row(name, meaning, style="dim")
    for row in rows:
        table.add_row(*row)
    console.print(f"\n[bold]{title}[/bold]\n")
    console.print(table)
    console.print(legend)


def size(count: int) -> str:
    """Bytes in a readable unit."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def main() -> None:
    """Train, measure, print."""
