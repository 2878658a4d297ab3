"""What a likelihood is: the last step from a network's output to a loss, and its curvature there.

A term is one factor p(y|h) with loss ℓ = -log p(y|h), constants included (L.1). All functions work on rows,
one per term, and are pure; they differentiate through `h` if it requires gradients, so pass `h.detach()`
where that is not wanted. Formulas: docs/maths/likelihoods.md.

Symbols
    n    terms
    C    numbers the network gives for a term
    h    (n, C)       outputs          y    (n, ...)     targets
    G    (n, C, C)    output curvature, positive semi-definite
    R    (n, C, r)    its root, R Rᵀ = G
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution


class Likelihood(ABC):
    """-log p(y|h) with its derivatives in h, its draws and its predictive distribution.

    >>> from paraboloid.spaces.likelihoods import likelihood
    >>> likelihood("categorical").nll(torch.zeros(1, 2), torch.tensor([0])).item()  # log 2
    0.6931471824645996
    """

    name: str
    needs_targets: bool = False
    """Whether `hessian`, `root` and `multiply` depend on y (only user-given densities can)."""

    @abstractmethod
    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """ℓ (n,), constants included."""

    @abstractmethod
    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """∂ℓ/∂h (n, C), in closed form."""

    @abstractmethod
    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """G (n, C, C), the positive semi-definite output curvature of the Gauss-Newton matrix (L.2)."""

    @abstractmethod
    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """∂²ℓ/∂h² (n, C, C), the true Hessian; the same as `hessian` in natural parameters (L.4)."""

    @abstractmethod
    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """G v (n, C) for v (n, C), without G."""

    @abstractmethod
    def rank(self, C: int) -> int:
        """r, the number of columns of the root."""

    @abstractmethod
    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """What all columns of the root share, computed once; then k ↦ column k (n, C)."""

    @abstractmethod
    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """Targets (samples, n, ...) from p(y|h)."""

    @abstractmethod
    def predictive(self, mean: Tensor, covariance: Tensor) -> Distribution:
        """About p(y) for h ~ N(mean (n, C), covariance); batch shape (n,), so `log_prob` is per term.

        The covariance is (n, C, C), or (n, C) for variances alone.
        """

    @abstractmethod
    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and targets with the axes of the terms first: (*terms, C) and (*terms, ...)."""

    @abstractmethod
    def check(self, h: Tensor, y: Tensor) -> None:
        """Raise unless these rows are outputs and targets of this likelihood."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """JSON-able description; `likelihood(config)` makes an equal one."""

    def counted(self, y: Tensor) -> Tensor | None:
        """(n,) bool, the rows that are terms at all; None when all are."""
        return None

    def root(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """R (n, C, r) with R Rᵀ = G, all columns at once (L.3)."""
        rank = self.rank(h.shape[-1])
        if rank == 0:
            return h.new_zeros(*h.shape, 0)
        column = self.columns(h, y)
        return torch.stack([column(k) for k in range(rank)], dim=-1)

    def root_column(self, h: Tensor, k: int, y: Tensor | None = None) -> Tensor:
        """Column k (n, C) of the root; for many of them `root_columns` shares work."""
        rank = self.rank(h.shape[-1])
        if not 0 <= k < rank:
            raise IndexError(f"the root has columns 0 to {rank - 1}, found k = {k}.")
        return self.columns(h, y)(k)

    def root_columns(self, h: Tensor, y: Tensor | None = None) -> Iterator[Tensor]:
        """The columns (n, C) of the root one after another, each made when asked for."""
        column = self.columns(h, y)
        return (column(k) for k in range(self.rank(h.shape[-1])))

    def describe(self) -> str:
        """One line for coverage reports."""
        return f"{self.name}: output curvature is the Hessian of -log p, which is the Fisher"

    def __repr__(self) -> str:
        options = {key: value for key, value in self.config().items() if key != "name"}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in options.items())})"
