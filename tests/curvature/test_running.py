"""Fits that go on: more batches, exponential averages, merging, checking again, saving."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor, nn

import oracles
from case_record import Case
from cases import ZOO, by_name
from curvature.problems import as_data, batches, exact, network, usual_sizes
from paraboloid import Curvature, UncoveredError, curvature, load_operator

SUMMED = ["dense", "block", "diagonal", "kronecker", "eigenkronecker"]
STRUCTURES = [*SUMMED, "lowrank", "products"]
ADDITIVE = ["dense", "block", "diagonal", "kronecker"]


def case() -> Case:
    return by_name("conv2d_grouped")


def halves(device: torch.device) -> list:
    return batches(case(), (5, 3), device)


def fit(data, device: torch.device, structure: str, **options) -> Curvature:
    options = dict(likelihood="categorical", structure=structure, estimate="exact") | options
    return curvature(network(case(), device), as_data(data), **options)


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-11) -> bool:
    return bool((found - wanted).norm() <= tolerance * wanted.norm())


@pytest.mark.parametrize("structure", ADDITIVE)
def test_update_with_the_rest_of_the_data_is_a_fit_on_all(structure, device):
    first, second = halves(device)
    whole, going_on = fit([first, second], device, structure), fit([first], device, structure)
    assert going_on.update(second) is going_on
    assert close(going_on.dense(), whole.dense())
    assert going_on.num_data == whole.num_data == 8


def test_update_of_an_eigenkronecker_fit_keeps_its_basis_and_the_exact_trace(device):
    first, second = halves(device)
    found = fit([first], device, "eigenkronecker")
    bases = [block.operator.left_basis for block in found.operator.blocks]
    found.update(second)
    assert all(
        a is b for a, b in zip(bases, [block.operator.left_basis for block in found.operator.blocks], strict=True)
    )
    wanted = fit([first, second], device, "dense")
    assert abs(found.trace() - wanted.trace()) <= 1e-11 * wanted.trace()


@pytest.mark.parametrize("structure", [*ADDITIVE, "eigenkronecker"])
def test_decay_averages_old_and_new(structure, device):
    first, second = halves(device)
    found = fit([first], device, structure).update(second, decay=0.9)
    if structure == "eigenkronecker":
        traces = [fit([half], device, "dense").trace() for half in (first, second)]
        assert abs(found.trace() - (0.9 * traces[0] + 0.1 * traces[1])) <= 1e-11 * found.trace()
        return
    old, new = fit([first], device, structure), fit([second], device, structure)
    if structure == "kronecker":  # the factors are averaged, not their products
        for a, b, c in zip(found.operator.blocks, old.operator.blocks, new.operator.blocks, strict=True):
            for side in (0, 1):
                mean = 0.9 * b.operator.factors[side].dense() + 0.1 * c.operator.factors[side].dense()
                assert close(a.operator.factors[side].dense(), mean)
        return
    assert close(found.dense(), 0.9 * old.dense() + 0.1 * new.dense())
    again = found.update(first, decay=0.5)
    assert close(again.dense(), 0.45 * old.dense() + 0.05 * new.dense() + 0.5 * old.dense())


@pytest.mark.parametrize("structure", ADDITIVE)
def test_merging_is_a_fit_on_both(structure, device):
    first, second = halves(device)
    one, other = fit([first], device, structure), fit([second], device, structure)
    before = other.dense().clone()
    assert one.merge(other) is one
    assert close(one.dense(), fit([first, second], device, structure).dense())
    assert one.num_data == 8
    assert torch.equal(other.dense(), before)


def test_merging_eigenkronecker_fits_of_different_bases_is_refused(device):
    first, second = halves(device)
    one, other = fit([first], device, "eigenkronecker"), fit([second], device, "eigenkronecker")
    with pytest.raises(ValueError, match=r"different eigenbases.*update\(\)"):
        one.merge(other)


@pytest.mark.parametrize("structure", ["lowrank", "products"])
def test_without_running_sums_there_is_nothing_to_update_or_merge(structure, device):
    found = fit(halves(device), device, structure)
    for call in (lambda: found.update(halves(device)[0]), lambda: found.merge(found)):
        with pytest.raises(ValueError, match="holds no running sums"):
            call()


@pytest.mark.parametrize("structure", [*SUMMED, "lowrank"])
def test_what_is_saved_is_what_is_loaded(structure, device, tmp_path):
    found = fit(halves(device), device, structure)
    found.save(tmp_path / "ggn.safetensors")
    loaded = load_operator(tmp_path / "ggn.safetensors", device)
    assert torch.equal(loaded.dense(), found.dense())
    assert type(loaded) is type(found.operator)


def test_a_low_rank_that_does_not_hold_all_columns_is_the_leading_part(device):
    found, wanted = fit(halves(device), device, "lowrank", rank=5), exact("conv2d_grouped", "ggn", str(device), (5, 3))
    values, vectors = torch.linalg.eigh(wanted)
    best = (vectors[:, -5:] * values[-5:]) @ vectors[:, -5:].T
    assert close(found.dense(), best, 1e-9)
    assert not found.coverage["0.0.weight"].exact
    assert fit(halves(device), device, "lowrank").coverage["0.0.weight"].exact


def test_a_low_rank_of_many_columns_of_a_small_model_is_exact(device):
    """More than 1,024 columns, but a matrix that can be written out."""
    case = by_name("mlp")
    data = as_data(batches(case, (700, 3), device))
    found = curvature(network(case, device), data, likelihood="categorical", structure="lowrank", estimate="exact")
    assert close(found.dense(), exact("mlp", "ggn", str(device), (700, 3)), 1e-10)
    assert found.coverage["0.weight"].exact
    cut = curvature(network(case, device), data, likelihood="categorical", structure="lowrank", rank=4)
    assert cut.operator.rank == 4  # type: ignore[attr-defined]
    assert close(cut.eigenvalues()[-4:], found.eigenvalues()[-4:])


def test_a_low_rank_from_products_is_the_leading_part_too(device):
    """(C.10): with room for a few columns only, a random block is multiplied instead."""
    wanted = exact("conv2d_grouped", "ggn", str(device), (5, 3))
    found = fit(halves(device), device, "lowrank", rank=6, memory=8 * 4 * len(wanted))
    values, vectors = torch.linalg.eigh(wanted)
    best = (vectors[:, -6:] * values[-6:]) @ vectors[:, -6:].T
    assert close(found.dense(), best, 1e-4)
    assert (found.eigenvalues() >= 0).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_verify_passes_on_a_right_fit(structure, device):
    found = fit(halves(device), device, structure)
    seen = found.verify()
    if structure == "products":
        assert seen.asymmetry is not None
        assert seen.asymmetry < 1e-12
        return
    assert seen.certificate is not None
    assert seen.certificate.passed
    assert set(seen.certificate.deviations) == set(found.params.names)
    if structure in ("dense", "block", "diagonal", "eigenkronecker"):
        assert seen.trace == pytest.approx(seen.reference, rel=1e-10)


@pytest.mark.parametrize("case", ZOO[::7], ids=lambda case: case.name)
def test_verify_passes_over_the_zoo_with_random_estimates(case, device):
    data = as_data(batches(case, usual_sizes(case), device))
    for estimate in ("sampled", "empirical"):
        found = curvature(
            network(case, device), data, likelihood=case.likelihood, structure="eigenkronecker", estimate=estimate
        )
        assert found.verify(generator=torch.Generator(device).manual_seed(5)).certificate is not None


@pytest.mark.parametrize("structure", ["kronecker", "dense", "diagonal"])
def test_verify_and_the_next_fit_name_the_parameter_of_a_rule_that_is_wrong(structure, device, monkeypatch):
    """A rule that forgets to sum over positions, planted after a right fit."""
    found = fit(halves(device), device, structure)
    module = importlib.import_module("paraboloid.curvature.rules.convolution")
    right = module.PatchPart.total

    def wrong(self, stacks, keep):
        return 1.01 * right(self, stacks, keep)

    monkeypatch.setattr(module.PatchPart, "total", wrong)
    with pytest.raises(UncoveredError, match=r"autograd's gradient of '.*weight'.*structure='products'"):
        found.verify()


def test_a_structure_that_loses_the_trace_is_caught_by_verify(device, monkeypatch):
    found = fit(halves(device), device, "diagonal")
    module = importlib.import_module("paraboloid.curvature.sums")
    right = module.SquareSum.operator
    monkeypatch.setattr(module.SquareSum, "operator", lambda self, count: right(self, count) * 1.1)
    with pytest.raises(UncoveredError, match=r"trace of structure='diagonal'.*by products"):
        found.verify()


def test_an_operation_with_a_wrong_derivative_is_caught_by_verify_of_products(device):
    class Wrong(torch.autograd.Function):
        """x³ whose backward says 3x² + |x|·(sum of x), which is no gradient of anything."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, *grads):
            (x,) = ctx.saved_tensors
            return grads[0] * (3 * x**2 + x.abs() * x.sum())

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(Wrong.apply(self.first(x)))

    torch.manual_seed(0)
    model = Net().double().to(device)
    x, y = torch.randn(6, 4, device=device), torch.randint(3, (6,), device=device)
    found = curvature(model, (x, y), likelihood="categorical", structure="products", kind="hessian")
    with pytest.raises(UncoveredError, match=r"not those of a symmetric matrix.*gradgradcheck"):
        found.verify()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_curvature_behaves_as_its_operator(structure, device):
    found = fit(halves(device), device, structure)
    v = torch.ones(found.size, device=device)
    assert torch.equal(found @ v, found.operator @ v)
    assert close(((found + 0.5) @ v), found @ v + 0.5 * v)
    assert close((2 * found / 4) @ v, (found @ v) / 2)
    assert close((found - found) @ v + v, v)
    assert close((found.operator + found) @ v, 2 * (found @ v))
    assert found.shape == (found.size, found.size)
    assert "8 terms" in repr(found)
    assert close((found + 0.1).solve((found + 0.1) @ v), v, 1e-6)
    with pytest.raises(AttributeError, match="'Curvature' object has no attribute 'nothing'"):
        _ = found.nothing


def test_the_hessian_in_blocks_has_a_block_for_every_module(device):
    found = fit(halves(device), device, "block", kind="hessian")
    wanted = exact("conv2d_grouped", "hessian", str(device), (5, 3))
    for block in found.operator.blocks:
        assert close(block.operator.dense(), wanted[block.index][:, block.index])
    names = {name.rpartition(".")[0] for name in oracles.names_of(network(case(), device))}
    assert len(found.operator.blocks) == len(names)
