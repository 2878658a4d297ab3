"""What sums, shifts and multiples turn into, and what is refused."""

from __future__ import annotations

import pytest
import torch

import operator_zoo as zoo
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal, identity
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.inverse import Inverse
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.matrixfree import MatrixFree
from paraboloid.operators.sums import Scaled, Shifted, Sum


@pytest.fixture
def s(device) -> zoo.Source:
    return zoo.Source(torch.float64, device)


KEPT = {
    "diagonal + diagonal": (lambda s: Diagonal(s.positive(12)) + Diagonal(s.positive(12)), Diagonal),
    "diagonal + c": (lambda s: Diagonal(s.positive(12)) + 1, Diagonal),
    "lowrank + lowrank": (lambda s: LowRank(s.normal(12, 2)) + LowRank(s.normal(12, 1)), LowRank),
    "lowrank + c": (lambda s: LowRank(s.normal(12, 2)) + 1, Shifted),
    "kronecker * c": (lambda s: s.kronecker() * 2, Kronecker),
    "kronecker + c": (lambda s: s.kronecker() + 2, Shifted),
    "kronecker + kronecker": (lambda s: s.kronecker() + s.kronecker(), Sum),
    "kronecker + c identity": (lambda s: s.kronecker() + 2 * identity(12), Shifted),
    "eigenkronecker + c": (lambda s: s.eigenkronecker() + 2, EigenKronecker),
    "blocks + blocks": (lambda s: s.blocks() + s.blocks(), BlockDiagonal),
    "blocks + c": (lambda s: s.blocks() + 2, BlockDiagonal),
    "blocks + diagonal": (lambda s: s.blocks() + Diagonal(s.positive(12)), BlockDiagonal),
    "blocks * c": (lambda s: s.blocks() * 2, BlockDiagonal),
    "dense + kronecker": (lambda s: Dense(s.definite(12)) + s.kronecker(), Dense),
    "blocks + dense": (lambda s: s.blocks() + Dense(s.definite(12)), Dense),
    "dense + products": (lambda s: Dense(s.definite(12)) + s.matrixfree(), Sum),
    "products * c": (lambda s: 2 * (2 * s.matrixfree()), Scaled),
    "sum + c": (lambda s: s.kronecker() + s.kronecker() + 2, Shifted),
    "shifted + kronecker": (lambda s: (s.kronecker() + 2) + s.kronecker(), Shifted),
    "shifted + shifted": (lambda s: (s.kronecker() + 2) + (LowRank(s.normal(12, 2)) + 1), Shifted),
    "inverse of kronecker": (lambda s: s.kronecker().inverse(), Kronecker),
    "inverse of kronecker + c": (lambda s: (s.kronecker() + 1).inverse(), EigenKronecker),
    "inverse of lowrank + c": (lambda s: (LowRank(s.normal(12, 2)) + 1).inverse(), Inverse),
    "inverse of blocks": (lambda s: (s.blocks() + 1).inverse(), BlockDiagonal),
}


@pytest.mark.parametrize("name", KEPT)
def test_structure_is_kept(name, s):
    make, expected = KEPT[name]
    assert type(make(s)) is expected


def test_sums_are_flat_and_fold(s):
    K, L, D = s.kronecker(), LowRank(s.normal(12, 2)), Diagonal(s.positive(12))
    total = (K + L) + (D + (L + 1)) + D
    assert isinstance(total, Shifted) and isinstance(total.operator, Sum)
    assert [type(term) for term in total.operator.terms] == [Kronecker, LowRank, Diagonal]
    assert total.c == 1


def test_eigenkroneckers_of_one_basis_add_their_eigenvalues(s):
    A = s.eigenkronecker()
    assert isinstance(A + 2 * A, EigenKronecker)
    torch.testing.assert_close((A + 2 * A).dense(), 3 * A.dense())


def test_negative_damping_is_refused_and_the_way_round_it_works(s):
    A = s.kronecker()
    with pytest.raises(ValueError, match=r"negative damping.*found c = -0.5.*identity\(A.size"):
        A + (-0.5)
    with pytest.raises(ValueError, match="negative damping"):
        A - 0.5
    lower = A - 0.5 * identity(A.size, A.dtype, A.device)
    assert not lower.psd
    torch.testing.assert_close(lower.dense(), A.dense() - 0.5 * torch.eye(12))
    assert (lower - 3.0).trace() < lower.trace()  # an indefinite operator may be shifted at will


def test_numbers_and_partners_are_checked(s):
    A = s.kronecker()
    with pytest.raises(TypeError, match="`\\+` combines an operator with a number or an operator, found str"):
        A + "1"
    with pytest.raises(TypeError, match="`\\*` combines"):
        A * A
    with pytest.raises(ValueError, match="finite number, found nan"):
        A * float("nan")
    with pytest.raises(ValueError, match="agree in size, found 12 and 3"):
        A + Diagonal(s.positive(3))
    with pytest.raises(ValueError, match="agree in dtype, found torch.float64 and torch.float32"):
        A + A.to(torch.float32)
    torch.testing.assert_close((A * torch.tensor(2.0)).dense(), 2 * A.dense())


@pytest.mark.parametrize("name", zoo.DEFINITE)
def test_vectors_are_checked(name, s):
    A = zoo.DEFINITE[name](s)
    for act in (A.__matmul__, A.solve):
        with pytest.raises(ValueError, match=rf"shape \({A.size},\) or \({A.size}, K\), found \(13, 2\)"):
            act(torch.ones(13, 2))
        with pytest.raises(TypeError, match="dtype torch.float64, the vectors torch.float32"):
            act(torch.ones(A.size, dtype=torch.float32))
        with pytest.raises(ValueError, match="is on cpu, the vectors on meta"):
            act(torch.ones(A.size, device="meta"))
        with pytest.raises(TypeError, match="acts on a tensor.*found list"):
            act([1.0])


def test_writing_out_is_refused_beyond_the_budget(s):
    with pytest.raises(MemoryError, match="needs 1.15e\\+03 bytes, allowed are 100.*estimate_trace"):
        s.kronecker().dense(memory=100)
    with pytest.raises(MemoryError, match="`estimate_trace`, `estimate_diagonal`, `estimate_logdet`"):
        identity(10**6).dense()
    assert s.kronecker().dense(memory=2000).shape == (12, 12)


REFUSED = {
    "trace": "estimate_trace",
    "diagonal": "estimate_diagonal",
    "logdet": "estimate_logdet",
    "eigenvalues": "top_eigenpairs",
    "root": "top_eigenpairs",
    "inverse_root": "solve",
    "frobenius": "estimate_frobenius",
}


@pytest.mark.parametrize("verb", REFUSED)
def test_products_alone_refuse_what_they_cannot_say_and_name_the_estimate(verb):
    A = MatrixFree(10**5, lambda X: 2 * X)
    with pytest.raises(MemoryError, match=REFUSED[verb]):
        getattr(A, verb)()


def test_constructors_check_their_parts(s):
    for make, message in [
        (lambda: Dense(torch.ones(2, 3)), r"square, \(P, P\), found \(2, 3\)"),
        (lambda: Diagonal(torch.ones(2, 2)), r"shape \(P,\), found \(2, 2\)"),
        (lambda: LowRank(torch.ones(2)), r"shape \(P, r\), found \(2,\)"),
        (
            lambda: LowRank(torch.ones(2, 3), torch.ones(2)),
            r"one entry per column of the factor, \(3,\), found \(2,\)",
        ),
        (lambda: EigenKronecker(None, None, torch.ones(2)), r"shape \(a, b\), found \(2,\)"),
        (
            lambda: EigenKronecker(torch.eye(3), None, torch.ones(2, 2)),
            r"`left_basis` should have shape \(2, 2\)",
        ),
        (lambda: Sum(), "at least one term"),
        (lambda: s.kronecker().top_eigenpairs(0), "between 1 and the size 12, found 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="real floating tensor, found torch.int64"):
        Diagonal(torch.arange(3))
    with pytest.raises(ValueError, match=r"same shape, found \(3,\)"):
        MatrixFree(3, lambda X: X[:, 0]) @ torch.ones(3)


def test_blocks_check_their_positions(s):
    two = Diagonal(torch.ones(2))
    for blocks, message in [
        ([], "at least one block"),
        ([Block("a", slice(0, 3), two)], "block 'a' has 3 positions and an operator of size 2"),
        ([Block("a", slice(0, 2), two), Block("b", torch.tensor([1, 3]), two)], "disjoint positions"),
        ([Block("a", torch.tensor([0, 9]), two)], r"positions should lie in 0..3, found 0..9"),
        ([Block("a", slice(3, 5), two)], "end within 4"),
        ([Block("a", slice(0, 2), two), Block("b", slice(2, 4), two.to(torch.float32))], "agree in dtype"),
    ]:
        with pytest.raises(ValueError, match=message):
            BlockDiagonal(4, blocks)
    with pytest.raises(TypeError, match="slice or a LongTensor"):
        BlockDiagonal(4, [Block("a", torch.ones(2), two)])


def test_identity_holds_one_number_whatever_its_size():
    eye = identity(10**9)
    assert (5 * eye + 1).vector.untyped_storage().nbytes() == 8
    assert float((5 * eye).trace()) == 5e9


def test_a_structure_of_ones_own_needs_parts_and_a_product_only():
    class Reflection(LinearOperator):
        def __init__(self, size: int) -> None:
            self.size, self.dtype, self.device, self.psd = size, torch.float64, torch.device("cpu"), False

        def parts(self) -> dict:
            return {"size": self.size}

        def multiply(self, X: torch.Tensor) -> torch.Tensor:
            return X.flip(0)

    A = Reflection(4)
    assert float(A.trace()) == 0
    assert A.eigenvalues().tolist() == pytest.approx([-1, -1, 1, 1])
    torch.testing.assert_close((A + 2).solve(torch.ones(4)), torch.full((4,), 1 / 3))


@pytest.mark.parametrize("name", ["dense", "kronecker_shifted", "eigenkronecker", "blocks_shifted", "lowrank_shifted"])
def test_operators_compute_in_their_own_precision_inside_autocast(name, device):
    """Inside mixed precision a product would otherwise come out in bfloat16."""
    source = zoo.Source(torch.float32, device)
    A = zoo.DEFINITE[name](source)
    x = source.normal(A.size)
    outside = A @ x, A.solve(x), A.dense(), A.root() @ source.normal(A.root().shape[1])
    again = zoo.Source(torch.float32, device)
    B = zoo.DEFINITE[name](again)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        x = again.normal(B.size)
        inside = B @ x, B.solve(x), B.dense(), B.root() @ again.normal(B.root().shape[1])
    for a, b in zip(outside, inside, strict=True):
        assert b.dtype == torch.float32
        assert torch.equal(a, b)
