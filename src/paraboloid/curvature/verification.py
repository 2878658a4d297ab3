"""Verifying a fit on demand: the certificate with fresh randomness, and the trace against products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from paraboloid.curvature.capture import Capture, Problem
from paraboloid.curvature.certificate import Certificate, certify
from paraboloid.curvature.fitting import Sums
from paraboloid.curvature.graph import UncoveredError
from paraboloid.curvature.options import Options
from paraboloid.curvature.products import Products
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.randomness import as_generator

KEEPS_TRACE = ("dense", "block", "diagonal", "eigenkronecker")
WRITTEN_OUT = 256  # parameters up to which the reference trace is exact
PROBES = 100
STANDARD_ERRORS = 5.0


@dataclass(frozen=True)
class Verification:
    """What `verify` compared: the certificate, and the trace beside its reference (None where it is not kept)."""

    certificate: Certificate | None
    trace: float | None = None
    reference: float | None = None
    standard_error: float = 0.0


def verify(
    problem: Problem, options: Options, estimate: str, batch: Any, generator: torch.Generator | None
) -> Verification:
    """Repeat the checks on one batch; raises where one fails."""
    generator = as_generator(generator, problem.device)
    if batch is None:
        one = next(iter(problem.batches.restartable()))
    else:
        one = problem.batches.batch(batch)
    if options.kind == "hessian" or options.structure == "products":
        return Verification(None)
    capture = Capture(problem, one)
    found = certify(capture, capture.bound(), generator)
    if options.structure not in KEEPS_TRACE:
        return Verification(found)
    trace = _trace(problem, options, one, generator)
    reference, error = _reference(problem, options, estimate, one, generator)
    allowed = STANDARD_ERRORS * error + found.tolerance * abs(reference)
    if abs(trace - reference) > allowed:
        raise UncoveredError(
            f"The trace of structure={options.structure!r} is {trace:.6g}, by products it is {reference:.6g} "
            f"(allowed difference {allowed:.1e}). The rules do not fit this model; use structure='products'."
        )
    return Verification(found, trace, reference, error)


def _trace(problem: Problem, options: Options, batch: Batch, generator: torch.Generator) -> float:
    state = generator.get_state()
    sums = Sums(problem, options)
    sums.add(batch, generator)
    generator.set_state(state)
    if options.structure == "eigenkronecker":
        sums.correct()
        sums.add(batch, generator)
        generator.set_state(state)
    assert sums.assembly is not None
    return float(sums.assembly.operator(sums.count).trace())


def _reference(
    problem: Problem, options: Options, estimate: str, batch: Batch, generator: torch.Generator
) -> tuple[float, float]:
    products = Products(problem, Options("products", estimate, samples=options.samples), generator)
    total, size = products.of_batch(batch), problem.params.numel
    if size <= WRITTEN_OUT:
        return float(total.dense().diagonal().double().sum()), 0.0
    estimated = total.estimate_trace(PROBES, generator)
    return float(estimated.value), float(estimated.standard_error)
