"""A posterior in a file is the posterior: structures, priors, temperatures, precisions of numbers."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from safetensors import safe_open
from torch import nn

from cases import by_name
from curvature.situations import left_as_found
from paraboloid import GaussianLikelihood, LogDensity, laplace, load_posterior
from paraboloid.operators.dense import Dense
from paraboloid.operators.gaussian import Gaussian
from prediction.closed_form import drawn
from prediction.networks import EACH, STRUCTURES, UNTRAINED, Posed, on

pytestmark = UNTRAINED
PRIORS = {"number": lambda size: 0.7, "names": lambda size: {"0": 0.5, "*": 2.0}, "weights": lambda size: size}


def asked(prior: str, model: nn.Module, device: torch.device):
    size = sum(t.numel() for t in model.parameters())
    return torch.linspace(0.1, 2.0, size, device=device) if prior == "weights" else PRIORS[prior](size)


def assert_same(found, wanted, x, device) -> None:
    """Numbers that are stored bit for bit, others to rounding: strides of a file's tensors are plain ones."""

    def everything(posterior) -> list:
        generator = torch.Generator(device).manual_seed(0)
        tempered = posterior.temperature != 1 or posterior.likelihood_temperature != 1
        return [
            posterior.precision.dense(),
            posterior.functional_variance(x),
            posterior.predict(x, "map").probs,
            posterior.predict(x, "sampled", samples=3, generator=generator).probs,
            torch.zeros(()) if tempered else posterior.evidence(),
            torch.tensor(posterior.newton_decrement),
        ]

    scale = 1e3 * torch.finfo(wanted.mean.dtype).eps
    for left, right in zip(everything(found), everything(wanted), strict=True):
        torch.testing.assert_close(left, right, rtol=scale, atol=scale)
    for name, tensor in wanted.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], tensor)
    assert torch.equal(found.mean, wanted.mean)
    assert torch.equal(found.prior.vector, wanted.prior.vector)
    assert found.params == wanted.params
    assert found.prior.names == wanted.prior.names
    assert repr(found) == repr(wanted)
    assert (found.num_data, found.temperature, found.likelihood_temperature, found.class_axis) == (
        wanted.num_data, wanted.temperature, wanted.likelihood_temperature, wanted.class_axis,
    )  # fmt: skip


@pytest.mark.parametrize(("dtype", "tempered"), [(torch.float32, False), (torch.float64, False), (torch.float64, True)])
@pytest.mark.parametrize("prior", PRIORS)
@EACH
def test_what_is_read_is_what_was_written(structure, dtype, prior, tempered, device, tmp_path):
    if prior == "weights" and structure not in ("diagonal", "dense", "lowrank"):
        structure = "diagonal"
    posed = Posed(by_name("mlp"), device, dtype)
    options = {"temperature": 0.1, "likelihood_temperature": 3.0} if tempered else {}
    precision = asked(prior, posed.model, device)
    posterior = posed.fit(structure, prior_precision=precision, prior_mean=0.2, num_data=100, **options)
    posterior.save(tmp_path / "posterior")
    other = copy.deepcopy(posed.model)
    nn.utils.vector_to_parameters(torch.zeros_like(posterior.mean), other.parameters())
    with left_as_found(other):
        found = load_posterior(tmp_path / "posterior", other, device)
    assert_same(found, posterior, posed.x, device)


@pytest.mark.parametrize("structure", STRUCTURES)
@on("batch_norm_2d", "gpt_tied", "u_net", "frozen")
def test_buffers_ties_and_frozen_weights_are_read_back(case, structure, device, tmp_path):
    posed = Posed(case, device)
    posterior = posed.fit(structure)
    posterior.save(tmp_path / "posterior")
    other = case.build().to(device)
    with torch.no_grad():
        for tensor in [*other.parameters(), *other.buffers()]:
            tensor.zero_()
    assert_same(load_posterior(tmp_path / "posterior", other, device), posterior, posed.x, device)


@EACH
def test_a_tuned_posterior_is_read_back_with_its_noise(structure, device, tmp_path):
    x = drawn(12, 3).to(device)
    y = x[:, :2] + 0.3 * drawn(12, 2, seed=1).to(device)
    posterior = laplace(nn.Linear(3, 2).to(device), (x, y), likelihood="gaussian", structure=structure).tune()
    posterior.save(tmp_path / "posterior")
    found = load_posterior(tmp_path / "posterior", nn.Linear(3, 2).to(device), device)
    assert torch.equal(found.likelihood.noise, posterior.likelihood.noise)
    assert float(found.evidence()) == pytest.approx(float(posterior.evidence()), rel=1e-12)
    assert torch.allclose(found.predict(x).covariance_matrix, posterior.predict(x).covariance_matrix, rtol=1e-12)
    assert torch.allclose(found.maximum_evidence().logarithms, posterior.maximum_evidence().logarithms)


@pytest.mark.parametrize("noise", ["mse", 0.1, torch.tensor([0.1, 1 / 3]), torch.tensor([[1.0, 0.1], [0.1, 0.7]])])
def test_every_noise_is_read_back_to_the_last_digit(noise, device, tmp_path):
    x = drawn(5, 3).to(device)
    likelihood = GaussianLikelihood(noise)
    posterior = laplace(nn.Linear(3, 2).to(device), (x, x[:, :2]), likelihood=likelihood, prior_precision=1.0)
    posterior.save(tmp_path / "posterior")
    found = load_posterior(tmp_path / "posterior", nn.Linear(3, 2).to(device), device)
    assert found.likelihood.config() == likelihood.config()


def test_names_of_as_many_groups_as_weights_are_read_back(device, tmp_path):
    x = torch.ones(4, 1, device=device)
    names = {"weight": 1.0, "bias": 2.0}
    model = nn.Linear(1, 1).to(device)
    laplace(model, (x, x), likelihood="gaussian", structure="diagonal", prior_precision=names).save(tmp_path / "p")
    assert load_posterior(tmp_path / "p", model, device).prior.names == ("weight", "bias")


def test_a_posterior_without_data_is_read_back(device, tmp_path):
    model, x = nn.Linear(2, 3).to(device), torch.ones(4, 2, device=device)
    operator = Dense(torch.eye(9, device=device))
    posterior = laplace(model, likelihood="categorical", operator=operator, num_data=5)
    posterior.save(tmp_path / "p")
    found = load_posterior(tmp_path / "p", model, device)
    assert torch.equal(found.functional_variance(x), posterior.functional_variance(x))
    with pytest.raises(ValueError, match="the evidence needs the loss over the data, which was not computed"):
        found.evidence()


# ---------------------------------------------------------------------- what it is read into
def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


@pytest.mark.parametrize("state", ["new", "frozen", "inference"])
def test_the_state_of_the_network_given_makes_no_difference(state, device, tmp_path):
    """A new network is in training mode, and a network for predictions may be frozen."""
    model, x = network().to(device).eval(), drawn(6, 3).to(device)
    posterior = laplace(model, (x, torch.arange(6, device=device) % 2), likelihood="categorical", prior_precision=9.0)
    posterior.save(tmp_path / "p")
    other = network().to(device)
    if state == "frozen":
        other.eval().requires_grad_(False)
    with torch.inference_mode(state == "inference"), left_as_found(other):
        found = load_posterior(tmp_path / "p", other, device)
    assert_same(found, posterior, x, device)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)), r"'0.weight' is \(4, 3\) in the file"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 9)), r"'2.weight'.*\(9, 4\) in the model"),
        (lambda: nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2)), "'0.bias'.*missing in the m"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.Linear(4, 2)), "'1.weight' is missing in the file"),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).float(), "another precision: '0.weight'"),
    ],
)
def test_another_architecture_is_refused_by_the_first_tensor_that_differs(other, message, device, tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
    x = drawn(6, 3).to(device)
    posterior = laplace(model, (x, x[:, :2]), likelihood="gaussian", prior_precision=9.0)
    posterior.save(tmp_path / "p")
    with pytest.raises(ValueError, match=message):
        load_posterior(tmp_path / "p", other().to(device), device)


def test_a_file_of_another_kind_is_refused(device, tmp_path):
    Gaussian(torch.zeros(2), Dense(torch.eye(2))).save(tmp_path / "p")
    with pytest.raises(ValueError, match="should hold a Laplace posterior, found 'gaussian'"):
        load_posterior(tmp_path / "p", nn.Linear(1, 1))


def test_there_is_no_pickle_in_a_file(device, tmp_path, monkeypatch):
    posterior = Posed(by_name("mlp"), device).fit()

    def refuse(*args, **kwargs):
        raise AssertionError("a pickle")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    posterior.save(tmp_path / "p")
    with safe_open(tmp_path / "p", framework="pt") as file:
        assert any(name.startswith("model.") for name in file.keys())  # noqa: SIM118 (not a mapping)


def test_a_likelihood_that_cannot_be_read_back_is_refused_when_it_is_written(device, tmp_path):
    model, x = nn.Linear(2, 1).to(device), torch.ones(4, 2, device=device)
    likelihood = LogDensity(lambda h, y: -0.5 * (h[0] - y[0]).square())
    posterior = laplace(model, (x, x[:, :1]), likelihood=likelihood, prior_precision=9.0)
    with pytest.raises(ValueError, match="a log-density is a function and is not stored"):
        posterior.save(tmp_path / "p")
    assert not (tmp_path / "p").exists()
