"""Gaussians by their precision: densities, draws, divergences, against torch.distributions and dense algebra."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence
from torch.testing import assert_close

import operator_zoo as zoo
from paraboloid.operators.base import LinearOperator
from paraboloid.operators.cg import NotConverged
from paraboloid.operators.decompositions import SingularError
from paraboloid.operators.dense import Dense
from paraboloid.operators.diagonal import Diagonal, identity
from paraboloid.operators.gaussian import Gaussian, place_noise

STANDARD_ERRORS = 5
DRAWS = 20_000
FEW = [
    "dense",
    "diagonal",
    "identity",
    "lowrank_shifted",
    "lowrank_plus_diagonal",
    "kronecker",
    "kronecker_pair",
    "kronecker_triple",
    "eigenkronecker_shifted",
    "blocks_shifted",
    "matrixfree",
    "inverse_lowrank",
]
BY_PRODUCTS = [name for name in zoo.DEFINITE if "matrixfree" in name]
STORED = [name for name in zoo.DEFINITE if name not in BY_PRODUCTS]
every_structure = pytest.mark.parametrize("name", zoo.DEFINITE)


@pytest.fixture
def s(device) -> zoo.Source:
    return zoo.Source(torch.float64, device)


def matrix_of(A: LinearOperator) -> Tensor:
    """The matrix in float64, column by column, from the product alone."""
    columns = [A @ column for column in torch.eye(A.size, dtype=A.dtype, device=A.device)]
    matrix = torch.stack(columns, 1).double()
    return (matrix + matrix.mT) / 2


def global_states(device: torch.device) -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def make(name: str, s: zoo.Source) -> Gaussian:
    A = zoo.DEFINITE[name](s)
    return Gaussian(s.normal(A.size), A)


def dense(q: Gaussian) -> MultivariateNormal:
    return MultivariateNormal(q.mean.double(), precision_matrix=matrix_of(q.precision))


def assert_same(found: Tensor, expected: Tensor) -> None:
    """To 1e-10 of the largest entry."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert_close(found, expected, rtol=0, atol=1e-10 * max(1.0, float(expected.abs().max())))


def sampled_by(q: Gaussian) -> Tensor:
    """The matrix R of the sampler, one column per number of noise."""
    unit = torch.eye(q.root.shape[1], dtype=q.mean.dtype, device=q.mean.device)
    return place_noise(torch.zeros_like(q.mean), q.root, unit).mT


# ---------------------------------------------------------------------- against torch.distributions
@every_structure
def test_log_density_is_that_of_the_dense_normal_for_one_vector_and_for_rows(name, s):
    q, p = make(name, s), dense(make(name, zoo.Source(torch.float64, s.device)))
    x = s.normal(5, q.size)
    assert_same(q.log_prob(x), p.log_prob(x))
    assert_same(q.log_prob(x[0]), p.log_prob(x[0]))
    assert q.log_prob(x[:0]).shape == (0,)


@every_structure
def test_entropy_and_marginal_variances_are_those_of_the_dense_normal(name, s):
    q = make(name, s)
    assert_same(q.entropy(), dense(q).entropy())
    assert_same(q.marginal_variance(), dense(q).variance)


@pytest.mark.parametrize("name", FEW)
def test_divergences_between_all_pairs_are_the_dense_closed_form(name, s):
    """(O.19)."""
    q = make(name, s)
    for other in FEW:
        r = make(other, s)
        assert_same(q.kl(r), kl_divergence(dense(q), dense(r)))


@pytest.mark.parametrize("name", FEW)
def test_divergence_from_itself_is_zero_and_from_a_shifted_one_the_square_of_the_shift(name, s):
    q, d = make(name, s), s.normal(12)
    assert abs(float(q.kl(q))) < 1e-10
    shifted = Gaussian(q.mean + d, q.precision)
    assert_same(q.kl(shifted), 0.5 * d @ matrix_of(q.precision) @ d)


def test_single_precision_loses_no_more_than_it_must(device):
    s = zoo.Source(torch.float32, device)
    for name in FEW:
        q = make(name, s)
        x = s.normal(5, q.size)
        assert q.log_prob(x).dtype == torch.float32
        assert_close(q.log_prob(x).double(), dense(q).log_prob(x.double()), rtol=1e-4, atol=1e-4)
        assert q.entropy().dtype == torch.float64
        assert_close(q.entropy(), dense(q).entropy(), rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------- draws
@every_structure
def test_the_sampler_is_a_linear_map_whose_square_is_the_inverse_of_the_precision(name, s):
    q = make(name, s)
    R = sampled_by(q)
    assert_same(R @ R.mT, torch.linalg.inv(matrix_of(q.precision)))
    assert_same(matrix_of(q.precision) @ R @ R.mT, torch.eye(q.size, device=s.device))


@every_structure
def test_draws_are_the_mean_and_the_linear_map_of_the_generators_normal_numbers(name, s, device):
    q = make(name, s)
    draws = q.sample(4, torch.Generator(device).manual_seed(3))
    noise = torch.randn(4, q.root.shape[1], generator=torch.Generator(device).manual_seed(3), device=device)
    assert_same(draws, q.mean + noise @ sampled_by(q).mT)


@every_structure
def test_moments_of_draws_lie_within_five_standard_errors(name, s, generator):
    q = make(name, s)
    C = torch.linalg.inv(matrix_of(q.precision))
    off = q.sample(DRAWS, generator) - q.mean
    assert bool((off.mean(0).abs() < STANDARD_ERRORS * (C.diagonal() / DRAWS).sqrt()).all())
    # Var(x_i x_j) = C_ii C_jj + C_ij²
    errors = ((torch.outer(C.diagonal(), C.diagonal()) + C.square()) / DRAWS).sqrt()
    assert bool(((off.mT @ off / DRAWS - C).abs() < STANDARD_ERRORS * errors).all())


def test_one_seed_is_one_draw_and_the_global_generator_is_not_touched(s, device):
    q, before = make("kronecker", s), global_states(device)
    draws = [q.sample(3, torch.Generator(device).manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert all(map(torch.equal, global_states(device), before))
    assert q.sample(0, torch.Generator(device)).shape == (0, 12)


# ---------------------------------------------------------------------- other forms of the same
@every_structure
@pytest.mark.parametrize("temperature", [0.5, 7.0])
def test_tempering_multiplies_the_covariance_and_flattens_the_log_density(name, temperature, s):
    q = make(name, s)
    hot, x = q.tempered(temperature), s.normal(2, q.size)
    assert_same(matrix_of(hot.precision), matrix_of(q.precision) / temperature)
    assert_same(hot.marginal_variance(), q.marginal_variance() * temperature)
    assert_same(hot.log_prob(x).diff() * temperature, q.log_prob(x).diff())
    assert torch.equal(hot.mean, q.mean)


@pytest.mark.parametrize("name", STORED)
def test_another_dtype_is_the_same_distribution(name, s):
    q = make(name, s)
    single = q.to(torch.float32)
    assert single.mean.dtype == single.precision.dtype == torch.float32
    assert type(single.precision) is type(q.precision)
    x = s.normal(3, q.size)
    assert_close(single.log_prob(x.float()).double(), q.log_prob(x), rtol=1e-4, atol=1e-4)
    assert_same(q.to(torch.float64).log_prob(x), q.log_prob(x))


def test_another_device_by_name_or_by_object(s, device):
    q = make("kronecker_shifted", s)
    for target in (device, str(device)):
        moved = q.to(target)
        assert moved.mean.device == moved.precision.device == q.mean.device
        assert_same(moved.log_prob(q.mean), q.log_prob(q.mean))
    away = q.to("meta")
    assert away.mean.device.type == away.precision.device.type == "meta"


@pytest.mark.parametrize("name", STORED)
def test_saving_and_loading_gives_the_same_numbers(name, s, device, tmp_path):
    q = make(name, s)
    q.save(tmp_path / "q.safetensors")
    loaded = Gaussian.load(tmp_path / "q.safetensors", device)
    assert type(loaded.precision) is type(q.precision)
    assert torch.equal(loaded.mean, q.mean)
    assert torch.equal(loaded.precision.dense(), q.precision.dense())
    generators = [torch.Generator(device).manual_seed(5) for _ in range(2)]
    assert torch.equal(loaded.sample(3, generators[0]), q.sample(3, generators[1]))


def test_a_precision_of_one_number_stays_one_when_moved_saved_and_loaded(s, device, tmp_path):
    n, file = 100_000, tmp_path / "q.safetensors"
    q = Gaussian(torch.zeros(n, device=device), 3 * identity(n, device=device))
    q.save(file)
    assert file.stat().st_size < q.mean.nbytes + 10_000
    for other in (q, q.to(torch.float32), Gaussian.load(file, device)):
        assert other.precision.constant
        assert other.precision.nbytes == other.precision.dtype.itemsize


@pytest.mark.parametrize("name", BY_PRODUCTS)
def test_precisions_known_by_products_can_be_neither_moved_nor_saved(name, s, tmp_path):
    q = make(name, s)
    with pytest.raises(TypeError, match="can be neither moved nor saved"):
        q.to(torch.float32)
    with pytest.raises(TypeError, match="can be neither moved nor saved"):
        q.save(tmp_path / "q.safetensors")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- what is refused
def test_means_that_do_not_fit_are_refused(s, device):
    A = s.kronecker()
    for mean, error, message in [
        (s.normal(1, 12), ValueError, r"`mean` should have shape \(P,\), found \(1, 12\)"),
        (s.normal(11), ValueError, r"the precision acts on vectors of shape \(12,\) or \(12, K\), found \(11,\)"),
        (s.normal(12).float(), TypeError, "the precision has dtype torch.float64, the vectors torch.float32"),
        (torch.zeros(12, device="meta"), ValueError, f"the precision is on {device.type}.*, the vectors on meta"),
    ]:
        with pytest.raises(error, match=message):
            Gaussian(mean, A)


def test_a_matrix_is_no_precision(s):
    with pytest.raises(TypeError, match="`precision` should be a LinearOperator, found Tensor"):
        Gaussian(s.normal(12), s.definite(12))


def test_points_that_do_not_fit_are_refused(s):
    q = make("kronecker", s)
    for x in (s.normal(11), s.normal(12, 5), s.normal(2, 3, 12), s.normal()):
        with pytest.raises(ValueError, match=r"`x` should have shape \(12,\) or \(K, 12\), found"):
            q.log_prob(x)


def test_draws_without_a_generator_of_the_right_device_are_refused(s, device):
    q = make("kronecker", s)
    for missing in (None, 0):
        with pytest.raises(TypeError, match=rf"`sample` needs a torch.Generator, found {type(missing).__name__}"):
            q.sample(3, missing)
    elsewhere = Gaussian(torch.zeros(2, device="meta"), Diagonal(torch.ones(2, device="meta")))
    with pytest.raises(ValueError, match="should live where the draws are needed, on meta; found one on"):
        elsewhere.sample(3, torch.Generator(device))


def test_divergences_between_sizes_are_refused(s):
    q, smaller = make("kronecker", s), make("lowrank_full", s)
    with pytest.raises(ValueError, match="both Gaussians should have one size, found 12 and 5"):
        q.kl(smaller)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperatures_are_positive(temperature, s):
    with pytest.raises(ValueError, match=f"temperature should be positive, found {temperature}"):
        make("kronecker", s).tempered(temperature)


def test_files_of_other_kinds_are_refused(s, tmp_path):
    s.kronecker().save(tmp_path / "operator.safetensors")
    with pytest.raises(ValueError, match="should hold a Gaussian, found 'operator'"):
        Gaussian.load(tmp_path / "operator.safetensors")


@pytest.mark.parametrize("name", zoo.SINGULAR | zoo.INDEFINITE)
def test_precisions_that_are_not_definite_are_no_density(name, s, generator):
    A = (zoo.SINGULAR | zoo.INDEFINITE)[name](s)
    q = Gaussian(s.normal(A.size), A)
    proper = Gaussian(q.mean, Dense(s.definite(A.size)))
    for ask in (
        lambda: q.log_prob(q.mean),
        lambda: q.sample(2, generator),
        q.entropy,
        lambda: q.kl(proper),
        lambda: proper.kl(q),
    ):
        with pytest.raises((SingularError, NotConverged), match="Add damping"):
            ask()
