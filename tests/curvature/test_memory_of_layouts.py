"""What is remembered of a network's graph must hold for the next one: numbers decide nothing that is kept."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import oracles
from case_record import seeded
from curvature.function_pairs import linear, net
from curvature.pairs import draw, draw_labels
from paraboloid import Batches, Params, UncoveredError, curvature

STRUCTURES = ["dense", "block", "diagonal", "lowrank"]


def assert_exact(model: nn.Module, inputs: tuple, y: Tensor, structure: str, device: torch.device) -> None:
    """One fit against the dense oracle; blocks that the structure leaves out are not compared."""
    model, inputs, y = model.to(device), tuple(x.to(device) for x in inputs), y.to(device)
    data = Batches([(inputs, y)], inputs=lambda batch: batch[0], targets=lambda batch: batch[1])
    found = curvature(model, data, likelihood="categorical", structure=structure, estimate="exact")
    wanted = oracles.ggn(model, inputs, y, "categorical")
    assert (found.diagonal() - wanted.diagonal()).norm() <= 1e-10 * wanted.diagonal().norm()
    if structure in ("dense", "lowrank"):
        assert (found.dense() - wanted).norm() <= 1e-10 * wanted.norm()


# ---------------------------------------------------------------------- one bias under two matrices
def two_layers(m, x):
    return F.linear(torch.tanh(F.linear(x, m.a, m.c)), m.b, m.c)


def recurrence(m, x):
    h = torch.tanh(x @ m.a.T + m.c)
    return F.linear(h, m.b, m.c)


SHARED = {
    "two_layers": net(two_layers, a=(3, 4), b=(3, 3), c=(3,)),
    "two_steps": net(recurrence, a=(3, 4), b=(3, 3), c=(3,)),
}


@pytest.mark.parametrize("structure", [*STRUCTURES, "kronecker", "eigenkronecker"])
@pytest.mark.parametrize("name", SHARED)
def test_a_bias_of_two_matrices_is_counted_once(name, structure, device):
    model, x, y = seeded(SHARED[name], name).eval(), draw(5, 4), draw_labels(3, 5)
    if structure in STRUCTURES:
        assert_exact(model, (x,), y, structure, device)
        return
    found = curvature(model.to(device), (x.to(device), y.to(device)), likelihood="categorical", structure=structure)
    positions = torch.cat([block.index for block in found.operator.blocks])
    assert sorted(positions.tolist()) == list(range(found.size))
    bias = Params.of(model).slices["c"]
    wanted = oracles.ggn(model, (x.to(device),), y.to(device), "categorical")[bias, bias]
    assert found.coverage["c"].treatment == "exact block"
    assert (found.dense()[bias, bias] - wanted).norm() <= 1e-10 * wanted.norm()


# ---------------------------------------------------------------------- who meets whom is decided by numbers
def pooled(m, x, which):
    """Five rows are put together to three examples by an assignment matrix."""
    return m.second(which @ torch.tanh(m.first(x)))


def masked(m, x, which):
    return m.second((which[..., None] * torch.tanh(m.first(x))).sum(1))


def chosen(m, x, which):
    hidden = torch.tanh(m.first(x)).expand(3, 5, 5)
    return m.second(hidden.masked_fill(which[..., None] == 0, 0.0).sum(1))


PARTS = dict(first=linear(4, 5), second=linear(5, 3))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("forward", [pooled, masked, chosen], ids=lambda f: f.__name__)
def test_another_assignment_of_rows_to_examples_is_seen(forward, structure, device):
    model, x, y = seeded(net(forward, **PARTS), "assigned").eval(), draw(5, 4), draw_labels(3, 3)
    for groups in ([0, 0, 1, 1, 2], [0, 1, 1, 2, 2], [2, 0, 1, 0, 1]):
        which = F.one_hot(torch.tensor(groups), 3).T.double()
        assert_exact(model, (x, which), y, structure, device)


def scattered_mean(m, x, groups):
    hidden = torch.tanh(m.first(x))
    places = groups[:, None].expand(hidden.shape)
    return m.second(hidden.new_zeros(3, 5).scatter_reduce(0, places, hidden, "mean", include_self=False))


def reduced_by_index(m, x, groups):
    hidden = torch.tanh(m.first(x))
    return m.second(hidden.new_zeros(3, 5).index_reduce(0, groups, hidden, "mean", include_self=False))


def reduced_by_segments(m, x, groups):
    lengths = torch.bincount(groups, minlength=3)
    return m.second(torch.segment_reduce(torch.tanh(m.first(x)), "sum", lengths=lengths))


def sparse_product(m, x, groups):
    which = F.one_hot(groups, 3).T.to(x.dtype).to_sparse()
    return m.second(torch.sparse.mm(which, torch.tanh(m.first(x))))


ROUTED = [scattered_mean, reduced_by_index, reduced_by_segments, sparse_product]


@pytest.mark.parametrize("forward", ROUTED, ids=lambda f: f.__name__)
def test_another_grouping_by_index_is_seen(forward, device):
    model, x, y = seeded(net(forward, **PARTS), "grouped").eval(), draw(5, 4), draw_labels(3, 3)
    for groups in ([0, 0, 1, 1, 2], [0, 1, 1, 2, 2], [0, 1, 2, 2, 2]):
        assert_exact(model, (x, torch.tensor(groups)), y, "dense", device)


def test_another_cut_of_a_list_of_words_into_bags_is_seen(device):
    def bags(m, words, starts):
        return m.second(torch.tanh(m.table(words, starts)))

    parts = dict(table=lambda: nn.EmbeddingBag(6, 4, mode="mean"), second=linear(4, 3))
    model, words, y = seeded(net(bags, **parts), "bags").eval(), torch.tensor([0, 3, 5, 1, 3]), draw_labels(3, 3)
    for starts in ([0, 2, 3], [0, 1, 4], [0, 3, 4]):
        assert_exact(model, (words, torch.tensor(starts)), y, "dense", device)


def test_a_mixing_matrix_after_one_that_mixes_nothing_is_refused(device):
    def mix(m, x, matrix):
        return m.second(matrix @ torch.tanh(m.first(x)))

    model, x, y = seeded(net(mix, **PARTS), "mixing").eval(), draw(4, 4), draw_labels(3, 4)
    assert_exact(model, (x, torch.eye(4)), y, "dense", device)
    with pytest.raises(UncoveredError, match="Examples are mixed"):
        assert_exact(model, (x, torch.full((4, 4), 0.25)), y, "dense", device)


@pytest.mark.parametrize("axis", [1, 2])
def test_an_option_that_was_left_out_before_is_part_of_the_graph(axis, device):
    """A sum over everything first: its axis is None, which must not hide the axis of later sums."""

    def everything(m, x):
        return m.second(torch.tanh(m.first(x)) * torch.sum(m.first.weight, dim=None, keepdim=False))

    def over_axis(m, x):
        hidden = torch.tanh(m.first(x if axis == 1 else x.transpose(0, 1)))
        return m.second(hidden.sum(1 if axis == 1 else 0))

    y = draw_labels(3, 5)
    assert_exact(seeded(net(everything, **PARTS), "sum").eval(), (draw(5, 4),), y, "diagonal", device)
    assert_exact(seeded(net(over_axis, **PARTS), "sum").eval(), (draw(5, 5, 4),), y, "dense", device)


def test_weights_whose_signs_change_are_followed(device):
    """|W| is W while all weights are positive: that is no property of the graph."""

    def absolute(m, x):
        return m.second(torch.tanh(F.linear(x, m.w.abs())))

    model, y = seeded(net(absolute, w=(5, 4), second=linear(5, 3)), "abs").eval(), draw_labels(3, 5)
    with torch.no_grad():
        model.w.abs_()  # type: ignore[operator, union-attr]
    assert_exact(model, (draw(5, 4),), y, "dense", device)
    with torch.no_grad():
        model.w[::2] *= -1  # type: ignore[operator, index]
    assert_exact(model, (draw(5, 4),), y, "dense", device)


def test_square_weights_as_stored_and_transposed_are_told_apart(device):
    def straight(m, x):
        return m.second(torch.tanh(F.linear(x, m.w)))

    def turned(m, x):
        return m.second(torch.tanh(F.linear(x, m.w.T)))

    x, y = draw(5, 4).to(device), draw_labels(3, 5).to(device)
    fits = [
        curvature(
            seeded(net(forward, w=(4, 4), second=linear(4, 3)), "square").eval().to(device), (x, y),
            likelihood="categorical", structure="kronecker", estimate="exact",
        )
        for forward in (straight, turned)
    ]  # fmt: skip
    with pytest.raises(ValueError, match="merge needs two fits of the same model"):
        fits[0].merge(fits[1])


# ---------------------------------------------------------------------- nothing there, or failed midway
@pytest.mark.parametrize("structure", ["kronecker", "eigenkronecker"])
def test_a_network_without_any_gradient_has_no_curvature_and_no_nan(structure, device, single_precision):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(device)
    nn.init.zeros_(model[2].weight)
    x, y = draw(6, 4).float().to(device), draw_labels(3, 6).to(device)
    y[0] = -100
    found = curvature(model, (x, y), likelihood="categorical", structure=structure)
    assert torch.isfinite(found.dense()).all()
    assert not found.dense()[:25, :25].any()


def test_a_batch_without_weight_changes_nothing_even_with_decay(device):
    model = seeded(net(pooled, **PARTS), "weights").eval().to(device)
    eye, x, y = torch.eye(3, 5).to(device), draw(5, 4).to(device), draw_labels(3, 3).to(device)
    data = Batches([(x, eye, y, torch.ones(3, device=device))], inputs=lambda b: b[:2], targets=lambda b: b[2],
                   weights=lambda b: b[3])  # fmt: skip
    found = curvature(model, data, likelihood="categorical", structure="diagonal")
    before = found.dense().clone()
    found.update((x, eye, y, torch.zeros(3, device=device)), decay=0.5)
    assert torch.equal(found.dense(), before)


def test_an_update_that_fails_midway_is_not_read_as_if_it_had_worked(device, monkeypatch):
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(device)
    x, y = draw(6, 4).to(device), draw_labels(3, 6).to(device)
    found = curvature(model, (x, y), likelihood="categorical", structure="kronecker", estimate="exact")
    capture = type(found._sums._captured(found._sums.problem.batches.batch((x, y))))
    right, calls = capture.gradients, []

    def failing(self, columns):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError("no room")
        return right(self, columns)

    monkeypatch.setattr(capture, "gradients", failing)
    with pytest.raises(MemoryError):
        found.update((x, y))
    for read in (
        lambda: found @ torch.ones(found.params.numel, device=device),
        lambda: found.update((x, y)),
        lambda: found.merge(found),
    ):
        with pytest.raises(RuntimeError, match=r"failed in the middle.*Fit again"):
            read()


def test_weights_flipped_behind_autograd_are_seen_by_products(device):
    """No version counts `.data`, and a permutation keeps every norm."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)).to(device)
    x, y, v = draw(6, 4).to(device), draw_labels(3, 6).to(device), draw(35).to(device)
    found = curvature(model, (x, y), likelihood="categorical", structure="products")
    found @ v
    model[0].weight.data.copy_(model[0].weight.data.flip(0))
    wanted = oracles.ggn(model, (x,), y, "categorical") @ v
    assert (found @ v - wanted).norm() <= 1e-10 * wanted.norm()


# ---------------------------------------------------------------------- what used to be refused
def test_addmm_with_factors_and_means_of_neighbours_work(device):
    def factors(m, x):
        return m.second(torch.tanh(torch.addmm(m.c, x, m.w.T, beta=3, alpha=2)))

    def neighbours(m, x):
        return m.second(torch.tanh(F.linear(x, (m.w[:, :1] + m.w[:, 2:3]) / 2)))

    y = draw_labels(3, 5)
    assert_exact(
        seeded(net(factors, w=(5, 4), c=(5,), second=linear(5, 3)), "f").eval(), (draw(5, 4),), y, "dense", device
    )
    for rows in (1, 2, 4):
        model = seeded(net(neighbours, w=(rows, 3), second=linear(rows, 3)), "n").eval()
        assert_exact(model, (draw(5, 1),), y, "dense", device)


def test_inputs_that_leave_no_trace_are_found(device):
    """Bytes into a convolution; a backbone without gradients in front of a normalisation."""

    def bytes_in(m, x):
        return m.second(torch.tanh(m.conv((x * 50).to(torch.uint8).double())).flatten(1))

    def headed(m, x):
        with torch.no_grad():
            x = torch.tanh(x * 2)
        return m.second(m.norm(x))

    y = draw_labels(3, 5)
    conv = net(bytes_in, conv=lambda: nn.Conv1d(1, 2, 3), second=linear(4, 3))
    assert_exact(seeded(conv, "bytes").eval(), (draw(5, 1, 4).abs(),), y, "dense", device)
    norm = net(headed, norm=lambda: nn.LayerNorm(4), second=linear(4, 3))
    assert_exact(seeded(norm, "norm").eval(), (draw(5, 4),), y, "dense", device)
