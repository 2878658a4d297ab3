"""`Root`: a map R from noise to vectors, known by its products, with R Rᵀ the matrix it is a root of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]
Method = TypeVar("Method", bound=Callable)


def own_precision(method: Method) -> Method:
    """A method of something with a `device` that computes in its own dtype inside `torch.autocast` too."""

    @wraps(method)
    def called(self, *args, **kwargs):
        kind = self.device.type
        if not torch.is_autocast_enabled(kind):
            return method(self, *args, **kwargs)
        with torch.autocast(kind, enabled=False):
            return method(self, *args, **kwargs)

    return called  # type: ignore[return-value]


@dataclass(frozen=True)
class Root:
    """A (P, r) matrix by its two products; `R @ Z` takes (r,) or (r, K), `R.T @ X` takes (P,) or (P, K).

    >>> R = matrix_root(torch.tensor([[1.0], [2.0]]))
    >>> (R @ torch.tensor([3.0])).tolist(), (R.T @ torch.ones(2)).tolist(), R.shape
    ([3.0, 6.0], [3.0], (2, 1))
    """

    shape: tuple[int, int]
    forward: Map
    backward: Map
    dtype: torch.dtype
    device: torch.device

    @property
    def T(self) -> Root:
        """The transposed map Rᵀ, (r, P)."""
        return Root((self.shape[1], self.shape[0]), self.backward, self.forward, self.dtype, self.device)

    @own_precision
    def __matmul__(self, Z: Tensor) -> Tensor:
        check_vectors(Z, self.shape[1], self.dtype, self.device, "the root")
        return self.forward(Z[:, None])[:, 0] if Z.ndim == 1 else self.forward(Z)

    @own_precision
    def dense(self) -> Tensor:
        """R written out, (P, r)."""
        return self.forward(torch.eye(self.shape[1], dtype=self.dtype, device=self.device))


def check_vectors(X: Tensor, size: int, dtype: torch.dtype, device: torch.device, owner: str) -> None:
    """Raise unless X is (size,) or (size, K) of this dtype on this device."""
    if not isinstance(X, Tensor):
        raise TypeError(f"{owner} acts on a tensor ({size},) or ({size}, K); found {type(X).__name__}.")
    if X.ndim not in (1, 2) or X.shape[0] != size:
        raise ValueError(
            f"{owner} acts on vectors of shape ({size},) or ({size}, K), found {tuple(X.shape)}. "
            "Put the flat vector's axis first (transpose a stack of K rows)."
        )
    if X.dtype != dtype:
        raise TypeError(f"{owner} has dtype {dtype}, the vectors {X.dtype}. Convert one of them with `.to(dtype)`.")
    if X.device != device:
        raise ValueError(f"{owner} is on {device}, the vectors on {X.device}. Move one of them with `.to(device)`.")


def matrix_root(matrix: Tensor) -> Root:
    """The root that a written-out (P, r) matrix is."""
    return Root(
        (matrix.shape[0], matrix.shape[1]),
        lambda Z: matrix @ Z,
        lambda X: matrix.mT @ X,
        matrix.dtype,
        matrix.device,
    )


def diagonal_root(vector: Tensor) -> Root:
    """diag(vector) as a root."""
    n = vector.shape[0]
    return Root((n, n), lambda Z: vector[:, None] * Z, lambda X: vector[:, None] * X, vector.dtype, vector.device)


def beside(roots: Sequence[Root]) -> Root:
    """[R₁ R₂ …], a root of the sum of what the parts are roots of (O.5)."""
    widths = [R.shape[1] for R in roots]

    def forward(Z: Tensor) -> Tensor:
        return sum_of(R.forward(part) for R, part in zip(roots, Z.split(widths), strict=True))

    def backward(X: Tensor) -> Tensor:
        return torch.cat([R.backward(X) for R in roots])

    return Root((roots[0].shape[0], sum(widths)), forward, backward, roots[0].dtype, roots[0].device)


def kronecker_root(left: Root, right: Root) -> Root:
    """R_G ⊗ R_A, a root of G ⊗ A."""
    (a, p), (b, q) = left.shape, right.shape

    def forward(Z: Tensor) -> Tensor:
        return multiply_pair(left.forward, right.forward, (p, q), Z)

    def backward(X: Tensor) -> Tensor:
        return multiply_pair(left.backward, right.backward, (a, b), X)

    return Root((a * b, p * q), forward, backward, left.dtype, left.device)


def multiply_pair(left: Map, right: Map, shape: tuple[int, int], X: Tensor) -> Tensor:
    """(L ⊗ R) X for X (a·b, K), given the maps of L and R on the rows of a matrix (O.1).

    All K columns ride in one product on either side; a single column needs no copy at all.
    """
    a, b = shape
    K = X.shape[1]
    Y = left(X.reshape(a, b * K))
    a = Y.shape[0]
    Z = right(Y.reshape(a, b, K).transpose(0, 1).reshape(b, a * K))
    b = Z.shape[0]
    return Z.reshape(b, a, K).transpose(0, 1).reshape(a * b, K)


def basis_map(basis: Tensor | None, transpose: bool = False) -> Map:
    """X ↦ U X or Uᵀ X; None stands for the identity basis."""
    if basis is None:
        return lambda X: X
    U = basis.mT if transpose else basis
    return lambda X: U @ X


def sum_of(terms: object) -> Tensor:
    """Σ of tensors, without the integer 0 that `sum` starts from."""
    total = None
    for term in terms:  # type: ignore[attr-defined]
        total = term if total is None else total + term
    assert total is not None
    return total
