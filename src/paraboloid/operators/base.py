"""`LinearOperator`: a symmetric matrix (P, P) that knows its structure.

Everything public is here and has one meaning for every structure; the answers come from the tables in
`verbs.py`. A structure brings its parts and its product, nothing else is required of it. Operators are
immutable: what was computed once (a factorisation, an eigenbasis) is kept.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from paraboloid.operators import estimates, verbs
from paraboloid.operators.rectangular import Root, check_vectors, own_precision
from paraboloid.operators.saving import FORMAT, pack, repeated, unpack
from paraboloid.spaces import storage

MEMORY = 4 * 2**30
MOST_PRODUCTS = 4096


class LinearOperator(ABC):
    """Symmetric (P, P) matrix; positive semi-definite unless `psd` is False.

    `A @ X` and `A.solve(X)` take (P,) or (P, K). `A + c` means A + cI (not "c added to every entry").

    >>> from paraboloid.operators.diagonal import Diagonal
    >>> A = Diagonal(torch.tensor([1.0, 4.0]))
    >>> (A @ torch.ones(2)).tolist(), (2 * A + 1).diagonal().tolist(), float(A.trace())
    ([1.0, 4.0], [3.0, 9.0], 5.0)
    >>> (A + 1).solve(torch.ones(2)).tolist(), A.top_eigenpairs(1)[0].tolist()
    ([0.5, 0.20000000298023224], [4.0])
    """

    structures: ClassVar[dict[str, type]] = {}
    by_products: bool = False  # whether nothing but products is known, so that writing it out takes P of them
    keeps_float64: ClassVar[tuple[str, ...]] = ()  # parts that `to(dtype)` leaves in double precision

    size: int
    dtype: torch.dtype
    device: torch.device
    psd: bool

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        LinearOperator.structures[cls.__name__] = cls

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """What the structure is made of, under the names of its constructor's arguments."""

    @abstractmethod
    def multiply(self, X: Tensor) -> Tensor:
        """A X for a block (P, K), K ≥ 1, of the right dtype and device; `@` checks and reshapes."""

    @classmethod
    def rebuild(cls, **parts: Any) -> Self:
        """The operator made of these parts."""
        return cls(**parts)

    # ------------------------------------------------------------------ algebra
    @own_precision
    def __matmul__(self, X: Tensor) -> Tensor:
        check_vectors(X, self.size, self.dtype, self.device, f"{type(self).__name__}")
        if X.numel() == 0:
            return torch.zeros_like(X)
        return self.multiply(X[:, None])[:, 0] if X.ndim == 1 else self.multiply(X)

    def __add__(self, other: LinearOperator | float) -> LinearOperator:
        if isinstance(other, LinearOperator):
            check_partner(self, other)
            return verbs.add(self, other)
        if not isinstance(other, Real | Tensor) and hasattr(other, "__radd__"):
            return NotImplemented  # what stands for an operator knows how to be added to one
        c = as_number(other, "+")
        if c < 0 and self.psd:
            raise ValueError(
                f"negative damping: A + c shifts a semi-definite operator by c ≥ 0, found c = {c}. "
                f"If an indefinite operator is meant, write `A - {-c} * identity(A.size, A.dtype, A.device)`."
            )
        return self if c == 0 else verbs.shift(self, c)

    def __sub__(self, other: LinearOperator | float) -> LinearOperator:
        return self + (-other)

    def __mul__(self, c: float) -> LinearOperator:
        c = as_number(c, "*")
        return self if c == 1 else verbs.scale(self, c)

    def __truediv__(self, c: float) -> LinearOperator:
        return self * (1 / as_number(c, "/"))

    def __neg__(self) -> LinearOperator:
        return self * -1.0

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, c: float) -> LinearOperator:
        return -self + c

    # ------------------------------------------------------------------ inverse and root
    @cached_property
    def factorisation(self) -> Any:
        """The kept `Factorisation`, or None where no closed form exists."""
        return verbs.factorise(self)

    @own_precision
    def solve(self, X: Tensor, tolerance: float | None = None) -> Tensor:
        """A⁻¹X; raises if A is singular. `tolerance`: relative residual, where the solver is iterative."""
        check_vectors(X, self.size, self.dtype, self.device, f"{type(self).__name__}.solve")
        if X.numel() == 0:
            return torch.zeros_like(X)
        block = X[:, None] if X.ndim == 1 else X
        return verbs.solve(self, block, tolerance).reshape(X.shape)

    @own_precision
    def inverse(self) -> LinearOperator:
        """A⁻¹ as an operator, of the same structure where there is one."""
        return verbs.inverse(self)

    @own_precision
    def root(self) -> Root:
        """Some R with R Rᵀ = A, maybe rectangular."""
        return verbs.root(self)

    @own_precision
    def inverse_root(self) -> Root:
        """Some R with R Rᵀ = A⁻¹."""
        return verbs.inverse_root(self)

    @own_precision
    def logdet(self) -> Tensor:
        """log det A, a float64 scalar; exact, or an error that names `estimate_logdet`."""
        return verbs.logdet(self)

    # ------------------------------------------------------------------ numbers
    @own_precision
    def trace(self) -> Tensor:
        """tr A, a float64 scalar; exact, or an error that names `estimate_trace`."""
        return verbs.trace(self)

    @own_precision
    def diagonal(self) -> Tensor:
        """diag A, (P,)."""
        return verbs.diagonal(self)

    @own_precision
    def frobenius(self) -> Tensor:
        """‖A‖_F, a float64 scalar."""
        square = verbs.inner(self, self)
        if square is None:
            square = written_out(self, "frobenius", "`estimate_frobenius`").double().square().sum()
        return square.clamp_min(0).sqrt()

    @own_precision
    def eigenvalues(self) -> Tensor:
        """All P eigenvalues, ascending, float64 (`top_eigenpairs` gives the largest first)."""
        return verbs.eigenvalues(self)

    @own_precision
    def top_eigenpairs(self, k: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The k largest eigenvalues (k,), descending, float64, and orthonormal vectors (P, k)."""
        if not 1 <= k <= self.size:
            raise ValueError(f"`k` should lie between 1 and the size {self.size}, found {k}.")
        return verbs.top_eigenpairs(self, k, generator)

    @own_precision
    def estimate_trace(self, samples: int = 100, generator: torch.Generator | None = None) -> estimates.Estimate:
        """tr A from `samples` products (O.20)."""
        return estimates.estimate_trace(self, samples, generator)

    @own_precision
    def estimate_diagonal(self, samples: int = 100, generator: torch.Generator | None = None) -> estimates.Estimate:
        """diag A from `samples` products (O.21)."""
        return estimates.estimate_diagonal(self, samples, generator)

    @own_precision
    def estimate_frobenius(self, samples: int = 100, generator: torch.Generator | None = None) -> estimates.Estimate:
        """‖A‖_F from `samples` products (O.22)."""
        return estimates.estimate_frobenius(self, samples, generator)

    @own_precision
    def estimate_logdet(
        self, samples: int = 100, generator: torch.Generator | None = None, steps: int = 50
    ) -> estimates.Estimate:
        """log det A by Lanczos quadrature, `samples` · `steps` products (O.23)."""
        return estimates.estimate_logdet(self, samples, generator, steps)

    # ------------------------------------------------------------------ storage
    @own_precision
    def dense(self, memory: float | None = None) -> Tensor:
        """The matrix written out, (P, P); refused beyond `memory` bytes (default 4 GiB)."""
        needed, budget = self.size**2 * self.dtype.itemsize, MEMORY if memory is None else memory
        if needed > budget:
            raise MemoryError(
                f"the dense ({self.size}, {self.size}) matrix needs {needed:.3g} bytes, allowed "
                f"are {budget:.3g}. "
                "Use products (`A @ X`), `estimate_trace`, `estimate_diagonal`, `estimate_logdet` or "
                "`top_eigenpairs`, or raise `memory=`."
            )
        return self.to_dense()

    def to_dense(self) -> Tensor:
        """The matrix, without asking for its size; structures override this where they know better."""
        return self @ torch.eye(self.size, dtype=self.dtype, device=self.device)

    @property
    def shape(self) -> tuple[int, int]:
        """(P, P)."""
        return self.size, self.size

    @property
    def nbytes(self) -> int:
        """Bytes held by the parts (kept factorisations not counted)."""
        return sum(_nbytes(part) for part in self.parts().values())

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """The operator in another dtype or on another device."""
        target = torch.device(target) if isinstance(target, str) else target
        moved = {k: _move(part, target, k in self.keeps_float64) for k, part in self.parts().items()}
        return type(self).rebuild(**moved)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Named tensors, and JSON-able metadata that says how to put them together again."""
        tensors: dict[str, Tensor] = {}
        return tensors, {"kind": FORMAT, "operator": pack("", self, tensors)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one safetensors file; `load_operator` reads it back."""
        storage.save(path, *self.state())

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, dtype={self.dtype}, device={self.device})"


def load_operator(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> LinearOperator:
    """The operator that `save` wrote.

    >>> import tempfile; from paraboloid.operators.diagonal import Diagonal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Diagonal(torch.ones(3)).save(f"{folder}/a.safetensors")
    ...     load_operator(f"{folder}/a.safetensors")
    Diagonal(size=3, dtype=torch.float32, device=cpu)
    """
    tensors, metadata = storage.load(path, device)
    return operator_from_state(tensors, metadata)


def operator_from_state(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> LinearOperator:
    """The operator that `state()` described."""
    if metadata.get("kind") != FORMAT:
        raise ValueError(f"the file should hold an operator, found {metadata.get('kind', 'something else')!r}.")
    return unpack(metadata["operator"], tensors, LinearOperator.structures)


def inner_product(A: LinearOperator, B: LinearOperator) -> Tensor:
    """tr(AB), a float64 scalar, by whichever of the two structures can say (O.4)."""
    for left, right in ((A, B), (B, A)):
        value = verbs.inner(left, right)
        if value is not None:
            return value
    # tr(AB) = Σ_ij A_ij B_ij; A is multiplied so that only one of the two has to be written out
    return (A @ B.dense()).diagonal().double().sum()


def written_out(A: LinearOperator, verb: str, instead: str) -> Tensor:
    """The dense matrix for a verb without a closed form, or an error that names what to use instead."""
    needed = A.size**2 * A.dtype.itemsize
    if A.by_products and A.size > MOST_PRODUCTS:
        raise MemoryError(
            f"`{verb}` has no closed form for {type(A).__name__}: it would take {A.size} products, one for each "
            f"column, more than {MOST_PRODUCTS}. Use {instead}."
        )
    if needed > MEMORY:
        raise MemoryError(
            f"`{verb}` has no closed form for {type(A).__name__}, and its ({A.size}, {A.size}) matrix "
            f"needs {needed:.3g} bytes, allowed are {MEMORY:.3g}. Use {instead}."
        )
    return A.to_dense()


def check_partner(A: LinearOperator, B: LinearOperator) -> None:
    """Raise unless A and B may be added."""
    for name in ("size", "dtype", "device"):
        a, b = getattr(A, name), getattr(B, name)
        if a != b:
            raise ValueError(f"operators that are added should agree in {name}, found {a} and {b}. Use `.to(...)`.")


def as_number(c: Any, sign: str) -> float:
    """A finite Python float, or a TypeError that explains what operators combine with."""
    if isinstance(c, Tensor) and c.ndim == 0:
        c = c.item()
    if not isinstance(c, Real) or isinstance(c, bool):
        raise TypeError(f"`{sign}` combines an operator with a number or an operator, found {type(c).__name__}.")
    if not math.isfinite(c):
        raise ValueError(f"`{sign}` needs a finite number, found {c}.")
    return float(c)


def _nbytes(part: Any) -> int:
    if isinstance(part, (list, tuple)):
        return sum(_nbytes(p) for p in part)
    if isinstance(part, Tensor) and repeated(part):
        return part.itemsize
    return part.nbytes if isinstance(part, (Tensor, LinearOperator)) else 0


def _move(part: Any, target: torch.dtype | torch.device, keep: bool) -> Any:
    if isinstance(part, (list, tuple)):
        return [_move(p, target, keep) for p in part]
    if isinstance(part, torch.dtype) and isinstance(target, torch.dtype):
        return target
    if isinstance(part, LinearOperator):
        return part.to(target)
    if isinstance(part, Tensor):
        stays = isinstance(target, torch.dtype) and (keep or not part.is_floating_point())
        if stays:
            return part
        return part[:1].to(target).expand(len(part)) if repeated(part) else part.to(target)
    return part
