"""A posterior has a network of its own: it changes nothing outside, and nothing outside changes it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from cases import by_name
from curvature.situations import left_as_found
from paraboloid import GaussianLikelihood, LaplacePosterior, laplace
from prediction.closed_form import drawn
from prediction.networks import EACH, UNTRAINED, Posed, on

pytestmark = UNTRAINED
NETWORKS = on("batch_norm_2d", "lstm_tokens", "spectral_norm")


def used(posterior: LaplacePosterior, x, device: torch.device) -> list[Tensor]:
    """Everything a posterior is asked for."""
    generator = torch.Generator(device).manual_seed(0)
    return [
        posterior.functional_variance(x),
        posterior.predict(x, "map").probs,
        posterior.predict(x, link="sampled", samples=3, generator=generator).probs,
        posterior.predict(x, "sampled", samples=3, generator=generator).probs,
        posterior.predict(x, link="bridge").probs,
        posterior.sample(2, generator),
        posterior.marginal_variance(),
        posterior.evidence(),
        posterior.evidence(prior_precision=2.0),
        posterior.precision.dense(),
    ]


@pytest.mark.filterwarnings("ignore:Full backward hook")
@EACH
@NETWORKS
def test_everything_outside_is_as_it_was(case, structure, device):
    """Parameters, buffers, gradients, modes, hooks, flags, settings, generators, and the data."""
    posed = Posed(case, device)
    for number, parameter in enumerate(posed.model.parameters()):
        parameter.grad = torch.ones_like(parameter) if number % 2 else None
    posed.model.register_forward_hook(lambda module, args, out: None)
    posed.model.register_full_backward_hook(lambda module, before, after: None)
    tensors = [*posed.inputs, *(t for inputs, y in posed.made for t in (*inputs, y))]
    with left_as_found(posed.model, *tensors):
        posterior = posed.fit(structure)
        used(posterior, posed.x, device)
        posterior.tune()
        used(posterior, posed.x, device)


@EACH
@NETWORKS
def test_nothing_that_happens_later_changes_the_posterior(case, structure, device):
    posed = Posed(case, device)
    precision, center = torch.full((), 0.7, device=device), torch.zeros(_size(posed.model), device=device)
    posterior = posed.fit(structure, prior_precision=precision, prior_mean=center)
    before = used(posterior, posed.x, device)
    fresh = posed.fit(structure, prior_precision=precision, prior_mean=center)  # asked only after the change
    with torch.no_grad():
        for tensor in [*posed.model.parameters(), precision, center]:
            tensor.add_(1.0)
        for buffer in posed.model.buffers():
            buffer.add_(1)
        for inputs, _ in posed.made:
            for x in inputs:
                x.zero_()
    posed.model.train().requires_grad_(False)
    for found in (posterior, fresh):
        for left, right in zip(used(found, posed.x, device), before, strict=True):
            torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("structure", ["diagonal", "dense", "lowrank"])
def test_a_tensor_of_prior_precisions_is_copied(structure, device):
    posed = Posed(by_name("mlp"), device)
    each = torch.ones(_size(posed.model), dtype=torch.float64, device=device, requires_grad=True)
    posterior = posed.fit(structure, prior_precision=each)
    evidence = posterior.evidence()
    with torch.no_grad():
        each.mul_(9)
    assert not posterior.precision.dense().requires_grad
    wanted = posed.fit(structure, prior_precision=1.0).precision.dense()
    torch.testing.assert_close(posterior.precision.dense(), wanted, rtol=1e-12, atol=1e-12)
    assert not evidence.requires_grad


def test_noise_that_the_user_holds_is_copied(device):
    noise = torch.tensor([0.2, 0.3], dtype=torch.float64)
    model, x = nn.Linear(3, 2).to(device), drawn(6, 3).to(device)
    posterior = laplace(model, (x, x[:, :2]), likelihood=GaussianLikelihood(noise), prior_precision=1.0)
    noise.mul_(100)
    torch.testing.assert_close(posterior.predict(x, "map").variance[0].cpu(), torch.tensor([0.2, 0.3]))


def _size(model: nn.Module) -> int:
    return sum(tensor.numel() for tensor in model.parameters())


# ---------------------------------------------------------------------- generators and modes
def _loader(own: torch.Generator | None) -> DataLoader:
    data = TensorDataset(drawn(13, 4), torch.arange(13) % 3)
    return DataLoader(data, batch_size=4, shuffle=True, generator=own)


@pytest.mark.parametrize("own", [False, True], ids=["global_generator", "own_generator"])
@EACH
def test_a_shuffling_loader_moves_no_generator_and_gives_the_whole_data(structure, own, device):
    generator = torch.Generator().manual_seed(5) if own else None
    loader, model = _loader(generator), by_name("mlp").build().to(device)
    state = None if generator is None else generator.get_state()
    with left_as_found(model):
        posterior = laplace(model, loader, likelihood="categorical", structure=structure, prior_precision=1.0)
        evidence = posterior.evidence()
    assert generator is None or torch.equal(generator.get_state(), state)
    x, y = loader.dataset.tensors
    whole = (x.to(device), y.to(device))
    wanted = laplace(model, whole, likelihood="categorical", structure=structure, prior_precision=1.0)
    assert float(evidence) == pytest.approx(float(wanted.evidence()), rel=1e-10)


@EACH
def test_modes_of_autograd_around_a_call_change_no_number(structure, device):
    posed = Posed(by_name("mlp"), device)
    wanted = posed.fit(structure)
    evidence = wanted.tune().evidence()
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with mode():
            posterior = posed.fit(structure)
            used(posterior, posed.x, device)
        for outside in (False, True):  # what was kept inside a mode has to serve outside of it, too
            with torch.enable_grad() if outside else mode():
                leaf = torch.ones((), requires_grad=True)
                posterior.functional_variance(posed.x)
        (slope,) = torch.autograd.grad(posterior.evidence(prior_precision=leaf), leaf)
        assert torch.isfinite(slope)
        assert float(posterior.tune().evidence()) == pytest.approx(float(evidence), rel=1e-12)


def test_a_copy_of_a_posterior_is_a_posterior_of_its_own(device):
    posed = Posed(by_name("mlp"), device)
    one = posed.fit()
    two, before = copy.deepcopy(one), one.precision.dense()
    two.tune()
    assert torch.equal(one.precision.dense(), before)
    assert one.prior.values.tolist() == [0.7] != two.prior.values.tolist()


# ---------------------------------------------------------------------- precisions of numbers
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@EACH
def test_lower_precision_gives_the_same_to_its_rounding(structure, dtype, device):
    exact = Posed(by_name("mlp"), device)
    with torch.no_grad():
        for tensor in exact.model.parameters():
            tensor.copy_(tensor.to(dtype))
    exact.made = [(tuple(x.to(dtype).double() for x in inputs), y) for inputs, y in exact.made]
    wanted = exact.fit(structure, prior_precision=3.0)
    model = copy.deepcopy(exact.model).to(dtype)
    data = [(inputs[0].to(dtype), y) for inputs, y in exact.made]
    found = laplace(model, data, likelihood="categorical", structure=structure, prior_precision=3.0)
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    x = exact.x.to(dtype)
    assert found.precision.dtype == torch.float32
    assert found.evidence().dtype == torch.float64
    assert float(found.evidence()) == pytest.approx(float(wanted.evidence()), rel=tolerance)
    close = dict(rtol=tolerance, atol=tolerance, check_dtype=False)
    torch.testing.assert_close(found.functional_variance(x), wanted.functional_variance(x.double()), **close)
    for method in ("linearised", "sampled", "map"):
        assert torch.isfinite(found.predict(x, method, samples=3).probs).all()
    assert found.newton_decrement == pytest.approx(wanted.newton_decrement, rel=10 * tolerance)
