"""The verb: `curvature(model, data, likelihood=…)`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from paraboloid.curvature.capture import Capture
from paraboloid.curvature.columns import columns
from paraboloid.curvature.fitting import Sums
from paraboloid.curvature.lowrank import DEFAULT_RANK, WRITTEN_OUT, ColumnStore, leading, randomised
from paraboloid.curvature.options import Options
from paraboloid.curvature.problem import Problem
from paraboloid.curvature.products import Fixed, Products, Progress, written_out
from paraboloid.curvature.refusals import bad_parameter, not_finite, require_terms
from paraboloid.curvature.running import Curvature
from paraboloid.spaces.batches import Batch, Batches
from paraboloid.spaces.functional import require_eval
from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.likelihoods import likelihood as named_likelihood
from paraboloid.spaces.params import Params
from paraboloid.spaces.randomness import as_generator


@torch.inference_mode(False)
@torch.no_grad()
def curvature(
    model: nn.Module,
    data: Any,
    *,
    likelihood: str | Likelihood,
    structure: str = "kronecker",
    estimate: str | None = None,
    kind: str = "ggn",
    params: Any = None,
    sharing: str = "expand",
    bias: str = "joint",
    samples: int = 1,
    rank: int | None = None,
    max_block: int = 1024,
    num_data: float | None = None,
    memory: int | None = None,
    generator: torch.Generator | None = None,
    progress: Callable[[int, int | None, str], None] | None = None,
) -> Curvature:
    """The curvature of the model's loss, averaged over data, as an operator that knows its structure.

    ``data`` is one batch ``(x, y)`` or any iterable of batches (`Batches` reads other forms). ``structure`` is one of
    dense, block, kronecker, eigenkronecker, diagonal, lowrank, products; ``estimate`` one of exact, signed, sampled,
    empirical, projected, projected_gaussian. None is exact, except for Kronecker factors of outputs with many terms per
    example (tokens, pixels), which are then exact over classes with a random sign for each term; `coverage` says so.
    ``kind`` is ggn (the Fisher, for these likelihoods) or hessian. Parameters: ``params`` is None (all that require
    gradients), a glob, names, a module, a predicate or `Params`. A parameter without Kronecker factors gets an exact
    block up to ``max_block`` numbers, beyond that its exact diagonal. ``sharing`` says how Kronecker factors treat the
    positions of an example: each as an example (expand) or put together first (reduce); ``bias`` whether a layer's bias
    is the last column of its block (joint) or a block of its own (separate). ``samples`` are the draws of a random
    estimate, from ``generator`` (without one: the same in every call); ``rank`` is that of lowrank. ``num_data``
    replaces N downstream and never changes the average. ``memory`` bounds in bytes each matrix that is held and the
    columns that are held together; ``progress(done, total, what)`` is called after each batch.

    Products of data that are one batch keep its graph, so they follow the model's parameters and buffers, but not a
    plain Python attribute that its forward reads.

    >>> import torch, paraboloid
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    >>> x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    >>> ggn = paraboloid.curvature(model, (x, y), likelihood="categorical")
    >>> (ggn + 1e-3).solve(torch.ones(67)).shape
    torch.Size([67])
    """
    options = Options(structure, estimate, kind, sharing, bias, samples, rank, max_block, memory)
    problem = _problem(model, data, likelihood, params, bias)
    if num_data is not None and not (isinstance(num_data, Real) and 0 < num_data < math.inf):
        raise ValueError(f"num_data= should be a positive number of terms, found {num_data!r}.")
    asked = Request(problem, options, as_generator(generator, problem.device), num_data, progress)
    if structure == "products" or kind == "hessian":
        return _by_products(asked)
    if structure == "lowrank":
        return _lowrank(asked)
    return _summed(asked)


@dataclass(frozen=True)
class Request:
    """A call of `curvature` with its arguments checked."""

    problem: Problem
    options: Options
    generator: torch.Generator
    num_data: float | None
    progress: Progress | None


def _by_products(asked: Request) -> Curvature:
    problem, options, generator = asked.problem, asked.options, asked.generator
    products = Products(problem, replace(options, structure="products"), generator, asked.progress)
    sums = Sums(problem, options)
    sums.reached = products.try_first()
    fixed = products if options.structure == "products" else written_out(products, options)
    return Curvature(sums, generator, asked.num_data, fixed)


def _problem(model: nn.Module, data: Any, likelihood: str | Likelihood, params: Any, bias: str) -> Problem:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model should be a torch.nn.Module, found {type(model).__name__}.")
    require_eval(model)
    chosen = Params.of(model, params)
    for name, tensor in chosen.tensors(model).items():
        _require_usable(name, tensor)
    device = next(iter(chosen.tensors(model).values())).device
    batches = data if isinstance(data, Batches) else Batches(data)
    return Problem(model, chosen, named_likelihood(likelihood), batches.on(device).replayed(), bias == "joint")


def _require_usable(name: str, tensor: Tensor) -> None:
    if tensor.is_meta:
        raise ValueError(
            f"parameter {name!r} should hold numbers, found it on the meta device. Load the weights first, after "
            'model.to_empty(device="cpu").'
        )
    if tensor.is_inference():
        raise ValueError(
            f"parameter {name!r} was made inside torch.inference_mode(), where autograd cannot follow. Make or load "
            "the model outside of it; the call itself may stand inside."
        )


def _passes(batches: Iterable[Batch], what: str, progress: Progress | None) -> Iterable[Batch]:
    """The batches, with progress told after each."""
    data = getattr(batches, "data", None)
    total = 1 if getattr(batches, "single", False) else len(data) if isinstance(data, Sized) else None
    for number, batch in enumerate(batches):
        yield batch
        if progress is not None:
            progress(number + 1, total, what)


def _summed(asked: Request) -> Curvature:
    problem, options, generator = asked.problem, asked.options, asked.generator
    corrected = options.structure == "eigenkronecker"
    batches: Iterable[Batch] = problem.batches.restartable() if corrected else problem.batches
    if problem.batches.single:
        batches = list(problem.batches)
    sums = Sums(problem, options)
    state = generator.get_state()
    for batch in _passes(batches, "factors" if corrected else options.structure, asked.progress):
        sums.add(batch, generator)
    require_terms(sums.count)
    assert sums.assembly is not None
    sums.assembly.require_finite()
    if corrected:
        sums.correct()
        generator.set_state(state)  # the corrections belong to the same draws as the factors
        for batch in _passes(batches, "corrections", asked.progress):
            sums.add(batch, generator)
        sums.assembly.require_finite()
    sums.release()
    return Curvature(sums, generator, asked.num_data)


def _lowrank(asked: Request) -> Curvature:
    problem, options, generator = asked.problem, asked.options, asked.generator
    sums = Sums(problem, options)
    store: ColumnStore | None = None
    count = 0.0
    state = generator.get_state()
    for batch in _passes(problem.batches, "columns", asked.progress):
        capture = Capture(problem, batch)
        if not len(capture.rows):
            continue
        bound = sums.bind(capture)
        if store is None:
            store = ColumnStore(problem.params.numel, problem.dtype, problem.device, options.rank, options.memory)
        store.add(
            capture,
            bound,
            columns(capture.terms, problem.likelihood, sums.estimate, options.samples, generator),
        )
        count += capture.terms.count
        if store.full:
            break
    require_terms(count)
    assert store is not None
    if not store.full:
        bad = next(filter(None, (bad_parameter(problem.params, rows) for rows in store.rows)), None)
        if bad is not None:
            raise not_finite(bad)
        return Curvature(sums, generator, asked.num_data, Fixed(store.operator(count), count))
    again = torch.Generator(generator.device)
    again.set_state(state)
    size = problem.params.numel
    if size <= WRITTEN_OUT and (options.memory is None or size**2 * problem.dtype.itemsize <= options.memory):
        dense = replace(options, structure="dense", rank=None)
        whole = _summed(replace(asked, options=dense, generator=again, num_data=None))
        found, count = leading(whole.dense(), options.rank), whole.num_data
    else:
        sums.truncated = True
        products = Products(
            problem, Options("products", options.estimate, samples=options.samples), again, asked.progress
        )
        found, count = randomised(products.operator(), options.rank or DEFAULT_RANK, generator), products.count()
    return Curvature(sums, generator, asked.num_data, Fixed(found, count))
