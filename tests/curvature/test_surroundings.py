"""Modes and defaults around a call do not matter: the numbers are those of the plain call."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from cases import by_name
from curvature.situations import ASKED, EXACT, SUMMED, Posed, answer, each, on, probes, relative
from paraboloid import curvature

WITHOUT_GRADIENTS = [torch.no_grad, torch.inference_mode]
EACH_MODE = pytest.mark.parametrize("mode", WITHOUT_GRADIENTS, ids=["no_grad", "inference_mode"])


def mlp(device: torch.device, dtype: torch.dtype = torch.float64) -> nn.Module:
    return by_name("mlp").build().to(device, dtype)


def pair(device: torch.device, n: int = 6, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    (x,), y = by_name("mlp").batch(n)
    return x.to(device, dtype), y.to(device)


# ---------------------------------------------------------------------- modes
@EACH_MODE
@each(ASKED)
@on("mlp", "conv1d")
def test_numbers_are_the_same_where_gradients_are_off(case, asked, mode, device):
    posed = Posed(case, device)
    wanted = answer(posed.fit(asked))
    with mode():
        assert torch.equal(answer(posed.fit(asked)), wanted)
        ggn = posed.fit(asked)
    assert torch.equal(answer(ggn), wanted)


@each(EXACT)
def test_batches_made_in_inference_mode_are_read(asked, device):
    model, data = mlp(device), TensorDataset(*pair(device))
    plain = DataLoader(data, 4)
    wanted = answer(curvature(model, plain, likelihood="categorical", **asked))
    with torch.inference_mode():
        loaded = curvature(model, DataLoader(data, 4), likelihood="categorical", **asked)
        made = [tuple(tensor.clone() for tensor in batch) for batch in plain]
        given = curvature(model, made, likelihood="categorical", **asked)
        inside = answer(given)
    for found in (answer(loaded), answer(given), inside):
        assert relative(found, wanted) < 1e-13


@each(SUMMED)
def test_a_fit_made_in_inference_mode_goes_on_outside_and_the_other_way_round(asked, device):
    model, first, second = mlp(device), pair(device, 6), pair(device, 4)
    wanted = answer(curvature(model, first, likelihood="categorical", **asked).update(second))
    with torch.inference_mode():
        inside = curvature(model, first, likelihood="categorical", **asked)
    assert relative(answer(inside.update(second)), wanted) < 1e-13
    outside = curvature(model, first, likelihood="categorical", **asked)
    with torch.inference_mode():
        outside.update(tuple(tensor.clone() for tensor in second))
        outside.verify()
    assert relative(answer(outside), wanted) < 1e-13


@each(EXACT)
def test_results_carry_no_graph(asked, device):
    ggn = curvature(mlp(device), [pair(device), pair(device, 3)], likelihood="categorical", **asked)
    assert not answer(ggn).requires_grad
    assert not ggn.diagonal().requires_grad
    vector = probes(ggn)[:, 0].requires_grad_()
    if asked["structure"] != "products":  # what is held is a constant matrix, through which gradients may go
        (ggn @ vector).sum().backward()
        assert relative(vector.grad, ggn @ torch.ones_like(vector)) < 1e-12


@each(EXACT)
def test_a_model_made_in_inference_mode_is_refused_by_name(asked, device):
    with torch.inference_mode():
        model = mlp(device)
    with pytest.raises(ValueError, match=r"'0.weight' was made inside torch.inference_mode.*outside"):
        curvature(model, pair(device), likelihood="categorical", **asked)


# ---------------------------------------------------------------------- frozen parameters
def _freeze_first(model: nn.Module) -> None:
    model[0].requires_grad_(False)


@each([asked for asked in EXACT if asked["structure"] not in ("lowrank",)])
def test_frozen_layers_leave_the_blocks_of_the_others_as_they_are(asked, device):
    case = by_name("mlp_relu")
    whole, frozen = Posed(case, device).fit(asked), Posed(case, device, _freeze_first).fit(asked)
    assert frozen.params.names == whole.params.names[2:]
    start = whole.size - frozen.size
    assert relative(frozen.dense(), whole.dense()[start:, start:]) < 1e-11
    assert [row.treatment for row in frozen.coverage][:2] == ["frozen", "frozen"]


# ---------------------------------------------------------------------- number types
@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16], ids=str)
@each(ASKED)
def test_the_default_dtype_of_the_user_does_not_matter(asked, default, device):
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(torch.float64)
        wanted = curvature(mlp(device, dtype), pair(device, 6, dtype), likelihood="categorical", **asked)
        torch.set_default_dtype(default)
        found = curvature(mlp(device, dtype), pair(device, 6, dtype), likelihood="categorical", **asked)
        assert found.dtype == wanted.dtype == dtype
        assert relative(answer(found), answer(wanted)) < 100 * torch.finfo(dtype).eps


@each(EXACT)
@on("mlp_mse", "conv1d", "tied_embedding", "weight_functions", "gru_cell")
def test_the_default_device_of_the_user_does_not_matter(case, asked, device):
    posed = Posed(case, device)
    wanted = answer(posed.fit(asked))
    with torch.device("meta"):
        found = answer(posed.fit(asked))
    assert torch.equal(found, wanted)


@each(EXACT)
def test_data_on_another_device_are_moved(asked, device):
    here, elsewhere = pair(device), pair(torch.device("cpu"))
    wanted = answer(curvature(mlp(device), here, likelihood="categorical", **asked))
    for data in (elsewhere, [elsewhere], DataLoader(TensorDataset(*elsewhere), 6)):
        assert relative(answer(curvature(mlp(device), data, likelihood="categorical", **asked)), wanted) < 1e-13


# ---------------------------------------------------------------------- models that change
def _stepped(model: nn.Module) -> None:
    with torch.no_grad():
        model.get_parameter("3.weight").mul_(1.5)


def _written_through(model: nn.Module) -> None:
    model.get_parameter("0.weight").data.mul_(1.5)


def _replaced(model: nn.Module) -> None:
    model.get_parameter("0.bias").data = torch.ones_like(model.get_parameter("0.bias"))


def _loaded(model: nn.Module) -> None:
    model.load_state_dict({name: tensor + 0.1 for name, tensor in model.state_dict().items()})


def _statistics(model: nn.Module) -> None:
    model[1].running_mean += 0.3


@pytest.mark.parametrize("change", [_stepped, _written_through, _replaced, _loaded, _statistics])
@pytest.mark.parametrize("params", [None, "3.*"], ids=["all", "some"])
@each([asked for asked in EXACT if asked["structure"] == "products"])
def test_products_follow_the_model(asked, params, change, device):
    def made() -> nn.Module:
        return by_name("batch_norm_1d").build().to(device)

    case, model = by_name("batch_norm_1d"), made()
    (x,), y = case.batch()
    data = x.to(device), y.to(device)
    ggn = curvature(model, data, likelihood="categorical", params=params, **asked)
    before = answer(ggn)
    other = made()
    change(model)
    change(other)
    wanted = answer(curvature(other, data, likelihood="categorical", params=params, **asked))
    assert relative(answer(ggn), wanted) < 1e-12
    assert relative(before, wanted) > 1e-6


@each([asked for asked in EXACT if asked["structure"] != "products"])
def test_matrices_stay_as_they_were_when_the_model_changes(asked, device):
    model = mlp(device)
    ggn = curvature(model, pair(device), likelihood="categorical", **asked)
    before = answer(ggn)
    _written_through(model)
    assert torch.equal(answer(ggn), before)
