"""Models and choices of parameters that cannot be: an error names the module or the parameter and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from curvature.situations import EXACT, SUMMED, X, Y, answer, built, each, mlp, relative, used
from paraboloid import Batches, Params, UncoveredError, curvature

TWO = each([EXACT[2], EXACT[-4]])  # by sums, and by products


# ---------------------------------------------------------------------- what the model is
@pytest.mark.parametrize("model", [lambda x: x, "mlp", nn.Linear, None], ids=["function", "str", "class", "None"])
@TWO
def test_a_model_that_is_no_module_is_refused(asked, model):
    with pytest.raises(TypeError, match=r"model should be a torch.nn.Module, found (function|str|type|NoneType)"):
        curvature(model, (X, Y), likelihood="categorical", **asked)


TRAINING = {
    "batch_norm": (nn.BatchNorm1d(5), r"eval mode: 1 \(BatchNorm1d\) normalises by the batch.\s*Call model.eval"),
    "sync_batch_norm": (nn.SyncBatchNorm(5), r"eval mode: 1 \(SyncBatchNorm\) normalises"),
    "dropout": (nn.Dropout(0.25), r"eval mode: 1 \(Dropout, p = 0.25\) draws at random.\s*Call model.eval"),
    "alpha_dropout": (nn.AlphaDropout(0.5), r"eval mode: 1 \(AlphaDropout, p = 0.5\) draws"),
    "nested": (nn.Sequential(nn.Tanh(), nn.Dropout(0.5)), r"eval mode: 1.1 \(Dropout, p = 0.5\) draws"),
}


@pytest.mark.parametrize("layer", TRAINING)
@each(EXACT)
def test_a_layer_that_couples_examples_or_draws_in_training_mode_is_named(asked, layer, device):
    middle, message = TRAINING[layer]
    model = built(lambda: nn.Sequential(nn.Linear(4, 5), middle, nn.Linear(5, 3)), device)
    for named in (middle, model):
        model.eval()
        named.train()
        with pytest.raises(RuntimeError, match=message):
            used(model, (X, Y), **asked)


@each(EXACT)
def test_a_model_that_is_trained_on_is_refused_until_it_is_evaluated_again(asked, device):
    model = built(lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)), device)
    ggn = used(model, (X, Y), **asked)
    before = answer(ggn)
    model.train()
    if asked["structure"] == "products":
        with pytest.raises(RuntimeError, match=TRAINING["batch_norm"][1]):
            answer(ggn)
    elif asked in SUMMED:
        with pytest.raises(RuntimeError, match=TRAINING["batch_norm"][1]):
            ggn.update((X, Y))
    model.eval()
    assert torch.equal(answer(ggn), before)


def test_a_dropout_of_zero_and_an_evaluated_norm_do_not_matter(device):
    norm, dropout = nn.BatchNorm1d(5), nn.Dropout(0.0)
    model = built(lambda: nn.Sequential(nn.Linear(4, 5), norm, dropout, nn.Linear(5, 3)), device).train()
    model[1].eval()
    found = answer(used(model, (X, Y)))
    assert torch.equal(found, answer(used(model.eval(), (X, Y))))


class Returning(nn.Module):
    """An mlp whose output is put through a function."""

    def __init__(self, inner: nn.Module, change: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x: Tensor) -> Any:
        return self.change(self.inner(x))


NO_GRAPH = r"has no autograd graph: .*forward detaches, runs under no_grad.* Return an output that can"
RETURNED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "loss": (lambda out: out.sum(), r"one number without axes \(a loss\?\); it should return one row of outputs per"),
    "tuple": (lambda out: (out, out), r"found a tuple of 2 \(Tensor, Tensor\)..*Batches.data, outputs="),
    "list": (lambda out: [out, None], r"found a list of 2 \(Tensor, NoneType\)..*Batches.data, outputs="),
    "dict": (lambda out: {"a": out, "b": out}, r"found dict with the keys a, b..*Batches.data, outputs="),
    "nothing": (lambda out: None, r"should return a tensor, something with .logits .*found NoneType"),
    "array": (lambda out: out.detach().cpu().numpy(), r"should return a tensor.*found ndarray"),
    "complex": (lambda out: out + 0j, r"outputs should be real and floating, found torch.complex128"),
    "fewer_rows": (lambda out: out[:3], r"same number of examples on axis 0; found outputs \(3, 3\) and targ"),
    "flat": (lambda out: out.flatten(), r"same number of examples on axis 0; found outputs \(18,\)"),
    "detached": (lambda out: out.detach(), NO_GRAPH),
    "data": (lambda out: out.data, NO_GRAPH),
    "classes": (lambda out: out.argmax(-1), NO_GRAPH + "|should be real and floating, found torch.int64"),
}  # fmt: skip


@pytest.mark.parametrize("what", RETURNED)
@each(EXACT)
def test_what_a_model_returns_is_one_tensor_with_a_graph_and_rows(asked, what, device):
    change, message = RETURNED[what]
    with pytest.raises((TypeError, ValueError, UncoveredError), match=message):
        used(Returning(mlp(device), change), (X, Y), **asked)


@each(EXACT)
def test_outputs_says_which_tensor_it_is(asked, device):
    wanted = answer(used(mlp(device), (X, Y), **asked))
    data = Batches((X, Y), outputs=lambda out: out["b"])
    found = used(Returning(mlp(device), lambda out: {"a": 2 * out, "b": out}), data, **asked)
    assert relative(answer(found), wanted) < 1e-13


class WithoutGraph(nn.Module):
    """Runs under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


@each(EXACT)
def test_a_forward_without_a_graph_is_refused(asked, device):
    with pytest.raises(UncoveredError, match=NO_GRAPH):
        used(built(WithoutGraph, device), (X, Y), **asked)


@each(EXACT)
def test_a_model_without_numbers_is_refused(asked, device):
    with pytest.raises(ValueError, match=r"'0.weight' should hold numbers, found it on the meta device. Load the weig"):
        used(mlp(device).to("meta"), (X, Y), **asked)


@each(EXACT)
def test_a_lazy_model_is_refused(asked, device):
    with pytest.raises(ValueError, match=r"parameter 'weight' has no shape yet .* run the model once"):
        used(nn.LazyLinear(3).to(device), (X, Y), **asked)


# ---------------------------------------------------------------------- which parameters
class Unusual(nn.Module):
    """Complex weights, integer weights, and a layer of the usual kind."""

    def __init__(self) -> None:
        super().__init__()
        self.waves = nn.Parameter(torch.ones(4, 4, dtype=torch.complex128))
        self.table = nn.Parameter(torch.arange(3), requires_grad=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x.to(self.waves.dtype) @ self.waves).real)


def unusual(device: torch.device) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        return Unusual().to(device)


NOT_REAL = {
    "all": (None, r"'waves' should be real and floating, found torch.complex128; it is complex. Leave it out: params="),
    "complex": ("waves", r"'waves' should be real and floating, found torch.complex128"),
    "integer": ("table", r"'table' should be real and floating, found torch.int64; it is of an integer type. Leave it"),
    "both": (["head.weight", "table"], r"'table' should be real and floating"),
}


@pytest.mark.parametrize("which", NOT_REAL)
@TWO
def test_parameters_that_are_not_real_are_refused_by_name(asked, which, device):
    params, message = NOT_REAL[which]
    with pytest.raises(TypeError, match=message):
        used(unusual(device), (X, Y), params=params, **asked)


@each(EXACT)
def test_the_real_ones_among_them_may_be_asked_for(asked, device):
    ggn = used(unusual(device), (X, Y), params="head.*", **asked)
    assert ggn.params.names == ("head.weight", "head.bias")


NO_CHOICE = {
    "misspelt": ("2.wieght", r"no parameter is called '2.wieght'. Did you mean '2.weight'\? There are: 0.weight"),
    "glob": ("3.*", r"no parameter is called '3.\*'. Did you mean '.\.(weight|bias)'"),
    "module_name": ("0", r"no parameter is called '0'. For all of the module '0' use \"0.\*\""),
    "one_of_them": (["0.weight", "7.bias"], r"no parameter is called '7.bias'. Did you mean '.\.bias'"),
    "nothing": ([], r"no parameter is chosen by \[\]. There are: 0.weight, 0.bias, 2.weight, 2.bias"),
    "predicate": (lambda name, tensor: False, r"no parameter is chosen by .* There are: 0.weight"),
    "foreign_module": (nn.LayerNorm(2), r"module chosen \(LayerNorm\) should be part of the model \(Sequential\)"),
    "foreign_tensor": (torch.ones(3), r"the tensor chosen, of shape \(3,\), is no parameter of the model"),
    "number": (3, r"`params` should be None, a name or glob, a module, .*found int"),
    "other_shapes": (
        Params(("0.weight",), (torch.Size([2, 2]),)),
        r"'0.weight' should have shape \(2, 2\), found \(5,",
    ),
}


@pytest.mark.parametrize("which", NO_CHOICE)
@TWO
def test_a_choice_that_is_none_is_refused_with_the_nearest_name(asked, which, device):
    params, message = NO_CHOICE[which]
    with pytest.raises((TypeError, ValueError), match=message):
        used(mlp(device), (X, Y), params=params, **asked)


@each(EXACT)
def test_frozen_parameters_asked_for_by_name_are_refused_by_name(asked, device):
    model = mlp(device)
    model[0].requires_grad_(False)
    for params, name in (("0.weight", "0.weight"), ("0.*", "0.bias"), (["2.weight", "0.bias"], "0.bias")):
        with pytest.raises(ValueError, match=rf"'{name}' is frozen \(requires_grad is False\).*Unfreeze it by model"):
            used(model, (X, Y), params=params, **asked)
    with pytest.raises(ValueError, match=r"every parameter of the model is frozen; unfreeze some by model.requires_"):
        used(model.requires_grad_(False), (X, Y), **asked)


@TWO
def test_a_model_without_parameters_is_refused(asked, device):
    with pytest.raises(ValueError, match="the model has no parameters at all"):
        used(nn.Tanh().to(device), (X, Y), **asked)


class Ignoring(nn.Module):
    """Has a parameter without influence."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(4, 3), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


@each([asked for asked in EXACT if asked["structure"] != "products" and "kind" not in asked])
def test_parameters_that_are_all_without_influence_are_refused(asked, device):
    model = built(Ignoring, device)
    with pytest.raises((ValueError, UncoveredError), match=r"influence on the output.*Check params=|no autograd graph"):
        used(model, (X, Y), params="spare", **asked)
    assert used(model, (X, Y), **asked).coverage["spare"].treatment == "unused"
