"""Data and models that cannot be: an error says what should be, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from curvature.situations import (
    ASKED,
    EXACT,
    SUMMED,
    X,
    Y,
    answer,
    built,
    draws,
    each,
    left_as_found,
    mlp,
    relative,
    used,
)
from paraboloid import GaussianLikelihood

NAN, INF = float("nan"), float("inf")
IGNORED = -100


def with_entry(tensor: Tensor, value: float) -> Tensor:
    changed = tensor.clone()
    changed.view(-1)[-1] = value
    return changed


# ---------------------------------------------------------------------- nothing to average over
EMPTY: dict[str, Callable[[], Any]] = {
    "list": list,
    "iterator": lambda: iter([]),
    "loader": lambda: DataLoader(TensorDataset(X[:1], Y[:1]), 2, drop_last=True),
}


@pytest.mark.parametrize("data", EMPTY)
@each(EXACT)
def test_data_without_batches_are_refused(asked, data, device):
    with pytest.raises(ValueError, match=r"no batches in the data.*was empty|several passes"):
        used(mlp(device), EMPTY[data](), **asked)


WITHOUT_TERMS = {
    "ignored": [(X, torch.full_like(Y, IGNORED))],
    "ignored_twice": [(X, torch.full_like(Y, IGNORED))] * 2,
    "weights": [(X, Y, torch.zeros(6, dtype=torch.float64))],
    "examples": [(X[:0], Y[:0])],
}


@pytest.mark.parametrize("data", WITHOUT_TERMS)
@each(EXACT)
def test_data_without_terms_are_refused(asked, data, device):
    batches = WITHOUT_TERMS[data]
    for form in (batches, batches[0]):
        with pytest.raises(ValueError, match=r"hold no terms: every target was ignored.*Check ignore_index, the targe"):
            used(mlp(device), form, **asked)


@each(EXACT)
def test_a_batch_without_terms_beside_others_changes_nothing(asked, device):
    without = WITHOUT_TERMS["ignored"] + WITHOUT_TERMS["examples"]
    wanted = used(mlp(device), [(X, Y)], **asked)
    for batches in ([*without, (X, Y)], [(X, Y), *without]):
        found = used(mlp(device), batches, **asked)
        assert relative(answer(found), answer(wanted)) < 1e-13
        assert found.num_data == 6


# ---------------------------------------------------------------------- numbers that are none
@pytest.mark.parametrize("value", [NAN, INF, -INF], ids=str)
@each(EXACT)
def test_inputs_that_are_not_finite_are_refused(asked, value, device):
    broken = with_entry(X, value)
    for data in ((broken, Y), [(X, Y), (broken, Y)], {"input": broken, "labels": Y}):
        with pytest.raises(ValueError, match=r"inputs hold NaN or inf; clean the data"):
            used(mlp(device), data, **asked)


@pytest.mark.parametrize("value", [NAN, INF], ids=str)
@each(EXACT)
def test_a_parameter_that_is_not_finite_is_named(asked, value, device):
    for name, frozen in (("2.weight", False), ("0.weight", True)):
        model = mlp(device)
        parameter = model.get_parameter(name).requires_grad_(not frozen)
        with torch.no_grad():
            parameter[0, 0] = value
            model[1] = nn.Softplus()
        with pytest.raises(ValueError, match=rf"parameter '{name}' holds NaN or inf; restore it"):
            used(model, (X.abs(), Y), **asked)


class Overflows(nn.Module):
    """A layer whose outputs are infinite, inside a module that returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.read = nn.Linear(4, 4), nn.GRU(4, 3, batch_first=True)
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        scaled = self.scale(x * tokens[:, None])
        return self.head(torch.log(self.read(scaled[:, None] * 0)[1][0] * 0))


@each(EXACT)
def test_outputs_that_are_not_finite_name_the_layer(asked, device):
    model = mlp(device)
    model[1].register_forward_hook(lambda module, args, out: out / 0)
    with left_as_found(model):
        with pytest.raises(ValueError, match=r"outputs hold NaN or inf, first after '1' \(Tanh\); check that layer"):
            used(model, (X, Y), **asked)


def test_the_layer_is_named_with_several_inputs_and_where_no_module_is_to_blame(device):
    with pytest.raises(ValueError, match=r"first after 'head' \(Linear\)"):
        used(built(Overflows, device), ((X, Y + 1), Y))


class Rooted(nn.Module):
    """Finite outputs, and a derivative that is infinite where the first input is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(torch.sqrt((x[:, :1] * self.first(x)).square())))


NO_GRADIENT = r"NaN or inf, first at 'first.weight'|gradients of 'first.*' hold NaN.*Check"


@each(ASKED)
def test_gradients_that_are_not_finite_name_the_parameter(asked, device):
    broken = with_entry(X.flip(1), 0.0).flip(1).flip(0)
    used(built(Rooted, device), (X, Y), **asked)
    for data in ((broken[:4], Y[:4]), [(X, Y), (broken, Y)]):  # before a layout is known, and after
        with pytest.raises(ValueError, match=NO_GRADIENT):
            used(built(Rooted, device), data, **asked)


@each(SUMMED)
def test_an_update_whose_gradients_are_not_finite_is_never_read(asked, device):
    """It is refused before anything is added, so the fit stays what it was."""
    ggn = used(built(Rooted, device), (X, Y), **asked)
    before = ggn.dense().clone()
    for _ in range(2):
        with pytest.raises(ValueError, match=NO_GRADIENT):
            ggn.update((torch.zeros_like(X), Y))
        assert torch.equal(ggn.dense(), before)


NOT_FINITE = ["gaussian", "mse", "bernoulli", "poisson", "categorical"]


@pytest.mark.parametrize("likelihood", NOT_FINITE)
@each(EXACT)
def test_targets_that_are_not_finite_are_refused(asked, likelihood, device):
    targets = torch.full((6, 3), 1 / 3 if likelihood == "categorical" else 1.0, dtype=torch.float64)
    for value in (NAN, INF):
        with pytest.raises(ValueError, match=f"{likelihood} targets should be finite; found 1 NaN or inf.*repair"):
            used(mlp(device), (X, with_entry(targets, value)), likelihood, **asked)


# ---------------------------------------------------------------------- targets and likelihoods
CLASSES, BITS = torch.zeros(6, dtype=torch.long), torch.ones(6, 3, dtype=torch.float64)
UNFIT = {
    "class_too_large": ("categorical", Y + 2, r"class indices should be 0 to 2.*3 classes; found 4 .*ignore_index"),
    "class_negative": ("categorical", Y - 1, r"class indices should be 0 to 2.*found -1 "),
    "classes_floating": ("categorical", Y.double(), r"integer type, found torch.float64. Use targets.long"),
    "classes_yes_no": ("categorical", Y > 0, r'integer type, found torch.bool.*likelihood="bernoulli"'),
    "classes_in_a_column": ("categorical", Y[:, None], r"found torch.int64 \(6, 1\).*squeeze"),
    "classes_real": ("categorical", draws(6, 2), r"found torch.float64 \(6, 2\).*\"gaussian\" or \"mse\""),
    "not_probabilities": ("categorical", 2 * BITS, r"sum to 1; found a row .* sum 6 .*Divide"),
    "too_few": ("categorical", Y[:4], r"same number of examples on axis 0; found outputs \(6, 3\) and targets \(4,\)"),
    "bits_from_classes": ("bernoulli", Y, r"shaped like the outputs, \(6, 3\); found \(6,\).*\"categorical\""),
    "bits_too_large": ("bernoulli", 2 * BITS, r"0, 1 or probabilities between; found 2 .*\"categorical\""),
    "signs": ("bernoulli", -BITS, r"found -1 .*signs ±1 as \(targets \+ 1\) / 2"),
    "reals_from_classes": ("gaussian", Y, r"shaped like the outputs, \(6, 3\); found \(6,\).*\"categorical\""),
    "reals_too_narrow": ("mse", draws(6, 2), r"shaped like the outputs, \(6, 3\); found \(6, 2\). Reshape"),
    "reals_complex": ("gaussian", BITS + 1j, r"targets should be real, found torch.complex128"),
    "counts_negative": ("poisson", -BITS, r"counts 0, 1, 2, …; found -1 .*likelihood=\"gaussian\""),
    "counts_fractional": ("poisson", BITS / 2, r"counts 0, 1, 2, …; found 0.5 "),
    "pairs_odd": ("heteroscedastic", BITS, r"should be \(\.\.\., 2D\) for targets \(\.\.\., D\).*found outputs"),
    "noise_too_wide": (GaussianLikelihood(torch.ones(4)), BITS, r"given for 4 outputs.*Give a number, \(3,\)"),
}  # fmt: skip


@pytest.mark.parametrize("pair", UNFIT)
@each([EXACT[2], EXACT[-4]])
def test_targets_that_do_not_fit_the_likelihood_are_refused(asked, pair, device):
    likelihood, targets, message = UNFIT[pair]
    with pytest.raises((TypeError, ValueError), match=message):
        used(mlp(device), (X, targets), likelihood, **asked)


UNFIT_OUTPUTS = {
    "one_class": ("categorical", lambda: nn.Linear(4, 1), Y, r'at least two classes, found C = 1.*"bernoulli"'),
    "no_class_axis": (
        "categorical",
        lambda: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)),
        Y,
        r"class axis.*found \(6,\)",
    ),
    "positive_precision": (
        "heteroscedastic",
        lambda: nn.Linear(4, 2),
        BITS[:, :1],
        r"should be negative; found .*softplus",
    ),
}


@pytest.mark.parametrize("pair", UNFIT_OUTPUTS)
@each([EXACT[2], EXACT[-4]])
def test_outputs_that_do_not_fit_the_likelihood_are_refused(asked, pair, device):
    likelihood, make, targets, message = UNFIT_OUTPUTS[pair]
    with pytest.raises((TypeError, ValueError), match=message):
        used(built(make, device), (X, targets), likelihood, **asked)


def test_a_class_out_of_range_in_a_later_batch_is_found(device):
    for asked in EXACT:
        with pytest.raises(ValueError, match="class indices should be 0 to 2"):
            used(mlp(device), [(X, Y), (X, Y + 1)], **asked)


# ---------------------------------------------------------------------- weights
WEIGHTS = {
    "too_few": (torch.ones(5), r"one per example \(6,\) or one per term \(6,\), found \(5,\)"),
    "too_many_axes": (torch.ones(6, 3), r"one per example \(6,\).*found \(6, 3\)"),
    "a_column": (torch.ones(6, 1), r"one per example \(6,\).*found \(6, 1\)"),
    "negative": (-torch.ones(6), r"finite and not negative, found -1 \(6 of 6\)"),
    "nan": (with_entry(torch.ones(6), NAN), r"finite and not negative, found nan \(1 of 6\)"),
    "inf": (with_entry(torch.ones(6), INF), r"finite and not negative, found inf \(1 of 6\)"),
    "integers": (torch.ones(6).int(), r"should be weights, floating; found torch.int32.*inputs=lambda"),
    "a_list": ([1.0] * 6, r"should be weights, floating; found list"),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@each([EXACT[2], EXACT[-4]])
def test_weights_that_are_none_are_refused(asked, weights, device):
    given, message = WEIGHTS[weights]
    with pytest.raises((TypeError, ValueError), match=message):
        used(mlp(device), [(X, Y, given)], **asked)


# ---------------------------------------------------------------------- forms of data
FORMS = {
    "tensor": (lambda: X, r"should hold targets too, as \(x, y\); found one tensor of shape \(6, 4\)"),
    "dataset": (lambda: TensorDataset(X, Y), r"gives single examples, found TensorDataset. Wrap it: .*DataLoader"),
    "number": (lambda: 3, r"should be \(x, y\) or an iterable of batches, found int"),
    "nothing": (lambda: None, r"should be \(x, y\) or an iterable of batches, found NoneType"),
    "inputs_alone": (lambda: [X], r"a batch should be \(x, y\).*found Tensor.*Batches.data, inputs="),
    "unlabelled": (lambda: {"input": X}, r"one of labels, targets.*found none among input. Say which by targets="),
    "four": (lambda: [(X, Y, Y, Y)], r"a batch should be \(x, y\).*found tuple of 4"),
}


@pytest.mark.parametrize("form", FORMS)
@each([EXACT[2], EXACT[-4]])
def test_data_in_a_form_that_says_too_little_are_refused(asked, form, device):
    make, message = FORMS[form]
    with pytest.raises((TypeError, ValueError), match=message):
        used(mlp(device), make(), **asked)


NEEDS_PASSES = ("eigenkronecker", "products")


@each(EXACT)
def test_a_generator_is_enough_where_one_pass_is_and_refused_where_it_is_not(asked, device):
    data = [(X, Y), (X[:2], Y[:2])]
    if asked["structure"] in NEEDS_PASSES or "kind" in asked:
        with pytest.raises(ValueError, match=r"several passes .* generator gives one.\s*Pass a list or a DataLoader"):
            used(mlp(device), (batch for batch in data), **asked)
    else:
        found = used(mlp(device), (batch for batch in data), **asked)
        assert torch.equal(answer(found), answer(used(mlp(device), data, **asked)))
        with pytest.raises(ValueError, match="several passes"):
            found.verify()


def test_a_low_rank_that_needs_a_second_pass_refuses_a_generator(device):
    data = [(X, Y)] * 3
    with pytest.raises(ValueError, match=r"several passes .*\s*Pass a list or a DataLoader"):
        used(mlp(device), iter(data), structure="lowrank", rank=2, memory=2000)


class Alternating(nn.Module):
    """Uses one layer for large batches alone, so that a batch shows how it was used."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(x)) if len(x) > 2 else x)


@pytest.mark.parametrize("sizes", [(4, 2), (2, 4)], ids=str)
@each([asked for asked in EXACT if asked["structure"] != "products" and "kind" not in asked])
def test_batches_that_use_the_parameters_in_another_way_are_refused(asked, sizes, device):
    with pytest.raises(ValueError, match=r"uses the parameters in another way than the first.*fit them apart and add"):
        used(built(Alternating, device), [tuple(t[:n] for t in (X, Y)) for n in sizes], **asked)
