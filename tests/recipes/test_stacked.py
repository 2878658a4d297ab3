"""Stacked training is K separate trainings: weights, statistics, losses, in any of the elementwise optimisers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from paraboloid.recipes import models
from paraboloid.recipes.evaluation import evaluate, predict
from paraboloid.recipes.log import MemoryLog
from paraboloid.recipes.schedules import Schedule
from paraboloid.recipes.stacked import PerCopy, Stacked, per_copy
from paraboloid.recipes.training import Training, train

K = 3
SETTINGS = {
    "SGD": dict(lr=0.3),
    "momentum": dict(lr=0.1, momentum=0.9, weight_decay=0.01),
    "Nesterov": dict(lr=0.1, momentum=0.9, nesterov=True, schedule=Schedule(warmup=1, drops=(2,))),
    "Adam": dict(lr=0.01, optimizer="adam", weight_decay=0.01),
}


def seeded(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def networks(device: torch.device, norm: str = "none") -> list[nn.Module]:
    return [models.mlp((4, 6, 3), norm=norm, generator=seeded(seed, device)) for seed in range(K)]


def dataset(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(99, device)
    x = torch.randn(22, 4, generator=generator, device=device)
    return x, torch.randint(3, (22,), generator=generator, device=device)


def assert_equal(first: nn.Module, second: nn.Module) -> None:
    one, other = first.state_dict(), second.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.allclose(one[key], other[key], rtol=1e-10, atol=1e-10) for key in one)


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("name", SETTINGS)
def test_stacked_training_is_separate_training(name, norm, device):
    """Own weights, own orders of the data, own noise on the inputs, and batches of unequal size."""

    def noisy(x, generator):
        return x + 0.1 * torch.randn(x.shape, generator=generator, device=x.device)

    data, settings = dataset(device), Training(epochs=4, batch_size=8, **SETTINGS[name])
    alone, histories = networks(device, norm), []
    for seed, model in enumerate(alone):
        history = train(model, data, settings, MemoryLog(), generator=seeded(10 + seed, device), prepare=noisy)
        histories.append(history)
    stacked = Stacked(networks(device, norm), axes=1)
    generators = [seeded(10 + seed, device) for seed in range(K)]
    together = train(
        stacked, data, settings, MemoryLog(), generator=generators, prepare=noisy, loss=per_copy(F.cross_entropy)
    )
    for one, other in zip(alone, stacked.unstack(), strict=True):
        assert_equal(one, other)
    assert torch.allclose(together.loss, torch.stack([history.loss for history in histories], 1), atol=1e-10)
    assert torch.equal(together.accuracy, torch.stack([history.accuracy for history in histories], 1))


@pytest.mark.parametrize("name", SETTINGS)
def test_every_copy_may_have_its_own_learning_rate(name, device):
    data, rates = dataset(device), (0.001, 0.03, 0.2)
    settings = [Training(epochs=3, batch_size=8, **{**SETTINGS[name], "lr": rate}) for rate in (*rates, 1.0)]
    alone = networks(device)
    for model, own in zip(alone, settings[:-1], strict=True):
        train(model, data, own, MemoryLog(), generator=seeded(5, device))
    stacked, factors = Stacked(networks(device), axes=1), torch.tensor(rates, device=device)
    train(
        stacked,
        data,
        settings[-1],
        MemoryLog(),
        generator=seeded(5, device),
        loss=per_copy(F.cross_entropy),
        optimizer=lambda parameters: PerCopy(settings[-1].build_optimizer(parameters), factors),
    )
    for one, other in zip(alone, stacked.unstack(), strict=True):
        assert_equal(one, other)


def test_rates_that_change_between_steps_are_schedules_of_their_own(device):
    x, y = dataset(device)
    halving = [Schedule(drops=(at,), drop=0.5) for at in (1, 2, 3)]
    alone = networks(device)
    for model, schedule in zip(alone, halving, strict=True):
        settings = Training(epochs=4, batch_size=11, lr=0.1, momentum=0.9, schedule=schedule)
        train(model, (x, y), settings, MemoryLog(), generator=seeded(5, device))
    stacked = Stacked(networks(device), axes=1)
    table = torch.tensor([[schedule.factor(step, 2) for schedule in halving] for step in range(9)], device=device)
    factors = table[0].clone()
    train(
        stacked,
        (x, y),
        Training(epochs=4, batch_size=11),
        MemoryLog(),
        generator=seeded(5, device),
        loss=per_copy(F.cross_entropy),
        optimizer=lambda p: PerCopy(torch.optim.SGD(p, 0.1, momentum=0.9), factors),
        after_step=lambda step: factors.copy_(table[step + 1]),
    )
    for one, other in zip(alone, stacked.unstack(), strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("shared", [True, False])
def test_convolutions_and_batch_norms_stack(shared, device):
    def build(seed):
        return models.resnet(8, width=2, generator=seeded(seed, device))

    x = torch.randn(*(() if shared else (K,)), 4, 3, 8, 8, generator=seeded(9, device), device=device)
    alone, stacked = [build(seed) for seed in range(K)], Stacked([build(seed) for seed in range(K)], axes=3)
    expected = torch.stack([model(x if shared else x[k]) for k, model in enumerate(alone)])
    assert torch.allclose(stacked(x), expected, atol=1e-10)
    for one, other in zip(alone, stacked.unstack(), strict=True):
        assert_equal(one, other)  # the running statistics too
    expected = torch.stack([model.eval()(x if shared else x[k]) for k, model in enumerate(alone)])
    assert torch.allclose(stacked.eval()(x), expected, atol=1e-10)


def test_ghost_batch_norms_stack(device):
    def build(seed):
        return models.mlp((4, 6, 3), norm="batch", ghost=4, generator=seeded(seed, device))

    x = torch.randn(10, 4, generator=seeded(9, device), device=device)
    alone, stacked = [build(seed) for seed in range(K)], Stacked([build(seed) for seed in range(K)], axes=1)
    assert torch.allclose(stacked(x), torch.stack([model(x) for model in alone]), atol=1e-10)
    for one, other in zip(alone, stacked.unstack(), strict=True):
        assert_equal(one, other)


def test_tied_parameters_stay_tied(device):
    def build(seed):
        first, second = (models.mlp((4, 4), generator=seeded(seed, device)) for _ in range(2))
        second[1].weight = first[1].weight
        return nn.Sequential(first, nn.Tanh(), second)

    alone, stacked = [build(seed) for seed in range(K)], Stacked([build(seed) for seed in range(K)], axes=1)
    x, y = torch.ones(2, 4, device=device), torch.zeros(2, 4, device=device)
    for model in alone:
        F.mse_loss(model(x), y).backward()
    per_copy(F.mse_loss)(stacked(x), y).sum().backward()
    assert len(list(stacked.parameters())) == 3
    expected = torch.stack([model[0][1].weight.grad for model in alone])
    assert torch.allclose(stacked.copies[0][1].weight.grad, expected, atol=1e-12)


@pytest.mark.parametrize("loss", [F.cross_entropy, F.mse_loss, F.binary_cross_entropy_with_logits])
@pytest.mark.parametrize("shared", [True, False])
def test_the_loss_of_each_copy_is_its_own(loss, shared, device):
    generator = seeded(3, device)
    outputs = torch.randn(K, 5, 4, generator=generator, device=device)
    shape = (5,) if shared else (K, 5)
    if loss is F.cross_entropy:
        y = torch.randint(4, shape, generator=generator, device=device)
    else:
        y = torch.rand(*shape, 4, generator=generator, device=device)
    expected = torch.stack([loss(outputs[k], y if shared else y[k]) for k in range(K)])
    assert torch.allclose(per_copy(loss)(outputs, y), expected, atol=1e-14)


def test_stacking_and_unstacking_copy(device):
    given = networks(device)
    before = [{key: value.clone() for key, value in model.state_dict().items()} for model in given]
    stacked = Stacked(given, axes=1)
    unstacked = stacked.unstack()
    with torch.no_grad():
        for parameter in stacked.parameters():
            parameter.zero_()
    for one, other in zip(given, unstacked, strict=True):
        assert_equal(one, other)
    assert all(
        torch.equal(model.state_dict()[key], old[key]) for model, old in zip(given, before, strict=True) for key in old
    )


def test_stacked_models_are_evaluated_copy_by_copy(device):
    x, y = dataset(device)
    alone = networks(device)
    stacked = Stacked(alone, axes=1)
    expected = torch.stack([model(x) for model in alone])
    assert torch.allclose(predict(stacked, x, batch_size=5), expected, atol=1e-12)
    found = evaluate(stacked, (x, y), batch_size=5, loss=per_copy(F.cross_entropy))
    assert found.loss == pytest.approx([F.cross_entropy(out, y).item() for out in expected], abs=1e-12)
    assert found.accuracy == pytest.approx([(out.argmax(-1) == y).double().mean().item() for out in expected])


def test_a_copy_that_diverges_leaves_the_others_alone(device):
    stacked, factors = Stacked(networks(device), axes=1), torch.tensor([0.1, 1e200, 0.1], device=device)
    log = MemoryLog()
    history = train(
        stacked,
        dataset(device),
        Training(epochs=6, batch_size=8),
        log,
        generator=seeded(1, device),
        loss=per_copy(F.cross_entropy),
        optimizer=lambda p: PerCopy(torch.optim.SGD(p, 1.0), factors),
    )
    assert history.loss[-1].isfinite().tolist() == [True, False, True]
    assert log.lines[-1]["loss"] == pytest.approx(history.loss[-1][[0, 2]].mean().item())


def test_dropout_is_refused_unless_masks_of_ones_own_are_meant(device):
    dropping = [models.mlp((4, 64, 3), dropout=0.5, generator=seeded(0, device)) for _ in range(2)]
    with pytest.raises(ValueError, match='found dropout in 3: a copy would not.*say randomness="different"'):
        Stacked(dropping, axes=1)
    out = Stacked(dropping, axes=1, randomness="different")(torch.ones(5, 4, device=device))
    assert not torch.allclose(out[0], out[1])


def test_what_cannot_be_stacked_is_refused_by_name(device):
    one = networks(device)[0]
    with pytest.raises(ValueError, match="the models should be alike in layers.*number 1 differs from the first"):
        Stacked([one, models.mlp((4, 5, 3), generator=seeded(0, device))], axes=1)
    with pytest.raises(ValueError, match="number 1 differs"):
        Stacked([one, networks(device)[1].eval()], axes=1)
    with pytest.raises(ValueError, match="at least one model is needed"):
        Stacked([], axes=1)
    with pytest.raises(ValueError, match="a batch of examples with 1 axes, or 2 batches, .*found shape \\(3, 5, 4\\)"):
        Stacked([one, one], axes=1)(torch.zeros(3, 5, 4, device=device))
    with pytest.raises(ValueError, match="targets should have 1 axes, or 2 with one batch for each copy"):
        per_copy(F.cross_entropy)(torch.zeros(2, 5, 3), torch.zeros(2, 5, 3, dtype=torch.long))
    stacked = Stacked([one, one], axes=1)
    with pytest.raises(
        ValueError, match="`factors` should be \\(K,\\) for parameters \\(K, ...\\).*found \\(3,\\) for"
    ):
        PerCopy(torch.optim.SGD(stacked.parameters(), 0.1), torch.ones(3, device=device))
