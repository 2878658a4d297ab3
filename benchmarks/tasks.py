"""The tasks: what is computed, on which models, and how each library is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from models import Problem
from peers import (
    Call,
    backpack_diagonal,
    backpack_kronecker,
    curvlinops_kronecker,
    curvlinops_product,
    laplace_fit,
    load,
    nngeometry_eigenkronecker,
    nngeometry_trace,
    posteriors_diagonal,
    posteriors_product,
)
from torch import Tensor

OURS = "paraboloid"


@dataclass(frozen=True)
class Task:
    """One row of the comparison; `models` are those it runs on unless others are asked for."""

    title: str
    models: str
    contenders: dict[str, Callable[[Problem], Call]]
    note: str = ""
    random: bool = False  # the answers of two libraries agree in expectation only


def curvature(problem: Problem, structure: str, estimate: str = "exact", kind: str = "ggn"):
    """The public call, as a user writes it."""
    library = load("paraboloid")
    return library.curvature(
        problem.model,
        (problem.x, problem.y),
        likelihood=problem.likelihood,
        structure=structure,
        estimate=estimate,
        kind=kind,
    )


def ours(problem: Problem, structure: str, estimate: str) -> Call:
    """Curvature in a structure, ending with its trace."""
    load("paraboloid")

    def call() -> Tensor:
        return torch.as_tensor(curvature(problem, structure, estimate).trace())

    return call


def our_product(problem: Problem, kind: str, reuse: bool) -> Call:
    """vᵀAv; with `reuse` the operator is made once, and what it learns at its first product is kept."""
    kept = curvature(problem, "products", kind=kind) if reuse else None

    def call() -> Tensor:
        operator = kept if kept is not None else curvature(problem, "products", kind=kind)
        return problem.vector @ (operator @ problem.vector)

    return call


def kronecker(estimate: str) -> dict[str, Callable[[Problem], Call]]:
    contenders = {
        OURS: partial(ours, structure="kronecker", estimate=estimate),
        "curvlinops": partial(curvlinops_kronecker, estimate=estimate),
        "BackPACK": partial(backpack_kronecker, estimate=estimate),
        "nngeometry": partial(nngeometry_trace, estimate=estimate, representation="PMatKFAC"),
    }
    if estimate == "exact":
        contenders["laplace-torch"] = partial(laplace_fit, structure="kron")
    return contenders


def eigenkronecker(estimate: str) -> dict[str, Callable[[Problem], Call]]:
    return {
        OURS: partial(ours, structure="eigenkronecker", estimate=estimate),
        "curvlinops": partial(curvlinops_kronecker, estimate=estimate, corrected=True),
        "nngeometry": partial(nngeometry_eigenkronecker, estimate=estimate),
    }


def diagonal(estimate: str) -> dict[str, Callable[[Problem], Call]]:
    contenders = {
        OURS: partial(ours, structure="diagonal", estimate=estimate),
        "BackPACK": partial(backpack_diagonal, estimate=estimate),
        "nngeometry": partial(nngeometry_trace, estimate=estimate, representation="PMatDiag"),
        "posteriors": partial(posteriors_diagonal, estimate=estimate),
    }
    if estimate == "exact":
        contenders["laplace-torch"] = partial(laplace_fit, structure="diag")
    return contenders


def products(kind: str, reuse: bool) -> dict[str, Callable[[Problem], Call]]:
    name = {"ggn": "GGNLinearOperator", "hessian": "HessianLinearOperator"}[kind]
    return {
        OURS: partial(our_product, kind=kind, reuse=reuse),
        "curvlinops": partial(curvlinops_product, name=name, reuse=reuse),
        "posteriors": partial(posteriors_product, kind=kind),
    }


TASKS = {
    "kronecker-exact": Task(
        "Kronecker factors, all output columns",
        "MLR",
        kronecker("exact"),
        "laplace-torch's fit also decomposes the factors.",
    ),
    "kronecker-sampled": Task("Kronecker factors, one draw of labels", "MLRTA", kronecker("sampled"), random=True),
    "eigenkronecker-sampled": Task(
        "Eigenvalue-corrected Kronecker factors, one draw of labels",
        "MLR",
        eigenkronecker("sampled"),
        random=True,
    ),
    "eigenkronecker-exact": Task(
        "Eigenvalue-corrected Kronecker factors, all output columns", "MLR", eigenkronecker("exact")
    ),
    "diagonal-exact": Task("Diagonal of the Gauss-Newton matrix", "MLR", diagonal("exact")),
    "diagonal-empirical": Task("Diagonal of the empirical Fisher", "MLR", diagonal("empirical")),
    "ggn-product-first": Task("Gauss-Newton product, operator made anew", "MLART", products("ggn", reuse=False)),
    "ggn-product-further": Task(
        "Gauss-Newton product, operator used before",
        "MLART",
        products("ggn", reuse=True),
        "posteriors keeps nothing between products.",
    ),
    "hessian-product-first": Task("Hessian product, operator made anew", "MLART", products("hessian", reuse=False)),
    "hessian-product-further": Task(
        "Hessian product, operator used before",
        "MLART",
        products("hessian", reuse=True),
        "posteriors keeps nothing between products.",
    ),
}
