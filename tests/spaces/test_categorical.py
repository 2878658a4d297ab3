"""The softmax likelihood where float32 is hard, and its root at any size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from paraboloid.spaces.likelihoods import Categorical

CATEGORICAL = Categorical()


def textbook(h: torch.Tensor) -> torch.Tensor:
    """diag(p) - ppᵀ in float64, the diagonal without cancellation, from the definition of softmax."""
    h = h.double()
    p = (h - h.amax(1, keepdim=True)).exp()
    p = p / p.sum(1, keepdim=True)
    G = -p[:, :, None] * p[:, None, :]
    for i in range(h.shape[1]):
        G[:, i, i] = p[:, i] * (p[:, :i].sum(1) + p[:, i + 1 :].sum(1))
    return G


def logits(n: int, C: int, scale: float, seed: int = 0) -> torch.Tensor:
    return scale * (2 * torch.rand(n, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1)


@settings(deadline=None, max_examples=60)
@given(C=st.integers(2, 12), scale=st.floats(0, 30), seed=st.integers(0, 10_000))
def test_the_root_is_exact_in_float64(C, scale, seed):
    """(L.9) to 1e-15 of the largest entry, C - 1 columns."""
    h = logits(5, C, scale, seed)
    R = CATEGORICAL.root(h)
    assert R.shape == (5, C, C - 1)
    expected = textbook(h)
    error = (R @ R.mT - expected).abs().amax((1, 2))
    assert (error <= 1e-15 * expected.abs().amax((1, 2)).clamp(min=1e-300) + 1e-16 * 1e-1 + 1e-15 * 0.1).all()


@pytest.mark.parametrize("C", [2, 3, 10, 100])
def test_float32_with_logits_up_to_30_is_right_to_1e_7(C, device):
    """(L.7) and (L.9); the textbook difference misses by as much as the entry itself."""
    h = logits(200, C, 30.0).float().to(device)
    expected = textbook(h.cpu())
    R = CATEGORICAL.root(h).cpu().double()  # the root is the subject, not the product that checks it
    assert (CATEGORICAL.hessian(h).cpu().double() - expected).abs().max() <= 1e-7
    assert (R @ R.mT - expected).abs().max() <= 1e-7


def test_float32_keeps_the_digits_of_a_certain_class(device):
    """Relative error, where p_c rounds to 1: (L.6), (L.7), (L.8) and (L.9) against float64."""
    h = torch.tensor([[25.0, 0.0, 3.0, -2.0]], dtype=torch.float32, device=device)
    y, v = torch.tensor([0], device=device), torch.tensor([[1.0, 2.0, -1.0, 0.5]], device=device)
    p = h.softmax(1)
    assert (p - p * p)[0, 0] == 0, "the example should be one where the difference loses everything"
    expected = textbook(h.cpu())
    R = CATEGORICAL.root(h)
    gradient = h.double().softmax(1).cpu()
    gradient[0, 0] = -gradient[0, 1:].sum()
    for found, exact in [
        (CATEGORICAL.hessian(h), expected),
        (R @ R.mT, expected),
        (CATEGORICAL.multiply(h, v.float()), (expected @ v.cpu().double().unsqueeze(-1)).squeeze(-1)),
        (CATEGORICAL.gradient(h, y), gradient),
    ]:
        assert_close(found.cpu().double(), exact, rtol=2e-5, atol=0)


def test_the_pivot_is_found_in_every_row():
    """(L.9) with the largest class first, in the middle, last, and in a tie."""
    h = torch.tensor([[3.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 3.0], [2.0, 2.0, 2.0], [0.0, 2.0, 2.0]])
    R = CATEGORICAL.root(h)
    assert_close(R @ R.mT, textbook(h), rtol=1e-14, atol=1e-15)


def test_entries_of_the_root_are_those_of_the_formula():
    """(L.9), written out entry by entry."""
    h = logits(4, 5, 2.0)
    R = CATEGORICAL.root(h)
    for n, p in enumerate(h.softmax(1)):
        c = int(p.argmax())
        for k, j in enumerate(j for j in range(5) if j != c):
            for i in range(5):
                if i == c:
                    expected = -((p[c] * p[j]) ** 0.5)
                else:
                    expected = p[i].sqrt() * (float(i == j) - (p[i] * p[j]).sqrt() / (1 + p[c].sqrt()))
                assert_close(R[n, i, k], expected, rtol=1e-13, atol=1e-15)


def test_a_column_costs_no_more_than_its_size():
    """A million entries a column would need 4 TB as a whole Hessian."""
    h = torch.zeros(2, 500_000, dtype=torch.float32)
    column = CATEGORICAL.root_column(h, 7)
    assert column.shape == h.shape
    assert_close(column.square().sum(1), torch.full((2,), 2e-6, dtype=torch.float32), rtol=0.5, atol=0)


def test_soft_targets_are_a_mean_over_labels():
    """(L.5), (L.6)."""
    h = logits(4, 3, 2.0)
    q = logits(4, 3, 1.0, seed=1).softmax(1)
    hard = [torch.full((4,), k) for k in range(3)]
    nll = sum(q[:, k] * CATEGORICAL.nll(h, y) for k, y in enumerate(hard))
    gradient = sum(q[:, k : k + 1] * CATEGORICAL.gradient(h, y) for k, y in enumerate(hard))
    assert_close(CATEGORICAL.nll(h, q), nll)
    assert_close(CATEGORICAL.gradient(h, q), gradient)
    CATEGORICAL.check(h, q)


def test_any_integer_type_is_a_label():
    h = logits(3, 3, 2.0)
    y = torch.tensor([0, 2, 1])
    for dtype in (torch.int32, torch.uint8):
        assert torch.equal(CATEGORICAL.nll(h, y.to(dtype)), CATEGORICAL.nll(h, y))
        assert torch.equal(CATEGORICAL.gradient(h, y.to(dtype)), CATEGORICAL.gradient(h, y))


def test_the_gradient_can_be_differentiated():
    h = logits(3, 4, 2.0).requires_grad_()
    y = torch.tensor([0, 3, 1])
    assert torch.autograd.gradcheck(lambda h: CATEGORICAL.gradient(h, y), h)
    assert torch.autograd.gradcheck(lambda h: CATEGORICAL.root_column(h, 1), h)
