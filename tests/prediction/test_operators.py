"""Precisions that were made elsewhere: any operator, on any cut of the weights into blocks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from cases import by_name
from paraboloid import BlockDiagonal, Categorical, Curvature, Diagonal, LinearOperator, LowRank, curvature, laplace
from paraboloid.operators.blocks import Block
from paraboloid.operators.dense import Dense
from paraboloid.operators.eigenkronecker import EigenKronecker
from paraboloid.operators.kronecker import Kronecker
from prediction.closed_form import drawn
from prediction.networks import EACH, UNTRAINED, Posed, covariance, jacobian, on, relative

pytestmark = UNTRAINED


def psd(size: int, seed: int = 0) -> Tensor:
    """A semi-definite matrix of half the rank."""
    factor = drawn(size, max(1, size // 2), seed=seed)
    return factor @ factor.T / size


def halves(size: int) -> tuple[Tensor, Tensor]:
    """Two sets of positions that cut through every layer, in no order."""
    order = drawn(size, seed=4).argsort()
    return order[: size // 2], order[size // 2 :]


def shuffled(size: int) -> LinearOperator:
    one, two = halves(size)
    return BlockDiagonal(size, [Block("a", one, Dense(psd(len(one)))), Block("b", two, Dense(psd(len(two), 1)))])


def partial(size: int) -> LinearOperator:
    one, _ = halves(size)
    return BlockDiagonal(size, [Block("a", one, Dense(psd(len(one))))])


def mixed(size: int) -> LinearOperator:
    one, two = halves(size)
    pairs = Diagonal(drawn(len(two)).abs()), Dense(psd(len(one)))
    return BlockDiagonal(size, [Block("a", two, pairs[0]), Block("b", one, pairs[1])])


def factored(size: int) -> LinearOperator:
    """43 weights have no factors, 42 of them do."""
    some = torch.arange(size)[: size - size % 6]
    product = Kronecker(Dense(psd(6)), Dense(psd(len(some) // 6)))
    return BlockDiagonal(size, [Block("a", some.flip(0), product)])


OPERATORS = {
    "dense": lambda size: Dense(psd(size)),
    "diagonal": lambda size: Diagonal(drawn(size).abs()),
    "lowrank": lambda size: LowRank(drawn(size, 4), drawn(4).abs()),
    "whole_product": lambda size: EigenKronecker(None, None, drawn(size, 1).abs()),
    "shuffled": shuffled,
    "partial": partial,
    "mixed": mixed,
    "factored": factored,
}


@pytest.mark.parametrize("make", OPERATORS)
@on("mlp", "conv2d_grouped", "batch_norm_2d", "tied_embedding", "unused")
def test_any_operator_gives_the_covariance_of_its_own_matrix(make, case, device):
    """Blocks that cut through layers, leave weights out or come in another order lose nothing."""
    posed = Posed(case, device)
    size = sum(t.numel() for t in posed.model.parameters())
    operator = OPERATORS[make](size).to(device)
    posterior = laplace(
        posed.model, likelihood="categorical", operator=operator, num_data=7, prior_precision=0.4
    )  # fmt: skip
    wanted = 7 * operator.dense() + 0.4 * torch.eye(size, device=device)
    torch.testing.assert_close(posterior.precision.dense(), wanted, rtol=1e-10, atol=1e-10)
    _, J = jacobian(case, posed.model, posed.inputs, posed.targets)
    found, right = posterior.functional_variance(posed.x), covariance(J, wanted)
    assert (found - right).norm() <= 1e-9 * right.norm()


@EACH
def test_a_curvature_from_elsewhere_is_as_good_as_data(structure, device):
    posed = Posed(by_name("mlp"), device)
    inputs, y = posed.made[0]
    found = curvature(posed.model, (inputs[0], y), likelihood="categorical", structure=structure)
    wanted = laplace(posed.model, (inputs[0], y), likelihood="categorical", structure=structure, prior_precision=2.0)
    for operator in (found, found.operator):
        count = None if isinstance(operator, Curvature) else 5
        alone = laplace(posed.model, likelihood="categorical", operator=operator, num_data=count, prior_precision=2.0)
        assert torch.equal(alone.precision.dense(), wanted.precision.dense())
        assert relative(alone.functional_variance(posed.x), wanted.functional_variance(posed.x)) < 1e-12
        beside = laplace(
            posed.model, (inputs[0], y), likelihood="categorical", operator=operator, prior_precision=2.0
        )  # fmt: skip
        assert float(beside.evidence()) == pytest.approx(float(wanted.evidence()), rel=1e-12)


@pytest.mark.parametrize("make", OPERATORS)
def test_the_evidence_of_any_operator_has_the_determinant_of_its_matrix(make, device):
    """(P.6): weights in no block have the prior's precision, and count."""
    posed = Posed(by_name("mlp"), device)
    inputs, y = posed.made[0]
    posterior = laplace(
        posed.model, (inputs[0], y), likelihood="categorical", operator=OPERATORS[make](43).to(device),
        prior_precision=0.4,
    )  # fmt: skip
    loss = torch.nn.functional.cross_entropy(posed.model(inputs[0]), y, reduction="sum").detach()
    logdet = torch.linalg.slogdet(5 * OPERATORS[make](43).dense() + 0.4 * torch.eye(43))[1]
    wanted = -float(loss) - 0.2 * float(posterior.mean.square().sum()) + 0.5 * (43 * math.log(0.4) - float(logdet))
    assert float(posterior.evidence()) == pytest.approx(wanted, rel=1e-10)


def test_layers_in_no_block_have_the_precision_of_their_own_name(device):
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)).to(device)
    first = BlockDiagonal(14, [Block("first", slice(0, 8), Dense(psd(8)))]).to(device)
    precision = {"0": 0.5, "2": 3.0}
    posterior = laplace(model, likelihood="gaussian", operator=first, num_data=2, prior_precision=precision)
    delta = torch.tensor([0.5] * 8 + [3.0] * 6, device=device)
    torch.testing.assert_close(posterior.precision.dense(), 2 * first.dense() + delta.diag())


# ---------------------------------------------------------------------- where the classes lie
class Turned(nn.Module):
    """Scores of classes for every token, with the classes on the second axis or the last."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.inner, self.axis = nn.Linear(4, 3), axis

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).movedim(-1, self.axis)


@pytest.mark.parametrize("known", ["data", "likelihood"])
@pytest.mark.parametrize("axis", [1, 2])
@EACH
def test_classes_lie_where_the_likelihood_says_though_shapes_leave_it_open(axis, known, structure, device):
    """Three tokens of three classes; without data the likelihood alone knows."""
    model, likelihood = Turned(axis).to(device), Categorical(class_axis=axis)
    x = torch.linspace(-1, 1, 60, device=device).view(5, 3, 4)
    y = torch.arange(15, device=device).view(5, 3) % 3
    posterior = laplace(model, (x, y), likelihood=likelihood, structure=structure, prior_precision=20.0)
    if known == "likelihood":
        found = curvature(model, (x, y), likelihood=likelihood, structure=structure)
        posterior = laplace(model, likelihood=likelihood, operator=found, prior_precision=20.0)
    assert torch.allclose(posterior.predict(x, "map").probs, model.inner(x).softmax(-1), rtol=1e-14)
    J = torch.stack([torch.stack([_flat(model, logit) for logit in row]) for row in model.inner(x).flatten(0, 1)])
    wanted = covariance(J, posterior.precision.dense()).view(5, 3, 3, 3)
    assert (posterior.functional_variance(x) - wanted).norm() <= 1e-9 * wanted.norm()


def _flat(model: nn.Module, logit: Tensor) -> Tensor:
    found = torch.autograd.grad(logit, list(model.parameters()), retain_graph=True)
    return torch.cat([g.flatten() for g in found])


def test_numbers_of_a_term_lie_last_where_they_are_no_classes(device):
    """No data show it, and none need to."""
    model = nn.Linear(4, 2).to(device)
    x = torch.linspace(-1, 1, 60, device=device).view(5, 3, 4)
    found = curvature(model, (x, x[..., :2]), likelihood="gaussian")
    posterior = laplace(model, likelihood="gaussian", operator=found, prior_precision=1.0)
    assert posterior.functional_variance(x).shape == (5, 3, 2, 2)
    assert posterior.predict(x).batch_shape == (5, 3)


def test_an_unknown_class_axis_is_asked_for(device):
    model = nn.Linear(4, 3).to(device)
    x, y = torch.zeros(5, 2, 4, device=device), torch.zeros(5, 2, dtype=torch.long, device=device)
    found = curvature(model, (x, y), likelihood="categorical")
    posterior = laplace(model, likelihood="categorical", operator=found, prior_precision=1.0)
    for predict in (posterior.functional_variance, lambda x: posterior.predict(x, "map")):
        with pytest.raises(ValueError, match=r"on which axis of the outputs \(5, 2, 3\) the classes lie.*class_axis=2"):
            predict(x)
    assert posterior.predict(x[:, 0]).batch_shape == (5,)
