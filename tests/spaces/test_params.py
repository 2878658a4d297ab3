"""Params: which tensors are chosen, and the flat vector they make."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector
from torch.testing import assert_close

from paraboloid.spaces.params import Params


class Tied(nn.Module):
    """An encoder and a decoder that share one matrix, around a layer of their own."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(5, 3)
        self.middle = nn.Linear(3, 3)
        self.decoder = nn.Linear(3, 5, bias=False)
        self.decoder.weight = self.encoder.weight
        self.scale = nn.Parameter(torch.tensor(2.0))


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)))


def test_the_flat_vector_is_that_of_parameters_to_vector():
    model = net()
    params = Params.of(model)
    assert params.names == tuple(name for name, _ in model.named_parameters())
    assert_close(params.flatten(params.tensors(model)), parameters_to_vector(model.parameters()), rtol=0, atol=0)
    assert params.numel == sum(t.numel() for t in model.parameters())


def test_slices_cut_the_flat_vector_at_each_tensor():
    model = net()
    params = Params.of(model)
    flat = params.flatten(params.tensors(model))
    for name, tensor in model.named_parameters():
        assert torch.equal(flat[params.slices[name]], tensor.reshape(-1))


@pytest.mark.parametrize("leading", [(), (4,), (2, 3), (0,)])
def test_unflatten_inverts_flatten_with_leading_axes(leading):
    params = Params.of(Tied())
    flat = torch.arange(float(torch.Size(leading).numel() * params.numel)).reshape(*leading, params.numel)
    tensors = params.unflatten(flat)
    assert all(t.shape == (*leading, *shape) for t, shape in zip(tensors.values(), params.shapes, strict=True))
    assert torch.equal(params.flatten(tensors), flat)
    assert torch.equal(params.flatten(list(tensors.values())), flat)


def test_unflatten_gives_views_also_of_a_transposed_vector():
    params = Params.of(net())
    flat = torch.zeros(params.numel, 3).mT
    params.unflatten(flat)["0.weight"].fill_(1.0)
    assert flat.sum() == 3 * 6


def test_a_tied_tensor_counts_once_under_its_first_name():
    model = Tied()
    params = Params.of(model)
    assert params.names == ("scale", "encoder.weight", "middle.weight", "middle.bias")
    assert Params.of(model, "decoder.weight").names == ("encoder.weight",)
    assert Params.of(model, "decoder.*").names == ("encoder.weight",)
    assert Params.of(model, model.decoder).names == ("encoder.weight",)


def test_tensors_are_found_under_any_of_their_names():
    model = Tied()
    alias = Params(("decoder.weight",), (torch.Size([5, 3]),))
    assert alias.tensors(model)["decoder.weight"] is model.encoder.weight


@pytest.mark.parametrize(
    "which",
    [
        "2.*",
        ["2.0.*", "2.1.weight", "2.1.bias"],
        lambda name, tensor: name.startswith("2"),
        Params(
            ("2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias"),
            tuple(map(torch.Size, [(4, 3), (4,), (1, 4), (1,)])),
        ),
    ],
    ids=["glob", "names", "predicate", "params"],
)
def test_ways_to_choose_a_part(which):
    assert Params.of(net(), which).names == ("2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias")


def test_modules_and_tensors_of_the_model_choose_themselves():
    model = net()
    assert Params.of(model, model[2]).names == ("2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias")
    assert Params.of(model, model[2].parameters()).names == (
        "2.0.weight",
        "2.0.bias",
        "2.1.weight",
        "2.1.bias",
    )
    assert Params.of(model, [model[0], "2.1.bias"]).names == ("0.weight", "0.bias", "2.1.bias")
    assert Params.of(model, model[0].bias).names == ("0.bias",)


def test_the_order_is_that_of_the_model_not_of_the_choice():
    assert Params.of(net(), ["2.1.bias", "0.weight"]).names == ("0.weight", "2.1.bias")


def test_select_takes_a_part():
    params = Params.of(net())
    assert params.select("*.bias").names == ("0.bias", "2.0.bias", "2.1.bias")
    assert params.select(["2.1.bias", "0.weight"]).shapes == (torch.Size([3, 2]), torch.Size([1]))
    assert params.select(lambda name, shape: len(shape) == 2).names == (
        "0.weight",
        "2.0.weight",
        "2.1.weight",
    )
    assert params.select(params.select("0.*")).names == ("0.weight", "0.bias")


def test_frozen_parameters_are_left_out_unless_named():
    model = net()
    model[0].requires_grad_(False)
    assert Params.of(model).names == ("2.0.weight", "2.0.bias", "2.1.weight", "2.1.bias")
    assert "0.weight" not in Params.of(model, "*.weight").names
    assert Params.of(model, lambda name, tensor: True) == Params.of(model)
    with pytest.raises(ValueError, match=r"'0.weight' is frozen.*get_parameter\(\"0.weight\"\).requires_grad_\(True\)"):
        Params.of(model, "0.weight")
    with pytest.raises(ValueError, match="'0.bias' is frozen"):
        Params.of(model, "0.*")
    with pytest.raises(ValueError, match="'0.weight' is frozen"):
        Params.of(model, model[0].weight)


def test_records_are_equal_and_can_be_keys():
    model = net()
    assert Params.of(model) == Params.of(net())
    assert len({Params.of(model), Params.of(net())}) == 1
    assert len(Params.of(model)) == 6
    assert "0.weight" in Params.of(model)
    assert list(Params.of(model)) == list(Params.of(model).names)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"no parameter is called '2.1.wieght'. Did you mean '2.1.weight'\?"):
        Params.of(net(), "2.1.wieght")
    with pytest.raises(ValueError, match=r'For all of the module \'2.1\' use "2.1.\*"'):
        Params.of(net(), "2.1")
    with pytest.raises(ValueError, match=r"no parameter is called 'x\*'"):
        Params.of(net()).select("x*")


def test_an_empty_choice_is_an_error():
    with pytest.raises(ValueError, match="every parameter of the model is frozen"):
        Params.of(net().requires_grad_(False))
    with pytest.raises(ValueError, match="no parameters at all"):
        Params.of(nn.ReLU())
    with pytest.raises(ValueError, match="no parameter is chosen"):
        Params.of(net(), lambda name, tensor: False)
    with pytest.raises(ValueError, match="no parameter is chosen"):
        Params.of(net(), [])
    with pytest.raises(ValueError, match="the selection .* is empty"):
        Params.of(net()).select(lambda name, shape: False)


def test_strangers_are_refused():
    with pytest.raises(ValueError, match="should be part of the model"):
        Params.of(net(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match="is no parameter of the model"):
        Params.of(net(), torch.zeros(2))
    with pytest.raises(TypeError, match="found int"):
        Params.of(net(), 3)
    with pytest.raises(TypeError, match=r"torch.nn.Module, found function"):
        Params.of(net, "0.*")


def test_parameters_that_are_not_real_are_refused_by_name():
    model = net()
    model.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex128))
    model.table = nn.Parameter(torch.zeros(2, dtype=torch.int8), requires_grad=False)
    with pytest.raises(TypeError, match="parameter 'phase' should be real and floating, found torch.complex128"):
        Params.of(model)
    with pytest.raises(TypeError, match="parameter 'table' should be real and floating, found torch.int8"):
        Params.of(model, "table")
    assert "phase" not in Params.of(model, lambda name, tensor: name != "phase")


def test_lazy_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match="'weight' has no shape yet"):
        Params.of(nn.LazyLinear(2))


def test_shapes_that_do_not_fit_are_named():
    params = Params.of(nn.Linear(2, 3))
    with pytest.raises(ValueError, match=r"'weight' should have shape \(3, 2\).* found \(2, 3\)"):
        params.flatten({"weight": torch.zeros(2, 3), "bias": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"same leading axes, \(4,\) .* found \(5,\) in 'bias'"):
        params.flatten([torch.zeros(4, 3, 2), torch.zeros(5, 3)])
    with pytest.raises(ValueError, match="a tensor for 'bias' is missing"):
        params.flatten({"weight": torch.zeros(3, 2)})
    with pytest.raises(ValueError, match=r"expected 2 tensors .*, found 1"):
        params.flatten([torch.zeros(3, 2)])
    with pytest.raises(ValueError, match=r"expected 9 numbers along the last axis, found shape \(4, 8\)"):
        params.unflatten(torch.zeros(4, 8))
    with pytest.raises(ValueError, match=r"'weight' should have shape \(3, 2\), found \(3, 4\)"):
        params.tensors(nn.Linear(4, 3))
    with pytest.raises(ValueError, match=r"'weight' should have shape \(3, 2\), found \(3, 4\)"):
        Params.of(nn.Linear(4, 3), params)
    with pytest.raises(ValueError, match="no parameter is called 'bias'"):
        params.tensors(nn.Linear(2, 3, bias=False))


def test_gradients_flow_through_flatten_and_unflatten():
    model = net()
    params = Params.of(model)
    flat = params.flatten(params.tensors(model)).detach().requires_grad_()
    sum(t.square().sum() for t in params.unflatten(flat).values()).backward()
    assert_close(flat.grad, 2 * flat)
