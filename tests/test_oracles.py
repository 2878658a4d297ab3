"""The oracles against each other, against closed forms and against finite differences, over the whole zoo."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import oracles
from cases import EITHER, REFUSED, ZOO, Case, by_name

SECOND = [c for c in ZOO if c.covered.get("second_order", True)]
EACH = pytest.mark.parametrize("case", ZOO, ids=lambda c: c.name)
LIKELIHOODS = ("categorical", "bernoulli", "gaussian", "mse", "poisson", "heteroscedastic")


def close(found: Tensor, wanted: Tensor, tolerance: float = 1e-10) -> None:
    """Equal up to a tolerance relative to the size of what is wanted."""
    error = (found - wanted).norm() / wanted.norm().clamp_min(1e-12)
    assert error <= tolerance, f"relative error {error:.2e}"


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moved(model: nn.Module, step: Tensor) -> nn.Module:
    """The model with its trainable parameters moved along a flat vector."""
    with torch.no_grad():
        for tensor, part in zip(oracles.tensors_of(model), oracles.layout(model).values(), strict=True):
            tensor += step[part].view_as(tensor)
    return model


def direction_for(case: Case, seed: int) -> Tensor:
    """A random direction, zero on a padding row (a constant for autograd, whatever it holds)."""
    model = case.build()
    direction = random(size_of(model), seed=seed)
    if "padding" in case.covered:
        name, row = case.covered["padding"]  # type: ignore[misc]
        table = direction[oracles.layout(model)[name]].view_as(dict(model.named_parameters())[name])
        table[row] = 0
    return direction


def size_of(model: nn.Module) -> int:
    return sum(tensor.numel() for tensor in oracles.tensors_of(model))


# ---- the zoo itself ----


def test_the_zoo_is_large_and_its_members_are_small():
    names = [case.name for case in (*ZOO, *REFUSED, *EITHER)]
    assert len(ZOO) >= 40
    assert len(set(names)) == len(names)
    assert len({case.size for case in ZOO}) >= 4
    assert max(size_of(case.build()) for case in ZOO) <= 300


@EACH
def test_building_is_repeatable_and_leaves_the_global_generator_alone(case: Case):
    before = torch.get_rng_state()
    first, second = case.build(), case.build()
    assert torch.equal(before, torch.get_rng_state())
    for (name, a), b in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert not first.training
    assert all(not tensor.is_floating_point() or tensor.dtype == torch.float64 for tensor in first.parameters())


@EACH
def test_an_example_alone_has_the_output_it_has_in_a_batch(case: Case):
    model = case.build()
    for n in (1, 2, 5, 7):
        inputs, targets = case.batch(n)
        outputs = model(*inputs)
        assert outputs.shape[0] == targets.shape[0] == n
        assert outputs.isfinite().all()
        for i in range(n):
            close(model(*(x[i : i + 1] for x in inputs)), outputs[i : i + 1], 1e-12)


@EACH
def test_facts_of_a_case_are_true(case: Case):
    model, (inputs, targets) = case.build(), case.batch()
    frozen = tuple(name for name, tensor in model.named_parameters() if not tensor.requires_grad)
    assert frozen == case.covered.get("frozen", ())
    gradients = oracles.per_term_jacobian(model, None, inputs, lambda out: out.reshape(-1, 1)).abs().amax((0, 1))
    unused = {name for name, place in oracles.layout(model).items() if gradients[place].max() == 0}
    assert unused == set(case.covered.get("unused", ()))  # type: ignore[arg-type]
    rows = oracles.rows_of(model(*inputs), targets, case.likelihood)
    assert (len(rows.outputs) == len(targets)) == (case.terms == "one")


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_refused_cases_have_the_reason_they_state(case: Case):
    model, (inputs, _) = case.build(), case.batch(5)
    assert model.training == (case.reason == "training mode")
    with torch.random.fork_rng(devices=[]):
        output, again = model(*inputs), model(*(torch.cat([x[:1], x[1:].flip(1) + 1]) for x in inputs))
    depends = (output[0] - again[0]).abs().max() > 1e-6  # on the other examples, or on chance
    assert depends == (case.reason in ("training mode", "examples mixed"))
    graph = " ".join(_names_behind(output.grad_fn))
    assert ("CompiledFunction" in graph) == (case.reason == "compiled")
    assert ("CheckpointFunction" in graph) == (case.reason == "reentrant checkpoint")


def _names_behind(node) -> list[str]:
    if node is None:
        return []
    return [node.name(), *(name for before, _ in node.next_functions for name in _names_behind(before))]


# ---- likelihoods ----


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_output_curvature_by_formula_is_the_second_derivative_of_pytorchs_loss(likelihood):
    h, y = _rows(likelihood)
    close(oracles.output_curvature(h, likelihood), _second(h, y, likelihood), 1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_losses_are_negative_log_probabilities_up_to_a_constant_of_the_target(likelihood):
    h, y = _rows(likelihood)
    other = 0.7 * h - 0.3
    change = oracles.output_losses(h, y, likelihood) - oracles.output_losses(other, y, likelihood)
    wanted = _log_probability(other, y, likelihood) - _log_probability(h, y, likelihood)
    close(change, wanted, 1e-12)


def _rows(likelihood: str) -> tuple[Tensor, Tensor]:
    h = random(6, 2 if likelihood == "heteroscedastic" else 3)
    y = random(6, 1 if likelihood == "heteroscedastic" else 3, seed=1)
    if likelihood == "categorical":
        return h, torch.tensor([0, 1, 2, 2, 1, 0])
    if likelihood == "heteroscedastic":
        return torch.stack([h[:, 0], -h[:, 1].exp() - 0.1], 1), y
    return h, {"bernoulli": (y > 0).double(), "poisson": y.abs().round()}.get(likelihood, y)


def _second(h: Tensor, y: Tensor, likelihood: str) -> Tensor:
    return oracles.output_curvature_by_autograd(h, y, likelihood)


def _log_probability(h: Tensor, y: Tensor, likelihood: str) -> Tensor:
    made = torch.distributions
    if likelihood == "categorical":
        return made.Categorical(logits=h).log_prob(y)
    if likelihood == "bernoulli":
        return made.Bernoulli(logits=h).log_prob(y).sum(1)
    if likelihood == "poisson":
        return made.Poisson(h.exp()).log_prob(y).sum(1)
    if likelihood == "heteroscedastic":
        variance = -0.5 / h[:, 1]
        return made.Normal(h[:, 0] * variance, variance.sqrt()).log_prob(y[:, 0])
    scale = math.sqrt(h.shape[1] / 2) if likelihood == "mse" else 1.0
    return made.Normal(h, scale).log_prob(y).sum(1)


# ---- derivatives of networks ----


@EACH
def test_jacobian_times_a_direction_is_a_central_difference(case: Case):
    model, (inputs, targets) = case.build(), case.batch()
    direction = direction_for(case, 3)
    _, jacobian = oracles.terms_and_jacobian(model, inputs, targets, case.likelihood)
    outputs = []
    for step in (1e-6, -1e-6):
        out = moved(case.build(), step * direction)(*inputs)
        outputs.append(oracles.rows_of(out, targets, case.likelihood).outputs.detach())
    close(jacobian @ direction, (outputs[0] - outputs[1]) / 2e-6, 1e-7)


@EACH
def test_gradients_of_terms_examples_and_batch_agree(case: Case):
    model, (inputs, targets) = case.build(), case.batch()
    setting = (model, inputs, targets, case.likelihood)
    terms, examples = oracles.per_term_gradients(*setting), oracles.per_example_gradients(*setting)
    close(terms.mean(0), oracles.gradient(*setting), 1e-12)
    close(examples.sum(0), terms.sum(0), 1e-12)
    rows, jacobian = oracles.terms_and_jacobian(*setting)
    slopes = oracles.output_gradient(rows.outputs, rows.targets, case.likelihood)
    close(torch.einsum("ncp,nc->np", jacobian, slopes), terms, 1e-12)
    for i in range(len(targets)):
        alone = oracles.per_term_gradients(
            model, tuple(x[i : i + 1] for x in inputs), targets[i : i + 1], case.likelihood
        )
        close(alone.sum(0), examples[i], 1e-12)


@pytest.mark.parametrize("case", SECOND, ids=lambda c: c.name)
def test_hessian_is_symmetric_and_a_difference_of_gradients(case: Case):
    model, (inputs, targets) = case.build(), case.batch()
    matrix = oracles.hessian(model, inputs, targets, case.likelihood)
    close(matrix.T, matrix, 1e-12)
    direction = direction_for(case, 4)
    ends = [
        oracles.gradient(moved(case.build(), step * direction), inputs, targets, case.likelihood)
        for step in (1e-6, -1e-6)
    ]
    close(matrix @ direction, (ends[0] - ends[1]) / 2e-6, 1e-6)


def test_hessian_by_pytorchs_own_fused_weight_norm_would_be_wrong():
    case = by_name("weight_norm")
    v, g = random(3, 4).requires_grad_(), random(3, 1, seed=1).requires_grad_()
    assert case.covered["fused_weight_norm"]
    close(oracles.plain_weight_norm(v, g, 0), torch._weight_norm(v, g, 0), 1e-14)
    assert torch.autograd.gradgradcheck(lambda v, g: oracles.plain_weight_norm(v, g, 0), (v, g))


# ---- curvature ----


@pytest.mark.parametrize("case", [c for c in ZOO if c.likelihood in ("categorical", "bernoulli")], ids=lambda c: c.name)
def test_gauss_newton_is_the_fisher_matrix_by_enumeration_of_labels(case: Case):
    model, (inputs, targets) = case.build(), case.batch()
    setting = (model, inputs, targets, case.likelihood)
    close(oracles.ggn(*setting), oracles.fisher_by_enumeration(*setting), 1e-12)


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli", "gaussian", "mse", "poisson"])
def test_gauss_newton_of_a_linear_model_is_its_hessian_and_a_mean_of_kronecker_products(likelihood):
    model = nn.Linear(4, 3, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(random(3, 4, seed=5))
    x, (_, y) = random(6, 4), _rows(likelihood)
    matrix = oracles.ggn(model, (x,), y, likelihood)
    close(matrix, oracles.hessian(model, (x,), y, likelihood), 1e-12)
    curvature = oracles.output_curvature(x @ model.weight.T, likelihood)
    close(matrix, sum(torch.kron(c, torch.outer(a, a)) for c, a in zip(curvature, x, strict=True)) / 6, 1e-12)


def test_relu_blocks_of_the_hessian_are_those_of_gauss_newton_and_the_others_are_not():
    case = by_name("mlp_relu")
    model, (inputs, targets) = case.build(), case.batch()
    setting = (model, inputs, targets, case.likelihood)
    h, g, places = oracles.hessian(*setting), oracles.ggn(*setting), oracles.layout(model)
    for place in places.values():
        close(h[place, place], g[place, place], 1e-12)
    first, last = next(iter(places.values())), list(places.values())[-2]
    assert (h - g)[first, last].norm() > 1e-3 * g[first, last].norm()


def test_empirical_fisher_squares_the_sum_over_an_examples_terms():
    case = by_name("gpt")
    model, (inputs, targets) = case.build(), case.batch(2)
    terms = oracles.per_term_gradients(model, inputs, targets, case.likelihood)
    sums = torch.stack([terms[:3].sum(0), terms[3:].sum(0)])
    found = oracles.empirical_fisher(model, inputs, targets, case.likelihood)
    close(found, (torch.outer(sums[0], sums[0]) + torch.outer(sums[1], sums[1])) / 6, 1e-12)


def test_ignored_terms_leave_no_trace():
    case = by_name("pixels_ignored")
    model, (inputs, targets) = case.build(), case.batch()
    rows, jacobian = oracles.terms_and_jacobian(model, inputs, targets, case.likelihood)
    assert len(jacobian) == (targets != -100).sum() < targets.numel()
    log_p = model(*inputs).log_softmax(1)
    picked = log_p.gather(1, targets.clamp_min(0)[:, None])[:, 0][targets != -100]
    close(oracles.mean_loss(model, inputs, targets, case.likelihood), -picked.mean(), 1e-12)
    example = torch.arange(len(targets))[:, None, None].expand_as(targets)[targets != -100]
    assert torch.equal(rows.example, example)


def test_weights_are_repetitions():
    case = by_name("mlp")
    model, (inputs, targets) = case.build(), case.batch(3)
    weights, again = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 1, 2, 2, 2])
    repeated = (model, (inputs[0][again],), targets[again], case.likelihood)
    for matrix in (oracles.ggn, oracles.empirical_fisher):
        close(matrix(model, inputs, targets, case.likelihood, weights=weights), matrix(*repeated), 1e-12)


def test_two_class_axes_are_refused():
    with pytest.raises(ValueError, match="two class axes fit"):
        oracles.rows_of(torch.zeros(2, 3, 3), torch.zeros(2, 3, dtype=torch.long), "categorical")
    with pytest.raises(ValueError, match="no class axis fits"):
        oracles.rows_of(torch.zeros(2, 3, 4), torch.zeros(2, 5, dtype=torch.long), "categorical")


# ---- Kronecker factors ----


def test_one_example_with_one_position_makes_both_kinds_of_factors_exact():
    a, c = random(1, 1, 3), random(2, 1, 1, 4, seed=1)
    columns = torch.stack([torch.outer(k[0, 0], oracles.with_ones(a)[0, 0]).reshape(-1) for k in c])
    for factors in (oracles.kfac_expand(a, c, bias=True), oracles.kfac_reduce(a, c, bias=True)):
        close(torch.kron(factors[1], factors[0]), columns.T @ columns, 1e-12)


def test_factors_by_loops():
    a, c = random(3, 5, 2), random(2, 3, 5, 4, seed=1)
    plain = [torch.outer(a[i, t], a[i, t]) for i in range(3) for t in range(5)]
    found_a, found_g = oracles.kfac_expand(a, c)
    close(found_a, sum(plain) / 15, 1e-12)
    squares = [torch.outer(c[k, i, t], c[k, i, t]) for k in range(2) for i in range(3) for t in range(5)]
    close(found_g, sum(squares) / 3, 1e-12)
    found_a, found_g = oracles.kfac_reduce(a, c)
    close(found_a, sum(torch.outer(a[i].mean(0), a[i].mean(0)) for i in range(3)) / 3, 1e-12)
    squares = [torch.outer(c[k, i].sum(0), c[k, i].sum(0)) for k in range(2) for i in range(3)]
    close(found_g, sum(squares) / 3, 1e-12)


def test_eigenvalue_correction_keeps_the_trace_and_is_nearer_than_the_product():
    a, c = random(6, 1, 3), random(2, 6, 1, 4, seed=1)
    columns = torch.einsum("knto,nti->knoi", c, a).reshape(-1, 12)
    block = columns.T @ columns / 6
    factor_a, factor_g = oracles.kfac_expand(a, c)
    u_a, u_g = torch.linalg.eigh(factor_a)[1], torch.linalg.eigh(factor_g)[1]
    values = oracles.ekfac_from_dense(block, u_g, u_a)
    basis = torch.kron(u_g, u_a)
    corrected = basis @ values.reshape(-1).diag() @ basis.T
    close(values.sum(), block.trace(), 1e-12)
    assert (block - corrected).norm() < (block - torch.kron(factor_g, factor_a)).norm()
    close(
        oracles.ekfac_from_dense(torch.kron(factor_g, factor_a), u_g, u_a).sum(),
        factor_a.trace() * factor_g.trace(),
        1e-12,
    )
