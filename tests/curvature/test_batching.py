"""How data are cut into batches, counted and weighted does not change what the operator is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import oracles
from case_record import Case
from cases import by_name
from curvature.pairs import draw, draw_labels
from curvature.problems import as_data, network
from paraboloid import Batches, Curvature, curvature

NAMES = [
    "mlp", "conv2d_grouped", "attention", "gru", "gpt", "tied_embedding", "weight_functions", "free_parameters",
    "batch_norm_2d", "linear_tokens", "siamese", "embedding",
]  # fmt: skip
STRUCTURES = ["dense", "block", "diagonal", "kronecker", "eigenkronecker", "lowrank", "products"]
EACH = pytest.mark.parametrize("case", [by_name(name) for name in NAMES], ids=lambda case: case.name)
N = 7


def split(case: Case, sizes: list[int], device: torch.device) -> Batches:
    """The same examples, cut into batches of these sizes."""
    inputs, y = case.batch(N)
    cuts = [tuple(x.to(device).split(sizes)) for x in (*inputs, y)]
    return as_data([(tuple(parts[:-1]), parts[-1]) for parts in zip(*cuts, strict=True)])


def fit(case: Case, data: Batches, device: torch.device, structure: str, estimate: str) -> Curvature:
    return curvature(network(case, device), data, likelihood=case.likelihood, structure=structure, estimate=estimate)


def assert_same(one: Curvature, other: Curvature, tolerance: float = 1e-11) -> None:
    left, right = one.dense(), other.dense()
    assert (left - right).norm() <= tolerance * right.norm()
    assert one.num_data == other.num_data


@pytest.mark.parametrize("estimate", ["exact", "empirical"])
@EACH
def test_one_or_seven_batches_give_the_same_operator(case, estimate, device):
    whole = split(case, [N], device)
    others = [split(case, sizes, device) for sizes in ([3, 2, 2], [1] * N, [1, 6], [6, 1])]
    for structure in STRUCTURES:
        wanted = fit(case, whole, device, structure, estimate)
        for data in others:
            found = fit(case, data, device, structure, estimate)
            # factors differ by rounding, and their eigenvectors are as loose as their gaps are small
            assert_same(found, wanted, 1e-6 if structure == "eigenkronecker" else 1e-11)
            assert abs(found.trace() - wanted.trace()) <= 1e-11 * wanted.trace()


@pytest.mark.parametrize("structure", STRUCTURES)
@EACH
def test_data_seen_twice_give_the_same_operator(case, structure, device):
    once, twice = split(case, [N], device), split(case, [N], device)
    twice.data = [*twice.data, *twice.data]
    one, two = (fit(case, data, device, structure, "exact") for data in (once, twice))
    assert (one.dense() - two.dense()).norm() <= 1e-11 * one.dense().norm()
    assert two.num_data == 2 * one.num_data


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_weight_counts_as_that_many_terms(structure, device):
    case = by_name("mlp")
    (x,), y = case.batch(4)
    weights = torch.tensor([2.0, 1.0, 3.0, 0.0])
    repeated = torch.tensor([0, 0, 1, 2, 2, 2])
    data = Batches((x.to(device), y.to(device), weights.to(device)))
    found = fit(case, data, device, structure, "exact")
    wanted = fit(case, as_data([((x[repeated].to(device),), y[repeated].to(device))]), device, structure, "exact")
    assert_same(found, wanted)
    assert found.num_data == 6


@pytest.mark.parametrize("structure", ["dense", "products", "diagonal"])
def test_weights_of_examples_enter_the_empirical_fisher_once(structure, device):
    case = by_name("linear_tokens")
    (x,), y = case.batch(3)
    weights = torch.tensor([0.5, 2.0, 1.0])
    model = network(case, device)
    data = Batches((x.to(device), y.to(device), weights.to(device)))
    found = fit(case, data, device, structure, "empirical").dense()
    wanted = oracles.empirical_fisher(model, (x.to(device),), y.to(device), "categorical", weights=weights.to(device))
    wanted = torch.diag(wanted.diagonal()) if structure == "diagonal" else wanted
    assert (found - wanted).norm() <= 1e-11 * wanted.norm()


@pytest.mark.parametrize("structure", ["dense", "products", "diagonal", "kronecker"])
def test_weights_of_terms_are_those_of_the_oracle(structure, device):
    case = by_name("linear_tokens")
    (x,), y = case.batch(3)
    weights = torch.tensor([[0.5, 2.0], [1.0, 0.0], [3.0, 1.5]]).to(device)
    model, x, y = network(case, device), x.to(device), y.to(device)
    found = fit(case, Batches((x, y, weights)), device, structure, "exact")
    if structure == "kronecker":
        assert found.num_data == float(weights.sum())
        return
    wanted = oracles.ggn(model, (x,), y, "categorical", weights=weights)
    wanted = torch.diag(wanted.diagonal()) if structure == "diagonal" else wanted
    assert (found.dense() - wanted).norm() <= 1e-11 * wanted.norm()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_examples_without_any_term_change_nothing(structure, device):
    """ignore_index drops rows: for a whole example, and for a whole batch."""
    case = by_name("linear_tokens")
    (x,), y = case.batch(4)
    y[1] = -100
    kept = [0, 2, 3]
    with_gap = as_data([((x.to(device),), y.to(device)), ((x.to(device),), torch.full_like(y, -100).to(device))])
    without = as_data([((x[kept].to(device),), y[kept].to(device))])
    found, wanted = (fit(case, data, device, structure, "exact") for data in (with_gap, without))
    assert found.num_data == wanted.num_data
    assert_same(found, wanted)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_choice_of_parameters_is_the_sub_block_of_the_whole(structure, device):
    case = by_name("conv2d_grouped")
    data = split(case, [4, 3], device)
    model = network(case, device)
    options = dict(likelihood=case.likelihood, structure=structure, estimate="exact")
    whole, part = curvature(model, data, **options), curvature(model, data, params="*weight", **options)
    layout = oracles.layout(model)
    chosen = [torch.arange(layout[n].start, layout[n].stop) for n in layout if n.endswith("weight")]
    rows = torch.cat(chosen)
    assert part.params.names == tuple(n for n in layout if n.endswith("weight"))
    if structure == "eigenkronecker":  # the basis has no bias column then
        assert part.size == len(rows)
        return
    wanted = whole.dense()[rows][:, rows]
    assert (part.dense() - wanted).norm() <= 1e-11 * wanted.norm()


def test_num_data_replaces_the_count_and_never_the_average(device):
    case = by_name("mlp")
    data = split(case, [N], device)
    plain = fit(case, data, device, "kronecker", "exact")
    told = curvature(network(case, device), data, likelihood="categorical", estimate="exact", num_data=60_000)
    assert (plain.num_data, told.num_data) == (N, 60_000)
    assert torch.equal(plain.dense(), told.dense())


def test_progress_is_told_after_every_batch(device):
    case, seen = by_name("mlp"), []
    model, data = network(case, device), split(case, [3, 2, 2], device)
    curvature(model, data, likelihood="categorical", structure="eigenkronecker", progress=lambda *a: seen.append(a))
    assert seen == [(k, 3, what) for what in ("factors", "corrections") for k in (1, 2, 3)]


@pytest.mark.parametrize("memory", [1_000, 10_000, 10**9])
@pytest.mark.parametrize("structure", ["diagonal", "kronecker", "eigenkronecker", "block"])
def test_the_budget_changes_the_order_of_summation_only(structure, memory, device):
    case = by_name("conv2d_strided")
    data = split(case, [N], device)
    free = fit(case, data, device, structure, "exact")
    if memory < 10**9 and structure != "diagonal":
        memory *= 30  # the sums themselves have to fit
    tight = curvature(
        network(case, device), data, likelihood=case.likelihood, structure=structure, estimate="exact", memory=memory
    )
    assert (free.dense() - tight.dense()).norm() <= 1e-11 * free.dense().norm()


def test_a_loader_that_yields_mappings_or_dataclasses_is_read(device):
    model = network(by_name("mlp"), device)
    x, y = draw(5, 4).to(device), draw_labels(3, 5).to(device)
    wanted = curvature(model, (x, y), likelihood="categorical").dense()
    found = curvature(model, [{"input": x, "labels": y}], likelihood="categorical").dense()
    assert torch.equal(found, wanted)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=2)
    loaded: Tensor = curvature(model, loader, likelihood="categorical").dense()
    assert (loaded - wanted).norm() <= 1e-12 * wanted.norm()
