"""Random estimates: unbiased, reproducible, and with standard errors that mean what they say."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import operator_zoo as zoo
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal
from paraboloid.operators.estimates import (
    estimate_diagonal,
    estimate_frobenius,
    estimate_logdet,
    estimate_trace,
)
from paraboloid.operators.kronecker import Kronecker
from paraboloid.operators.lowrank import LowRank
from paraboloid.operators.matrixfree import MatrixFree

SEEDS = 1000
SAMPLES = 100  # more than one chunk of 32
STANDARD_ERRORS = 5


def global_states(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def logarithm(M: Tensor) -> Tensor:
    values, U = torch.linalg.eigh(M)
    return (U * values.log()) @ U.mT


def form_variance(M: Tensor) -> Tensor:
    """Var(zᵀMz) = 2 Σ_{i≠j} M_ij² for random signs z: M_ii z_i² is no noise at all (O.20)."""
    return 2 * (M.square().sum() - M.diagonal().square().sum())


class Quantity(NamedTuple):
    """An estimate and what dense algebra says: the truth, one probe's share, and the variance of that share.

    `unbiased` is the function of the estimate that a mean over probes estimates; only for the Frobenius norm
    is it not the estimate itself.
    """

    estimate: Callable
    truth: Callable[[Tensor], Tensor]
    share: Callable[[Tensor, Tensor], Tensor]
    variance: Callable[[Tensor], Tensor]
    unbiased: Callable[[Tensor], Tensor] = lambda value: value


QUANTITIES = {
    "trace": Quantity(
        estimate_trace,
        torch.trace,
        lambda M, z: z @ M @ z,
        form_variance,
    ),
    "diagonal": Quantity(  # Var(z_i (Mz)_i) = Σ_{j≠i} M_ij² (O.21)
        estimate_diagonal,
        torch.diagonal,
        lambda M, z: z * (M @ z),
        lambda M: M.square().sum(1) - M.diagonal().square(),
    ),
    "frobenius": Quantity(  # of the square, Var(zᵀM²z) (O.22)
        estimate_frobenius,
        torch.linalg.matrix_norm,
        lambda M, z: (M @ z).square().sum(),
        lambda M: form_variance(M @ M),
        torch.square,
    ),
    "logdet": Quantity(  # (O.23)
        estimate_logdet,
        torch.logdet,
        lambda M, z: z @ logarithm(M) @ z,
        lambda M: form_variance(logarithm(M)),
    ),
}
OPERATORS: dict[str, zoo.Maker] = {
    "dense": lambda s: Dense(s.definite(8)),
    "kronecker": lambda s: Kronecker(s.definite(2), s.definite(4)),
    "lowrank_shifted": lambda s: LowRank(s.normal(8, 4)) + 0.3,
}
every_quantity = pytest.mark.parametrize("name", QUANTITIES)
every_operator = pytest.mark.parametrize("operator", OPERATORS)


@pytest.fixture
def s(device) -> zoo.Source:
    return zoo.Source(torch.float64, device)


class Runs(NamedTuple):
    """What 1,000 seeds gave, (1000, …), beside the matrix."""

    values: Tensor
    errors: Tensor
    matrix: Tensor

    def scores(self, truth: Tensor) -> Tensor:
        """Errors in units of the reported standard error, one column per estimated number."""
        return ((self.values - truth) / self.errors).reshape(SEEDS, -1)


@cache
def runs(name: str, operator: str, device: torch.device) -> Runs:
    A = OPERATORS[operator](zoo.Source(torch.float64, device))
    generator = torch.Generator(device)
    found = [QUANTITIES[name].estimate(A, SAMPLES, generator.manual_seed(seed)) for seed in range(SEEDS)]
    return Runs(torch.stack([e.value for e in found]), torch.stack([e.standard_error for e in found]), A.dense())


def assert_mean(draws: Tensor, expected: Tensor) -> None:
    """The mean over seeds is the expected one, as far as so many seeds can tell."""
    off = (draws.mean(0) - expected).abs() / (draws.std(0) / SEEDS**0.5)
    assert float(off.max()) < STANDARD_ERRORS


# ---------------------------------------------------------------------- what a standard error promises
@every_operator
@every_quantity
def test_truth_lies_within_five_of_its_own_standard_errors(name, operator, device):
    found = runs(name, operator, device)
    scores = found.scores(QUANTITIES[name].truth(found.matrix))
    assert float((scores.abs() < STANDARD_ERRORS).double().mean()) >= 0.99


@every_operator
@every_quantity
def test_errors_in_units_of_the_standard_error_have_variance_one(name, operator, device):
    found = runs(name, operator, device)
    variance = found.scores(QUANTITIES[name].truth(found.matrix)).var(0)
    assert float(variance.min()) >= 0.8
    assert float(variance.max()) <= 1.25


@every_operator
@every_quantity
def test_reported_standard_errors_are_those_of_the_theory(name, operator, device):
    found, quantity = runs(name, operator, device), QUANTITIES[name]
    theory = (quantity.variance(found.matrix) / SAMPLES).sqrt()
    if name == "frobenius":
        theory = theory / (2 * quantity.truth(found.matrix))
    assert bool((found.errors.mean(0) <= 1.5 * theory).all())
    assert bool((found.errors.mean(0) >= theory / 1.5).all())


@every_operator
@every_quantity
def test_means_over_probes_and_their_squared_standard_errors_are_unbiased(name, operator, device):
    found, quantity = runs(name, operator, device), QUANTITIES[name]
    slope = 2 * found.values if name == "frobenius" else 1.0  # back from the root to the square
    assert_mean(quantity.unbiased(found.values), quantity.unbiased(quantity.truth(found.matrix)))
    assert_mean((slope * found.errors).square(), quantity.variance(found.matrix) / SAMPLES)


# ---------------------------------------------------------------------- probes and chunks
@every_quantity
def test_chunks_of_probes_make_one_mean_and_one_standard_error(name, s, generator):
    M, asked = s.definite(6), []

    def multiply(X: Tensor) -> Tensor:
        asked.append(X.clone())
        return M @ X

    quantity = QUANTITIES[name]
    found = quantity.estimate(MatrixFree(6, multiply, device=M.device), 70, generator)
    blocks = asked[::6] if name == "logdet" else asked  # Lanczos asks six times for every block
    assert [X.shape[1] for X in blocks] == [32, 32, 6]
    probes = torch.cat(blocks, 1).sign()
    assert bool((probes.abs() == 1).all())

    shares = torch.stack([quantity.share(M, z) for z in probes.mT])
    value, error = shares.mean(0), shares.std(0) / 70**0.5
    if name == "frobenius":
        value, error = value.sqrt(), error / (2 * value.sqrt())
    torch.testing.assert_close(found.value, value, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.standard_error, error, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["trace", "diagonal", "frobenius"])
def test_probes_that_were_used_are_not_held(name, device, generator):
    earlier: list[weakref.ref] = []

    def multiply(X: Tensor) -> Tensor:
        assert not any(probe() is not None for probe in earlier), "all probes at once would be (P, samples)"
        earlier.append(weakref.ref(X))
        return 2 * X

    QUANTITIES[name].estimate(MatrixFree(6, multiply, device=device), 70, generator)
    assert len(earlier) == 3


@every_quantity
def test_random_signs_make_diagonal_operators_exact(name, s, generator):
    A = Diagonal(s.positive(6))
    found = QUANTITIES[name].estimate(A, 3, generator)
    torch.testing.assert_close(found.value, QUANTITIES[name].truth(A.dense()), rtol=1e-10, atol=1e-10)
    assert float(found.standard_error.max()) < 1e-10


# ---------------------------------------------------------------------- reproducible
@every_quantity
def test_one_seed_is_one_value(name, s, device):
    A, estimate = Dense(s.definite(6)), QUANTITIES[name].estimate
    values = [estimate(A, SAMPLES, torch.Generator(device).manual_seed(seed)).value for seed in (4, 4, 5)]
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


@every_quantity
def test_a_given_generator_moves_on_and_its_absence_means_a_fresh_one(name, s, generator):
    A, estimate = Dense(s.definite(6)), QUANTITIES[name].estimate
    given = [estimate(A, SAMPLES, generator).value for _ in range(2)]
    assert not torch.equal(given[0], given[1])
    alone = [estimate(A, SAMPLES).value for _ in range(2)]
    assert torch.equal(alone[0], alone[1])


@every_quantity
def test_the_global_generator_is_not_touched(name, s, device, generator):
    before = global_states(device)
    QUANTITIES[name].estimate(Dense(s.definite(6)), SAMPLES)
    QUANTITIES[name].estimate(Dense(s.definite(6)), SAMPLES, generator)
    assert all(map(torch.equal, global_states(device), before))


@every_quantity
def test_operators_answer_by_the_same_estimates(name, s):
    A = Dense(s.definite(6))
    found = getattr(A, f"estimate_{name}")(SAMPLES)
    assert torch.equal(found.value, QUANTITIES[name].estimate(A, SAMPLES).value)


@every_quantity
def test_estimates_of_single_precision_operators_are_float64(name, device, generator):
    A = Dense(zoo.Source(torch.float32, device).definite(6))
    found = QUANTITIES[name].estimate(A, SAMPLES, generator)
    assert found.value.dtype == found.standard_error.dtype == torch.float64
    assert found.value.device.type == device.type
    off = found.value - QUANTITIES[name].truth(A.dense().double())
    assert bool((off.abs() < STANDARD_ERRORS * found.standard_error).all())


# ---------------------------------------------------------------------- what is refused
@every_quantity
def test_bad_arguments_are_refused(name, s, device):
    A, estimate = Dense(s.definite(6)), QUANTITIES[name].estimate
    with pytest.raises(ValueError, match="`samples` should be at least 2, or no standard error exists; found 1"):
        estimate(A, 1)
    with pytest.raises(TypeError, match="`generator` should be a torch.Generator, found int"):
        estimate(A, 4, 0)
    elsewhere = Diagonal(torch.ones(3, device="meta"))
    with pytest.raises(ValueError, match="should live where the draws are needed, on meta; found one on"):
        estimate(elsewhere, 4, torch.Generator(device))


@pytest.mark.parametrize("name", ["trace", "diagonal", "frobenius"])
def test_zero_is_estimated_as_zero_without_doubt(name, device):
    found = QUANTITIES[name].estimate(Diagonal(torch.zeros(6, device=device)), 4)
    assert bool((found.value == 0).all())
    assert bool((found.standard_error == 0).all())


@pytest.mark.parametrize("operator", [*zoo.INDEFINITE, "dense_singular", "blocks_zero"])
def test_logdet_of_what_has_none_is_refused(operator, s):
    A = zoo.ALL[operator](s)
    with pytest.raises(ValueError, match=r"positive definite operator, found the Ritz value.*Add damping"):
        estimate_logdet(A, 8)


# ---------------------------------------------------------------------- too few steps
def ill(s: zoo.Source, condition: float) -> Dense:
    U, exponents = s.orthogonal(40), torch.linspace(0, 1, 40, device=s.device)
    return Dense((U * condition**-exponents) @ U.mT)


def test_gauss_rules_of_a_logarithm_come_down_to_it_from_above(s, generator):
    """(O.17): all even derivatives of log are negative, so every rule is too large, more steps are nearer."""
    A = ill(s, 1e4)
    rules = torch.stack([estimate_logdet(A, 8, generator.manual_seed(3), steps).value for steps in range(2, 41)])
    assert bool((rules.diff() < 1e-9).all())
    assert float(rules[0] - rules[-1]) > 50


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_too_few_steps_show_in_the_standard_error_of_a_logdet(condition, s, generator):
    """(O.23): otherwise probes that agree would vouch for a rule that is wrong for all of them."""
    A = ill(s, condition)
    truth = torch.logdet(A.matrix)
    for steps in range(2, 41):
        found = estimate_logdet(A, 64, generator.manual_seed(3), steps)
        assert float((found.value - truth).abs()) < STANDARD_ERRORS * float(found.standard_error), steps


def test_operators_pass_the_number_of_steps_on(s):
    A = ill(s, 1e4)
    few, more = (A.estimate_logdet(8, steps=steps).value for steps in (3, 6))
    assert torch.equal(few, estimate_logdet(A, 8, steps=3).value)
    assert not torch.equal(few, more)


def test_one_step_cannot_tell_whether_it_is_enough(s):
    with pytest.raises(ValueError, match="`steps` should be at least 2, .* found 1"):
        estimate_logdet(ill(s, 1e4), 8, steps=1)
