"""Every architecture of the zoo against dense oracles: blocks on and off the diagonal, in every exact structure."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import oracles
from case_record import Case
from cases import EITHER, REFUSED, ZOO
from curvature.problems import as_data, batches, exact, network, usual_sizes
from paraboloid import Curvature, UncoveredError, curvature

EACH = pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
TWICE = pytest.mark.parametrize("case", [c for c in ZOO if c.covered.get("second_order", True)], ids=lambda c: c.name)


def fit(case: Case, device: torch.device, dtype: torch.dtype = torch.float64, **options) -> Curvature:
    """The library's answer over the usual batches."""
    data = as_data(batches(case, usual_sizes(case), device, dtype))
    return curvature(network(case, device, dtype), data, likelihood=case.likelihood, **options)


def assert_blocks_equal(found: Tensor, wanted: Tensor, model: nn.Module, tolerance: float = 1e-10) -> None:
    """Each parameter's block and each block between two parameters, relative to that block's own norm."""
    places = oracles.layout(model)
    # a block that vanishes by cancellation (a bias in front of an instance norm) is known to rounding only
    floor = torch.finfo(torch.float64).eps * wanted.norm()
    for one, rows in places.items():
        for two, columns in places.items():
            right = wanted[rows, columns]
            assert (found[rows, columns] - right).norm() <= tolerance * right.norm() + floor, (one, two)


def only_layers(wanted: Tensor, found: Curvature) -> Tensor:
    """The oracle with zeros between the blocks that structure="block" keeps apart."""
    kept = torch.zeros_like(wanted)
    for block in found.operator.blocks:
        rows = torch.arange(len(wanted), device=wanted.device)[block.index]
        kept[rows[:, None], rows] = wanted[rows[:, None], rows]
    return kept


@EACH
def test_dense_is_the_gauss_newton_matrix(case, device):
    found = fit(case, device, structure="dense", estimate="exact")
    assert_blocks_equal(found.dense(), exact(case.name, "ggn", str(device)), network(case, device))
    assert found.certificate is not None
    assert found.certificate.worst < 1e-12


@EACH
def test_products_are_the_gauss_newton_matrix(case, device):
    found = fit(case, device, structure="products")
    assert_blocks_equal(found.dense(), exact(case.name, "ggn", str(device)), network(case, device))


@EACH
def test_low_rank_from_all_columns_is_the_gauss_newton_matrix(case, device):
    """An eigendecomposition stands between, whose error is relative to the whole matrix."""
    found, wanted = fit(case, device, structure="lowrank", estimate="exact"), exact(case.name, "ggn", str(device))
    assert (found.dense() - wanted).norm() <= 1e-10 * wanted.norm()
    for piece in oracles.layout(network(case, device)).values():
        right = wanted[piece, piece]
        assert (found.dense()[piece, piece] - right).norm() <= 1e-10 * right.norm() + 1e-15 * wanted.norm()


@EACH
def test_blocks_are_those_of_the_gauss_newton_matrix(case, device):
    found = fit(case, device, structure="block", estimate="exact")
    wanted = only_layers(exact(case.name, "ggn", str(device)), found)
    assert_blocks_equal(found.dense(), wanted, network(case, device))
    layers = {name.rpartition(".")[0] for name in oracles.names_of(network(case, device))}
    assert len(found.operator.blocks) <= len(layers)


@EACH
def test_the_diagonal_is_that_of_the_gauss_newton_matrix(case, device):
    found = fit(case, device, structure="diagonal", estimate="exact").diagonal()
    wanted = exact(case.name, "ggn", str(device)).diagonal()
    floor = torch.finfo(torch.float64).eps * wanted.norm()
    for name, piece in oracles.layout(network(case, device)).items():
        assert (found[piece] - wanted[piece]).norm() <= 1e-10 * wanted[piece].norm() + floor, name


@EACH
def test_eigenkronecker_keeps_the_trace_of_every_block(case, device):
    found, wanted = (
        fit(case, device, structure="eigenkronecker", estimate="exact"),
        exact(case.name, "ggn", str(device)),
    )
    assert abs(found.trace() - wanted.trace()) <= 1e-10 * wanted.trace()
    for block in found.operator.blocks:
        right = wanted.diagonal()[block.index].sum()
        assert abs(block.operator.trace() - right) <= 1e-10 * right, block.name


@EACH
def test_parameters_without_factors_are_exact_in_a_kronecker_fit(case, device):
    found, wanted = fit(case, device, structure="kronecker", estimate="exact"), exact(case.name, "ggn", str(device))
    matrix, places = found.dense(), oracles.layout(network(case, device))
    for row in found.coverage:
        if row.treatment == "exact block":
            piece = places[row.name]
            assert (matrix[piece, piece] - wanted[piece, piece]).norm() <= 1e-10 * wanted[piece, piece].norm(), row


@EACH
def test_empirical_fisher_squares_the_gradients_of_examples(case, device):
    wanted = exact(case.name, "empirical_fisher", str(device))
    for structure in ("dense", "products"):
        found = fit(case, device, structure=structure, estimate="empirical")
        assert_blocks_equal(found.dense(), wanted, network(case, device))
    found = fit(case, device, structure="diagonal", estimate="empirical")
    assert (found.diagonal() - wanted.diagonal()).norm() <= 1e-10 * wanted.diagonal().norm()


@TWICE
def test_the_hessian_in_every_structure_that_has_one(case, device):
    wanted, model = exact(case.name, "hessian", str(device)), network(case, device)
    assert_blocks_equal(fit(case, device, structure="dense", kind="hessian").dense(), wanted, model)
    assert_blocks_equal(fit(case, device, structure="products", kind="hessian").dense(), wanted, model)
    blocks = fit(case, device, structure="block", kind="hessian")
    assert_blocks_equal(blocks.dense(), only_layers(wanted, blocks), model)
    found = fit(case, device, structure="diagonal", kind="hessian").diagonal()
    assert (found - wanted.diagonal()).norm() <= 1e-10 * wanted.diagonal().norm()


def test_a_hessian_that_autograd_lacks_is_refused_with_the_parameter(device):
    case = next(case for case in ZOO if not case.covered.get("second_order", True))
    with pytest.raises(UncoveredError, match=r"second derivatives.*'table.weight'.*kind='ggn'"):
        fit(case, device, structure="dense", kind="hessian")


@EACH
def test_single_precision_gives_the_same_matrix(case, device, single_precision):
    """Relative to each parameter's block; the weights are rounded, so the oracle sees the rounded ones too."""
    torch.backends.cudnn.allow_tf32 = False
    made = batches(case, usual_sizes(case), device, torch.float32)
    model = network(case, device, torch.float32)
    found = curvature(model, as_data(made), likelihood=case.likelihood, structure="dense", estimate="exact")
    assert found.dtype == torch.float32
    wanted = exact(case.name, "ggn", str(device))
    for piece in oracles.layout(model).values():
        right = wanted[piece, piece]
        assert (found.dense()[piece, piece].double() - right).norm() <= 1e-4 * right.norm() + 1e-7 * wanted.norm()
    corrected = curvature(
        model, as_data(made), likelihood=case.likelihood, structure="eigenkronecker", estimate="exact"
    )
    assert abs(corrected.trace() - wanted.trace()) <= 1e-4 * wanted.trace()


@EACH
def test_every_parameter_has_its_line_in_the_coverage(case, device):
    model = network(case, device)
    found = fit(case, device, structure="kronecker", estimate="exact")
    rows = {row.name: row for row in found.coverage}
    assert list(rows) == [name for name, _ in model.named_parameters()]
    frozen, unused = case.covered.get("frozen", ()), case.covered.get("unused", ())
    for name, row in rows.items():
        expected = "frozen" if name in frozen else "unused" if name in unused else row.treatment  # type: ignore[operator]
        assert row.treatment == expected
        covered = row.treatment in ("kronecker", "exact block", "exact diagonal")
        assert covered == (name not in frozen and name not in unused)  # type: ignore[operator]
    assert all(name in str(found.coverage) for name in rows)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
@pytest.mark.parametrize("structure", ["dense", "block", "diagonal", "kronecker", "eigenkronecker", "lowrank"])
def test_what_has_no_per_example_gradients_is_refused_by_name(case, structure, device):
    with pytest.raises((UncoveredError, RuntimeError)) as caught:
        fit(case, device, structure=structure)
    message = str(caught.value)
    words = {"training mode": "model.eval()", "examples mixed": "example", "compiled": "eager module"}
    assert words.get(case.reason, case.reason) in message
    assert any(way in message for way in ("model.eval()", "params=", "products", "track_running", "use_reentrant"
                                          "=False", "_orig_mod")), message  # fmt: skip


@pytest.mark.parametrize("case", [*REFUSED, *EITHER], ids=lambda case: case.name)
def test_products_are_right_or_refused_where_rules_are_not(case, device):
    refusals = {"training mode": "eval mode", "compiled": "eager module", "reentrant checkpoint": "use_reentrant=False"}
    refusal = refusals.get(case.reason)
    if "norm" in case.name or (refusal and case not in EITHER):
        with pytest.raises(RuntimeError, match=refusal or "examples even in eval mode"):
            fit(case, device, structure="products")
        return
    found, wanted = fit(case, device, structure="products").dense(), exact(case.name, "ggn", str(device))
    assert (found - wanted).norm() <= 1e-10 * wanted.norm()


@pytest.mark.parametrize("case", EITHER, ids=lambda case: case.name)
def test_a_compiled_model_whose_steps_show_is_exact(case, device):
    found = fit(case, device, structure="dense", estimate="exact")
    assert_blocks_equal(found.dense(), exact(case.name, "ggn", str(device)), network(case, device))
