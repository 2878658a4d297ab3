"""Running averages against means that are taken at once."""

import pytest
import torch
from torch import nn

from paraboloid.recipes.averaging import PredictionAverage, RunningMean, WeightAverage, Window


def redrawn(model: nn.Module, generator: torch.Generator) -> nn.Module:
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.normal_(generator=generator)
    return model


def network(device: torch.device) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(device)


def test_the_running_mean_is_the_mean(generator, device):
    samples = torch.randn(11, 5, generator=generator, device=device)
    mean = RunningMean()
    for sample in samples:
        mean.add({"x": sample})
    assert mean.count == 11
    assert torch.allclose(mean.values()["x"], samples.mean(0), atol=1e-14)


def test_the_running_mean_keeps_its_precision_over_many_float32_samples(generator, device):
    samples = 100 + torch.randn(10_000, 8, generator=generator, device=device, dtype=torch.float32)
    mean = RunningMean(torch.float64)
    for sample in samples:
        mean.add({"x": sample})
    assert torch.allclose(mean.values()["x"], samples.double().mean(0), rtol=1e-13, atol=0)


def test_half_precision_is_averaged_in_float32(device):
    mean = RunningMean()
    mean.add({"x": torch.ones(2, dtype=torch.bfloat16, device=device)})
    assert mean.values()["x"].dtype == torch.float32


def test_what_was_added_may_change_afterwards(device):
    mean, x = RunningMean(), torch.ones(2, device=device)
    mean.add({"x": x})
    x.zero_()
    assert torch.equal(mean.values()["x"], torch.ones(2, device=device))


def test_predictions_are_averaged_over_the_epochs_of_the_window(generator, device):
    model, x = network(device).eval(), torch.randn(6, 3, generator=generator, device=device)
    average = PredictionAverage(lambda model: model(x).softmax(-1), Window(first=1, last=6, every=2))
    kept = []
    for epoch in range(10):
        redrawn(model, generator)
        model[1].running_var.abs_()
        average.update(epoch, model)
        if epoch in (1, 3, 5):
            kept.append(model(x).softmax(-1).detach())
    assert average.count == 3
    assert torch.allclose(average.mean(), torch.stack(kept).mean(0), atol=1e-14)


def test_weights_and_running_statistics_are_averaged(generator, device):
    model, average, kept = network(device), WeightAverage(Window(first=1)), []
    for epoch in range(4):
        average.update(epoch, redrawn(model, generator))
        if epoch >= 1:
            kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
    other = network(device)
    average.copy_to(other)
    assert average.count == 3
    for name, tensor in other.state_dict().items():
        if tensor.is_floating_point():
            assert torch.allclose(tensor, torch.stack([one[name] for one in kept]).mean(0), atol=1e-14), name


@pytest.mark.parametrize("kind", [WeightAverage, lambda: PredictionAverage(lambda model: model[0].weight)])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_an_average_that_is_resumed_equals_one_that_was_not(kind, stop, generator, device):
    model, whole, first, second = network(device), kind(), kind(), kind()
    saved = {}
    for epoch in range(5):
        if epoch == stop:
            saved = {key: value.clone() for key, value in first.state_dict().items()}
            second.load_state_dict(first.state_dict())
        redrawn(model, generator)
        for average in (whole, first if epoch < stop else second):
            average.update(epoch, model)
    assert first.count == stop and second.count == whole.count
    assert all(torch.equal(first.state_dict()[key], saved[key]) for key in saved)
    one, other = whole.state_dict(), second.state_dict()
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_an_average_of_nothing_is_refused(device):
    with pytest.raises(RuntimeError, match="a mean needs at least one sample; found none"):
        WeightAverage().copy_to(network(device))


def test_windows_without_epochs_are_refused():
    with pytest.raises(ValueError, match="a window should have 0 ≤ first ≤ last and every ≥ 1"):
        Window(first=3, last=2)
    with pytest.raises(ValueError, match="a window should have"):
        Window(every=0)
