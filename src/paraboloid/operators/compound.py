"""Factorisations made of others: products, thin bases, congruences, pairs and blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from paraboloid.operators.decompositions import indefinite, singular
from paraboloid.operators.factorisations import Factorisation, sizes_of
from paraboloid.operators.rectangular import Root, basis_map, kronecker_root, multiply_pair, sum_of


class Product(Factorisation):
    """A = G ⊗ B from factorisations of G (a, a) and B (b, b) (O.3)."""

    def __init__(self, left: Factorisation, right: Factorisation, sizes: tuple[int, int]) -> None:
        self.left, self.right, self.sizes = left, right, sizes

    def solve(self, X: Tensor) -> Tensor:
        return multiply_pair(self.left.solve, self.right.solve, self.sizes, X)

    def logdet(self) -> Tensor:
        a, b = self.sizes
        return b * self.left.logdet() + a * self.right.logdet()

    def root(self) -> Root:
        return kronecker_root(self.left.root(), self.right.root())

    def inverse_root(self) -> Root:
        return kronecker_root(self.left.inverse_root(), self.right.inverse_root())

    def inverse_diagonal(self) -> Tensor:
        return torch.outer(self.left.inverse_diagonal(), self.right.inverse_diagonal()).reshape(-1)


class Thin(Factorisation):
    """A = Q diag(m) Qᵀ + cI with orthonormal Q (P, r): m + c on the range of Q, c elsewhere (O.9)."""

    def __init__(self, Q: Tensor, m: Tensor, c: float, tolerance: float = 0.0) -> None:
        self.Q, self.values, self.c, self.tolerance = Q, m + c, c, tolerance
        self.rest = Q.shape[0] - Q.shape[1]

    def spectrum(self, verb: str, allow_zero: bool = False, allow_negative: bool = False) -> tuple[Tensor, float]:
        """m + c and c, if they are what the verb needs."""
        both = self.values.tolist() + [self.c] * (self.rest > 0)
        smallest, largest = min(map(abs, both)), max(map(abs, both))
        if not allow_zero and not smallest > self.tolerance * largest:
            raise singular(smallest, largest)
        if not allow_negative and min(both) < 0:
            raise indefinite(verb, min(both))
        return self.values, self.c if self.rest else 1.0

    def solve(self, X: Tensor) -> Tensor:
        values, c = self.spectrum("solve", allow_negative=True)
        return self._apply(values.reciprocal(), 1 / c, X)

    def logdet(self) -> Tensor:
        values, c = self.spectrum("logdet")
        return values.log().sum() + self.rest * torch.tensor(c, dtype=torch.float64).log()

    def root(self) -> Root:
        values, c = self.spectrum("root", allow_zero=True)
        return self._function(values.sqrt(), c**0.5)

    def inverse_root(self) -> Root:
        values, c = self.spectrum("inverse_root")
        return self._function(values.rsqrt(), c**-0.5)

    def inverse_diagonal(self) -> Tensor:
        values, c = self.spectrum("inverse_diagonal", allow_negative=True)
        squares = self.Q.double().square()
        outside = (1 - squares.sum(1)).clamp_min(0) if self.rest else torch.zeros_like(squares[:, 0])
        return (squares @ values.reciprocal() + outside / c).to(self.Q.dtype)

    def _apply(self, on: Tensor, off: float, X: Tensor) -> Tensor:
        """f(A) X with f(m + c) = `on` and f(c) = `off`.

        The part outside the range is projected twice: after one pass what is left of the range is a rounding
        error of X, which 1/c would blow up.
        """
        inside = self.Q.mT @ X
        Y = self.Q @ (on.to(X.dtype)[:, None] * inside)
        if not self.rest or off == 0:
            return Y
        outside = X - self.Q @ inside
        outside = outside - self.Q @ (self.Q.mT @ outside)
        return Y + off * outside

    def _function(self, on: Tensor, off: float) -> Root:
        P = self.Q.shape[0]

        def apply(X: Tensor) -> Tensor:
            return self._apply(on, off, X)

        return Root((P, P), apply, apply, self.Q.dtype, self.Q.device)


class Congruent(Factorisation):
    """A = diag(e) B diag(e) from a factorisation of B."""

    def __init__(self, e: Tensor, inner: Factorisation) -> None:
        self.e, self.inner = e, inner

    def solve(self, X: Tensor) -> Tensor:
        return self.inner.solve(X / self.e[:, None]) / self.e[:, None]

    def logdet(self) -> Tensor:
        return self.inner.logdet() + 2 * self.e.double().log().sum()

    def root(self) -> Root:
        return _rows_scaled(self.inner.root(), self.e)

    def inverse_root(self) -> Root:
        return _rows_scaled(self.inner.inverse_root(), self.e.reciprocal())

    def inverse_diagonal(self) -> Tensor:
        return self.inner.inverse_diagonal() / self.e.square()


class Pair(Factorisation):
    """A = W diag(s) Wᵀ, W = W_G ⊗ W_A, with W⁻ᵀ = V_G ⊗ V_A at hand (O.11).

    Everything is float64: congruences by triangular factors lose what orthogonal ones keep. One step of
    refinement against the operator itself makes the residual as small as an orthogonal basis would.
    """

    def __init__(
        self,
        W: tuple[Tensor, Tensor],
        V: tuple[Tensor, Tensor],
        s: Tensor,
        multiply: Callable[[Tensor], Tensor],
        dtype: torch.dtype,
    ) -> None:
        self.W, self.V, self.s, self.multiply, self.dtype = W, V, s, multiply, dtype

    def positive(self) -> Tensor:
        """s, if it is positive."""
        smallest = float(self.s.min())
        if not smallest > 0:
            raise singular(smallest, float(self.s.max()))
        return self.s

    def solve(self, X: Tensor) -> Tensor:
        self.positive()
        B = X.double()
        Y = self._solve_once(B)
        return (Y + self._solve_once(B - self.multiply(Y))).to(self.dtype)

    def logdet(self) -> Tensor:
        a, b = self.s.shape
        logs = [torch.linalg.slogdet(W).logabsdet for W in self.W]
        return self.positive().log().sum() + 2 * (b * logs[0] + a * logs[1])

    def root(self) -> Root:
        return self._scaled(self.W, self.s.clamp_min(0).sqrt())

    def inverse_root(self) -> Root:
        return self._scaled(self.V, self.positive().rsqrt())

    def inverse_diagonal(self) -> Tensor:
        inverse = self.positive().reciprocal()
        return (self.V[0].square() @ inverse @ self.V[1].square().mT).reshape(-1).to(self.dtype)

    def _solve_once(self, X: Tensor) -> Tensor:
        rotated = self._rotate(self.V, X, back=True)
        return self._rotate(self.V, rotated / self.s.reshape(-1, 1))

    def _rotate(self, pair: tuple[Tensor, Tensor], X: Tensor, back: bool = False) -> Tensor:
        return multiply_pair(basis_map(pair[0], back), basis_map(pair[1], back), sizes_of(self.s), X)

    def _scaled(self, pair: tuple[Tensor, Tensor], scales: Tensor) -> Root:
        weights, n = scales.reshape(-1, 1), self.s.numel()
        return Root(
            (n, n),
            lambda Z: self._rotate(pair, weights * Z.double()).to(self.dtype),
            lambda X: (weights * self._rotate(pair, X.double(), back=True)).to(self.dtype),
            self.dtype,
            self.s.device,
        )


class Blocks(Factorisation):
    """A block-diagonal, from its blocks' factorisations; `indices` cover every position exactly once."""

    def __init__(self, parts: Sequence[Factorisation], indices: Sequence[Tensor | slice], like: Tensor) -> None:
        self.parts, self.indices, self.like = parts, indices, like

    def solve(self, X: Tensor) -> Tensor:
        Y = torch.empty_like(X)
        for part, index in zip(self.parts, self.indices, strict=True):
            Y[index] = part.solve(X[index])
        return Y

    def logdet(self) -> Tensor:
        return sum_of(part.logdet() for part in self.parts)

    def root(self) -> Root:
        return block_root([part.root() for part in self.parts], self.indices, self.like)

    def inverse_root(self) -> Root:
        return block_root([part.inverse_root() for part in self.parts], self.indices, self.like)

    def inverse_diagonal(self) -> Tensor:
        d = torch.empty_like(self.like)
        for part, index in zip(self.parts, self.indices, strict=True):
            d[index] = part.inverse_diagonal()
        return d


def block_root(roots: Sequence[Root], indices: Sequence[Tensor | slice], like: Tensor) -> Root:
    """The roots of the blocks side by side, each in its own rows; `like` is any (P,) of the right kind."""
    widths = [R.shape[1] for R in roots]

    def forward(Z: Tensor) -> Tensor:
        Y = Z.new_zeros(like.shape[0], Z.shape[1])
        for R, index, part in zip(roots, indices, Z.split(widths), strict=True):
            Y[index] = R.forward(part)
        return Y

    def backward(X: Tensor) -> Tensor:
        return torch.cat([R.backward(X[index]) for R, index in zip(roots, indices, strict=True)])

    return Root((like.shape[0], sum(widths)), forward, backward, like.dtype, like.device)


def _rows_scaled(R: Root, e: Tensor) -> Root:
    return Root(R.shape, lambda Z: e[:, None] * R.forward(Z), lambda X: R.backward(e[:, None] * X), R.dtype, R.device)
