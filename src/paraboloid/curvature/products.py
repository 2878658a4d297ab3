"""Matrix-free curvature over a whole data set: every product is one pass over the data, and nothing is held.

The Gauss-Newton product is Jᵀ G J v with the likelihood's output curvature G (C.1); the Fisher and its estimates are
Jᵀ c (cᵀ J v) over columns c, summed over each example's terms first (C.2); the Hessian is autograd's (C.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.curvature.columns import columns
from paraboloid.curvature.linearise import Linearised
from paraboloid.curvature.options import Options
from paraboloid.curvature.problem import Problem
from paraboloid.curvature.refusals import bad_parameter, require_terms
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.matrixfree import MatrixFree
from paraboloid.spaces.batches import Batch
from paraboloid.spaces.functional import require_eval
from paraboloid.spaces.params import Params
from paraboloid.spaces.randomness import default_generator, normal

MEMORY = 4 * 2**30  # bytes of a matrix that is written out without asking
WIDTH = 4_000_000  # numbers in a block of unit vectors
Progress = Callable[[int, int | None, str], None]


class Products:
    """Products with the average curvature of a data set that can be gone through again and again."""

    def __init__(
        self, problem: Problem, options: Options, generator: torch.Generator, progress: Progress | None = None
    ):
        self.problem, self.options, self.progress = problem, options, progress
        self._state, self._device = generator.get_state(), generator.device
        self._count: float | None = None
        self._probe: Tensor | None = None
        self._kept: tuple[tuple, Linearised] | None = None
        self.single = problem.batches.single
        problem.batches.restartable()

    @property
    def estimate(self) -> str:
        return self.options.estimate or "exact"

    def count(self) -> float:
        """The number of terms in the data, or the sum of their weights."""
        if self._count is None:
            with torch.no_grad():
                self._count = sum(self._linearise(batch).terms.count for batch in self.problem.batches)
        return self._count

    def try_first(self) -> frozenset[str]:
        """Run the first batch forward, so that what does not fit is said now; the parameters its outputs depend on."""
        for batch in self.problem.batches:
            here = self._linearised(batch)
            if self.single:
                require_terms(here.terms.count)
            return here.reached
        return frozenset()

    def of_batch(self, batch: Batch) -> LinearOperator:
        """The average over one batch as an operator."""
        here = self._linearise(batch)

        def multiply(X: Tensor) -> Tensor:
            return self._batch(here, X, self._generator()) / here.terms.count

        return MatrixFree(
            self.problem.params.numel, multiply, self.problem.dtype, self.problem.device, psd=self.options.kind == "ggn"
        )

    def _generator(self) -> torch.Generator:
        """Every pass draws the same numbers, so that the products belong to one matrix."""
        generator = torch.Generator(self._device)
        generator.set_state(self._state)
        return generator

    def operator(self) -> LinearOperator:
        """The average as an operator."""
        return MatrixFree(
            self.problem.params.numel,
            self.multiply,
            self.problem.dtype,
            self.problem.device,
            psd=self.options.kind == "ggn",
        )

    @torch.inference_mode(False)
    @torch.no_grad()
    def multiply(self, X: Tensor) -> Tensor:
        """A X for X of shape (P, K)."""
        require_eval(self.problem.model)
        X = X.clone() if X.is_inference() else X  # autograd cannot save a tensor made in inference mode
        generator = self._generator()
        total, count = torch.zeros_like(X), 0.0
        for number, batch in enumerate(self.problem.batches):
            here = self._linearised(batch)
            total += self._batch(here, X, generator)
            count += here.terms.count
            if self.progress is not None:
                self.progress(number + 1, None, "product")
        require_terms(count)
        self._require_finite(total, X)
        self._count = count
        return total / count

    def _require_finite(self, total: Tensor, X: Tensor) -> None:
        name = bad_parameter(self.problem.params, total.T)
        if name is None or not bool(torch.isfinite(X).all()):
            return
        raise ValueError(
            f"the products hold NaN or inf, first at {name!r}: a derivative on the way to it is not finite, as that of "
            "a square root at 0. Check the scale of that layer; for kind='ggn' structure='dense', 'block' or "
            "'diagonal' need no forward derivatives and may be finite."
        )

    def _linearise(self, batch: Batch) -> Linearised:
        return Linearised(self.problem, batch, twice=self.options.kind == "hessian")

    def _linearised(self, batch: Batch) -> Linearised:
        """A data set of one batch keeps its graph: further products are cheaper."""
        if not self.single:
            return self._linearise(batch)
        state = self._model_state()
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, self._linearise(batch))
        return self._kept[1]

    def _model_state(self) -> tuple:
        """What shows that the model has changed; writing through `.data` raises no version, but changes projections."""
        model = self.problem.model
        tensors = [t.detach() for t in (*model.parameters(), *model.buffers())]
        marks = tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)
        floats = [t.reshape(-1) for t in tensors if t.is_floating_point() and t.numel()]
        longest = max((len(t) for t in floats), default=0)
        if self._probe is None or len(self._probe) < longest:
            self._probe = normal((longest,), default_generator(self.problem.device), torch.float32, self.problem.device)
        seen = [(self._probe[: len(t)].to(t.device, t.dtype) @ t).double().to(self.problem.device) for t in floats]
        return marks, tuple(torch.stack(seen).tolist()) if seen else ()

    def _batch(self, here: Linearised, X: Tensor, generator: torch.Generator) -> Tensor:
        if self.options.kind == "hessian":
            return torch.stack([here.hessian(x).to(X.dtype) for x in X.T], 1)
        found = self._cotangents(here, generator)
        return torch.stack([here.vjp(found(here.jvp(x))).to(X.dtype) for x in X.T], 1)

    def _cotangents(self, here: Linearised, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
        """From J v to what is pulled back."""
        terms, likelihood = here.terms, self.problem.likelihood
        h = terms.outputs.detach()
        if self.estimate == "exact":
            scale = 1 if terms.weights is None else terms.weights[:, None]
            return lambda Jv: likelihood.multiply(h, Jv.to(h.dtype), terms.targets) * scale
        drawn = list(columns(terms, likelihood, self.estimate, self.options.samples, generator))

        def combine(Jv: Tensor) -> Tensor:
            total = torch.zeros_like(h)
            for column in drawn:
                share = torch.zeros(terms.examples, dtype=h.dtype, device=h.device)
                share.index_add_(0, terms.example, (column * Jv).sum(1))
                total += column * share[terms.example][:, None]
            return total

        return combine


@dataclass(frozen=True)
class Fixed:
    """An operator that was computed at once, and the number of terms behind it."""

    matrix: LinearOperator
    terms: float

    def operator(self) -> LinearOperator:
        """The operator."""
        return self.matrix

    def count(self) -> float:
        """The number of terms."""
        return self.terms


def written_out(products: Products, options: Options) -> Fixed:
    """Dense, block or diagonal parts of a matrix that is known by its products, a few columns at a time."""
    params = products.problem.params
    dtype, device = products.problem.dtype, products.problem.device
    size = params.numel
    pieces = _pieces(params, options.structure)
    held = max((piece.numel() for piece in pieces), default=1) if options.structure != "diagonal" else 1
    needed, budget = held**2 * dtype.itemsize, options.memory or MEMORY
    if needed > budget:
        raise MemoryError(
            f"structure={options.structure!r} needs a ({held}, {held}) matrix of {needed:.3g} bytes, allowed are "
            f"{budget:.3g}. Use structure='diagonal' or 'products', or raise memory=."
        )
    found = [
        torch.empty(len(piece), len(piece) if options.structure != "diagonal" else 1, dtype=dtype, device=device)
        for piece in pieces
    ]
    step = max(1, min(size, WIDTH // max(size, 1)))
    for piece, part in zip(pieces, found, strict=True):
        for low in range(0, len(piece), step):
            chosen = piece[low : low + step].to(device)
            unit = torch.zeros(size, len(chosen), dtype=dtype, device=device)
            unit[chosen, torch.arange(len(chosen), device=device)] = 1
            product = products.multiply(unit)
            if options.structure == "diagonal":
                part[low : low + step, 0] = product[chosen, torch.arange(len(chosen), device=device)]
            else:
                part[:, low : low + step] = product[piece.to(device)]
    count = products.count()
    if options.structure == "diagonal":
        return Fixed(Diagonal(torch.cat(found)[:, 0], psd=False), count)
    dense = [Dense((part + part.T) / 2, psd=False) for part in found]
    if options.structure == "dense":
        return Fixed(dense[0], count)
    blocks = [Block(f"block {k}", piece, part) for k, (piece, part) in enumerate(zip(pieces, dense, strict=True))]
    return Fixed(BlockDiagonal(size, blocks), count)


def _pieces(params: Params, structure: str) -> list[Tensor]:
    """Positions that share a block: everything, or the parameters of one module."""
    if structure != "block":
        return [torch.arange(params.numel, device="cpu")]
    layers: dict[str, list[Tensor]] = {}
    for name, piece in params.slices.items():
        own = torch.arange(piece.start, piece.stop, device="cpu")
        layers.setdefault(name.rpartition(".")[0], []).append(own)
    return [torch.cat(positions) for positions in layers.values()]
