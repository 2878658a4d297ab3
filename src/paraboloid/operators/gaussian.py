"""`Gaussian`: a normal distribution over the flat vector, by its mean and precision operator.

    log N(x; μ, Λ⁻¹) = −½ (x − μ)ᵀ Λ (x − μ) + ½ log det Λ − (P/2) log 2π

Scale: the precision is that of the distribution itself (a sum over data, never an average).
"""

from __future__ import annotations

import math
import os
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator, inner_product, operator_from_state
from paraboloid.operators.rectangular import Root, check_vectors
from paraboloid.spaces import storage
from paraboloid.spaces.randomness import as_generator

LOG_2PI = math.log(2 * math.pi)


def place_noise(mean: Tensor, root: Root, noise: Tensor) -> Tensor:
    """mean + R z for every row z of noise (n, r): the sampler without its randomness, (n, P).

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> R = Diagonal(torch.tensor([4.0, 1.0])).inverse_root()
    >>> place_noise(torch.zeros(2), R, torch.ones(1, 2)).tolist()
    [[0.5, 1.0]]
    """
    return mean + (root @ noise.mT).mT


class Gaussian:
    """N(mean, precision⁻¹) over (P,).

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> q = Gaussian(torch.zeros(2), Diagonal(torch.tensor([4.0, 1.0])))
    >>> q.marginal_variance().tolist(), q.sample(3, torch.Generator().manual_seed(0)).shape
    ([0.25, 1.0], torch.Size([3, 2]))
    """

    def __init__(self, mean: Tensor, precision: LinearOperator) -> None:
        if isinstance(precision, Tensor):
            raise TypeError(
                "`precision` should be a LinearOperator, found Tensor. Wrap it: Dense(matrix) or Diagonal(vector)."
            )
        if mean.ndim != 1:
            raise ValueError(f"`mean` should have shape (P,), found {tuple(mean.shape)}.")
        check_vectors(mean, precision.size, precision.dtype, precision.device, "the precision")
        self.mean, self.precision = mean, precision

    @property
    def size(self) -> int:
        """P."""
        return self.precision.size

    @cached_property
    def root(self) -> Root:
        """R with R Rᵀ the covariance."""
        return self.precision.inverse_root()

    @cached_property
    def logdet(self) -> Tensor:
        """log det of the precision, a float64 scalar."""
        return self.precision.logdet()

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """n draws, (n, P)."""
        if not isinstance(generator, torch.Generator):
            raise TypeError(
                f"`sample` needs a torch.Generator, found {type(generator).__name__}. "
                f'Make one by torch.Generator("{self.mean.device}").manual_seed(seed).'
            )
        generator = as_generator(generator, self.mean.device)
        shape = (n, self.root.shape[1])
        noise = torch.randn(shape, generator=generator, dtype=self.mean.dtype, device=self.mean.device)
        return place_noise(self.mean, self.root, noise)

    def log_prob(self, x: Tensor) -> Tensor:
        """log density of x (P,) or of every row of (K, P)."""
        if x.shape[-1:] != self.mean.shape or x.ndim > 2:
            raise ValueError(f"`x` should have shape ({self.size},) or (K, {self.size}), found {tuple(x.shape)}.")
        constant = (0.5 * self.logdet - 0.5 * self.size * LOG_2PI).to(self.mean.dtype)
        return constant - 0.5 * self._square(x - self.mean)

    def entropy(self) -> Tensor:
        """−E log q, a float64 scalar."""
        return 0.5 * self.size * (1 + LOG_2PI) - 0.5 * self.logdet

    def kl(self, other: Gaussian) -> Tensor:
        """KL(self ‖ other) = ½ (tr Λ₂Λ₁⁻¹ − P + dᵀΛ₂d + log det Λ₁ − log det Λ₂), d = μ₁ − μ₂ (O.19)."""
        if other.size != self.size:
            raise ValueError(f"both Gaussians should have one size, found {self.size} and {other.size}.")
        ratio = inner_product(other.precision, self.precision.inverse())
        square = other._square(self.mean - other.mean).double()
        return 0.5 * (ratio - self.size + square + self.logdet - other.logdet)

    def marginal_variance(self) -> Tensor:
        """diag of the covariance, (P,)."""
        return self.precision.inverse().diagonal()

    def tempered(self, temperature: float) -> Gaussian:
        """The density to the power 1/T, normalised: covariance times T.

        >>> from paraboloid.operators.diagonal import Diagonal
        >>> Gaussian(torch.zeros(1), Diagonal(torch.ones(1))).tempered(3.0).marginal_variance().tolist()
        [3.0]
        """
        if not temperature > 0:
            raise ValueError(f"the temperature should be positive, found {temperature}.")
        return Gaussian(self.mean, self.precision / temperature)

    def to(self, target: torch.dtype | torch.device | str) -> Gaussian:
        """The same distribution in another dtype or on another device."""
        return Gaussian(self.mean.to(target), self.precision.to(target))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one safetensors file; `Gaussian.load` reads it back."""
        tensors, metadata = self.precision.state()
        storage.save(
            path,
            {"mean": self.mean} | _under("precision", tensors),
            {"kind": "gaussian", "precision": metadata},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Self:
        """The Gaussian that `save` wrote."""
        tensors, metadata = storage.load(path, device)
        if metadata.get("kind") != "gaussian":
            raise ValueError(f"{path} should hold a Gaussian, found {metadata.get('kind', 'something else')!r}.")
        mean = tensors.pop("mean")
        return cls(mean, operator_from_state(_out_of("precision", tensors), metadata["precision"]))

    def __repr__(self) -> str:
        return f"Gaussian(size={self.size}, precision={self.precision!r})"

    def _square(self, difference: Tensor) -> Tensor:
        rows = difference if difference.ndim == 2 else difference[None]
        squares = (rows * (self.precision @ rows.mT).mT).sum(1)
        return squares if difference.ndim == 2 else squares[0]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _out_of(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items()}
