"""Random estimates are unbiased: every outcome of the draws is put in by hand and weighted by its probability."""

from __future__ import annotations

import importlib
import itertools

import pytest
import torch
from torch import Tensor, nn

import oracles
from case_layers import mlp
from case_record import seeded
from cases import by_name
from curvature.pairs import draw, draw_labels
from curvature.problems import as_data, network
from paraboloid import Bernoulli, Categorical, Curvature, curvature

COLUMNS = importlib.import_module("paraboloid.curvature.columns")
LINEAR = ["dense", "block", "diagonal", "kronecker", "products"]  # linear in the columns' outer products


class Given(Categorical):
    """Draws the labels it is given."""

    def __init__(self, labels: Tensor) -> None:
        super().__init__()
        self.labels = labels

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        assert self.labels.shape == (samples, len(h))
        return self.labels


class GivenBits(Bernoulli):
    """The same for yes and no."""

    def __init__(self, labels: Tensor) -> None:
        super().__init__()
        self.labels = labels

    def draw(self, h: Tensor, generator: torch.Generator | None, samples: int) -> Tensor:
        return self.labels


def small(device: torch.device, classes: int = 3) -> tuple[nn.Module, Tensor, Tensor]:
    """A network, two examples, labels."""
    model = seeded(lambda: mlp(3, 4, classes), "unbiased").to(device)
    return model, draw(2, 3).to(device), draw_labels(classes, 2).to(device)


def matrix(found: Curvature) -> Tensor:
    return torch.diag(found.diagonal()) if "diagonal" in repr(found) else found.dense()


@pytest.mark.parametrize("structure", LINEAR)
def test_sampled_labels_weighted_by_their_probability_give_the_exact_operator(structure, device):
    model, x, y = small(device)
    p = model(x).softmax(1).detach()
    wanted = matrix(curvature(model, (x, y), likelihood="categorical", structure=structure, estimate="exact"))
    total = torch.zeros_like(wanted)
    for labels in itertools.product(range(3), repeat=2):
        given = Given(torch.tensor([labels], device=device))
        found = curvature(model, (x, y), likelihood=given, structure=structure, estimate="sampled")
        total += p[0, labels[0]] * p[1, labels[1]] * matrix(found)
    assert (total - wanted).norm() <= 1e-12 * wanted.norm()


def test_sampled_bits_weighted_by_their_probability_give_the_exact_operator(device):
    model, x, _ = small(device, classes=2)
    y, p = torch.ones(2, 2, device=device), model(x).sigmoid().detach()
    wanted, total = oracles.ggn(model, (x,), y, "bernoulli"), 0.0
    for bits in itertools.product([0.0, 1.0], repeat=4):
        labels = torch.tensor(bits, device=device).view(1, 2, 2)
        weight = torch.where(labels[0] == 1, p, 1 - p).prod()
        found = curvature(model, (x, y), likelihood=GivenBits(labels), structure="dense", estimate="sampled")
        total = total + weight * found.dense()
    assert (total - wanted).norm() <= 1e-12 * wanted.norm()


@pytest.mark.parametrize("structure", ["dense", "diagonal", "products"])
def test_labels_drawn_per_token_have_no_cross_terms_on_average(structure, device):
    """One column over all tokens squares cross terms; they cancel over independent labels."""
    case = by_name("linear_tokens")
    model, (inputs, y) = network(case, device), case.batch(1)
    x = inputs[0].to(device)
    p = model(x).softmax(-1).detach()[0]
    wanted, total = oracles.ggn(model, (x,), y.to(device), "categorical"), 0.0
    for labels in itertools.product(range(3), repeat=2):
        given = Given(torch.tensor([labels], device=device))
        found = curvature(model, (x, y), likelihood=given, structure=structure, estimate="sampled")
        total = total + p[0, labels[0]] * p[1, labels[1]] * matrix(found)
    wanted = torch.diag(wanted.diagonal()) if structure == "diagonal" else wanted
    assert (total - wanted).norm() <= 1e-12 * wanted.norm()


def signs_put_in(monkeypatch, name: str, count: int):
    """Every sign vector in turn, given to the library in the place of what it would draw."""
    for signs in itertools.product([-1.0, 1.0], repeat=count):
        values = torch.tensor(signs)

        def given(shape, generator=None, dtype=None, device=None, values=values):
            assert torch.Size(shape).numel() == count
            return values.to(device, dtype).reshape(shape)

        monkeypatch.setattr(COLUMNS, name, given)
        yield


@pytest.mark.parametrize(("estimate", "drawn"), [("projected", "rademacher"), ("projected_gaussian", "normal")])
@pytest.mark.parametrize("structure", LINEAR)
def test_projections_over_all_signs_give_the_exact_operator(structure, estimate, drawn, device, monkeypatch):
    """Signs for normal numbers too: only their second moments enter, and those are the same."""
    model, x, y = small(device)
    options = dict(likelihood="categorical", structure=structure)
    wanted = matrix(curvature(model, (x, y), estimate="exact", **options))
    found = [
        matrix(curvature(model, (x, y), estimate=estimate, **options)) for _ in signs_put_in(monkeypatch, drawn, 4)
    ]
    assert len(found) == 16
    assert (sum(found) / 16 - wanted).norm() <= 1e-12 * wanted.norm()
    assert (found[0] - wanted).norm() > 1e-3 * wanted.norm()


@pytest.mark.parametrize("structure", ["kronecker", "eigenkronecker", "diagonal", "dense"])
def test_signs_for_tokens_keep_what_tokens_share_out(structure, device, monkeypatch):
    """The default for factors of outputs with tokens: over all signs the cross terms between tokens cancel."""
    case = by_name("linear_tokens")
    model, (inputs, y) = network(case, device), case.batch(2)
    data, options = as_data([(tuple(x.to(device) for x in inputs), y)]), dict(likelihood="categorical")
    wanted = curvature(model, data, structure="dense", estimate="exact", **options).dense()
    found = [
        curvature(model, data, structure=structure, estimate="signed", **options)
        for _ in signs_put_in(monkeypatch, "rademacher", 4)
    ]
    mean = sum(float(one.trace()) for one in found) / len(found)
    if structure == "kronecker":  # traces are not kept, but each factor is a mean over signs
        plain = curvature(model, data, structure="kronecker", estimate="exact", **options)
        assert abs(mean - float(plain.trace())) <= 1e-12 * abs(mean)
        return
    assert abs(mean - float(wanted.trace())) <= 1e-12 * mean
    if structure == "dense":
        assert (sum(one.dense() for one in found) / len(found) - wanted).norm() <= 1e-12 * wanted.norm()


def test_the_default_of_factors_is_signed_for_tokens_alone_and_the_coverage_says_so(device):
    case = by_name("linear_tokens")
    model, (inputs, y) = network(case, device), case.batch()
    tokens = as_data([(tuple(x.to(device) for x in inputs), y)])
    assert "random sign" in str(curvature(model, tokens, likelihood="categorical").coverage)
    exact = curvature(model, tokens, likelihood="categorical", structure="diagonal")
    assert exact.coverage.estimate == "exact"
    model, x, y = small(device)
    assert curvature(model, (x, y), likelihood="categorical").coverage.estimate == "exact"


@pytest.mark.parametrize("structure", LINEAR)
def test_several_samples_are_averaged(structure, device):
    model, x, y = small(device)
    draws = torch.tensor([[0, 2], [1, 1], [2, 0]], device=device)
    options = dict(structure=structure, estimate="sampled")
    one_by_one = [matrix(curvature(model, (x, y), likelihood=Given(row[None]), **options)) for row in draws]
    together = matrix(curvature(model, (x, y), likelihood=Given(draws), samples=3, **options))
    assert (together - sum(one_by_one) / 3).norm() <= 1e-12 * together.norm()


@pytest.mark.parametrize("structure", [*LINEAR, "eigenkronecker", "lowrank"])
def test_the_same_generator_state_gives_the_same_numbers_and_another_one_does_not(structure, device):
    model, x, y = small(device)

    def fit(seed: int | None) -> Tensor:
        generator = None if seed is None else torch.Generator(device).manual_seed(seed)
        options = dict(likelihood="categorical", structure=structure, estimate="sampled", samples=2)
        return matrix(curvature(model, (x, y), generator=generator, **options))

    assert torch.equal(fit(3), fit(3))
    assert torch.equal(fit(None), fit(None))
    assert not torch.equal(fit(3), fit(4))


def test_products_of_a_random_estimate_belong_to_one_matrix(device):
    model, x, y = small(device)
    found = curvature(model, [(x, y), (x, y)], likelihood="categorical", structure="products", estimate="sampled")
    v = draw(found.size).to(device)
    assert torch.equal(found @ v, found @ v)
    assert (found @ v - found.dense() @ v).norm() <= 1e-12 * (found @ v).norm()
    assert (found.dense() - found.dense().T).norm() <= 1e-12 * found.dense().norm()
