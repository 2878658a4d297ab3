"""Columns: the cotangents whose pull-backs make a curvature estimate, one at a time.

Every estimate is a sum over columns c of (Jᵀc)(Jᵀc)ᵀ for each example. A column holds at most one root column, one
drawn label or one random combination per term.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.randomness import normal, rademacher
from paraboloid.spaces.terms import Terms

ESTIMATES = ("exact", "signed", "sampled", "empirical", "projected", "projected_gaussian")
MOST_COLUMNS = 4096


@dataclass(frozen=True)
class Columns:
    """The columns of one batch: how many there are, and an iterator that makes them lazily."""

    count: int
    terms: Terms
    likelihood: Likelihood
    estimate: str
    samples: int
    generator: torch.Generator

    def __iter__(self) -> Iterator[Tensor]:
        h, y = self.terms.outputs.detach(), self.terms.targets
        for column in self._plain(h, y):
            yield column if self.terms.weights is None else column * self.terms.weights.sqrt()[:, None]

    def _plain(self, h: Tensor, y: Tensor) -> Iterator[Tensor]:
        if self.estimate == "empirical":
            yield self.likelihood.gradient(h, y)
        elif self.estimate == "sampled":
            for label in self.likelihood.draw(h, self.generator, self.samples):
                yield self.likelihood.gradient(h, label) / self.samples**0.5
        elif self.estimate in ("projected", "projected_gaussian"):
            yield from self._projections(h, y)
        else:
            yield from self._roots(h, y)

    def _roots(self, h: Tensor, y: Tensor) -> Iterator[Tensor]:
        if self.estimate == "signed":
            signs = rademacher((len(h), 1), generator=self.generator, dtype=h.dtype, device=h.device)
            for column in self.likelihood.root_columns(h, y):
                yield column * signs
            return
        most = int(self.terms.position.max()) + 1 if len(h) else 0
        for place in range(most):
            here = (self.terms.position == place)[:, None]
            for column in self.likelihood.root_columns(h, y):
                yield column if most == 1 else torch.where(here, column, 0)

    def _projections(self, h: Tensor, y: Tensor) -> Iterator[Tensor]:
        draw = rademacher if self.estimate == "projected" else normal
        shape = (self.samples, self.likelihood.rank(h.shape[1]), len(h), 1)
        for signs in draw(shape, generator=self.generator, dtype=h.dtype, device=h.device):
            total = torch.zeros_like(h)
            for column, sign in zip(self.likelihood.root_columns(h, y), signs, strict=True):
                total.addcmul_(column, sign.expand_as(column))
            yield total / self.samples**0.5


def columns(terms: Terms, likelihood: Likelihood, estimate: str, samples: int, generator: torch.Generator) -> Columns:
    """The columns of one batch; an exact estimate of outputs with many terms per example is refused by name."""
    rank = likelihood.rank(terms.outputs.shape[1])
    if estimate == "empirical":
        count = 1
    elif estimate in ("sampled", "projected", "projected_gaussian"):
        count = samples
    elif estimate == "signed":
        count = rank
    else:
        most = int(terms.position.max()) + 1 if len(terms.position) else 0
        count = most * rank
        if count > MOST_COLUMNS:
            raise ValueError(
                f"estimate='exact' needs one column for each term and class of an example: {most} terms × {rank} "
                f"columns = {count} backward passes a batch, more than {MOST_COLUMNS}. Use estimate='signed' (exact "
                "over classes, a random sign for each term), 'sampled' or 'projected'; products are exact and cheap."
            )
    return Columns(count, terms, likelihood, estimate, samples, generator)
