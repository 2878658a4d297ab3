"""The other libraries, each asked in its own words.

An adapter takes a Problem and returns a call without arguments: one complete computation that ends in a
number (a trace, or vᵀAv for products), so that nothing stays lazy and the libraries' answers can be compared.
What can be prepared once per model happens outside the call. A library that is not installed raises Absent,
one that cannot do it raises Unsupported; both end up in the record by name.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType

import torch
from models import Problem
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader, TensorDataset

Call = Callable[[], Tensor]
GIGABYTE = 2**30


class Absent(Exception):
    """The library is not installed."""


class Unsupported(Exception):
    """The library cannot do this, and why."""


def load(module: str) -> ModuleType:
    """Import a library, quietly."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        raise Absent(f"cannot be imported: {error}") from error


def affordable(what: str, numbers: float) -> None:
    """Refuse what would fill the machine's memory, with the size in the message."""
    if 4 * numbers > 4 * GIGABYTE:
        raise Unsupported(f"holds {what}: {4 * numbers / GIGABYTE:.0f} GiB")


def outputs_per_example(problem: Problem) -> int:
    with torch.no_grad():
        return problem.model(problem.x[:1])[0].numel()


def jacobian_numbers(problem: Problem) -> int:
    return len(problem.x) * outputs_per_example(problem) * problem.vector.numel()


# ------------------------------------------------------------------------------------------ curvlinops


class ClassesSecond(nn.Module):
    """The same model with the class axis where torch's losses expect it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).movedim(-1, 1)


def curvlinops_arguments(problem: Problem) -> tuple[tuple, float]:
    """Positional arguments of every operator, and the factor that turns its mean into ours."""
    bernoulli = problem.likelihood == "bernoulli"
    loss = nn.BCEWithLogitsLoss() if bernoulli else nn.CrossEntropyLoss()
    model = ClassesSecond(problem.model) if problem.y.ndim == 2 and not bernoulli else problem.model
    factor = float(outputs_per_example(problem)) if bernoulli else 1.0
    return (model, loss, problem.parameters(), [(problem.x, problem.y)]), factor


def curvlinops_kronecker(problem: Problem, estimate: str, corrected: bool = False) -> Call:
    library = load("curvlinops")
    kind = library.EKFACLinearOperator if corrected else library.KFACLinearOperator
    if corrected and problem.y.ndim > 1:
        raise Unsupported("EKFAC takes outputs of shape (batch, classes) only")
    arguments, factor = curvlinops_arguments(problem)
    options = {
        "fisher_type": {"exact": "type-2", "sampled": "mc", "empirical": "empirical"}[estimate],
        "separate_weight_and_bias": False,
        "check_deterministic": False,
    }

    def call() -> Tensor:
        return factor * torch.as_tensor(kind(*arguments, **options).trace)

    return call


def curvlinops_product(problem: Problem, name: str, reuse: bool) -> Call:
    kind = getattr(load("curvlinops"), name)
    arguments, factor = curvlinops_arguments(problem)
    kept = kind(*arguments, check_deterministic=False) if reuse else None

    def call() -> Tensor:
        operator = kept if kept is not None else kind(*arguments, check_deterministic=False)
        with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no second derivative
            return factor * (problem.vector @ (operator @ problem.vector))

    return call


# ------------------------------------------------------------------------------------------ BackPACK


def backpack_traces(problem: Problem, extension: str, options: dict, trace: Callable[[nn.Parameter], Tensor]) -> Call:
    """One backward pass with an extension, then the sum of `trace` over the parameters."""
    backpack = load("backpack")
    extensions = load("backpack.extensions")
    if problem.key in ("R", "T"):
        raise Unsupported("takes sequences of modules from its own list only")
    own, bernoulli = problem.copied(), problem.likelihood == "bernoulli"
    model = backpack.extend(own.model)
    loss = backpack.extend(nn.BCEWithLogitsLoss() if bernoulli else nn.CrossEntropyLoss())
    factor = outputs_per_example(problem) if bernoulli else 1  # torch's mean also divides by the outputs

    def call() -> Tensor:
        model.zero_grad()
        with backpack.backpack(getattr(extensions, extension)(**options)):
            loss(model(own.x), own.y).backward()
        return factor * torch.stack([trace(p) for p in own.parameters()]).sum()

    return call


def backpack_kronecker(problem: Problem, estimate: str) -> Call:
    name, field = {"exact": ("KFLR", "kflr"), "sampled": ("KFAC", "kfac")}[estimate]

    def trace(p: nn.Parameter) -> Tensor:
        return torch.stack([factor.trace() for factor in getattr(p, field)]).prod()

    return backpack_traces(problem, name, {}, trace)


def backpack_diagonal(problem: Problem, estimate: str) -> Call:
    if estimate == "exact":
        return backpack_traces(problem, "DiagGGNExact", {}, lambda p: p.diag_ggn_exact.sum())
    # gradients of the mean loss: N Σ (g/N)² is the mean of g²
    return backpack_traces(problem, "SumGradSquared", {}, lambda p: len(problem.x) * p.sum_grad_squared.sum())


# ------------------------------------------------------------------------------------------ nngeometry


class OneBatch(DataLoader):
    """A data loader that hands out its only batch without collating it example by example."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = self.dataset.tensors
        yield x.detach(), y


def nngeometry_generator(problem: Problem, estimate: str):
    """A function from a representation's name to the matrix in it."""
    metrics, backend = load("nngeometry.metrics"), load("nngeometry.backend")
    objects, collections = load("nngeometry.object.pspace"), load("nngeometry.layercollection")
    if problem.key in ("A", "T"):
        raise Unsupported("takes categorical outputs of shape (batch, classes) only")
    layers = collections.LayerCollection()
    for module in problem.model.modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)):
            layers.add_layer_from_model(problem.model, module)
    loader = OneBatch(TensorDataset(problem.x, problem.y), batch_size=len(problem.x))

    def build(representation: str):
        kind = getattr(objects, representation)
        if estimate == "empirical":

            def log_probability(x: Tensor, y: Tensor) -> Tensor:
                return problem.model(x).log_softmax(1).gather(1, y[:, None])

            generator = backend.TorchHooksJacobianBackend(
                layer_collection=layers, model=problem.model, function=log_probability
            )
            return kind(generator=generator, examples=loader), loader
        fisher = metrics.FIM if estimate == "exact" else metrics.FIM_MonteCarlo
        device = str(problem.x.device)
        return fisher(problem.model, loader, kind, device=device, layer_collection=layers), loader

    return build


def nngeometry_trace(problem: Problem, estimate: str, representation: str) -> Call:
    build = nngeometry_generator(problem, estimate)

    def call() -> Tensor:
        return build(representation)[0].trace()

    return call


def nngeometry_eigenkronecker(problem: Problem, estimate: str) -> Call:
    build = nngeometry_generator(problem, estimate)

    def call() -> Tensor:
        matrix, loader = build("PMatEKFAC")
        matrix.update_diag(loader)
        return matrix.trace()

    return call


# ------------------------------------------------------------------------------------------ posteriors


def posteriors_functions(problem: Problem):
    """The model as a function of a dictionary, and a dictionary's numbers as one vector."""
    values = {name: p.detach() for name, p in problem.named_parameters().items()}

    def forward(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(problem.model, parameters, (problem.x,))

    return values, forward


def inner(left: dict[str, Tensor], right: dict[str, Tensor]) -> Tensor:
    return torch.stack([(left[name] * right[name]).sum() for name in left]).sum()


def posteriors_product(problem: Problem, kind: str) -> Call:
    library = load("posteriors")
    values, forward = posteriors_functions(problem)
    direction = dict(zip(values, problem.split(problem.vector), strict=True))

    def call() -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            if kind == "ggn":
                _, product = library.ggnvp(forward, problem.loss, (values,), (direction,))[:2]
            else:
                _, product = library.hvp(lambda p: problem.loss(forward(p)), (values,), (direction,))
        return inner(direction, product)

    return call


def posteriors_diagonal(problem: Problem, estimate: str) -> Call:
    library = load("posteriors")
    values, forward = posteriors_functions(problem)
    n = len(problem.x)
    if estimate == "exact":
        affordable("the Jacobian of the batch", 2 * jacobian_numbers(problem))

        def call() -> Tensor:
            diagonal = library.diag_ggn(forward, problem.loss)(values)
            return torch.stack([part.sum() for part in diagonal.values()]).sum()

        return call
    affordable("all gradients of the batch", n * problem.vector.numel())

    def log_probability(parameters: dict[str, Tensor], batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = batch
        rows = torch.func.functional_call(problem.model, parameters, (x,)).log_softmax(-1)
        return rows.gather(1, y[:, None]).squeeze(1), torch.tensor([])

    transform = library.laplace.diag_fisher.build(log_probability, per_sample=True)

    def call_empirical() -> Tensor:
        state, _ = transform.update(transform.init(values), (problem.x, problem.y))
        return torch.stack([part.sum() for part in state.prec_diag.values()]).sum() / n

    return call_empirical


# ------------------------------------------------------------------------------------------ laplace-torch


def laplace_fit(problem: Problem, structure: str) -> Call:
    """Its fit; the Kronecker one also decomposes the factors."""
    library = load("laplace")
    if problem.key in ("A", "T"):
        raise Unsupported("takes categorical outputs of shape (batch, classes) only")
    if structure == "diag":
        # measured on L: about thirty Jacobians at the same time
        affordable("many copies of the batch's Jacobian", 30 * jacobian_numbers(problem))
    own = problem.copied()
    loader = OneBatch(TensorDataset(own.x, own.y), batch_size=len(own.x))

    def call() -> Tensor:
        fitted = library.Laplace(own.model, "classification", subset_of_weights="all", hessian_structure=structure)
        fitted.fit(loader)
        if structure == "diag":
            return fitted.H.sum() / len(own.x)
        blocks = [torch.stack([values.sum() for values in block]).prod() for block in fitted.H.eigenvalues]
        return torch.stack(blocks).sum() / len(own.x)

    return call
