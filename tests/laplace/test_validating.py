"""Tuning on held-out data finds the best point of the grid."""

import pytest
import torch
from torch import nn

from paraboloid import laplace

GRID = (1e-2, 1.0, 1e2, 1e4)


@pytest.fixture
def trained():
    """A classifier of two noisy clusters that is far too sure of itself, its data, and data it has not seen."""
    generator = torch.Generator().manual_seed(1)

    def data(n):
        y = torch.randint(3, (n,), generator=generator)
        return torch.randn(n, 4, generator=generator) + nn.functional.one_hot(y, 4), y

    model = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    (x, y), held_out = data(30), data(40)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=200)

    def loss():
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(model(x), y, reduction="sum")
        value = value + 0.005 * sum(p.square().sum() for p in model.parameters())
        value.backward()
        return value

    optimizer.step(loss)
    return model, (x, y), held_out


def fresh(trained, factor=1.0, strength=1.0, **options):
    model, data, _ = trained
    return laplace(
        model,
        data,
        likelihood="categorical",
        prior_precision=factor,
        likelihood_temperature=1 / strength,
        **options,
    )


@pytest.mark.parametrize("structure", ["kronecker", "diagonal"])
def test_the_best_point_of_the_grid_is_kept(trained, structure):
    x, y = trained[2]
    strengths = (0.1, 1.0)

    def loss(factor, strength):
        predicted = fresh(trained, factor, strength, structure=structure).predict(x)
        return float(-predicted.log_prob(y).mean())

    best = min((loss(f, s), f, s) for f in GRID for s in strengths)
    assert loss(1.0, 1.0) > best[0] + 1e-3
    posterior = fresh(trained, structure=structure)
    assert posterior.tune("validation", data=(x, y), factors=GRID, strengths=strengths) is posterior
    assert float(posterior.prior.values) == pytest.approx(best[1])
    assert posterior.likelihood_temperature == pytest.approx(1 / best[2])
    assert float(-posterior.predict(x).log_prob(y).mean()) == pytest.approx(best[0], abs=1e-12)


def test_any_metric_and_any_way_to_predict_can_decide(trained):
    x, y = trained[2]

    def most_doubtful(predicted, labels):
        assert predicted.probs.shape == (len(labels), 3)
        return -predicted.entropy()

    posterior = fresh(trained).tune("validation", data=(x, y), factors=GRID, metric=most_doubtful, link="bridge")
    entropies = [float(fresh(trained, f).predict(x, link="bridge").entropy().mean()) for f in GRID]
    assert float(posterior.prior.values) == pytest.approx(GRID[entropies.index(max(entropies))])


def test_terms_that_are_ignored_do_not_vote(trained):
    x, y = trained[2]
    marked = torch.where(torch.arange(len(y)) < 20, y, -100)
    one = fresh(trained).tune("validation", data=(x, marked), factors=GRID)
    other = fresh(trained).tune("validation", data=(x[:20], y[:20]), factors=GRID)
    assert float(one.prior.values) == float(other.prior.values)


def test_what_cannot_be_tuned_is_said(trained):
    posterior = fresh(trained)
    with pytest.raises(ValueError, match="needs data= that the network was not trained on"):
        posterior.tune("validation")
    with pytest.raises(ValueError, match="positive factors and strengths"):
        posterior.tune("validation", data=trained[2], factors=(0.0,))
    with pytest.raises(ValueError, match="hold no terms"):
        posterior.tune("validation", data=(trained[2][0], torch.full_like(trained[2][1], -100)))
