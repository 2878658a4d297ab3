"""Covariances of linearised outputs are J P⁻¹ Jᵀ (P.3), on every architecture of the zoo."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import oracles
from cases import ZOO, by_name
from paraboloid import Batches, LaplacePosterior, Params, laplace
from prediction.networks import EACH, STRUCTURES, UNTRAINED, Posed, covariance, jacobian, on, relative

pytestmark = UNTRAINED
ALL = pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)


def assert_covariance(posterior: LaplacePosterior, posed: Posed, names=None, tolerance: float = 1e-9) -> None:
    """Against dense algebra with the posterior's own precision, written out."""
    outputs, J = jacobian(posed.case, posed.model, posed.inputs, posed.targets, names)
    found = posterior.outputs(posed.x)
    wanted = covariance(J, posterior.precision.dense(memory=2**28))
    assert found.covariance.shape == wanted.shape
    assert relative(found.mean, outputs) < 1e-12
    assert (found.covariance - wanted).norm() <= tolerance * wanted.norm()


@pytest.mark.parametrize("structure", STRUCTURES[:5])
@ALL
def test_the_covariance_of_outputs_is_that_of_the_linear_map(case, structure, device):
    posed = Posed(case, device)
    assert_covariance(posed.fit(structure), posed)


@pytest.mark.parametrize("structure", ["kronecker", "eigenkronecker"])
@on("mlp", "conv2d_strided", "gpt", "tied_embedding", "tied_autoencoder", "linear_many_axes")
def test_blocks_of_weights_and_biases_apart_are_not_lost(case, structure, device):
    """The precision's blocks are then smaller than those of the network."""
    posed = Posed(case, device)
    assert_covariance(posed.fit(structure, bias="separate"), posed)


@pytest.mark.parametrize("structure", ["kronecker", "eigenkronecker"])
@on("free_parameters", "batch_norm_2d", "embedding")
def test_parameters_beyond_the_largest_block_have_variances_of_their_own(case, structure, device):
    posed = Posed(case, device)
    assert_covariance(posed.fit(structure, max_block=0), posed)


@pytest.mark.parametrize("structure", ["kronecker", "eigenkronecker"])
@on("conv2d_grouped", "attention", "lstm")
def test_reduced_factors_change_the_precision_only(case, structure, device):
    posed = Posed(case, device)
    assert_covariance(posed.fit(structure, sharing="reduce"), posed)


@pytest.mark.parametrize("structure", STRUCTURES)
@on("lenet_mean", "gpt_tied", "free_parameters")
def test_temperatures_and_precisions_by_name_reach_the_outputs(case, structure, device):
    posed = Posed(case, device)
    modules = {name.rpartition(".")[0] for name in oracles.names_of(posed.model)} - {""}
    precisions = {name: 0.2 + 0.3 * number for number, name in enumerate(sorted(modules, key=len, reverse=True))}
    rest = {"*": 2.0} if any("." not in name for name in oracles.names_of(posed.model)) else {}
    assert_covariance(
        posed.fit(structure, prior_precision=precisions | rest, temperature=0.3, likelihood_temperature=2.0), posed
    )  # fmt: skip


@pytest.mark.parametrize("structure", ["diagonal", "dense", "lowrank"])
@on("conv2d", "gru", "two_names")
def test_a_precision_for_each_weight_reaches_the_outputs(case, structure, device):
    posed = Posed(case, device)
    size = Params.of(posed.model).numel
    each = torch.linspace(0.1, 3.0, size, device=device)
    assert_covariance(posed.fit(structure, prior_precision=each), posed)


@on("mlp", "conv2d_strided", "gpt_tied", "free_parameters", "lstm", "u_net", "embedding", "weight_norm")
def test_a_thin_factor_and_a_prior_are_a_precision_of_the_whole(case, device):
    posed = Posed(case, device)
    assert_covariance(posed.fit("lowrank"), posed)


# ---------------------------------------------------------------------- some of the weights
@EACH
@pytest.mark.parametrize("which", ["module", "glob", "names", "predicate", "frozen"])
def test_weights_that_are_not_chosen_are_certain(which, structure, device):
    posed = Posed(by_name("lenet_mean"), device)
    last = [module for module in posed.model.modules() if isinstance(module, nn.Linear)][-1]
    names = [name for name, tensor in posed.model.named_parameters() if tensor is last.weight or tensor is last.bias]
    prefix = names[0].rpartition(".")[0]
    asked = {"module": last, "glob": f"{prefix}.*", "names": names, "predicate": lambda name, t: name in names}
    if which == "frozen":
        posed.model.requires_grad_(False)
        last.requires_grad_(True)
    posterior = posed.fit(structure, params=asked.get(which))
    assert posterior.params.names == tuple(names)
    assert_covariance(posterior, posed, names)


@EACH
@pytest.mark.parametrize("name", ["0.0.0.weight", "0.0.3.*", "*bias"])
def test_any_layer_may_be_the_uncertain_one(name, structure, device):
    posed = Posed(by_name("lenet_max"), device)
    posterior = posed.fit(structure, params=name)
    assert_covariance(posterior, posed, posterior.params.names)


# ---------------------------------------------------------------------- batches
@EACH
@on("conv2d_grouped", "u_net", "lstm_tokens", "mlp_scalar", "batch_norm_2d")
def test_a_tiny_memory_cuts_the_batch_and_changes_nothing(case, structure, device):
    posed = Posed(case, device)
    posterior = posed.fit(structure)
    inputs, _ = case.batch(11)
    x = tuple(v.to(device) for v in inputs)
    whole, cut = posterior.outputs(x), posterior.outputs(x, memory=1)
    assert relative(cut.mean, whole.mean) < 1e-13
    assert relative(cut.covariance, whole.covariance) < 1e-12


@EACH
@on("conv2d", "batch_norm_1d", "gru", "u_net", "embedding")
def test_a_batch_of_one_is_a_row_of_a_larger_one(case, structure, device):
    posed = Posed(case, device)
    posterior = posed.fit(structure)
    whole = posterior.outputs(posed.inputs)
    for row in range(3):
        alone = posterior.outputs(tuple(v[row : row + 1] for v in posed.inputs))
        assert relative(alone.mean[0], whole.mean[row]) < 1e-12
        assert relative(alone.covariance[0], whole.covariance[row]) < 1e-11


# ---------------------------------------------------------------------- arguments and outputs of other forms
class Wrapped(nn.Module):
    """Takes keywords, returns an object with .logits, as language models do."""

    def __init__(self, inner: nn.Module, form: str) -> None:
        super().__init__()
        self.inner, self.form = inner, form

    def forward(self, pixels: Tensor, scale: float = 1.0):
        out = scale * self.inner(pixels)
        return {"object": SimpleNamespace(logits=out), "mapping": {"logits": out}, "tuple": (out,)}[self.form]


@EACH
@pytest.mark.parametrize("form", ["object", "mapping", "tuple"])
def test_keywords_and_objects_with_logits_are_read_as_in_the_fit(form, structure, device):
    plain = Posed(by_name("mlp"), device)
    posterior = plain.fit(structure)
    data = [{"pixels": inputs[0], "scale": 1.0, "labels": y} for inputs, y in plain.made]
    wrapped = laplace(
        Wrapped(plain.model, form), data, likelihood="categorical", structure=structure, prior_precision=0.7
    )  # fmt: skip
    wanted = posterior.functional_variance(plain.x)
    for x in ({"pixels": plain.x}, {"pixels": plain.x, "scale": 1.0}, plain.x, (plain.x, 1.0)):
        assert torch.equal(wrapped.functional_variance(x), wanted)
        assert torch.equal(wrapped.predict(x, "map").probs, posterior.predict(plain.x, "map").probs)


class OfParts(nn.Module):
    """One argument, which is a dictionary."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, parts: dict[str, Tensor]) -> Tensor:
        return self.inner(parts["a"] + parts["b"])


def test_examples_are_counted_inside_a_dictionary_too(device):
    plain = Posed(by_name("mlp"), device)
    (x,), y = plain.made[0]
    data = Batches([(x, y)], inputs=lambda b: ({"a": b[0], "b": 0 * b[0]},), targets=lambda b: b[1])
    found = laplace(OfParts(plain.model), data, likelihood="categorical", prior_precision=0.7)
    wanted = laplace(plain.model, (x, y), likelihood="categorical", prior_precision=0.7)
    many = torch.cat([x] * 5)
    apart = ({"a": 0.25 * many, "b": 0.75 * many},)
    assert relative(found.outputs(apart, memory=1).covariance, wanted.functional_variance(many)) < 1e-12


@EACH
def test_an_output_that_the_user_picks_is_the_one_that_is_predicted(structure, device):
    class Two(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, self.inner(x)

    plain = Posed(by_name("mlp"), device)
    made = [(inputs[0], y) for inputs, y in plain.made]
    data = Batches(made, outputs=lambda out: out[1])
    found = laplace(Two(plain.model), data, likelihood="categorical", structure=structure, prior_precision=0.7)
    wanted = plain.fit(structure).functional_variance(plain.x)
    assert torch.equal(found.functional_variance(plain.x), wanted)
    for method in ("linearised", "sampled", "map"):
        assert found.predict(plain.x, method, samples=2).batch_shape == (3,)
