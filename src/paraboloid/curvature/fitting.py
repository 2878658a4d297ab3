"""The fit itself: batches in, running sums out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from paraboloid.curvature.assembly import Assembly
from paraboloid.curvature.capture import BoundBlock, Capture
from paraboloid.curvature.certificate import Certificate, certified
from paraboloid.curvature.columns import columns
from paraboloid.curvature.coverage import Coverage, Fitted, describe
from paraboloid.curvature.eigenkronecker import EigenAssembly
from paraboloid.curvature.layout import Block
from paraboloid.curvature.options import Options
from paraboloid.curvature.problem import Problem
from paraboloid.spaces.batches import Batch


class Sums:
    """The sums of one fit, and what they are sums of."""

    def __init__(self, problem: Problem, options: Options):
        self.problem, self.options = problem, options
        self.assembly: Assembly | None = None
        self.blocks: tuple[Block, ...] = ()
        self.certificate: Certificate | None = None
        self.count = 0.0  # what the sums are divided by; a decayed count once batches are averaged exponentially
        self.seen = 0.0
        self.estimate = options.estimate or "exact"
        self.torn = False  # whether a batch was added in part
        self.truncated = options.rank is not None
        self.reached: frozenset[str] = frozenset()
        self._last: tuple[Batch, Capture] | None = None

    def bind(self, capture: Capture) -> list[BoundBlock]:
        """The batch's blocks, in the order of the first batch."""
        bound = capture.bound()
        found = certified(capture, bound)
        self.certificate = found if self.certificate is None else self.certificate.worse(found)
        if self.blocks:
            return _matched(bound, self.blocks)
        self.reached = frozenset(capture.graph.reached)
        self.blocks = tuple(block.block for block in bound)
        self.estimate = self.options.columns(many_terms=bool((capture.terms.position > 0).any()))
        if not self.blocks:
            raise ValueError(
                "none of the chosen parameters has an influence on the output, so there is no curvature. Check params= "
                "and that the forward uses them."
            )
        return bound

    def add(self, batch: Batch, generator: torch.Generator, decay: float | None = None) -> None:
        """Add one batch; with ``decay`` the average so far keeps that share of the new average."""
        capture = self._captured(batch)
        if not capture.terms.count:
            return
        bound = self.bind(capture)
        if self.assembly is None:
            self.assembly = Assembly(self.options, self.problem.params, self.blocks, self.problem.dtype)
        if decay is not None and self.count:
            self._scale(decay * capture.terms.count / ((1 - decay) * self.count))
        samples, likelihood = self.options.samples, self.problem.likelihood
        self.torn = True
        self.assembly.add(capture, bound, columns(capture.terms, likelihood, self.estimate, samples, generator))
        self.torn = False
        self.count += capture.terms.count
        self.seen += capture.terms.count

    def _captured(self, batch: Batch) -> Capture:
        """A second pass over one and the same batch goes on with its graph."""
        if self._last is not None and self._last[0] is batch:
            return self._last[1]
        self._last = None  # two graphs at once would be twice the memory
        capture = Capture(self.problem, batch)
        if self.problem.batches.single:
            self._last = (batch, capture)
        return capture

    def require_whole(self) -> None:
        """Raise if an update failed midway: its part of the sums cannot be told from the rest."""
        if self.torn:
            raise RuntimeError(
                "an update failed in the middle of its batch, and the sums hold a part of it. Fit again, or load what "
                "was saved before."
            )

    def release(self) -> None:
        """Let go of the last batch's graph."""
        self._last = None

    def _scale(self, factor: float) -> None:
        assert self.assembly is not None
        for item in self.assembly.items:
            item.total.scale(factor)
        self.count *= factor

    def correct(self) -> None:
        """Go on from factors to corrections in their eigenbases."""
        assert self.assembly is not None
        self.assembly = EigenAssembly(self.assembly, self.count)
        self.count = self.seen = 0.0

    def coverage(self) -> Coverage:
        fitted = Fitted(self.reached, self.blocks, self.estimate, self.truncated)
        return describe(self.problem.model, self.problem.params, self.options, fitted)


def _matched(bound: list[BoundBlock], blocks: Sequence[Block]) -> list[BoundBlock]:
    if all(one.block is block for one, block in zip(bound, blocks, strict=False)) and len(bound) == len(blocks):
        return bound
    keyed = {one.block.key: one for one in bound}
    if len(bound) != len(blocks) or any(block.key not in keyed for block in blocks):
        raise ValueError(
            "this batch uses the parameters in another way than the first one did, so their sums cannot be added. Give "
            "batches of one kind (a batch of a single example should not come first), or fit them apart and add the "
            "operators."
        )
    return [keyed[block.key] for block in blocks]
