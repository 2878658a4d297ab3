"""Lanczos: tridiagonal forms and their Gauss rules, largest eigenpairs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import operator_zoo as zoo
from paraboloid.operators.cg import NotConverged, default_tolerance
from paraboloid.operators.lanczos import largest_eigenpairs, quadrature, tridiagonalise
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.matrixfree import MatrixFree

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def s(device) -> zoo.Source:
    return zoo.Source(torch.float64, device)


def global_states(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def tridiagonal(alpha: Tensor, beta: Tensor) -> Tensor:
    return torch.diag(alpha) + torch.diag(beta, 1) + torch.diag(beta, -1)


def lanczos(M: Tensor, starts: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    return tridiagonalise(lambda X: M @ X, starts, steps)


# ---------------------------------------------------------------------- Lanczos
@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_tridiagonal_form_has_the_first_2m_moments_and_misses_the_next_by_the_product_of_squared_betas(m, s):
    """(O.17): e₁ᵀTᵏe₁ = qᵀAᵏq for k < 2m; for k = 2m the difference is (β₁ … β_m)²."""
    M, start = zoo.with_spectrum(s, torch.linspace(-1, 1.5, 12)), s.normal(12)
    q = start / start.norm()
    alpha, beta = lanczos(M, start[:, None], m + 1)
    T = tridiagonal(alpha[0, :m], beta[0, : m - 1])
    for k in range(2 * m + 1):
        found = torch.linalg.matrix_power(T, k)[0, 0]
        missing = beta[0, :m].square().prod() if k == 2 * m else 0.0
        assert_close(found + missing, q @ torch.linalg.matrix_power(M, k) @ q, **EXACT)


@pytest.mark.parametrize("m", [1, 3, 6])
def test_gauss_rule_is_exact_up_to_degree_2m_minus_1(m, s):
    values, start = torch.linspace(-1, 1, 20), s.normal(20)
    M = zoo.with_spectrum(s, values)
    eigenvalues, U = torch.linalg.eigh(M)
    measure = (U.mT @ (start / start.norm())).square()
    nodes, weights = quadrature(*lanczos(M, start[:, None], m))
    assert nodes.shape == weights.shape == (1, m)

    def integrals(x: Tensor, w: Tensor) -> np.ndarray:
        return w.cpu().numpy() @ np.polynomial.chebyshev.chebvander(x.cpu().numpy(), 2 * m)

    off = np.abs(integrals(nodes[0], weights[0]) - integrals(eigenvalues, measure))
    assert off[: 2 * m].max() < 1e-10
    assert off[2 * m] > 1e-6
    assert float(weights.min()) > 0
    assert float(nodes.abs().max()) < 1


def test_quadrature_of_the_legendre_recurrence_is_gauss_legendre(device):
    k = torch.arange(1.0, 8, device=device)
    nodes, weights = quadrature(torch.zeros(1, 8, device=device), (k / (4 * k.square() - 1).sqrt())[None])
    x, w = np.polynomial.legendre.leggauss(8)
    assert_close(nodes[0].cpu(), torch.tensor(x), **EXACT)
    assert_close(weights[0].cpu(), torch.tensor(w) / 2, **EXACT)


@pytest.mark.parametrize("distinct", [1, 2, 4])
def test_an_exhausted_krylov_space_is_decoupled_and_its_rule_exact_for_every_function(distinct, s):
    M, start = zoo.with_spectrum(s, torch.arange(1.0, distinct + 1).repeat_interleave(12 // distinct)), s.normal(12)
    alpha, beta = lanczos(M, start[:, None], 9)
    assert bool((beta[0, : distinct - 1] > 0.01).all())
    assert float(beta[0, distinct - 1]) < 1e-12

    eigenvalues, U = torch.linalg.eigh(M)
    nodes, weights = quadrature(alpha, beta)
    used = weights[0] > 1e-20
    expected = (U.mT @ start).square() @ eigenvalues.log() / start.square().sum()
    assert_close(weights[0][used] @ nodes[0][used].log(), expected, **EXACT)


def test_what_follows_exhaustion_is_zero(s, device):
    M = s.definite(12)
    M[0, 1:] = M[1:, 0] = 0
    axis = torch.eye(12, device=device)[:, :1]
    for matrix, start in ((M, 5 * axis), (2 * torch.eye(12, device=device), axis), (0 * M, s.normal(12, 1))):
        alpha, beta = lanczos(matrix, start, 6)
        assert_close(alpha[0, 0], start[:, 0] @ matrix @ start[:, 0] / start.square().sum(), **EXACT)
        assert bool((alpha[0, 1:] == 0).all())
        assert bool((beta == 0).all())


def test_columns_do_not_know_of_each_other(s):
    M, starts = s.definite(12), s.normal(12, 4)
    M[0, 1:] = M[1:, 0] = 0
    starts[:, 1] = 0
    starts[0, 1] = 5  # exhausted after one step
    alpha, beta = lanczos(M, starts, 6)
    for column in range(4):
        alone = lanczos(M, starts[:, [column]], 6)
        assert_close(alpha[column], alone[0][0], **EXACT)
        assert_close(beta[column], alone[1][0], **EXACT)
    assert bool((beta[[0, 2, 3]] > 0.01).all())


def test_a_column_in_a_tiny_part_of_the_matrix_is_not_taken_for_exhausted(s, device):
    M, starts = s.definite(12), torch.zeros(12, 2, device=device)
    M[:6, 6:] = M[6:, :6] = 0
    starts[:6, 0], starts[6:, 1] = s.normal(6), s.normal(6)
    tiny = M.clone()
    tiny[6:, 6:] *= 1e-20
    expected, found = lanczos(M, starts, 5), lanczos(tiny, starts, 5)
    for whole, scaled in zip(expected, found, strict=True):
        assert_close(scaled * torch.tensor([[1.0], [1e20]], device=device), whole, **EXACT)


def test_all_steps_give_the_spectrum_without_ghosts_although_the_condition_is_1e12(s):
    values = torch.logspace(-12, 0, 40)
    alpha, beta = lanczos(zoo.with_spectrum(s, values), s.normal(40, 1), 400)
    assert alpha.shape == (1, 40)
    found = torch.linalg.eigvalsh(tridiagonal(alpha[0], beta[0]))
    assert_close(found.cpu(), values, rtol=0, atol=1e-13)


# ---------------------------------------------------------------------- largest eigenpairs
def after(*largest: float, rest: Tensor) -> Tensor:
    return torch.cat([rest.double(), torch.tensor(largest, dtype=torch.float64)])


SPECTRA = {  # 300 eigenvalues, and how many are asked for
    "even": (torch.linspace(0, 1, 300), 5),
    "largest_three_times": (after(2, 2, 2, rest=torch.linspace(0, 1, 297)), 2),
    "second_twice": (after(2, 2, 3, rest=torch.linspace(0, 1, 297)), 3),
    "ten_close_ones_cut_apart": (after(*(1.5 + 1e-7 * torch.arange(10.0)), rest=torch.linspace(0, 1, 290)), 3),
    "negative_ones_of_larger_magnitude": (torch.linspace(-100, 1, 300), 3),
    "all_negative": (torch.linspace(-2, -1, 300), 3),
    "low_rank_and_beyond_it": (after(1, 2, rest=torch.zeros(298)), 4),
    "two_values": (after(*torch.ones(150), rest=torch.zeros(150)), 3),
    "one_value": (torch.full((300,), 2.0), 3),
    "zero": (torch.zeros(300), 2),
}


def assert_eigenpairs(M: Tensor, values: Tensor, vectors: Tensor, expected: Tensor) -> None:
    """Against the spectrum that the matrix was made of; residuals to the tolerance that is promised."""
    k, scale = len(values), float(expected.abs().max()) or 1.0
    single = vectors.dtype == torch.float32
    atol = 1e-5 if single else 1e-10
    assert values.dtype == torch.float64
    assert_close(values.cpu(), expected.sort(descending=True).values[:k].double(), rtol=0, atol=atol * scale)
    V, eye = vectors.double(), torch.eye(k, device=vectors.device, dtype=torch.float64)
    assert_close(V.mT @ V, eye, rtol=0, atol=atol)
    residuals = torch.linalg.vector_norm(M.double() @ V - V * values, dim=0)
    assert float(residuals.max()) <= 1.1 * default_tolerance(vectors.dtype) * scale


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", SPECTRA)
def test_largest_eigenpairs_are_the_algebraically_largest_with_their_multiplicities(name, dtype, s):
    values, k = SPECTRA[name]
    M = zoo.with_spectrum(s, values).to(dtype)
    found = largest_eigenpairs(lambda X: M @ X, s.normal(300, k + 4).to(dtype), k)
    assert_eigenpairs(M, *found, values)


@pytest.mark.parametrize("name", ["even", "low_rank_and_beyond_it", "one_value"])
def test_eigenvectors_may_be_axes(name, s, device):
    values, k = SPECTRA[name]
    M = torch.diag(values.double()).to(device)
    assert_eigenpairs(M, *largest_eigenpairs(lambda X: M @ X, s.normal(300, k + 4), k), values)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_whole_spectrum_of_a_small_matrix_may_be_asked_for(size, s):
    M = s.definite(size)
    found = largest_eigenpairs(lambda X: M @ X, s.normal(size, size), size)
    assert_eigenpairs(M, *found, torch.linalg.eigvalsh(M).cpu())


def test_a_looser_tolerance_takes_fewer_products(s):
    values = torch.linspace(0, 1, 300)
    tight, loose = (zoo.Products(zoo.with_spectrum(s, values)) for _ in range(2))
    start = s.normal(300, 7)
    largest_eigenpairs(tight, start, 3)
    found, _ = largest_eigenpairs(loose, start, 3, tolerance=1e-2)
    assert loose.count < tight.count
    assert_close(found.cpu(), values.flip(0)[:3], rtol=0, atol=1e-2)


def test_eigenpairs_that_were_not_found_are_said_to_be_missing(s):
    M = zoo.with_spectrum(s, torch.linspace(0, 1, 300))
    message = (
        r"the 3 largest eigenpairs should have residuals below 1e-15 of the largest.*found (\S+)\. Ask for another k"
    )
    with pytest.raises(NotConverged, match=message) as raised:
        largest_eigenpairs(lambda X: M @ X, s.normal(300, 7), 3, tolerance=1e-15, restarts=1)
    found = re.search(message, str(raised.value))
    assert found is not None
    assert 1e-15 < float(found[1]) < 1


def test_operators_too_large_for_a_dense_decomposition_iterate_from_a_private_start(s, device, generator):
    M = zoo.with_spectrum(s, torch.linspace(0, 1, 300))
    A = MatrixFree(300, lambda X: M @ X, device=device)
    before = global_states(device)
    values, vectors = A.top_eigenpairs(3)
    assert_eigenpairs(M, values, vectors, torch.linspace(0, 1, 300))
    assert torch.equal(A.top_eigenpairs(3)[1], vectors)
    assert not torch.equal(A.top_eigenpairs(3, generator.manual_seed(7))[1], vectors)
    assert all(map(torch.equal, global_states(device), before))


def test_more_eigenpairs_than_the_rank_are_found_with_eigenvalue_zero(s):
    A = LowRank(s.normal(400, 3))
    values, vectors = A.top_eigenpairs(5)
    assert_eigenpairs(A.dense(), values, vectors, torch.linalg.eigvalsh(A.dense()).cpu())
