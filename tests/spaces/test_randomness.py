"""Generators: private, on the right device, and nothing global is touched."""

import pytest
import torch

from paraboloid.spaces.randomness import (
    as_generator,
    default_generator,
    normal,
    preserved_random_state,
    rademacher,
)


def test_the_same_call_gives_the_same_numbers_and_leaves_the_global_state(device):
    state = torch.get_rng_state()
    assert torch.equal(normal((5,), device=device), normal((5,), device=device))
    assert torch.equal(rademacher((5,), device=device), rademacher((5,), device=device))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_default_generator_is_new_each_time_and_seeded_0(device):
    first, second = default_generator(device), default_generator(device)
    assert first is not second
    assert first.initial_seed() == 0
    assert torch.equal(torch.rand(3, generator=first, device=device), torch.rand(3, generator=second, device=device))


def test_a_given_generator_is_used_and_moves_on(device, generator):
    assert as_generator(generator, device) is generator
    assert not torch.equal(normal((5,), generator), normal((5,), generator))


def test_draws_follow_shape_dtype_and_the_generators_device(device, generator):
    for draw in (normal, rademacher):
        x = draw((2, 3), generator, torch.float32)
        assert x.shape == (2, 3)
        assert x.dtype == torch.float32
        assert x.device.type == device.type
        assert draw((), generator).dtype == torch.get_default_dtype()


def test_signs_are_fair(generator):
    """Five standard errors of a mean of 10 000 signs."""
    signs = rademacher((10_000,), generator)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(signs.mean().item()) < 5 / 100


def test_a_generator_elsewhere_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r'on meta; found one on cpu. Make one by torch.Generator\("meta"\)'):
        as_generator(torch.Generator(), "meta")
    with pytest.raises(TypeError, match="torch.Generator, found int"):
        as_generator(3, "cpu")


def test_the_global_state_comes_back_also_after_an_exception(device):
    def draws_and_fails():
        with preserved_random_state(device):
            torch.rand(3)
            torch.rand(3, device=device)
            raise ZeroDivisionError

    state = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        draws_and_fails()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_states_of_the_device_come_back(device):
    with preserved_random_state(device):
        first = torch.rand(3, device=device)
    with preserved_random_state(device):
        assert torch.equal(torch.rand(3, device=device), first)
