"""A call changes nothing but its result: model, data, settings and random states are as before, and it repeats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, TensorDataset

from cases import by_name
from curvature.situations import ASKED, EXACT, ROADS, Posed, answer, built, each, left_as_found, on, probes, relative
from paraboloid import Batches, Curvature, curvature

NETWORKS = on("batch_norm_2d", "lstm_tokens", "encoder", "gpt_tied")


@each(ASKED)
@NETWORKS
def test_a_fit_and_its_products_leave_everything_as_it_was(case, asked, device):
    posed = Posed(case, device)
    with left_as_found(posed.model, *posed.tensors()):
        answer(posed.fit(asked))


@each(ASKED)
@on("lstm_tokens", "tied_embedding", "conv2d")
def test_a_second_call_gives_the_same_numbers_bit_for_bit(case, asked, device):
    posed = Posed(case, device)
    first, second = posed.fit(asked), posed.fit(asked)
    assert torch.equal(answer(first), answer(second))
    assert str(first.coverage) == str(second.coverage)
    assert first.num_data == second.num_data


@each(EXACT)
@on("lstm_tokens", "attention_causal")
def test_gradients_and_flags_that_are_there_stay(case, asked, device):
    posed = Posed(case, device)
    for number, parameter in enumerate(posed.model.parameters()):
        parameter.requires_grad_(number % 3 != 1)
        parameter.grad = torch.ones_like(parameter) if number % 2 else None
    for inputs, _ in posed.made:
        for x in inputs:
            x.requires_grad_()
            x.grad = torch.full_like(x, 2.0)
    with left_as_found(posed.model, *posed.tensors()):
        answer(posed.fit(asked))


# ---------------------------------------------------------------------- hooks
def _twice(gradient: Tensor) -> Tensor:
    return 2 * gradient


def _with_hooks(model: nn.Module) -> None:
    """Every kind of hook; those of parameters double gradients, as clipping and masking change them."""
    for module in model.modules():
        module.register_forward_hook(lambda module, args, out: None)
        module.register_forward_pre_hook(lambda module, args, kwargs: None, with_kwargs=True)
    model.register_full_backward_hook(lambda module, before, after: None)
    model.register_full_backward_pre_hook(lambda module, after: None)
    model.register_state_dict_post_hook(lambda *args: None)
    for parameter in model.parameters():
        parameter.register_hook(_twice)
        parameter.register_post_accumulate_grad_hook(lambda parameter: None)


@pytest.mark.filterwarnings("ignore:Full backward hook")
@each(EXACT)
@on("mlp", "lstm_tokens")
def test_hooks_of_the_user_stay_and_change_no_number(case, asked, device):
    plain, hooked = Posed(case, device), Posed(case, device, _with_hooks)
    with left_as_found(hooked.model, *hooked.tensors()):
        found = answer(hooked.fit(asked))
    assert relative(found, answer(plain.fit(asked))) < 1e-11


# ---------------------------------------------------------------------- modes and buffers
def _mixed(model: nn.Module) -> None:
    """Training mode everywhere, but where it matters."""
    for module in model.modules():
        module.training = not isinstance(module, (nn.BatchNorm2d, nn.Dropout, nn.MultiheadAttention))


@each(ROADS)
@on("batch_norm_2d", "lstm_tokens", "encoder")
def test_a_mixture_of_modes_that_does_not_matter_stays_and_changes_no_number(case, asked, device):
    plain, mixed = Posed(case, device), Posed(case, device, _mixed)
    with left_as_found(mixed.model):
        found = answer(mixed.fit(asked))
    assert relative(found, answer(plain.fit(asked))) < 1e-11


class Counting(nn.Module):
    """Counts its calls in one buffer, in place, and replaces another one; also in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.scale = self.scale * 0.5
        return torch.tanh(self.inner(x)) * self.scale


def _power_iteration() -> nn.Module:
    return nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 3))


def _running_statistics() -> nn.Module:
    norm = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), norm, nn.Flatten(), nn.Linear(6, 3))


WRITING = [(Counting, False), (Counting, True), (_power_iteration, True), (_running_statistics, True)]


@each(EXACT)
@pytest.mark.parametrize(("make", "training"), WRITING)
def test_buffers_that_a_forward_writes_to_are_as_before(make, training, asked, device):
    model = built(make, device).train(training)
    data = [tuple(tensor.to(device) for tensor in _pair(n)) for n in (5, 3)]
    with left_as_found(model):
        ggn = curvature(model, data, likelihood="categorical", **asked)
        first = answer(ggn)
    assert torch.equal(first, answer(ggn))


def _pair(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 4, generator=generator), torch.randint(3, (n,), generator=generator)


# ---------------------------------------------------------------------- settings and random states
@pytest.fixture
def unusual_settings() -> Iterator[None]:
    """Every switch that the library touches, turned the other way."""
    backends, cuda = torch.backends, torch.backends.cuda
    before = backends.cudnn.enabled, backends.mkldnn.enabled, cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()
    backends.cudnn.enabled = backends.mkldnn.enabled = False
    backends.mha.set_fastpath_enabled(False)
    cuda.enable_flash_sdp(False)
    with torch.no_grad():
        yield
    backends.cudnn.enabled, backends.mkldnn.enabled = before[:2]
    backends.mha.set_fastpath_enabled(True)
    cuda.enable_flash_sdp(before[2])


@each(ROADS)
@on("lstm_tokens", "encoder")
def test_unusual_settings_stay_unusual(case, asked, device, unusual_settings):
    posed = Posed(case, device)
    with left_as_found(posed.model):
        answer(posed.fit(asked))


class Noisy(nn.Module):
    """Draws from the global generator in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + 0.1 * torch.randn_like(x))


@each(EXACT)
def test_a_forward_that_draws_is_refused_and_the_global_generator_is_where_it_was(asked, device):
    model = built(Noisy, device)
    data = [tuple(tensor.to(device) for tensor in _pair(n)) for n in (5, 3)]
    with left_as_found(model), pytest.raises(RuntimeError, match="forward draws random numbers"):
        curvature(model, data, likelihood="categorical", **asked)


def _loader(**options) -> DataLoader:
    return DataLoader(TensorDataset(*_pair(11)), batch_size=4, shuffle=True, **options)


def _fit(loader: DataLoader, device: torch.device, asked: dict[str, str]) -> Curvature:
    return curvature(by_name("mlp").build().to(device), loader, likelihood="categorical", **asked)


@pytest.mark.parametrize("own", [False, True], ids=["global_generator", "own_generator"])
@each(ASKED)
def test_a_shuffling_loader_moves_no_generator(asked, own, device):
    generator = torch.Generator().manual_seed(5) if own else None
    loader = _loader(generator=generator)
    model = by_name("mlp").build().to(device)
    state = None if generator is None else generator.get_state()
    with left_as_found(model):
        answer(curvature(model, loader, likelihood="categorical", **asked))
    assert generator is None or torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("estimate", ["exact", "sampled", "projected"])
def test_products_over_a_shuffling_loader_belong_to_one_matrix(estimate, device):
    loader = _loader(drop_last=True)  # every pass leaves out other examples, if it may
    ggn = _fit(loader, device, {"structure": "products", "estimate": estimate})
    written = ggn.dense()
    with torch.random.fork_rng(devices=[]):
        torch.randn(7)
        assert relative(answer(ggn), written @ probes(ggn)) < 1e-12
    assert torch.equal(answer(ggn), answer(ggn))
    assert relative(written, written.T) < 1e-12


def test_batches_outside_a_fit_are_shuffled_anew_at_every_pass():
    with torch.random.fork_rng(devices=[]):
        passes = [torch.cat([batch.targets for batch in found]) for found in [Batches(_loader())] * 4]
    assert any(not torch.equal(passes[0], other) for other in passes[1:])


# ---------------------------------------------------------------------- errors
class Stops(Exception):
    """An error that no library knows."""


def _stops_at_second(module: nn.Module, args: tuple) -> None:
    if len(args[0]) == 2:
        raise Stops


def _poisoned(posed: Posed) -> Posed:
    posed.made[1][0][0].view(-1)[1] = float("nan")
    return posed


def _out_of_range(posed: Posed) -> Posed:
    posed.made[1][1][0] = 77
    return posed


def _stopping(posed: Posed) -> Posed:
    last = [module for module in posed.model.modules() if not [*module.children()]][-1]
    last.register_forward_pre_hook(_stops_at_second)
    return posed


FAULTS = {"nan": _poisoned, "label": _out_of_range, "forward": _stopping}


@pytest.mark.parametrize("fault", FAULTS)
@each(EXACT)
@on("lstm_tokens", "attention_causal")
def test_an_error_at_the_second_batch_leaves_everything_as_it_was(case, asked, fault, device):
    posed = FAULTS[fault](Posed(case, device))
    with left_as_found(posed.model, *posed.tensors()):
        with pytest.raises((ValueError, Stops)):
            answer(posed.fit(asked))


@each(EXACT)
def test_an_interrupt_between_batches_leaves_everything_as_it_was(asked, device):
    def interrupted(done: int, total: int | None, what: str) -> None:
        raise KeyboardInterrupt

    posed = Posed(by_name("lstm_tokens"), device)
    with left_as_found(posed.model, *posed.tensors()):
        with pytest.raises(KeyboardInterrupt):
            answer(posed.fit(asked, progress=interrupted))


def test_a_snapshot_sees_what_may_be_changed(device):
    changes = {
        "buffers": lambda model: model[1].running_mean.add_(0),
        "mode": lambda model: model[1].train(),
        "hooks": lambda model: model[0].register_forward_hook(print),
        "gradients": lambda model: setattr(model[0].weight, "grad", torch.zeros_like(model[0].weight)),
        "attributes": lambda model: setattr(model, "extra", 1),
        "random state": lambda model: torch.rand(1),
        "flags": lambda model: model[0].weight.requires_grad_(False),
        "identity": lambda model: setattr(model[0], "weight", nn.Parameter(model[0].weight.detach().clone())),
    }
    for what, change in changes.items():
        model = by_name("batch_norm_1d").build().to(device)
        with pytest.raises(AssertionError), left_as_found(model):
            change(model)
        assert what
