"""Factorisations: A split so that solve, log-determinant and both roots can be read off.

One class per way of splitting; here the plain ones, in `compound.py` those made of others.
`factorise.py` says which structure uses which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from paraboloid.operators.decompositions import indefinite, singular
from paraboloid.operators.rectangular import Root, basis_map, diagonal_root, matrix_root, multiply_pair


class Factorisation(ABC):
    """What every splitting of A can answer; blocks are (P, K)."""

    @abstractmethod
    def solve(self, X: Tensor) -> Tensor:
        """A⁻¹X."""

    @abstractmethod
    def logdet(self) -> Tensor:
        """log det A, float64."""

    @abstractmethod
    def root(self) -> Root:
        """R with R Rᵀ = A."""

    @abstractmethod
    def inverse_root(self) -> Root:
        """R with R Rᵀ = A⁻¹."""

    @abstractmethod
    def inverse_diagonal(self) -> Tensor:
        """diag A⁻¹, (P,)."""


class Cholesky(Factorisation):
    """A = L Lᵀ; L may be more precise than the vectors."""

    def __init__(self, L: Tensor, dtype: torch.dtype) -> None:
        self.L, self.dtype = L, dtype

    def solve(self, X: Tensor) -> Tensor:
        return torch.cholesky_solve(X.to(self.L.dtype), self.L).to(self.dtype)

    def logdet(self) -> Tensor:
        return 2 * self.L.diagonal().double().log().sum()

    def root(self) -> Root:
        return matrix_root(self.L.to(self.dtype))

    def inverse_root(self) -> Root:
        L, dtype, n = self.L, self.dtype, self.L.shape[0]

        def forward(Z: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(L.mT, Z.to(L.dtype), upper=True).to(dtype)

        def backward(X: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(L, X.to(L.dtype), upper=False).to(dtype)

        return Root((n, n), forward, backward, dtype, L.device)

    def inverse_diagonal(self) -> Tensor:
        return torch.cholesky_inverse(self.L).diagonal().to(self.dtype)


class Spectral(Factorisation):
    """A = (U ⊗ V) diag(s) (U ⊗ V)ᵀ with orthogonal U, V (None: identity) and s (a, b) in float64 (O.2).

    `tolerance`: eigenvalues below this part of the largest one are rounding errors of zero.
    """

    def __init__(
        self,
        left: Tensor | None,
        right: Tensor | None,
        values: Tensor,
        dtype: torch.dtype,
        tolerance: float = 0.0,
    ) -> None:
        self.left, self.right, self.values = left, right, values
        self.dtype, self.tolerance = dtype, tolerance

    def invertible(self) -> Tensor:
        """The eigenvalues, if none of them is zero."""
        sizes = self.values.abs()
        smallest, largest = float(sizes.min()), float(sizes.max())
        if not smallest > self.tolerance * largest:
            raise singular(smallest, largest)
        return self.values

    def positive(self, verb: str) -> Tensor:
        """The eigenvalues, if all of them are positive."""
        values = self.invertible()
        if not bool((values > 0).all()):
            raise indefinite(verb, float(values.min()))
        return values

    def solve(self, X: Tensor) -> Tensor:
        inverse = self.invertible().reciprocal().to(self.dtype).reshape(-1, 1)
        return self._rotate(inverse * self._rotate(X, back=True))

    def logdet(self) -> Tensor:
        return self.positive("logdet").log().sum()

    def root(self) -> Root:
        if not bool((self.values >= 0).all()):
            raise indefinite("root", float(self.values.min()))
        return self._scaled(self.values.sqrt())

    def inverse_root(self) -> Root:
        return self._scaled(self.positive("inverse_root").rsqrt())

    def inverse_diagonal(self) -> Tensor:
        inverse = self.invertible().reciprocal().to(self.dtype)
        maps = basis_map(squared(self.left)), basis_map(squared(self.right))
        return multiply_pair(*maps, sizes_of(inverse), inverse.reshape(-1, 1))[:, 0]

    def _rotate(self, X: Tensor, back: bool = False) -> Tensor:
        return multiply_pair(basis_map(self.left, back), basis_map(self.right, back), sizes_of(self.values), X)

    def _scaled(self, scales: Tensor) -> Root:
        weights, n = scales.to(self.dtype).reshape(-1, 1), self.values.numel()
        return Root(
            (n, n),
            lambda Z: self._rotate(weights * Z),
            lambda X: weights * self._rotate(X, back=True),
            self.dtype,
            self.values.device,
        )


class Entries(Factorisation):
    """A = diag(d)."""

    def __init__(self, d: Tensor) -> None:
        self.d = d

    def invertible(self) -> Tensor:
        """The entries, if none of them is zero."""
        smallest = float(self.d.abs().min())
        if not smallest > 0:
            raise singular(smallest, float(self.d.abs().max()))
        return self.d

    def positive(self, verb: str) -> Tensor:
        """The entries, if all of them are positive."""
        if not bool((self.invertible() > 0).all()):
            raise indefinite(verb, float(self.d.min()))
        return self.d

    def solve(self, X: Tensor) -> Tensor:
        return X / self.invertible()[:, None]

    def logdet(self) -> Tensor:
        return self.positive("logdet").double().log().sum()

    def root(self) -> Root:
        if not bool((self.d >= 0).all()):
            raise indefinite("root", float(self.d.min()))
        return diagonal_root(self.d.sqrt())

    def inverse_root(self) -> Root:
        return diagonal_root(self.positive("inverse_root").rsqrt())

    def inverse_diagonal(self) -> Tensor:
        return self.invertible().reciprocal()


def squared(basis: Tensor | None) -> Tensor | None:
    return None if basis is None else basis.square()


def sizes_of(values: Tensor) -> tuple[int, int]:
    return values.shape[0], values.shape[1]
