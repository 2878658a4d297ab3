"""A first look: the curvature of a small network, in every structure that paraboloid knows.

    ./x demo        # or, where everything is installed: python examples/demo.py

A classifier of handwritten digits is trained. Then the curvature of its loss (the Gauss-Newton matrix) is measured
seven times: once written down in full, six times in structures that larger networks can afford. The network is so
small that the full matrix fits, so every shortcut can be compared with the truth.

At the end one recipe, a claim of a paper that anyone can run, goes from its config to a page with figures.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

MISSING = """The demo needs {name}, which {python} does not have. Either
    ./x demo                                                    (makes an environment of its own)
or install into yours, from the root of the repository:
    {python} -m pip install -c constraints.txt -e '.[demo]'"""

try:
    import torch
    from sklearn.datasets import load_digits
    from torch import Tensor, nn
    from torch.nn import functional as F

    import paraboloid
    from paraboloid_command import main as command
except ModuleNotFoundError as error:
    sys.exit(MISSING.format(name=error.name, python=sys.executable))

Data = tuple[Tensor, Tensor]
RECIPE = "kronecker_quality"  # its smallest size takes seconds
DAMPING = 1e-2  # added to the diagonal before solving: along flat directions the curvature alone is zero
STRUCTURES = ("dense", "block", "kronecker", "eigenkronecker", "diagonal", "lowrank", "products")
RANK = 50  # of the structure "lowrank"


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


def digits(count: int, generator: torch.Generator) -> tuple[Data, Data]:
    """Scikit-learn's 1797 handwritten digits in random order: ``count`` for training, the others unseen."""
    bunch = load_digits()
    order = torch.randperm(len(bunch.target), generator=generator)
    x = torch.tensor(bunch.images, dtype=torch.get_default_dtype())[order, None] / 16
    y = torch.tensor(bunch.target)[order]
    return (x[:count], y[:count]), (x[count:], y[count:])


def train(model: nn.Module, data: Data, epochs: int, generator: torch.Generator) -> None:
    """An ordinary training loop; paraboloid has no part in it."""
    x, y = data
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    model.eval()


def gradient(model: nn.Module, data: Data) -> Tensor:
    """The gradient of the mean loss as one vector, in the order of every operator's rows."""
    x, y = data
    params = paraboloid.Params.of(model)  # those that require gradients
    loss = F.cross_entropy(model(x), y)
    return params.flatten(torch.autograd.grad(loss, list(params.tensors(model).values())))


@dataclass
class Measured:
    """The curvature in one structure, its spectrum as text, the step that it proposes, and the seconds of both."""

    structure: str
    curvature: paraboloid.Curvature
    spectrum: tuple[str, str, str]
    step: Tensor
    fit_seconds: float
    solve_seconds: float


def timed(call: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    """What the call returns, and the median of its times; a slow call is not repeated beyond one second."""
    times: list[float] = []
    while not times or (len(times) < repeats and sum(times) < 1):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def measure(model: nn.Module, data: Data, g: Tensor, structure: str, generator: torch.Generator) -> Measured:
    """Fit the curvature, then solve (curvature + damping) step = g, as a second-order optimiser would."""
    rank = RANK if structure == "lowrank" else None
    fit = partial(paraboloid.curvature, model, data, likelihood="categorical", structure=structure, rank=rank)
    curvature, fit_seconds = timed(fit)
    step, solve_seconds = timed(lambda: (curvature + DAMPING).solve(g))
    return Measured(structure, curvature, spectrum(curvature, structure, generator), step, fit_seconds, solve_seconds)


def spectrum(ggn: paraboloid.Curvature, structure: str, generator: torch.Generator) -> tuple[str, str, str]:
    """Trace, largest eigenvalues and condition number."""
    top = ggn.top_eigenpairs(3, generator)[0].tolist()
    largest = " ".join(f"{value:.2f}" for value in top)
    if (
        structure == "products"
    ):  # no matrix is written down: random products estimate the trace, damping bounds the rest
        trace, error = ggn.estimate_trace(100, generator)
        return f"{trace:.1f} ± {error:.1f}", largest, f"max {top[0] / DAMPING + 1:.0f}"
    values = (ggn + DAMPING).eigenvalues()  # ascending
    return f"{ggn.trace():.1f}", largest, f"{values[-1] / values[0]:.0f}"


def errors(one: Measured, exact: Measured, g: Tensor, generator: torch.Generator) -> tuple[float, float, float]:
    """How far the matrix is from the exact one, and its step from the exact step; what is left of the decrease."""
    difference = one.curvature - exact.curvature
    if one.structure == "products":  # ten random vectors tell; the matrix itself would take one product for every row
        distance = difference.estimate_frobenius(10, generator).value
    else:
        distance = difference.frobenius()
    curved = one.step @ ((exact.curvature + DAMPING) @ one.step)
    decrease = (g @ one.step) ** 2 / curved / (g @ exact.step)  # of the quadratic model, at the best length of the step
    step_error = (one.step - exact.step).norm() / exact.step.norm()
    return float(distance / exact.curvature.frobenius()), float(step_error), float(decrease)


def working(console: Any, text: str) -> AbstractContextManager[Any]:
    """Says what takes a moment: a live line on a terminal, a plain line elsewhere."""
    if not console.is_terminal:
        console.print(f"... {text}")
    return console.status(text)


def show(console: Any, title: str, columns: dict[str, str], rows: Iterable[Iterable[str]], justify: Any) -> None:
    """A table, and below it the meaning of each of its columns."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    legend = Table(box=None, show_header=False, pad_edge=False)
    for name, meaning in columns.items():
        table.add_column(name, no_wrap=True, justify=justify if table.columns else "left")
        legend.add_row(name, meaning, style="dim")
    for row in rows:
        table.add_row(*row)
    gap = [] if console.is_terminal else [""]  # a terminal's table brings its own
    console.print(f"\n[bold]{title}[/bold]", *gap, table, *gap, legend, sep="\n")


def show_network(console: Any, accuracy: float, parameters: int, fb: float) -> None:
    """How good the network is, how large, and the unit of time."""
    columns = {
        "accuracy": "share of the unseen digits that are named correctly",
        "parameters": "trained numbers; the curvature is a matrix with as many rows",
        "fb": "one forward + backward over the training data: the unit of time",
    }
    show(console, "1. The network", columns, [(f"{accuracy:.1%}", str(parameters), f"{1e3 * fb:.1f} ms")], "right")


def show_curvature(console: Any, fits: list[Measured], fb: float) -> None:
    """What every structure says about the curvature, and what it costs."""
    columns = {
        "structure": f"what is kept: dense all, lowrank {RANK} directions, products nothing",
        "trace": "total curvature; kronecker, lowrank alter it, products estimates it",
        "steepest": "the three largest eigenvalues: curvature where it is strongest",
        "condition": f"largest / smallest eigenvalue, each + {DAMPING}: how hard to invert",
        "memory": "what the operator holds",
        "fit": "time to measure it, in fb; products works when it is multiplied",
    }
    rows = []
    for one in fits:
        memory = f"{one.curvature.nbytes / 1e3:,.0f} kB"
        rows.append((one.structure, *one.spectrum, memory, f"{one.fit_seconds / fb:.1f}"))
    show(console, "2. The curvature, structure by structure", columns, rows, "right")


def show_errors(console: Any, fits: list[Measured], g: Tensor, fb: float, generator: torch.Generator) -> None:
    """How far every structure is from the exact matrix, and what that does to a step."""
    columns = {
        "structure": "dense is exact; of all that go layer by layer, block is the closest",
        "distance": "relative Frobenius distance to dense; strong directions dominate it",
        "step error": f"relative error of the step s in (curvature + {DAMPING}) s = gradient",
        "decrease": "what s, at its best length, reaches of the exact step's decrease",
        "solve": "time to compute one step, in fb",
    }
    rows = []
    for one in fits:
        distance, error, decrease = errors(one, fits[0], g, generator)
        numbers = f"{distance:.2f}", f"{error:.2f}", f"{decrease:.0%}", f"{one.solve_seconds / fb:.1f}"
        rows.append((one.structure, *numbers))
    show(console, "3. What the shortcuts cost", columns, rows, "right")


def show_coverage(console: Any, one: Measured) -> None:
    """What happened to every parameter."""
    columns = {
        "parameter": "every parameter of the model is here, whatever happened to it",
        "shape": "its size",
        "treatment": "kronecker: two small factors; exact block: all; frozen: left out",
        "rule": "the operation that uses it, as found in the autograd graph",
        "exact": "whether its own block of the matrix is exact",
    }
    covered = one.curvature.coverage
    exact = {True: "yes", False: "no", None: "–"}
    rows = [(r.name, "×".join(map(str, r.shape)), r.treatment, r.rule, exact[r.exact]) for r in covered]
    show(console, f"4. What {one.structure} did with every parameter", columns, rows, "left")


def run_recipe(out: Path) -> Path:
    """The recipe at its smallest scale, and the page of its report: what a user types, typed."""
    page = out / "report.html"
    failed = command(["run", RECIPE, "--scale", "smoke", "--out", str(out), "--restart"])
    failed = failed or command(["report", RECIPE, "--out", str(out), "--to", str(page)])
    if failed:
        sys.exit(failed)
    return page.resolve()


def main() -> None:
    """Train, measure, show."""
    try:
        from rich.console import Console
    except ModuleNotFoundError as error:
        sys.exit(MISSING.format(name=error.name, python=sys.executable))
    console, start = Console(highlight=False), time.perf_counter()
    torch.set_num_threads(1)  # the network is too small to gain from more, and the times vary less
    generator = torch.Generator().manual_seed(0)
    data, (x, y) = digits(1297, generator)
    model = Net(7, data[0].mean(0), generator)
    with working(console, "training"):
        train(model, data, 10, generator)
    g, fb = timed(lambda: gradient(model, data), repeats=20)
    fits = []
    for number, structure in enumerate(STRUCTURES, 1):
        with working(console, f"measuring {structure} ({number} of {len(STRUCTURES)})"):
            fits.append(measure(model, data, g, structure, generator))
    show_network(console, float((model(x).argmax(1) == y).double().mean()), len(g), fb)
    show_curvature(console, fits, fb)
    show_errors(console, fits, g, fb, generator)
    show_coverage(console, fits[2])
    console.print(f"\n[bold]5. One recipe, from its config to its report[/bold]: paraboloid run {RECIPE}")
    report = run_recipe(Path("runs"))
    console.print(f"\n[bold]6. What next[/bold] (all of this took {time.perf_counter() - start:.0f} s)\n")
    console.print("Your model:  paraboloid.curvature(model, (x, y), likelihood='categorical')")
    console.print("All choices: README.md, 'What can be asked for'; then read examples/demo.py")
    console.print("All recipes: paraboloid list")
    console.print(f"The report:  {report}", soft_wrap=True)


if __name__ == "__main__":
    main()
