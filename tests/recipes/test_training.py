"""The one training loop: what it computes, what it reports, and that a run which stops goes on bit for bit."""

import functools
import json
from dataclasses import asdict

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from paraboloid.recipes import checkpoints, models
from paraboloid.recipes.averaging import PredictionAverage, WeightAverage, Window
from paraboloid.recipes.config import from_json
from paraboloid.recipes.evaluation import evaluate, predict, products
from paraboloid.recipes.log import MemoryLog
from paraboloid.recipes.schedules import Schedule
from paraboloid.recipes.stacked import Stacked
from paraboloid.recipes.training import Diverged, Training, train


def seeded(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def network(device: torch.device, **options) -> nn.Sequential:
    return models.mlp((4, 6, 3), generator=seeded(0, device), **options)


def dataset(device: torch.device, count: int = 22) -> tuple[torch.Tensor, torch.Tensor]:
    generator = seeded(99, device)
    x = torch.randn(count, 4, generator=generator, device=device)
    return x, torch.randint(3, (count,), generator=generator, device=device)


def plain(settings: Training, device: torch.device):
    """The loop that everybody writes, with torch's own optimiser: the model, and mean loss and accuracy by epoch."""
    model, (x, y), generator = network(device), dataset(device), seeded(1, device)
    torch.randint(2**62, (), generator=generator, device=device)  # Dropout's seed
    if settings.optimizer == "adam":
        optimizer = torch.optim.Adam(model.parameters(), settings.lr, weight_decay=settings.weight_decay)
    else:
        keys = ("lr", "momentum", "nesterov", "weight_decay")
        optimizer = torch.optim.SGD(model.parameters(), **{key: getattr(settings, key) for key in keys})
    lines = []
    for epoch in range(settings.epochs):
        order, loss_sum, right, seen = torch.randperm(len(x), generator=generator, device=device), 0.0, 0, 0
        for batch in order.split(settings.batch_size):
            if settings.drop_last and len(batch) < settings.batch_size:
                continue
            optimizer.param_groups[0]["lr"] = settings.lr * (0.1 if settings.schedule.drops and epoch >= 2 else 1)
            out = model(x[batch])
            loss = F.cross_entropy(out, y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum, seen = loss_sum + loss.item() * len(batch), seen + len(batch)
            right += (out.argmax(-1) == y[batch]).sum().item()
        lines.append((loss_sum / seen, right / seen))
    return model, lines


@pytest.mark.parametrize(
    "settings",
    [
        Training(4, 8, lr=0.1),
        Training(4, 8, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, schedule=Schedule(drops=(2,))),
        Training(4, 8, lr=0.1, momentum=0.5, drop_last=True),
        Training(4, 8, lr=0.01, optimizer="adam", weight_decay=0.1),
        Training(4, 100, lr=0.01),
    ],
    ids=["sgd", "nesterov", "drop_last", "adam", "one batch"],
)
def test_training_is_the_loop_that_everybody_writes(settings, device):
    expected, lines = plain(settings, device)
    model, log = network(device), MemoryLog()
    history = train(model, dataset(device), settings, log, generator=seeded(1, device))
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-13)
    for column, name in enumerate(("loss", "accuracy")):
        assert getattr(history, name).tolist() == pytest.approx([line[column] for line in lines], abs=1e-12)
        assert [line[name] for line in log.lines] == pytest.approx([line[column] for line in lines], abs=1e-12)
    assert [line["epoch"] for line in log.lines] == [0, 1, 2, 3]
    assert log.lines[-1]["lr"] == pytest.approx(settings.lr * (0.1 if settings.schedule.drops else 1))


def test_every_example_is_seen_once_an_epoch_in_an_order_of_its_own(device):
    orders: list[list[float]] = [[]]

    def remembered(x, generator):
        orders[-1].extend(x[:, 0].tolist())
        return x

    x, y = dataset(device)
    train(
        network(device), (x, y), Training(2, 8), MemoryLog(), generator=seeded(1, device), prepare=remembered,
        evaluate=lambda model: orders.append([]) or {},
    )  # fmt: skip
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(x[:, 0].tolist())
    assert orders[0] != orders[1] and orders[0] != x[:, 0].tolist()


class StoppingLog(MemoryLog):
    """Saves everything after some epochs and stops; or goes on from there."""

    def __init__(self, path, stop: int, resume: bool) -> None:
        super().__init__()
        self.path, self.stop, self.resume = path, stop, resume

    def loop(self, count, label="", **kept):
        if self.resume:
            checkpoints.restore(self.path, kept)
            yield from range(self.stop, count)
            return
        yield from range(self.stop)
        checkpoints.write(self.path, kept, {})


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("average", [WeightAverage, lambda: PredictionAverage(lambda m: m[1].weight, Window(first=1))])
def test_a_run_that_stops_and_goes_on_equals_one_that_does_not(optimizer, average, tmp_path, device):
    """Bit for bit, with Dropout, BatchNorm, noise on the inputs, a schedule, averages and a state of the user's."""

    def run(log, draws_before: int):
        model, found, steps = network(device, dropout=0.5, norm="batch"), average(), torch.zeros(1, device=device)
        momentum = 0.9 if optimizer == "sgd" else 0.0
        schedule = Schedule(warmup=1, decay=0.9)
        settings = Training(5, 8, optimizer=optimizer, lr=0.01, momentum=momentum, schedule=schedule)
        torch.rand(draws_before)  # the global generator has no part in it
        history = train(
            model, dataset(device), settings, log, generator=seeded(1, device), average=found,
            prepare=lambda x, g: x + torch.randn(x.shape, generator=g, device=x.device),
            after_step=lambda step: steps.add_(1), kept={"steps": steps},
        )  # fmt: skip
        return model.state_dict(), found.state_dict(), history.state_dict(), {"steps": steps}

    with torch.random.fork_rng():
        whole = run(MemoryLog(), 0)
        run(StoppingLog(tmp_path / "state", 2, False), 3)
        resumed = run(StoppingLog(tmp_path / "state", 2, True), 1)
    for one, other in zip(whole, resumed, strict=True):
        assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_dropout_draws_from_the_given_generator_and_leaves_the_global_one(device):
    """The examples are alike and the weights stay, so that losses differ by the masks alone: by epoch, and by seed."""
    alike = torch.ones(8, 4, device=device), torch.zeros(8, dtype=torch.long, device=device)

    def run(seed: int) -> list[float]:
        model = models.mlp((4, 64, 3), dropout=0.5, generator=seeded(0, device))
        return train(model, alike, Training(3, 8, lr=0.0), MemoryLog(), generator=seeded(seed, device)).loss.tolist()

    before = torch.get_rng_state()
    first, again, other = run(1), run(1), run(2)
    assert torch.equal(before, torch.get_rng_state())
    assert first == again and len({*first, *other}) == 6


def test_averages_and_evaluations_come_after_each_epoch(device):
    average, log = WeightAverage(Window(first=1)), MemoryLog()
    weights = []

    def told(model):
        weights.append(model[1].weight.detach().clone())
        return {"kept": average.count}

    model = network(device)
    train(model, dataset(device), Training(3, 8), log, generator=seeded(1, device), average=average, evaluate=told)
    assert [line["kept"] for line in log.lines] == [0, 1, 2]
    average.copy_to(model)
    assert torch.allclose(model[1].weight, (weights[1] + weights[2]) / 2, atol=1e-14)


def test_steps_are_counted_through_the_run(device):
    seen: list[int] = []
    train(
        network(device),
        dataset(device),
        Training(2, 8),
        MemoryLog(),
        generator=seeded(1, device),
        after_step=seen.append,
    )
    assert seen == [0, 1, 2, 3, 4, 5]


def test_any_optimiser_of_torch_can_be_given_and_its_groups_keep_their_ratio(device):
    rates = []

    def optimizer(parameters):
        first, *others = parameters
        return torch.optim.RMSprop([{"params": [first], "lr": 0.1}, {"params": others}], lr=0.01)

    made = []
    train(
        network(device), dataset(device), Training(2, 22, schedule=Schedule(drops=(1,), drop=0.5)), MemoryLog(),
        generator=seeded(1, device), optimizer=lambda p: made.append(optimizer(p)) or made[0],
        after_step=lambda step: rates.append([group["lr"] for group in made[0].param_groups]),
    )  # fmt: skip
    assert rates == [[0.1, 0.01], [0.05, 0.005]]


def test_a_loss_that_is_not_finite_is_named_by_epoch_and_step(device):
    x, y = dataset(device)
    model = network(device)

    def broken(step: int) -> None:
        if step == 4:  # the second step of the second epoch; the third one meets it
            with torch.no_grad():
                model[1].weight.fill_(torch.nan)

    with pytest.raises(
        Diverged, match="the loss should stay finite; found nan at step 2 of epoch 1 \\(learning rate 0.1"
    ):
        train(model, (x, y), Training(3, 8), MemoryLog(), generator=seeded(1, device), after_step=broken)


def test_targets_without_classes_have_no_accuracy(device):
    x, _ = dataset(device)
    log = MemoryLog()
    history = train(network(device), (x, x[:, :3]), Training(2, 8), log, generator=seeded(1, device), loss=F.mse_loss)
    assert sorted(log.lines[0]) == ["epoch", "loss", "lr"] and len(history.accuracy) == 0
    assert evaluate(network(device), (x, x[:, :3]), loss=F.mse_loss).accuracy is None


@pytest.mark.parametrize("options", [dict(channels_last=True), dict(compile=True)], ids=["channels_last", "compile"])
def test_memory_layout_and_compilation_change_nothing(options, device, monkeypatch):
    # the backend that traces forward and backward as the default one does, without generating code
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    x = torch.randn(12, 3, 8, 8, generator=seeded(3, device), device=device)
    y = torch.arange(12, device=device) % 10
    found = []
    for each in ({}, options):
        model = models.resnet(8, width=2, generator=seeded(0, device))
        settings = Training(2, 5, momentum=0.9, **each)
        history = train(model, (x, y), settings, MemoryLog(), generator=seeded(1, device))
        found.append([history.loss.to(device), *model.state_dict().values()])
    assert all(torch.allclose(one, other, atol=1e-10) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_lower_precisions_train_float32_parameters_to_nearly_the_same(precision, device, single_precision):
    found = []
    for each in ("float32", precision):
        model = network(device)
        train(model, dataset(device), Training(2, 8, precision=each), MemoryLog(), generator=seeded(1, device))
        assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
        found.append(predict(model, dataset(device)[0]))
    assert (found[0] - found[1]).square().mean() < 0.02**2 * found[0].square().mean()


def test_the_settings_of_pytorch_are_put_back():
    def state():
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    before = state()
    with products("float32"):
        assert state() == ("highest", False)
    with products("tf32"):
        assert state() == ("high", True)
    assert state() == before


def test_evaluation_is_over_all_examples_in_eval_mode_and_leaves_modes_alone(device):
    model, (x, y) = network(device, dropout=0.5, norm="batch"), dataset(device)
    model[2].eval()
    modes = [module.training for module in model.modules()]
    found = evaluate(model, (2 * x, y), prepare=lambda x: x / 2, batch_size=5)
    outputs = predict(model, 2 * x, prepare=lambda x: x / 2, batch_size=5)
    assert [module.training for module in model.modules()] == modes and any(modes) and not all(modes)
    assert not outputs.requires_grad
    expected = model.eval()(x)
    assert torch.allclose(outputs, expected, atol=1e-12)
    assert found.loss == pytest.approx(F.cross_entropy(expected, y).item(), abs=1e-12)
    assert found.accuracy == pytest.approx((expected.argmax(-1) == y).double().mean().item())


def test_settings_go_through_json():
    settings = Training(200, 128, momentum=0.9, schedule=Schedule(drops=(100, 150)), precision="bfloat16")
    assert from_json(Training, json.loads(json.dumps(asdict(settings)))) == settings


def test_what_cannot_be_trained_is_refused_by_name(device):
    x, y = dataset(device)
    go = functools.partial(train, log=MemoryLog(), generator=seeded(1, device))
    with pytest.raises(RuntimeError, match="the model should be in training mode, found eval mode"):
        go(network(device).eval(), (x, y), Training(1, 8))
    with pytest.raises(ValueError, match="inputs and targets should be as many, found 22 and 21"):
        go(network(device), (x, y[1:]), Training(1, 8))
    with pytest.raises(ValueError, match="drop_last leaves no batch of 30 among 22 examples"):
        go(network(device), (x, y), Training(1, 30, drop_last=True))
    with pytest.raises(ValueError, match="channels_last needs images .* found \\(22, 4\\) for Sequential"):
        go(network(device), (x, y), Training(1, 8, channels_last=True))
    with pytest.raises(ValueError, match="one for each copy of a Stacked model; found 2 generators and 3 copies"):
        go(Stacked([network(device)] * 3, axes=1), (x, y), Training(1, 8), generator=[seeded(1, device)] * 2)
    with pytest.raises(ValueError, match="found 1 generators and no copies"):
        go(network(device), (x, y), Training(1, 8), generator=[seeded(1, device)])
    with pytest.raises(ValueError, match="the loss should be the mean over a batch, of shape \\(\\); found \\(8,\\)"):
        go(network(device), (x, y), Training(1, 8), loss=functools.partial(F.cross_entropy, reduction="none"))
    with pytest.raises(ValueError, match="one mean per copy, of shape \\(3,\\); found .*take per_copy\\(loss\\)"):
        go(Stacked([network(device)] * 3, axes=1), (x, y), Training(1, 8), loss=lambda out, y: out.square().mean())
    with pytest.raises(TypeError, match="multiple values for keyword argument 'model'"):
        go(network(device), (x, y), Training(1, 8), kept={"model": x})
    with pytest.raises(ValueError, match='`optimizer` should be "sgd" or "adam", found \'lbfgs\''):
        Training(1, 8, optimizer="lbfgs")
    with pytest.raises(ValueError, match="Adam has no `momentum` or `nesterov` to set"):
        Training(1, 8, optimizer="adam", momentum=0.9)
    with pytest.raises(ValueError, match='`precision` should be "float32", "tf32" or "bfloat16"; found \'half\''):
        Training(1, 8, precision="half")
    with pytest.raises(ValueError, match="`batch_size` ≥ 1; found 1, 0"):
        Training(1, 0)
