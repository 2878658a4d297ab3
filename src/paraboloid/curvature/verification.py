"""Verifying a fit on demand: the certificate with fresh randomness, and the trace against products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from paraboloid.curvature.capture import Capture
from paraboloid.curvature.certificate import EPSILONS, Certificate, certify
from paraboloid.curvature.fitting import Sums
from paraboloid.curvature.graph import UncoveredError
from paraboloid.curvature.options import Options
from paraboloid.curvature.problem import Problem
from paraboloid.curvature.products import Products
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.randomness import as_generator, normal

KEEPS_TRACE = ("dense", "block", "diagonal", "eigenkronecker")
WRITTEN_OUT = 256  # parameters up to which the reference trace is exact
PROBES = 100
STANDARD_ERRORS = 5.0


@dataclass(frozen=True)
class Verification:
    """What `verify` compared: the certificate, and the trace beside its reference (None where it is not kept).

    Products have neither; there it is the asymmetry |uᵀAv - vᵀAu| for random u and v, relative to its size.
    """

    certificate: Certificate | None
    trace: float | None = None
    reference: float | None = None
    standard_error: float = 0.0
    asymmetry: float | None = None


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
        return Verification(None, asymmetry=_symmetric(problem, options, one, generator))
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


def _symmetric(problem: Problem, options: Options, batch: Batch, generator: torch.Generator) -> float:
    """A derivative that PyTorch has wrong rarely comes out symmetric."""
    total = Products(problem, replace(options, structure="products"), generator).of_batch(batch)
    u, v = (normal((total.size,), generator, total.dtype, total.device) for _ in range(2))
    Au, Av = total @ u, total @ v
    found = float((u @ Av - v @ Au).abs() / (u.norm() * Av.norm() + v.norm() * Au.norm()).clamp_min(1e-300))
    allowed = EPSILONS * torch.finfo(total.dtype).eps
    if not found <= allowed:
        raise UncoveredError(
            f"Products with this model are not those of a symmetric matrix: relative asymmetry {found:.1e}, allowed "
            f"{allowed:.1e}. Some operation has a wrong derivative; check its backward by torch.autograd.gradgradcheck."
        )
    return found


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
