"""What cannot be answered is refused, by a message that says what should be, what was found and what to do."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paraboloid import Categorical, GaussianLikelihood, LaplacePosterior, UncoveredError, curvature, laplace
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.sums import Shifted
from prediction.closed_form import Regression, design, drawn, linear
from prediction.networks import UNTRAINED

pytestmark = UNTRAINED
NAN, INF = float("nan"), float("inf")


def network(middle: nn.Module | None = None) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), middle or nn.Tanh(), nn.Linear(4, 2))


def data() -> tuple[Tensor, Tensor]:
    x = drawn(8, 3)
    return x, torch.arange(8) % 2


def fit(model: nn.Module | None = None, **options: Any) -> LaplacePosterior:
    asked = {"likelihood": "categorical", "prior_precision": 30.0} | options
    return laplace(model or network(), asked.pop("data", data()), **asked)


# ---------------------------------------------------------------------- the network
@pytest.mark.parametrize(
    ("middle", "message"),
    [
        (lambda: nn.BatchNorm1d(4), r"should be in eval mode: 1 \(BatchNorm1d\) normalises by the batch"),
        (lambda: nn.Dropout(0.3), r"should be in eval mode: 1 \(Dropout, p = 0.3\) draws at random"),
    ],
)
def test_a_network_in_training_mode_is_refused(middle, message):
    with pytest.raises(RuntimeError, match=message):
        fit(network(middle()).train())
    assert fit(network(middle()).eval()).num_data == 8


def test_what_is_no_network_is_refused():
    with pytest.raises(TypeError, match=r"`model` should be a torch.nn.Module, found str"):
        laplace("mlp", data(), likelihood="categorical")


def test_weights_that_are_nowhere_are_refused():
    with pytest.raises(ValueError, match="no parameter is called '9'"):
        fit(params="9")
    with pytest.raises(ValueError, match="every parameter of the model is frozen"):
        fit(network().requires_grad_(False))


def test_an_unknown_likelihood_or_structure_or_option_is_refused():
    with pytest.raises(ValueError, match="no likelihood is called 'regression'. Did you mean \"gaussian\""):
        fit(likelihood="regression")
    with pytest.raises(ValueError, match="structure='kfac' is unknown.*Did you mean 'kronecker'"):
        fit(structure="kfac")
    with pytest.raises(TypeError, match="unexpected keyword argument 'prior_precison'"):
        fit(prior_precison=1.0)


def test_a_curvature_that_is_not_written_down_is_refused():
    with pytest.raises(
        ValueError, match=r"needs a curvature that is written down, found .*Use structure=\"kronecker\""
    ):
        fit(structure="products")
    with pytest.raises(ValueError, match="needs a curvature that is written down, found Shifted"):
        laplace(network(), likelihood="categorical", operator=Shifted(Dense(torch.eye(26)), 1.0), num_data=3)


@pytest.mark.parametrize("structure", ["dense", "block", "diagonal"])
def test_an_indefinite_hessian_is_no_precision(structure):
    model = network()
    with torch.no_grad():
        for number, tensor in enumerate(model.parameters()):
            tensor.copy_(3 * drawn(*tensor.shape, seed=number))
    x, _ = data()
    with pytest.raises(ValueError, match=r"positive semi-definite, found the eigenvalue -.*Use kind=\"ggn\""):
        fit(model, data=(x, 10 * x[:, :2]), likelihood="gaussian", kind="hessian", structure=structure)


@pytest.mark.parametrize("structure", ["dense", "block", "diagonal"])
def test_a_hessian_that_is_definite_is_one(structure):
    x, _ = data()
    asked = dict(data=(x, x[:, :2]), likelihood="gaussian", structure=structure)
    model = nn.Linear(3, 2)
    found, wanted = fit(model, kind="hessian", **asked), fit(model, **asked)
    torch.testing.assert_close(found.precision.dense(), wanted.precision.dense(), rtol=1e-10, atol=1e-11)


# ---------------------------------------------------------------------- the prior
@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF, torch.tensor(0.0), {"0": 1.0, "*": -2.0}, {"*": NAN}])
def test_a_prior_precision_is_positive_and_finite(value):
    with pytest.raises(ValueError, match="prior_precision should be positive and finite, found .*is no distribution"):
        fit(prior_precision=value)


@pytest.mark.parametrize("value", [torch.ones(25), torch.ones(1), torch.ones(26, 1), torch.ones(2, 13)])
def test_precisions_of_another_number_than_the_weights_are_refused(value):
    with pytest.raises(ValueError, match=r"one number for each of the 26 weights; found shape"):
        fit(prior_precision=value, structure="diagonal")


@pytest.mark.parametrize("value", ["auto", [1.0] * 26, None])
def test_a_prior_precision_of_another_type_is_refused(value):
    with pytest.raises(TypeError, match=f"should be a number, a mapping.*; found {type(value).__name__}"):
        fit(prior_precision=value, structure="diagonal")


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({"0": 1.0, "2": 1.0, "head": 1.0}, ValueError, "names 'head', but there is no such parameter: 0.weight, 0.b"),
        ({"0": 1.0}, ValueError, r"should name every parameter, missing '2.weight'; add \"\*\" for the rest"),
        ({}, ValueError, "should name every parameter, missing '0.weight'"),
        ({"*": 1.0, "2": 5.0}, ValueError, "names '2', but all of its parameters belong to names before it; put it"),
        ({nn.Linear(1, 1): 1.0}, TypeError, "should map names to numbers, found the key Linear"),
    ],
)
def test_a_mapping_names_every_parameter_and_nothing_else(value, kind, message):
    with pytest.raises(kind, match=message):
        fit(prior_precision=value, structure="diagonal")


@pytest.mark.parametrize("structure", ["kronecker", "eigenkronecker", "block"])
@pytest.mark.parametrize("value", [torch.arange(1.0, 27.0), {"*weight": 1.0, "*bias": 2.0}])
def test_a_block_with_several_precisions_has_no_eigenvectors_of_its_own(structure, value):
    message = r"block '0.*' of the curvature has more than one prior precision.*structure=\"diagonal\" or \"dense\""
    with pytest.raises(ValueError, match=message):
        fit(prior_precision=value, structure=structure).precision  # noqa: B018 (asking is what raises)


def test_a_prior_mean_has_the_shape_of_the_weights_and_is_finite():
    with pytest.raises(ValueError, match=r"prior_mean should be a number or \(26,\), found \(3,\)"):
        fit(prior_mean=torch.zeros(3))
    for value in (NAN, INF, torch.full((26,), NAN)):
        with pytest.raises(ValueError, match="prior_mean should be finite, found NaN or inf"):
            fit(prior_mean=value)


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF])
@pytest.mark.parametrize("name", ["temperature", "likelihood_temperature"])
def test_a_temperature_is_positive_and_finite(name, value):
    with pytest.raises(ValueError, match=f"^{name} should be positive and finite, found"):
        fit(**{name: value})


# ---------------------------------------------------------------------- data and operators
def test_without_data_or_operator_there_is_nothing_to_approximate():
    with pytest.raises(
        ValueError, match=r"`laplace` needs data, or a curvature that was computed from it \(operator=\)"
    ):
        laplace(network(), likelihood="categorical")


def test_an_operator_has_the_size_of_the_weights_and_says_of_how_much_data_it_is():
    with pytest.raises(ValueError, match="operator= should have the size of the weights, 26, found 25"):
        laplace(network(), likelihood="categorical", operator=Diagonal(torch.ones(25)), num_data=3)
    for count in (None, 0, -2.0, NAN):
        with pytest.raises(ValueError, match="num_data= should say how many terms the curvature is an average of"):
            laplace(network(), likelihood="categorical", operator=Diagonal(torch.ones(26)), num_data=count)


def test_an_operator_is_of_the_weights_that_are_chosen():
    """Two layers of one size are not told apart by numbers."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    x, _ = data()
    found = curvature(model, (x, x), likelihood="gaussian", params="0.*")
    with pytest.raises(ValueError, match="should be the curvature of '2.weight' …, found that of '0.weight'"):
        laplace(model, likelihood="gaussian", operator=found, params="2.*")
    assert laplace(model, likelihood="gaussian", operator=found, params="0.*").num_data == 8


@pytest.mark.parametrize("name", ["estimate", "rank", "prior_precison"])
def test_arguments_of_a_curvature_that_exists_already_are_refused(name):
    operator = Diagonal(torch.ones(26))
    with pytest.raises(TypeError, match=f"^{name}= says how a curvature is computed; with operator= it has no meaning"):
        laplace(network(), data(), likelihood="categorical", operator=operator, **{name: 3})


def test_a_class_that_does_not_exist_is_refused():
    x, y = data()
    for operator in (None, Diagonal(torch.ones(26))):
        with pytest.raises(ValueError, match="class indices should be 0 to 1.*found 7"):
            fit(data=(x, y + 6 * (torch.arange(8) == 3)), operator=operator)


@pytest.mark.parametrize("method", ["functional_variance", "predict", "map", "sampled"])
def test_inputs_that_are_no_numbers_are_refused_in_the_fit_and_later(method):
    x, y = data()
    x[2, 1] = NAN
    with pytest.raises(ValueError, match="NaN or inf"):
        fit(data=(x, y))
    posterior = fit()
    asked = {"functional_variance": posterior.functional_variance, "predict": posterior.predict}
    with pytest.raises(ValueError, match="NaN or inf"):
        asked.get(method, lambda x: posterior.predict(x, method))(x)


def test_inputs_of_an_unknown_form_are_refused():
    posterior = fit()
    with pytest.raises(TypeError, match="x should be a tensor, a tuple of arguments or a dict of them, found float"):
        posterior.predict(1.0)
    with pytest.raises(ValueError, match="the inputs should hold a tensor with the examples on axis 0; found none"):
        posterior.functional_variance(())


def test_a_network_that_mixes_examples_is_refused():
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.inner(x)
            return hidden - hidden.mean(0)

    posterior = laplace(Mixing(), likelihood="categorical", operator=Diagonal(torch.ones(8)), num_data=3)
    with pytest.raises(UncoveredError, match="Examples are mixed|examples are mixed|no axis"):
        posterior.functional_variance(drawn(5, 3))


# ---------------------------------------------------------------------- questions to a posterior
def test_methods_and_links_are_known_ones():
    posterior, (x, _) = fit(), data()
    with pytest.raises(ValueError, match="method should be one of linearised, sampled, map, found 'mc'"):
        posterior.predict(x, "mc")
    with pytest.raises(ValueError, match="link should be one of probit, bridge, sampled, found 'softmax'"):
        posterior.predict(x, link="softmax")
    with pytest.raises(ValueError, match='method should be "evidence" or "validation", found \'guess\''):
        posterior.tune("guess")


@pytest.mark.parametrize("samples", [0, -3])
@pytest.mark.parametrize("method", ["linearised", "sampled"])
def test_there_is_at_least_one_sample(samples, method):
    with pytest.raises(ValueError, match=f"samples should be 1 or more, found {samples}"):
        fit().predict(data()[0], method, link="sampled", samples=samples)


def test_a_generator_is_a_generator():
    posterior, (x, _) = fit(), data()
    for asked in (lambda: posterior.sample(2, 0), lambda: posterior.predict(x, "sampled", generator=0)):
        with pytest.raises(TypeError, match=r"torch.Generator, found int"):
            asked()


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson", "mse"])
def test_the_bridge_belongs_to_classes(likelihood):
    x, _ = data()
    posterior = fit(data=(x, (x[:, :2] > 0).double()), likelihood=likelihood)
    with pytest.raises(ValueError, match=f'link="bridge" belongs to categorical outputs; for {likelihood} use "probit'):
        posterior.predict(x, link="bridge")


@pytest.mark.parametrize("name", ["temperature", "likelihood_temperature"])
def test_a_tempered_model_has_no_evidence(name):
    posterior = fit(**{name: 0.5})
    for asked in (posterior.evidence, posterior.tune, lambda: posterior.evidence(prior_precision=1.0)):
        with pytest.raises(ValueError, match="has no temperature, found one beside 1"):
            asked()


@pytest.mark.parametrize("value", [0.0, -1.0, NAN, INF, torch.tensor([0.1])])
def test_a_noise_is_one_positive_finite_variance(value):
    x, _ = data()
    posterior = fit(data=(x, x[:, :2]), likelihood="gaussian")
    with pytest.raises(ValueError, match="noise should be one variance, positive and finite, found"):
        posterior.evidence(noise=value)


@pytest.mark.parametrize("likelihood", [Categorical(), GaussianLikelihood(torch.tensor([0.1, 0.2]))])
def test_only_one_noise_for_all_outputs_can_be_varied(likelihood):
    x, y = data()
    posterior = fit(data=(x, y if likelihood.name == "categorical" else x[:, :2]), likelihood=likelihood)
    with pytest.raises(ValueError, match="has no noise variance to vary"):
        posterior.evidence(noise=0.1)


def test_other_prior_precisions_are_as_many_as_the_groups():
    posterior = fit(prior_precision={"0": 20.0, "2": 30.0})
    with pytest.raises(ValueError, match=r"there are 2 prior precisions, found \(3,\)"):
        posterior.evidence(prior_precision=torch.ones(3))
    with pytest.raises(ValueError, match="prior_precision should be positive and finite, found 0.0"):
        posterior.evidence(prior_precision=0.0)


def test_data_of_one_pass_are_enough_for_a_posterior_but_not_for_its_evidence():
    x, y = data()
    posterior = fit(data=((x[i : i + 4], y[i : i + 4]) for i in (0, 4)))
    torch.testing.assert_close(posterior.precision.dense(), fit(posterior.model).precision.dense())
    assert posterior.newton_decrement != posterior.newton_decrement
    with pytest.raises(ValueError, match="the evidence needs the loss over the data.*gone through twice"):
        posterior.evidence()


# ---------------------------------------------------------------------- far from a minimum
def test_weights_far_from_a_minimum_are_told_to_the_caller_once_and_trained_ones_are_not():
    x, y = drawn(20, 3), 5 * drawn(20, 2, seed=1)
    problem = Regression(design(x, 2), y, 0.01 * torch.eye(2), torch.ones(8), torch.zeros(8))
    asked = dict(likelihood=GaussianLikelihood(0.01), prior_precision=1.0)
    with pytest.warns(UserWarning, match=r"far from a minimum.*would gain .* nats \(gradient norm .*Train on") as told:
        posterior = laplace(linear(drawn(8, seed=3), 3, 2), (x, y), **asked)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert f"{posterior.newton_decrement:.3g}" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        laplace(linear(problem.mean, 3, 2), (x, y), **asked)


@pytest.mark.parametrize("temperature", [1e-4, 1.0, 1e4])
def test_the_warning_does_not_depend_on_the_temperature(temperature):
    x, y = drawn(20, 3), 5 * drawn(20, 2, seed=1)
    with pytest.warns(UserWarning, match="far from a minimum"):
        laplace(linear(drawn(8, seed=3), 3, 2), (x, y), likelihood=GaussianLikelihood(0.01), temperature=temperature)


def test_a_network_of_any_size_that_was_trained_is_not_warned_about():
    """Adam, not to the end."""
    for width in (4, 30):
        x = drawn(60, 2)
        y = torch.sin(2 * x)
        model = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))
        with torch.no_grad():
            for number, tensor in enumerate(model.parameters()):
                tensor.copy_(0.5 * drawn(*tensor.shape, seed=number))
        optimiser = torch.optim.Adam(model.parameters(), 0.02)
        for _ in range(200):
            optimiser.zero_grad()
            weights = sum(tensor.square().sum() for tensor in model.parameters())
            (0.5 * (model(x) - y).square().sum() + 0.5 * weights).backward()
            optimiser.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            laplace(model, (x, y), likelihood="gaussian", prior_precision=1.0)
