"""`EigenKronecker`: (U_G ⊗ U_A) diag(s) (U_G ⊗ U_A)ᵀ, eigenvalues free, eigenvectors a Kronecker product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paraboloid.operators.base import LinearOperator
from paraboloid.operators.rectangular import basis_map, multiply_pair


class EigenKronecker(LinearOperator):
    """Orthogonal bases U_G (a, a), U_A (b, b) (None: identity) and eigenvalues s (a, b), in float64 (O.2).

    >>> A = EigenKronecker(None, None, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> A.diagonal().tolist(), (A + 1).eigenvalues().tolist()
    ([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0])
    """

    keeps_float64 = ("eigenvalues",)

    def __init__(
        self,
        left_basis: Tensor | None,
        right_basis: Tensor | None,
        eigenvalues: Tensor,
        dtype: torch.dtype | None = None,
        psd: bool = True,
    ) -> None:
        if eigenvalues.ndim != 2:
            raise ValueError(f"`eigenvalues` should have shape (a, b), found {tuple(eigenvalues.shape)}.")
        for name, basis, n in zip(("left", "right"), (left_basis, right_basis), eigenvalues.shape, strict=True):
            if basis is not None and basis.shape != (n, n):
                raise ValueError(f"`{name}_basis` should have shape ({n}, {n}), found {tuple(basis.shape)}.")
        bases = [basis for basis in (left_basis, right_basis) if basis is not None]
        self.dtype = dtype or (bases[0].dtype if bases else eigenvalues.dtype)
        self.left_basis = None if left_basis is None else left_basis.to(self.dtype)
        self.right_basis = None if right_basis is None else right_basis.to(self.dtype)
        self.values, self.psd = eigenvalues.double(), psd
        self.size, self.device = eigenvalues.numel(), eigenvalues.device

    @property
    def sizes(self) -> tuple[int, int]:
        """(a, b)."""
        return self.values.shape[0], self.values.shape[1]

    def parts(self) -> dict[str, Any]:
        return {
            "left_basis": self.left_basis,
            "right_basis": self.right_basis,
            "eigenvalues": self.values,
            "dtype": self.dtype,
            "psd": self.psd,
        }

    def with_values(self, values: Tensor, psd: bool | None = None) -> EigenKronecker:
        """The same bases, other eigenvalues."""
        return EigenKronecker(self.left_basis, self.right_basis, values, self.dtype, self.psd if psd is None else psd)

    def multiply(self, X: Tensor) -> Tensor:
        rotated = self.rotate(X, back=True)
        return self.rotate(self.values.to(self.dtype).reshape(-1, 1) * rotated)

    def rotate(self, X: Tensor, back: bool = False) -> Tensor:
        """(U_G ⊗ U_A) X, or its transpose, for a block (P, K)."""
        maps = basis_map(self.left_basis, back), basis_map(self.right_basis, back)
        return multiply_pair(*maps, self.sizes, X)

    def to_dense(self) -> Tensor:
        bases = [
            torch.eye(n, dtype=self.dtype, device=self.device) if U is None else U.contiguous()
            for U, n in zip((self.left_basis, self.right_basis), self.sizes, strict=True)
        ]
        basis = torch.kron(bases[0], bases[1])
        return (basis * self.values.to(self.dtype).reshape(-1)) @ basis.mT
