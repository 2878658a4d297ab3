"""Kronecker products: layout, factored damping, pairs, spectra, and the nearest product."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import operator_zoo as zoo
from paraboloid.operators.blocks import Block, BlockDiagonal
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.nearest import nearest_kronecker


@pytest.fixture
def source(device) -> zoo.Source:
    return zoo.Source(torch.float64, device)


def norms(M: Tensor) -> dict[str, Tensor]:
    """Each norm divided by that of the identity."""
    n = M.shape[0]
    return {
        "trace": M.trace() / n,
        "frobenius": M.norm() / n**0.5,
        "spectral": torch.linalg.matrix_norm(M, 2),
    }


def test_rows_first_layout_is_that_of_torch_flatten(source):
    """(O.1): flat(G X Aᵀ) = (G ⊗ A) flat(X)."""
    G, A, X = source.definite(3), source.definite(4), source.normal(3, 4)
    torch.testing.assert_close(Kronecker(G, A) @ X.flatten(), (G @ X @ A.mT).flatten())


@pytest.mark.parametrize("norm", ["trace", "frobenius", "spectral"])
def test_factored_damping_over_damps_and_its_omega_is_the_best(source, norm):
    """(O.15): the residual √d (A-part/… + …) is semi-definite, and no other ω gives a smaller bound."""
    G, A, d = source.definite(3), 7 * source.definite(4), 0.3
    damped = Kronecker(G, A).damped(d, norm)
    exact = torch.kron(G, A) + d * torch.eye(12)
    assert float(torch.linalg.eigvalsh(damped.dense() - exact).min()) > -1e-12

    omega = float((damped.right - A)[0, 0] / d**0.5)
    torch.testing.assert_close(damped.right, A + omega * d**0.5 * torch.eye(4))
    torch.testing.assert_close(damped.left, G + d**0.5 / omega * torch.eye(3))

    def bound(w: Tensor) -> Tensor:
        return norms(A)[norm] / w + w * norms(G)[norm]

    grid = torch.logspace(-3, 3, 20001)
    assert omega == pytest.approx(float(grid[bound(grid).argmin()]), rel=1e-3)
    residual = damped.dense() - exact
    for other in (omega / 2, omega * 2):
        worse = torch.kron(G + d**0.5 / other * torch.eye(3), A + other * d**0.5 * torch.eye(4)) - exact
        assert norms(residual)["trace"] <= norms(worse)["trace"] or norm != "trace"


def test_factored_damping_with_an_empty_factor_and_with_diagonals(source):
    damped = Kronecker(torch.zeros(3, 3), source.positive(4)).damped(0.25)
    torch.testing.assert_close(damped.left, 0.5 * torch.eye(3))
    assert damped.right.ndim == 1
    assert Kronecker(torch.full((2,), 1e-20), torch.ones(2)).damped(1.0).left.max() < 1e7
    with pytest.raises(ValueError, match='"trace", "frobenius" or "spectral", found \'max\''):
        damped.damped(0.1, "max")
    with pytest.raises(ValueError, match="finite number ≥ 0, found -1"):
        damped.damped(-1)


def test_blocks_are_damped_block_by_block(source):
    K, D = source.kronecker(2, 3), Diagonal(source.positive(2))
    blocks = BlockDiagonal(9, [Block("k", slice(0, 6), K), Block("d", slice(6, 8), D)])
    damped = blocks.damped(0.3).dense()
    torch.testing.assert_close(damped[:6, :6], K.damped(0.3).dense())
    torch.testing.assert_close(damped[6:8, 6:8], (D + 0.3).dense())
    assert float(damped[8, 8]) == pytest.approx(0.3)


def test_pairs_are_solved_exactly_although_no_factor_is_invertible(source):
    """(O.11): only the sums of the factors have to be definite."""
    G1, G2 = torch.diag(torch.tensor([1.0, 0.0, 2.0])), torch.diag(torch.tensor([0.0, 3.0, 1.0]))
    A1, A2 = source.definite(4), source.definite(4)
    A = Kronecker(G1, A1) + Kronecker(G2, A2)
    assert type(A.factorisation).__name__ == "Pair"
    b = source.normal(12)
    torch.testing.assert_close(A.solve(b), torch.linalg.solve(torch.kron(G1, A1) + torch.kron(G2, A2), b))


def test_a_singular_pair_says_so(source):
    G = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
    A = Kronecker(G, source.definite(4)) + Kronecker(G, source.definite(4))
    assert A.factorisation is None
    with pytest.raises(RuntimeError, match="Add damping"):
        A.solve(source.normal(12))


def test_spectra_of_large_products_need_no_large_matrix():
    G, A = torch.rand(300), torch.rand(400)
    K = Kronecker(G, A)
    values, vectors = K.top_eigenpairs(4)
    assert vectors.shape == (120_000, 4)
    torch.testing.assert_close(K @ vectors, vectors * values)
    torch.testing.assert_close(K.eigenvalues(), torch.outer(G, A).flatten().sort().values)
    assert float((K + 1e-2).logdet()) == pytest.approx(float((torch.outer(G, A) + 1e-2).log().sum()))


def test_eigenbases_are_computed_once_for_a_grid_of_dampings_and_scales(source, monkeypatch):
    K = source.kronecker()
    assert (K + 0.1).factorisation is not None
    monkeypatch.setattr(torch.linalg, "eigh", None)
    for c in (0.2, 0.3):
        assert torch.isfinite((K + c).logdet())
        assert torch.isfinite((Kronecker(*K.factors) * 3 + c).logdet())


def test_nearest_product_is_the_best_one(source):
    """(O.14): the best rank-one approximation of the rearranged sum, here by its singular vectors."""
    terms = [source.kronecker() for _ in range(3)]
    found = nearest_kronecker(terms)
    rearranged = sum(torch.outer(t.left.flatten(), t.right.flatten()) for t in terms)
    U, S, Vt = torch.linalg.svd(rearranged)
    best = torch.kron((S[0] * U[:, 0]).reshape(3, 3), Vt[0].reshape(4, 4))
    torch.testing.assert_close(found.dense(), best)
    assert float(found.eigenvalues().min()) > 0


def test_factors_are_checked():
    with pytest.raises(ValueError, match=r"matrix \(n, n\) or a diagonal \(n,\), found \(2, 2, 2\)"):
        Kronecker(torch.ones(2, 2, 2), torch.ones(2))
    with pytest.raises(ValueError, match="agree in dtype and device"):
        Kronecker(torch.ones(2, dtype=torch.float32), torch.ones(2))
    with pytest.raises(ValueError, match="agree in their factors' sizes"):
        nearest_kronecker([Kronecker(torch.ones(2), torch.ones(3)), Kronecker(torch.ones(3), torch.ones(2))])


def test_an_indefinite_factor_is_declared_by_a_dense_operator(source):
    K = Kronecker(Dense(-source.definite(2), psd=False), source.definite(3))
    assert not K.psd
    torch.testing.assert_close(
        (K + 0.3).solve(K.dense()[:, 0] + 1),
        torch.linalg.solve(K.dense() + 0.3 * torch.eye(6), K.dense()[:, 0] + 1),
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_singular_factor_is_singular_in_float32_too(seed, device):
    """The output factor of a softmax has a null vector: what rounding leaves of its eigenvalue is no eigenvalue."""
    draw = torch.Generator().manual_seed(seed)
    p = torch.randn(256, 5, generator=draw).softmax(1).float()
    G = (torch.diag_embed(p) - p[:, :, None] * p[:, None, :]).mean(0)
    x = torch.randn(64, 8, generator=draw).float()
    K = Kronecker(G.to(device), (x.T @ x / 64).to(device))
    for verb in (lambda: K.solve(torch.ones(40, dtype=torch.float32, device=device)), K.logdet, K.inverse_root):
        with pytest.raises(RuntimeError, match="Add damping"):
            verb()
    assert torch.isfinite((K + 1e-3).solve(torch.ones(40, dtype=torch.float32, device=device))).all()
