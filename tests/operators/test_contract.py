"""One contract for every structure: whatever an operator answers, dense algebra in float64 answers too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import operator_zoo as structures
from paraboloid.operators.base import LinearOperator, inner_product, load_operator
from paraboloid.operators.decompositions import SingularError
from paraboloid.operators.matrixfree import MatrixFree

DTYPES = [torch.float64, torch.float32]
RIGHT_SIDES = [(), (3,), (0,)]


def tolerance(A: LinearOperator) -> float:
    """Relative to the largest entry of the answer; conditions are below 1e3 here."""
    return 1e-10 if A.dtype == torch.float64 else 1e-4


@pytest.fixture(params=DTYPES, ids=["float64", "float32"])
def source(request, device) -> structures.Source:
    return structures.Source(request.param, device)


@pytest.fixture(params=structures.ALL)
def any_operator(request, source) -> LinearOperator:
    return structures.ALL[request.param](source)


@pytest.fixture(params=structures.DEFINITE)
def operator(request, source) -> LinearOperator:
    return structures.DEFINITE[request.param](source)


@pytest.fixture(params=structures.DEFINITE | structures.SINGULAR)
def semidefinite(request, source) -> LinearOperator:
    return (structures.DEFINITE | structures.SINGULAR)[request.param](source)


def oracle(A: LinearOperator) -> Tensor:
    """The matrix, column by column, from the product alone; `test_dense` and friends close the circle."""
    columns = [A @ column for column in torch.eye(A.size, dtype=A.dtype, device=A.device)]
    return torch.stack(columns, 1).double()


def known_by_products(A: LinearOperator) -> bool:
    """Whether a function is among the parts."""
    inside = [getattr(A, "operator", None), *getattr(A, "terms", ())]
    return isinstance(A, MatrixFree) or any(known_by_products(part) for part in inside if part is not None)


def assert_same(found: Tensor, expected: Tensor, A: LinearOperator, scale: float = 1e-3) -> None:
    assert found.shape == expected.shape, (found.shape, expected.shape)
    scale = max(float(expected.abs().max()), scale) if expected.numel() else 1.0
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=tolerance(A) * scale)


def test_dense_is_the_matrix_that_the_products_make_and_symmetric(any_operator):
    matrix = oracle(any_operator)
    assert_same(any_operator.dense(), matrix, any_operator)
    assert_same(matrix, matrix.mT, any_operator)
    assert any_operator.dense().dtype == any_operator.dtype
    assert any_operator.shape == matrix.shape


@pytest.mark.parametrize("columns", RIGHT_SIDES, ids=["vector", "block", "no_columns"])
def test_product(any_operator, source, columns):
    X = source.normal(any_operator.size, *columns)
    assert_same(any_operator @ X, oracle(any_operator) @ X.double(), any_operator)


@pytest.mark.parametrize("columns", RIGHT_SIDES, ids=["vector", "block", "no_columns"])
def test_solve(operator, source, columns):
    X = source.normal(operator.size, *columns)
    assert_same(operator.solve(X), torch.linalg.solve(oracle(operator), X.double()), operator)
    assert operator.solve(X).dtype == operator.dtype


def test_inverse(operator):
    expected = torch.linalg.inv(oracle(operator))
    inverse = operator.inverse()
    assert_same(inverse.dense(), expected, operator)
    assert_same(inverse.diagonal(), expected.diagonal(), operator)
    assert_same(inverse.trace(), expected.trace(), operator)
    assert_same(inverse.inverse().dense(), oracle(operator), operator)


def test_root(semidefinite, source):
    R = semidefinite.root()
    assert R.shape == R.dense().shape
    assert_same(R.dense() @ R.dense().mT, oracle(semidefinite), semidefinite)
    assert_same(R.T.dense(), R.dense().mT, semidefinite)
    Z = source.normal(R.shape[1])
    assert_same(R @ Z, R.dense() @ Z, semidefinite)


def test_inverse_root(operator):
    R = operator.inverse_root()
    assert_same(R.dense() @ R.dense().mT, torch.linalg.inv(oracle(operator)), operator)
    assert_same(R.T.dense(), R.dense().mT, operator)


def test_logdet(operator):
    assert_same(operator.logdet(), torch.logdet(oracle(operator)), operator)
    assert operator.logdet().dtype == torch.float64


def test_trace(any_operator):
    assert_same(any_operator.trace(), oracle(any_operator).trace(), any_operator)


def test_diagonal(any_operator):
    assert_same(any_operator.diagonal(), oracle(any_operator).diagonal(), any_operator)
    assert any_operator.diagonal().dtype == any_operator.dtype


def test_frobenius(any_operator):
    assert_same(any_operator.frobenius(), oracle(any_operator).norm(), any_operator)


def test_eigenvalues(any_operator):
    found = any_operator.eigenvalues()
    assert found.dtype == torch.float64
    assert_same(found, torch.linalg.eigvalsh(oracle(any_operator)), any_operator)


def test_top_eigenpairs(any_operator):
    matrix, k = oracle(any_operator), min(3, any_operator.size)
    values, vectors = any_operator.top_eigenpairs(k)
    assert_same(values, torch.linalg.eigvalsh(matrix).flip(0)[:k], any_operator, float(matrix.norm()))
    assert_same(matrix @ vectors.double(), vectors.double() * values, any_operator, float(matrix.norm()))
    assert_same(vectors.mT @ vectors, torch.eye(k), any_operator)


def test_scaling_shifting_and_negating(any_operator):
    matrix, eye = oracle(any_operator), torch.eye(any_operator.size)
    assert_same((2.5 * any_operator).dense(), 2.5 * matrix, any_operator)
    assert_same((any_operator / 4).dense(), matrix / 4, any_operator)
    assert_same((-any_operator).dense(), -matrix, any_operator)
    assert_same((any_operator + 0.7).dense(), matrix + 0.7 * eye, any_operator)
    assert_same((2 * (any_operator + 0.7) + 1).dense(), 2 * matrix + 2.4 * eye, any_operator)


def test_changing_dtype(any_operator):
    if known_by_products(any_operator):
        with pytest.raises(TypeError, match="can be neither moved nor saved"):
            any_operator.to(torch.float32)
        return
    other = torch.float32 if any_operator.dtype == torch.float64 else torch.float64
    moved = any_operator.to(other)
    assert moved.dtype == other
    assert (moved @ torch.ones(moved.size, dtype=other)).dtype == other
    torch.testing.assert_close(moved.dense().double(), oracle(any_operator), rtol=1e-4, atol=1e-4)


def test_saving_and_loading_gives_the_same_numbers(any_operator, tmp_path):
    path = tmp_path / "operator.safetensors"
    if known_by_products(any_operator):
        with pytest.raises(TypeError, match="can be neither moved nor saved"):
            any_operator.save(path)
        return
    any_operator.save(path)
    loaded = load_operator(path)
    assert type(loaded) is type(any_operator)
    assert loaded.psd == any_operator.psd
    assert loaded.dtype == any_operator.dtype
    assert torch.equal(loaded.dense(), any_operator.dense())


@pytest.mark.parametrize("name", structures.SINGULAR)
def test_singular_operators_ask_for_damping(name, source):
    A = structures.SINGULAR[name](source)
    X = source.normal(A.size)
    for verb in (lambda: A.solve(X), A.logdet, A.inverse_root):
        with pytest.raises(SingularError, match=r"singular.*Add damping, for example `A \+ 1e-3`"):
            verb()
    damped = A + 1e-3
    residual = damped @ damped.solve(X) - X
    assert float(residual.norm()) < 1e3 * torch.finfo(A.dtype).eps * float(X.norm()) / 1e-3


@pytest.mark.parametrize("name", structures.INDEFINITE)
def test_nothing_is_promised_about_indefinite_operators(name, source):
    assert not structures.INDEFINITE[name](source).psd


@pytest.mark.parametrize("name", structures.ALL)
def test_all_pairs_add_up(name, source):
    A = structures.ALL[name](source)
    for other, maker in structures.ALL.items():
        B = maker(source)
        if A.size == B.size:
            total = A + B
            assert_same(total.dense(), A.dense().double() + B.dense().double(), A)
            assert total.psd <= (A.psd and B.psd), other


@pytest.mark.parametrize("name", structures.ALL)
def test_inner_products_of_all_pairs(name, device):
    from_one = structures.Source(torch.float64, device)
    A = structures.ALL[name](from_one)
    for maker in structures.ALL.values():
        B = maker(from_one)
        if A.size == B.size:
            assert_same(inner_product(A, B), (A.dense() * B.dense()).sum(), A)
