"""bfloat16 models: curvature in float32 that is the curvature of the rounded weights, up to bfloat16's rounding."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from case_record import Case
from cases import by_name
from curvature.problems import as_data, batches, network
from curvature.situations import EXACT, HESSIANS, STRUCTURES, answer, each, on, relative
from paraboloid import Curvature, curvature

EPSILON = torch.finfo(torch.bfloat16).eps
# A number passes a layer forward and backward with one rounding (half an epsilon) each; products of two of them are
# twice as wrong. Four layers (activations counted) make 4 · 2 · 2 · ½ epsilons if all errors have one sign, and half
# of that is not exceeded by errors that partly cancel.
TOLERANCE = 4 * EPSILON
NAMES = ("mlp", "mlp_gaussian", "lenet_max", "lstm_tokens", "attention", "batch_norm_2d", "embedding")


def rounded(case: Case, device: torch.device) -> tuple[nn.Module, nn.Module]:
    """A bfloat16 network, and the float64 network with the same numbers."""
    half = network(case, device, torch.bfloat16)
    return half, copy.deepcopy(half).double()


def fit(model: nn.Module, case: Case, device: torch.device, asked: dict, dtype: torch.dtype) -> Curvature:
    made = batches(case, (case.size, 3), device, torch.bfloat16)
    widened = [(tuple(_as(x, dtype) for x in inputs), _as(y, torch.float64)) for inputs, y in made]
    return curvature(model, as_data(widened), likelihood=case.likelihood, **asked)


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


@each(EXACT)
@on(*NAMES)
def test_a_bfloat16_model_has_float32_curvature_close_to_that_of_its_rounded_weights(case, asked, device):
    if "kind" in asked and case.name != "mlp":
        asked = HESSIANS[0]
    half, wide = rounded(case, device)
    asked = {**asked, "estimate": "exact"}
    found = fit(half, case, device, asked, torch.bfloat16)
    wanted = fit(wide, case, device, asked, torch.float64)
    assert found.dtype == torch.float32
    assert relative(answer(found), answer(wanted)) < TOLERANCE
    if asked["structure"] != "products":
        assert relative(found.dense(), wanted.dense()) < TOLERANCE


@pytest.mark.parametrize("structure", STRUCTURES[:-1])
def test_curvature_of_a_bfloat16_model_can_be_solved_and_factored(structure, device):
    half, _ = rounded(by_name("mlp"), device)
    ggn = fit(half, by_name("mlp"), device, {"structure": structure}, torch.bfloat16)
    damped, v = ggn + 1e-2, torch.ones(ggn.size, device=device, dtype=torch.float32)
    assert relative(damped @ damped.solve(v), v) < 1e-3
    assert torch.isfinite(damped.logdet())
    assert (ggn.eigenvalues() >= 0).all()


@pytest.mark.parametrize("structure", STRUCTURES)
@on("mlp", "attention", "lstm_tokens")
def test_a_fit_under_autocast_is_close_to_the_one_without(case, structure, device, single_precision):
    model = network(case, device, torch.float32)
    data = as_data(batches(case, (case.size, 3), device, torch.float32))
    wanted = curvature(model, data, likelihood=case.likelihood, structure=structure)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        found = curvature(model, data, likelihood=case.likelihood, structure=structure)
    assert found.dtype == torch.float32
    assert relative(answer(found), answer(wanted)) < TOLERANCE
