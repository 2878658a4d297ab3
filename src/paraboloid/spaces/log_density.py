"""Any likelihood, from the user's log-density of one term, differentiated by torch.func.

Two curvatures are on offer and have to be told apart: the Hessian of -log p at the observed target, which
can be indefinite (then it is refused), and the Fisher, the expected outer product of gradients under the
model, which cannot. They agree when the outputs are natural parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.func import vmap

from paraboloid.spaces.likelihood import Likelihood
from paraboloid.spaces.randomness import as_generator
from paraboloid.spaces.rows import require_finite

Draw = Callable[[Tensor, torch.Generator, int], Tensor]
Predictive = Callable[[Tensor, Tensor], Distribution]

# an eigenvalue this far below zero, relative to the largest, is rounding in the working precision
NEGATIVE = {torch.float64: 1e-10, torch.float32: 1e-4}


class LogDensity(Likelihood):
    """ℓ = -log_prob(h_row (C,), y_row) of each term, equations (L.27) to (L.30).

    `curvature="hessian"` takes ∂²ℓ/∂h² at the target and raises where it is not positive semi-definite;
    `"fisher"` takes E[∇ℓ∇ℓᵀ] under p(y|h), exactly over the labels in `support` (m, ...), or else over
    `samples` targets from `draw(h, generator, samples) -> (samples, n, ...)`, the same in every call.
    The class axis of outputs is the last one; the other axes are the first axes of the targets.

    >>> laplace = LogDensity(lambda h, y: -(y - h[0]).abs() / h[1].exp() - h[1] - torch.tensor(2.0).log())
    >>> laplace.nll(torch.zeros(1, 2), torch.tensor([3.0])).item()  # 3 + log 2
    3.6931471824645996
    """

    name = "log_density"

    def __init__(
        self,
        log_prob: Callable[[Tensor, Tensor], Tensor],
        curvature: str = "hessian",
        *,
        support: Tensor | None = None,
        draw: Draw | None = None,
        samples: int = 256,
        predictive: Predictive | None = None,
    ) -> None:
        if curvature not in ("hessian", "fisher"):
            raise ValueError(f'`curvature` should be "hessian" or "fisher", found {curvature!r}.')
        if curvature == "fisher" and support is None and draw is None:
            raise ValueError(
                'curvature="fisher" is an expectation over targets: give support=, a tensor of all '
                "possible targets, "
                "or draw=, a function (h, generator, samples) -> targets (samples, n, ...)."
            )
        if samples < 1:
            raise ValueError(f"`samples` should be at least 1, found {samples}.")
        self.log_prob, self.curvature, self.samples = log_prob, curvature, samples
        self.support, self._draw, self._predictive = support, draw, predictive
        self.needs_targets = curvature == "hessian"

    def nll(self, h: Tensor, y: Tensor) -> Tensor:
        """-log_prob of every row: by vmap, or row by row for one that reads numbers, as h[y] does."""
        if not len(h):
            return h.sum(-1)
        try:
            return -vmap(self.log_prob)(h, y)
        except RuntimeError as error:
            if "vmap" not in str(error):
                raise
            return -torch.stack([self.log_prob(row, label) for row, label in zip(h, y, strict=True)])

    def gradient(self, h: Tensor, y: Tensor) -> Tensor:
        """By reverse mode (L.27); rows do not meet, so one pass does for all."""
        at = h if h.requires_grad else h.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(self.nll(at, y).sum(), at, create_graph=h.requires_grad)[0]

    def loss_hessian(self, h: Tensor, y: Tensor) -> Tensor:
        """By reverse mode over reverse mode (L.28); may be indefinite."""
        at = h if h.requires_grad else h.detach().requires_grad_()
        with torch.enable_grad():
            g = self.gradient(at, y)
            rows = [self._slope(g[:, c].sum(), at, create_graph=h.requires_grad) for c in range(h.shape[1])]
        return torch.stack(rows, 1) if rows else h.new_zeros(*h.shape, 0)

    @staticmethod
    def _slope(value: Tensor, at: Tensor, create_graph: bool) -> Tensor:
        """The gradient, zero where the value does not depend on h."""
        if not value.requires_grad:
            return torch.zeros_like(at)
        found = torch.autograd.grad(value, at, create_graph=create_graph, retain_graph=True, allow_unused=True)[0]
        return torch.zeros_like(at) if found is None else found

    def hessian(self, h: Tensor, y: Tensor | None = None) -> Tensor:
        """The curvature chosen: (L.28), refused where it is not semi-definite, or the Fisher (L.29), (L.30)."""
        if self.curvature == "fisher":
            return self._fisher(h)
        if y is None:
            raise ValueError(
                "the Hessian of this log-density depends on the targets: pass y, or choose curvature='fisher'."
            )
        G = self.loss_hessian(h, y)
        _semi_definite(G)
        return G

    def multiply(self, h: Tensor, v: Tensor, y: Tensor | None = None) -> Tensor:
        """G v; here G (n, C, C) is made, for only so can it be checked."""
        return (self.hessian(h, y) @ v.unsqueeze(-1)).squeeze(-1)

    def rank(self, C: int) -> int:
        """C; columns may be zero."""
        return C

    def columns(self, h: Tensor, y: Tensor | None = None) -> Callable[[int], Tensor]:
        """Eigenvectors times roots of eigenvalues, clamped at 0."""
        values, vectors = torch.linalg.eigh(self.hessian(h, y).double())
        R = (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)).to(h.dtype)
        return lambda k: R[..., k]

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        """Targets (samples, n, ...) by the user's function, or from the support."""
        generator = as_generator(generator, h.device)
        if self._draw is not None:
            y = self._draw(h, generator, samples)
            if y.shape[:2] != (samples, h.shape[0]):
                raise ValueError(f"draw= should return targets ({samples}, {h.shape[0]}, ...), found {tuple(y.shape)}.")
            return y
        if self.support is None:
            raise ValueError("to draw from this log-density give support= or draw= when making it.")
        p = self._probabilities(h).mT
        labels = torch.multinomial(p, samples, replacement=True, generator=generator).mT
        return self.support.to(h.device)[labels]

    def predictive(self, mean: Tensor, covariance: Tensor) -> Distribution:
        """What the user's predictive=(mean, covariance) returns."""
        if self._predictive is None:
            raise ValueError(
                "the predictive distribution of a user's log-density is not known; give predictive=, a "
                "function "
                "(mean (n, C), covariance (n, C, C)) -> torch.distributions object, when making LogDensity."
            )
        return self._predictive(mean, covariance)

    def arrange(self, out: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (*terms, C) with targets (*terms, ...)."""
        out = out.unsqueeze(-1) if out.ndim == 1 else out
        if targets.shape[: out.ndim - 1] != out.shape[:-1]:
            raise ValueError(
                f"targets of a log-density should begin with the axes {tuple(out.shape[:-1])} of the outputs "
                f"{tuple(out.shape)}, the last of which is the row given to log_prob; found "
                f"{tuple(targets.shape)}."
            )
        return out, targets

    def check(self, h: Tensor, y: Tensor) -> None:
        """Finite targets, one per row, and a log_prob that gives one number."""
        if h.ndim != 2 or y.shape[:1] != h.shape[:1]:
            raise ValueError(f"rows should be (n, C) and (n, ...), found {tuple(h.shape)} and {tuple(y.shape)}.")
        require_finite(y, self.name)
        if len(h):
            value = self.log_prob(h[0].detach(), y[0])
            if not isinstance(value, Tensor) or value.ndim:
                found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
                raise ValueError(f"log_prob(h_row (C,), y_row) should return a tensor without axes, found {found}.")

    def config(self) -> dict[str, Any]:
        """Name and choice; the functions themselves cannot be written down."""
        return {"name": self.name, "curvature": self.curvature}

    def describe(self) -> str:
        """One line that says which curvature was chosen, and how it is found."""
        if self.curvature == "hessian":
            return f"{self.name}: output curvature is the Hessian of -log p at the targets"
        how = f"over {len(self.support)} labels" if self.support is not None else f"by {self.samples} draws"
        return f"{self.name}: output curvature is the Fisher, {how}"

    def _fisher(self, h: Tensor) -> Tensor:
        if self.support is None:
            y = self.draw(h, None, self.samples)
            g = self.gradient(h.repeat(len(y), 1), y.flatten(0, 1)).unflatten(0, y.shape[:2])
            return torch.einsum("snc,snd->ncd", g, g) / self.samples
        repeated, y = self._all_pairs(h)
        g = self.gradient(repeated, y).view(len(self.support), *h.shape)
        return torch.einsum("sn,snc,snd->ncd", self._probabilities(h), g, g)

    def _all_pairs(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and targets (m n, ...): every row with every target of the support."""
        assert self.support is not None
        y = self.support.to(h.device)
        return h.repeat(len(y), 1), y.repeat_interleave(len(h), 0)

    def _probabilities(self, h: Tensor) -> Tensor:
        """(m, n) probabilities of the support, which have to add up to 1."""
        repeated, y = self._all_pairs(h)
        assert self.support is not None
        p = (-self.nll(repeated, y)).exp().view(len(self.support), len(h))
        total = p.sum(0)
        if bool(((total - 1).abs() > 1e-3).any()):
            worst = total[(total - 1).abs().argmax()].item()
            raise ValueError(
                f"the probabilities of the {len(self.support)} targets in support= should add up to 1, found "
                f"{worst:g}: list all "
                "possible targets, and let log_prob include its constants; or give draw= instead."
            )
        return p


def _semi_definite(G: Tensor) -> None:
    if not G.numel():
        return
    if not bool(torch.isfinite(G).all()):
        raise ValueError("the Hessian of the log-density holds NaN or infinite numbers at these outputs.")
    values = torch.linalg.eigvalsh(G.double())
    scale = values.abs().amax(-1).clamp(min=torch.finfo(torch.float64).tiny)
    lowest = values[..., 0] / scale
    if bool((lowest < -NEGATIVE.get(G.dtype, 1e-2)).any()):
        raise ValueError(
            "the Hessian of -log_prob should be positive semi-definite to serve as output curvature; found "
            "an "
            f"eigenvalue {values[..., 0][lowest.argmin()].item():g} below zero at the targets. Use "
            "LogDensity(..., curvature='fisher') with support= or draw=, or kind='hessian'."
        )
