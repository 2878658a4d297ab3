"""The coverage report: for every parameter of the model, what it means in the operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from paraboloid.curvature.layout import Block
from paraboloid.curvature.options import Options
from paraboloid.spaces.params import Params


@dataclass(frozen=True)
class Covered:
    """One parameter's line: how it is treated, by which rule, and whether its block is exact."""

    name: str
    shape: tuple[int, ...]
    treatment: str
    rule: str
    exact: bool | None  # None for what is not in the operator


@dataclass(frozen=True)
class Coverage:
    """All parameters of a model, also those that are frozen, excluded or unused.

    >>> row = Covered("weight", (2, 3), "kronecker", "matrix product", False)
    >>> print(Coverage((row,), "exact"))
    parameter  shape  treatment  rule            exact
    weight     2×3    kronecker  matrix product  no
    estimate: exact
    """

    rows: tuple[Covered, ...]
    estimate: str

    def __iter__(self) -> Iterator[Covered]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Covered:
        return {row.name: row for row in self.rows}[name]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        table = [("parameter", "shape", "treatment", "rule", "exact")]
        for row in self.rows:
            shape = "×".join(map(str, row.shape)) or "scalar"
            table.append((row.name, shape, row.treatment, row.rule, {True: "yes", False: "no", None: "–"}[row.exact]))
        widths = [max(len(line[k]) for line in table) for k in range(5)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
        return "\n".join([*(line.rstrip() for line in lines), f"estimate: {self.estimate}"])


@dataclass(frozen=True)
class Fitted:
    """What a fit knows of itself: the parameters its outputs depend on, its blocks, and whether a rank was cut."""

    reached: frozenset[str]
    blocks: Sequence[Block]
    estimate: str
    truncated: bool


def describe(model: nn.Module, params: Params, options: Options, fitted: Fitted) -> Coverage:
    """The report for a fit."""
    found: dict[str, Covered] = {}
    used = {name: block for block in fitted.blocks for name in block.names}
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        if name not in params:
            reason = "excluded" if parameter.requires_grad else "frozen"
            found[name] = Covered(name, shape, reason, "not in the operator", None)
        elif name not in fitted.reached:
            found[name] = Covered(name, shape, "unused", "zero rows: the output does not depend on it", True)
        else:
            block = used.get(name)
            treatment, exact = treatment_of(block, options, fitted.truncated)
            found[name] = Covered(name, shape, treatment, block.rule if block else "autograd", exact)
    return Coverage(tuple(found.values()), _estimates(fitted.estimate))


def treatment_of(block: Block | None, options: Options, truncated: bool) -> tuple[str, bool]:
    """How a block is stored under a structure, and whether that is its exact block."""
    structure = options.structure
    if structure in ("dense", "products"):
        return structure, True
    if structure == "lowrank":
        return structure, not truncated
    if structure == "block":
        return "dense per layer", True
    if structure == "diagonal":
        return "diagonal", True
    if block is not None and block.matrix:
        return structure, False
    size = 0 if block is None else block.index.numel()
    return ("exact block", True) if size <= options.max_block else ("exact diagonal", False)


def _estimates(estimate: str) -> str:
    if estimate == "signed":
        return "exact over classes, projected over the terms of an example (an independent random sign for each)"
    return estimate.replace("_", " ")
