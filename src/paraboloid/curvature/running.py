"""`Curvature`: running sums over batches that are read as an operator."""

from __future__ import annotations

import os
from typing import Any, final

import torch
from torch import Tensor

from paraboloid.curvature.certificate import Certificate
from paraboloid.curvature.coverage import Coverage
from paraboloid.curvature.eigenkronecker import EigenAssembly, same_bases
from paraboloid.curvature.fitting import Sums
from paraboloid.curvature.verification import Verification, verify
from paraboloid.operators.base import LinearOperator
from paraboloid.spaces.functional import require_eval
from paraboloid.spaces.likelihoods import same_likelihood

_ALGEBRA = [
    "solve",
    "inverse",
    "root",
    "inverse_root",
    "logdet",
    "trace",
    "diagonal",
    "frobenius",
    "eigenvalues",
    "top_eigenpairs",
    "dense",
    "to",
    "estimate_trace",
    "estimate_diagonal",
    "estimate_logdet",
    "estimate_frobenius",
    "shape",
    "size",
    "dtype",
    "device",
    "nbytes",
    "psd",
]


@final
class Curvature:
    """The curvature of a model's loss: an averaged operator, with what it covers and how to go on.

    It behaves as the operator that it stands for (``@``, ``solve``, ``trace``, …); ``operator`` is that operator alone,
    to keep or to combine with others. What is stored are sums and counts, so batches can be added and fits merged.

    >>> import paraboloid
    >>> model = torch.nn.Linear(3, 2).double()
    >>> x, y = torch.randn(5, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1])
    >>> ggn = paraboloid.curvature(model, (x, y), likelihood="categorical", structure="dense")
    >>> bool(torch.allclose(ggn @ torch.ones(8).double(), ggn.dense().sum(1)))
    True
    """

    def __init__(self, sums: Sums, generator: torch.Generator, num_data: float | None, fixed: Any = None):
        self._sums, self._generator, self._num_data, self._fixed = sums, generator, num_data, fixed
        self._operator: LinearOperator | None = None
        self._checked = True

    @property
    def operator(self) -> LinearOperator:
        """The average over the data seen so far."""
        if self._fixed is not None:
            return self._fixed.operator()
        if self._operator is None:
            assert self._sums.assembly is not None
            self._sums.require_whole()
            if not self._checked:
                self._sums.assembly.require_finite()  # an update that failed may have left NaN in the sums
            self._operator = self._sums.assembly.operator(self._sums.count)
        return self._operator

    @property
    def structure(self) -> str:
        """What was asked for: dense, block, kronecker, eigenkronecker, diagonal, lowrank or products."""
        return self._sums.options.structure

    @property
    def estimate(self) -> str:
        """Which columns were run: exact, signed, sampled, empirical, projected or projected_gaussian."""
        return self._sums.estimate

    @property
    def kind(self) -> str:
        """ggn or hessian."""
        return self._sums.options.kind

    @property
    def params(self):
        """The parameters, and the order of the flat vector."""
        return self._sums.problem.params

    @property
    def coverage(self) -> Coverage:
        """What every parameter of the model means in the operator."""
        return self._sums.coverage()

    @property
    def certificate(self) -> Certificate | None:
        """How far the rules were from autograd on the first batch; None where no rules are used."""
        return self._sums.certificate

    @property
    def num_data(self) -> float:
        """N: the terms seen (or the sum of their weights), or the number given as ``num_data=``."""
        if self._num_data is not None:
            return self._num_data
        return self._sums.seen if self._fixed is None else self._fixed.count()

    @torch.inference_mode(False)
    @torch.no_grad()
    def update(self, batch: Any, *, decay: float | None = None) -> Curvature:
        """Add one more batch; with ``decay`` the average becomes decay · old + (1 - decay) · new.

        Old and new weigh by their terms. The input factor of a Kronecker product is an average over rows, in which they
        weigh by their rows: the same where every term has as many rows.
        """
        self._require_sums("update")
        if decay is not None and not 0 <= decay < 1:
            raise ValueError(f"decay= should be at least 0 and below 1, found {decay!r}.")
        sums = self._sums
        sums.require_whole()
        require_eval(sums.problem.model)
        self._operator, self._checked = None, False
        try:
            sums.add(sums.problem.batches.batch(batch), self._generator, decay)
        finally:
            sums.release()
        assert sums.assembly is not None
        sums.assembly.require_finite()
        self._checked = True
        return self

    def merge(self, other: Curvature) -> Curvature:
        """Add the sums of a fit of the same kind on other data, in place; `num_data` adds up too."""
        self._require_sums("merge")
        if not isinstance(other, Curvature):
            raise TypeError(
                f"merge adds the sums of another Curvature, found {type(other).__name__}. Operators are averaged by "
                "(a * n + b * m) / (n + m)."
            )
        other._require_sums("merge")
        mine, theirs = self._sums, other._sums
        for sums in (mine, theirs):
            sums.require_whole()
        assert mine.assembly is not None and theirs.assembly is not None
        same = mine.options == theirs.options and mine.problem.params == theirs.problem.params
        same &= same_likelihood(mine.problem.likelihood, theirs.problem.likelihood)
        if not same or [b.key for b in mine.assembly.blocks] != [b.key for b in theirs.assembly.blocks]:
            raise ValueError(
                "merge needs two fits of the same model, parameters, likelihood and options; found different ones. Fit "
                "both with the same arguments, or add operators: (a * n + b * m) / (n + m)."
            )
        two_bases = isinstance(mine.assembly, EigenAssembly) and isinstance(theirs.assembly, EigenAssembly)
        if two_bases and not same_bases(mine.assembly, theirs.assembly):  # type: ignore[arg-type]
            raise ValueError(
                "two eigenkronecker fits have different eigenbases, so their corrections cannot be added. Use "
                "update() on one fit (its basis stays valid), or merge kronecker fits."
            )
        for one, two in zip(mine.assembly.items, theirs.assembly.items, strict=True):
            one.total.merge(two.total)
        if self._num_data is not None or other._num_data is not None:
            self._num_data = self.num_data + other.num_data
        mine.count += theirs.count
        mine.seen += theirs.seen
        self._operator = None
        return self

    @torch.inference_mode(False)
    @torch.no_grad()
    def verify(self, batch: Any = None, *, generator: torch.Generator | None = None) -> Verification:
        """Check the rules again, with fresh randomness, on ``batch`` or the first batch of the data.

        The certificate is repeated, and where the structure keeps the trace (dense, block, diagonal, eigenkronecker)
        the trace is compared with one from products, which use no rules. Products are checked for symmetry. Raises
        where anything differs.
        """
        return verify(self._sums.problem, self._sums.options, self._sums.estimate, batch, generator)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the operator to one safetensors file; ``load_operator`` reads it back."""
        self.operator.save(path)

    def _require_sums(self, what: str) -> None:
        if self._fixed is not None:
            structure = self._sums.options.structure
            raise ValueError(
                f"structure={structure!r} holds no running sums, so there is nothing to {what}. Fit on all data at "
                "once, or add operators: (a * n + b * m) / (n + m)."
            )

    def __matmul__(self, X: Tensor) -> Tensor:
        return self.operator @ X

    __rmatmul__ = __matmul__  # symmetric: v @ A is A @ v

    def __add__(self, other: Any) -> LinearOperator:
        return self.operator + (other.operator if isinstance(other, Curvature) else other)

    def __mul__(self, c: float) -> LinearOperator:
        return self.operator * c

    def __truediv__(self, c: float) -> LinearOperator:
        return self.operator / c

    def __sub__(self, other: Any) -> LinearOperator:
        return self.operator - (other.operator if isinstance(other, Curvature) else other)

    def __rsub__(self, c: float) -> LinearOperator:
        return c - self.operator

    def __neg__(self) -> LinearOperator:
        return -self.operator

    __radd__ = __add__
    __rmul__ = __mul__

    def __getattr__(self, name: str) -> Any:
        if name in _ALGEBRA or name == "damped":
            return getattr(self.operator, name)
        raise AttributeError(f"'Curvature' object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_ALGEBRA})

    def __repr__(self) -> str:
        options = self._sums.options
        return (
            f"Curvature({options.structure}, {self._sums.estimate} {options.kind}, {len(self.params)} tensors, "
            f"{self.params.numel} parameters, {self.num_data:g} terms)"
        )
