"""Conjugate gradients: every right-hand side to its own scale, with a residual that is computed anew."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import operator_zoo as zoo
from paraboloid.operators.cg import NotConverged, conjugate_gradient, default_tolerance
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.matrixfree import MatrixFree
from paraboloid.operators.sums import Sum

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def s(device) -> zoo.Source:
    return zoo.Source(torch.float64, device)


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request) -> torch.dtype:
    return request.param


def residuals(M: Tensor, X: Tensor, B: Tensor) -> Tensor:
    """‖M x − b‖ / ‖b‖ for every column, in float64."""
    scale = B.double().abs().amax(0).clamp_min(1e-300)
    off = M.double() @ (X.double() / scale) - B.double() / scale
    return off.norm(dim=0) / (B.double() / scale).norm(dim=0).clamp_min(1e-300)


def test_solution_is_the_dense_one_as_far_as_the_residual_allows(s, dtype):
    """‖x − x*‖ ≤ ‖A⁻¹‖ · tolerance · ‖b‖ (O.16)."""
    M, B = s.definite(30).to(dtype), s.normal(30, 4).to(dtype)
    X = conjugate_gradient(lambda X: M @ X, B)
    assert X.dtype == dtype
    inverse = torch.linalg.inv(M.double())
    bound = 1.01 * default_tolerance(dtype) * torch.linalg.matrix_norm(inverse, 2)
    off = (X.double() - inverse @ B.double()).norm(dim=0) / B.double().norm(dim=0)
    assert bool((off <= bound).all())


@pytest.mark.parametrize("scales", [(1.0, 1e-8, 0.0), (1e-25, 1e25, 0.0), (0.0, 0.0, 0.0)])
def test_every_right_side_is_solved_to_its_own_scale(scales, s, dtype):
    M, B = s.definite(30).to(dtype), (s.normal(30, 3) * torch.tensor(scales, device=s.device)).to(dtype)
    X = conjugate_gradient(lambda X: M @ X, B)
    assert bool((residuals(M, X, B) <= 1.1 * default_tolerance(dtype)).all())
    assert bool((X[:, 2] == 0).all())


def test_few_distinct_eigenvalues_take_as_few_steps(s):
    products = zoo.Products(zoo.with_spectrum(s, torch.tensor([1.0, 2.0, 5.0]).repeat_interleave(10)))
    conjugate_gradient(products, s.normal(30, 2))
    assert products.count == 3 + 1  # the last one is the certificate


def test_an_exact_preconditioner_takes_one_step(s):
    products = zoo.Products(s.definite(30))
    inverse, B = torch.linalg.inv(products.matrix), s.normal(30, 2)
    X = conjugate_gradient(products, B, precondition=lambda X: inverse @ X)
    assert products.count == 1 + 1
    assert_close(X, inverse @ B, **EXACT)


def test_a_preconditioner_saves_products_and_changes_no_solution(s):
    scales = torch.logspace(0, 3, 30).to(s.device)
    M, B = scales[:, None] * s.definite(30) * scales, s.normal(30, 2)
    plain, helped = zoo.Products(M), zoo.Products(M)
    conjugate_gradient(plain, B, tolerance=1e-6, max_iterations=10_000)
    X = conjugate_gradient(helped, B, precondition=lambda X: X / M.diagonal()[:, None], tolerance=1e-6)
    assert 2 * helped.count < plain.count
    assert bool((residuals(M, X, B) <= 1.1e-6).all())


def test_sums_of_kronecker_products_are_preconditioned_by_the_nearest_one(s, monkeypatch):
    """Proportional terms have a sum that is itself a Kronecker product, so one step is enough."""
    G, A = s.definite(3), s.definite(4)
    total = Sum(*[Kronecker(c * G, A) for c in (1.0, 2.0, 3.0)])
    b, counted = s.normal(12), []
    multiply = Sum.multiply
    monkeypatch.setattr(Sum, "multiply", lambda self, X: counted.append(1) or multiply(self, X))
    assert_close(total.solve(b), torch.linalg.solve(6 * torch.kron(G, A), b), **EXACT)
    assert len(counted) == 1 + 1


def test_the_tolerance_is_that_of_the_residual_and_saves_products(s):
    M, B = s.definite(60), s.normal(60, 2)
    counts = []
    for tolerance in (1e-2, 1e-6, 1e-10):
        products = zoo.Products(M)
        X = MatrixFree(60, products, device=s.device).solve(B, tolerance)
        assert bool((residuals(M, X, B) <= 1.01 * tolerance).all())
        counts.append(products.count)
    assert counts[0] < counts[1] < counts[2]


def unreached(raised: pytest.ExceptionInfo) -> float:
    """The relative residual that the message names as reached."""
    found = re.search(r"should reach a relative residual of \S+, found (\S+)\. Add damping", str(raised.value))
    assert found is not None, str(raised.value)
    return float(found[1])


def test_a_tolerance_out_of_reach_says_what_was_reached(s):
    with pytest.raises(NotConverged, match="residual of 1e-30, found") as raised:
        conjugate_gradient(zoo.Products(s.definite(30)), s.normal(30, 1), tolerance=1e-30)
    assert 0 < unreached(raised) < 1e-14


def test_too_few_iterations_say_what_was_reached(s):
    with pytest.raises(NotConverged) as raised:
        conjugate_gradient(zoo.Products(s.definite(30)), s.normal(30, 1), max_iterations=3)
    assert 1e-9 < unreached(raised) < 1


def test_a_singular_matrix_solves_what_lies_in_its_range_and_names_what_is_left_of_the_rest(s, dtype):
    U = s.orthogonal(12)[:, :5]
    M, B = (U @ U.mT).to(dtype), s.normal(12, 1).to(dtype)
    inside = M @ B
    X = conjugate_gradient(lambda X: M @ X, inside, tolerance=1e-4)
    assert bool((residuals(M, X, inside) <= 1.1e-4).all())
    with pytest.raises(NotConverged) as raised:
        conjugate_gradient(lambda X: M @ X, B)
    outside = float((B - inside).norm() / B.norm())  # no X has a smaller residual
    assert 0.999 * outside <= unreached(raised) <= 1


@pytest.mark.parametrize("signs", [(-1.0, -1.0), (-1.0, 1.0)], ids=["negative", "indefinite"])
def test_matrices_that_are_not_positive_definite_are_refused(signs, s, dtype):
    M = zoo.with_spectrum(s, torch.linspace(0.5, 2, 12) * torch.tensor(signs).repeat(6)).to(dtype)
    with pytest.raises(NotConverged) as raised:
        conjugate_gradient(lambda X: M @ X, s.normal(12, 2).to(dtype))
    assert default_tolerance(dtype) < unreached(raised) <= 1


def test_operators_solved_by_iteration_refuse_the_same(s):
    with pytest.raises(NotConverged, match=r"Add damping, for example `A \+ 1e-3`"):
        zoo.INDEFINITE["difference"](s).solve(s.normal(12, 2))


def test_one_false_product_is_noticed_and_repaired(s):
    """The recursion's own residual would converge; the true one, computed anew, starts it again (O.16)."""
    products = zoo.Products(s.definite(30), lambda count, Y: 1.01 * Y if count == 3 else Y)
    B = s.normal(30, 2)
    X = conjugate_gradient(products, B)
    assert bool((residuals(products.matrix, X, B) <= 1.1 * default_tolerance(torch.float64)).all())


def test_products_with_noise_are_caught(s):
    noisy = zoo.Products(s.definite(30), lambda count, Y: Y + 1e-6 * torch.sin(1e3 * count * Y))
    with pytest.raises(NotConverged) as raised:
        conjugate_gradient(noisy, s.normal(30, 2))
    assert 1e-9 < unreached(raised) < 1e-3


def test_products_that_are_no_numbers_are_caught(s):
    with pytest.raises(NotConverged):
        conjugate_gradient(lambda X: X / 0 - X / 0, s.normal(30, 2))


@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8, 1e11, 1e14])
def test_whatever_the_condition_a_returned_solution_has_the_residual_that_was_asked_for(condition, s, dtype):
    M = zoo.with_spectrum(s, torch.logspace(0, -np.log10(condition), 40)).to(dtype)
    B = s.normal(40, 2).to(dtype)
    try:
        X = conjugate_gradient(lambda X: M @ X, B)
    except NotConverged:
        assert condition > 1e2
    else:
        assert bool((residuals(M, X, B) <= 1.5 * default_tolerance(dtype)).all())
