"""Kronecker factors by equivalences and by the settings in which they are exact; eigenvalue corrections by (C.7)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import kronecker_oracle
import oracles
from case_record import Case
from cases import ZOO
from curvature.equivalences import EQUIVALENCES, Equivalence, exactness
from curvature.exact_settings import Block, Exact
from curvature.pairs import draw, draw_labels
from curvature.problems import as_data, batches, exact, network, usual_sizes
from paraboloid import Curvature, EigenKronecker, Kronecker, curvature

PAIRS = pytest.mark.parametrize("pair", EQUIVALENCES, ids=lambda pair: pair.name)
SHARINGS = pytest.mark.parametrize("sharing", ["expand", "reduce"])
CASES = pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)


def moved(values: tuple, device: torch.device) -> tuple:
    return tuple(value.to(device) for value in values)


def fit(model: nn.Module, inputs: tuple, targets: Tensor, device: torch.device, **options) -> Curvature:
    """Exact columns, so that nothing is drawn."""
    data = as_data([(moved(inputs, device), targets.to(device))])
    return curvature(model.to(device), data, estimate="exact", **options)


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted.to(found.device)).norm() / wanted.norm())


def places(model: nn.Module, names: tuple[str, ...], index: Tensor | None = None) -> Tensor:
    layout = oracles.layout(model)
    found = torch.cat([torch.arange(layout[name].start, layout[name].stop) for name in names])
    return found if index is None else found[index]


def factored(found: Curvature) -> set[str]:
    return {row.name for row in found.coverage if row.treatment == "kronecker"}


@SHARINGS
@PAIRS
def test_two_ways_to_write_a_network_have_the_same_factors(pair: Equivalence, sharing: str, device):
    """Embedding = Linear on one-hot, convolution = Linear on patches, attention = Linears, GRU = its cells, …"""
    if pair.copies:
        return
    left, right = pair.build()
    inputs, right_inputs = pair.both_inputs()
    options = dict(likelihood=pair.likelihood, structure="kronecker", sharing=sharing)
    one, other = (
        fit(left, inputs, pair.targets, device, **options),
        fit(right, right_inputs, pair.targets, device, **options),
    )
    for match in pair.matches:
        assert factored(one).issuperset(match.left) == factored(other).issuperset(match.right), match
        mine, theirs = places(left, match.left, match.index), places(right, match.right)
        ours, wanted = one.dense()[mine][:, mine], match.scale**2 * other.dense()[theirs][:, theirs]
        # the sum over an attention's keys vanishes: what is left of it is rounding
        assert (ours - wanted).norm() <= 1e-11 * wanted.norm() + 1e-15 * one.dense().norm(), match


@SHARINGS
@PAIRS
def test_factors_of_linears_are_those_seen_by_module_hooks(pair: Equivalence, sharing: str, device):
    """A network of Linears against hooks; for copies the reused layer itself, whose uses are further positions."""
    if not pair.by_hooks:
        return
    left, right = pair.build()
    model, inputs = (left, pair.inputs) if pair.copies else (right, pair.both_inputs()[1])
    factors = kronecker_oracle.kronecker_factors(model, inputs, pair.targets, pair.likelihood, sharing)
    found = fit(model, inputs, pair.targets, device, likelihood=pair.likelihood, structure="kronecker", sharing=sharing)
    for name, (a, g) in factors.items():
        bias = model.get_submodule(name).bias is not None
        mine = places(model, (f"{name}.weight", f"{name}.bias") if bias else (f"{name}.weight",))
        wanted = kronecker_oracle.stored_block(a, g, bias)
        error = (found.dense()[mine][:, mine] - wanted.to(device)).norm()
        assert error <= 1e-11 * wanted.norm() + 1e-15 * found.dense().norm(), name


@pytest.mark.parametrize("setting", exactness(), ids=lambda setting: setting.name)
def test_blocks_are_exact_where_one_kronecker_product_can_be(setting: Exact, device):
    """One example at one position; deep linear networks; last layers; locations as terms; pooled positions."""
    model = setting.build()
    wanted = oracles.ggn(model, setting.inputs, setting.targets, setting.likelihood)
    for sharing in setting.sharings:
        found = fit(model, setting.inputs, setting.targets, device, likelihood=setting.likelihood, sharing=sharing)
        for block in setting.blocks:
            assert factored(found).issuperset(block.names), (block.names, str(found.coverage))
            assert_block(found, wanted, model, block)


def assert_block(found: Curvature, wanted: Tensor, model: nn.Module, block: Block) -> None:
    mine = places(model, block.names, block.index)
    assert relative(found.dense()[mine][:, mine], wanted[mine][:, mine]) < 1e-10, block.names


def test_expand_is_not_exact_where_only_reduce_is(device):
    setting = next(s for s in exactness() if s.name == "pooled_conv2d_mean")
    model, wanted = setting.build(), None
    wanted = oracles.ggn(model, setting.inputs, setting.targets, setting.likelihood)
    found = fit(model, setting.inputs, setting.targets, device, likelihood=setting.likelihood, sharing="expand")
    mine = places(model, setting.blocks[0].names)
    assert relative(found.dense()[mine][:, mine], wanted[mine][:, mine]) > 0.1


def test_a_separate_bias_loses_its_cross_block_and_leaves_the_rest_as_it_is(device):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    x, y = draw(7, 4), draw_labels(3, 7)
    joint, apart = (fit(model, (x,), y, device, likelihood="categorical", bias=b) for b in ("joint", "separate"))
    assert apart.coverage["0.bias"].treatment == "exact block"
    weight, bias = places(model, ("0.weight",)), places(model, ("0.bias",))
    for piece in (weight, bias):
        assert relative(apart.dense()[piece][:, piece], joint.dense()[piece][:, piece]) < 1e-12
    assert not apart.dense()[weight][:, bias].any()
    assert joint.dense()[weight][:, bias].all()


@CASES
def test_corrected_eigenvalues_are_the_best_for_their_basis(case: Case, device):
    """(C.7): s = diag(UᵀFU) with the exact block F; the basis diagonalises the Kronecker factors."""
    data, wanted = as_data(batches(case, usual_sizes(case), device)), exact(case.name, "ggn", str(device))
    options = dict(likelihood=case.likelihood, estimate="exact")
    plain = curvature(network(case, device), data, structure="kronecker", **options)
    corrected = curvature(network(case, device), data, structure="eigenkronecker", **options)
    pairs = zip(plain.operator.blocks, corrected.operator.blocks, strict=True)
    for factors, found in pairs:
        assert torch.equal(factors.index, found.index)
        if not isinstance(found.operator, EigenKronecker):
            assert not isinstance(factors.operator, Kronecker)
            continue
        bases = []
        for side, basis in enumerate((found.operator.left_basis, found.operator.right_basis)):
            factor = factors.operator.factors[side].dense()
            basis = torch.eye(len(factor), device=device) if basis is None else basis
            rotated = basis.mT @ factor @ basis
            assert (rotated - torch.diag(rotated.diagonal())).norm() <= 1e-12 * factor.norm()
            bases.append(basis)
        block = wanted[found.index][:, found.index]
        best = oracles.ekfac_from_dense(block, *bases)
        assert (found.operator.values - best).norm() <= 1e-10 * best.norm() + 1e-16 * wanted.norm()
        distance = (block - found.operator.dense()).norm()
        assert distance <= (block - factors.operator.dense()).norm() * (1 + 1e-12) + 1e-15 * wanted.norm()


MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
WRAPPED = ("weight_norm", "weight_norm_convolution", "spectral_norm", "lora_merged", "weight_functions")


@CASES
def test_layers_that_have_factors_get_them(case: Case, device):
    """Linear, convolutions, embeddings, attention and recurrent weights; nothing falls back unseen."""
    model = network(case, device)
    found = curvature(
        model, as_data(batches(case, usual_sizes(case), device)), likelihood=case.likelihood, estimate="exact"
    )
    silent = {*case.covered.get("frozen", ()), *case.covered.get("unused", ())}  # type: ignore[misc]
    if case.name in WRAPPED:
        return
    for name, module in model.named_modules():
        own = {f"{name}.{end}".lstrip(".") for end, _ in module.named_parameters(recurse=False)} - silent
        if isinstance(module, (*MATRICES, nn.Embedding, nn.RNNBase)):
            missing = {n for n in own if n in found.params.names and n not in factored(found)}
            missing -= {"places.weight"}  # a table that is added as it is, never looked up
            assert not {n for n in missing if n.endswith(("weight", "weight_ih_l0", "weight_hh_l0"))}, (
                case.name,
                missing,
            )
        if isinstance(module, nn.MultiheadAttention):
            assert factored(found) >= {n for n in own if "weight" in n}
