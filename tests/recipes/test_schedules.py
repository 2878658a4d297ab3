"""Schedules against values written out."""

import json
from dataclasses import asdict

import pytest

from paraboloid.recipes.config import from_json
from paraboloid.recipes.schedules import Schedule


def factors(schedule: Schedule, epochs: int, steps_per_epoch: int) -> list[float]:
    return [schedule.factor(step, steps_per_epoch) for step in range(epochs * steps_per_epoch)]


def test_without_parts_the_factor_is_one():
    assert factors(Schedule(), 3, 2) == [1.0] * 6


def test_the_warm_up_rises_by_equal_parts_and_ends_at_one():
    assert factors(Schedule(warmup=2), 3, 2) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert factors(Schedule(warmup=0.5), 1, 4) == [0.5, 1.0, 1.0, 1.0]


def test_drops_multiply_from_their_epoch_on():
    assert factors(Schedule(drops=(1, 3), drop=0.5), 4, 2) == [1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_drops_may_stand_within_an_epoch():
    assert factors(Schedule(drops=(0.5,), drop=0.5), 1, 4) == [1, 1, 0.5, 0.5]


def test_a_drop_then_a_decay_every_epoch_after_it():
    found = factors(Schedule(drops=(2,), drop=0.1, decay=0.5, decay_from=2), 5, 2)
    assert found == pytest.approx([1, 1, 1, 1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025])


def test_the_inverse_decay_counts_whole_epochs():
    assert factors(Schedule(inverse=0.5), 3, 2) == pytest.approx([1, 1, 1 / 1.5, 1 / 1.5, 1 / 2, 1 / 2])


def test_parts_multiply():
    assert Schedule(warmup=4, drops=(1,), drop=0.1, inverse=1).factor(2, 2) == pytest.approx(3 / 8 * 0.1 / 2)


def test_fractions_of_a_run_become_epochs_exactly():
    schedule = Schedule(warmup=0.05, drops=(0.5, 0.7), decay_from=0.5).over(10)
    assert schedule == Schedule(warmup=0.5, drops=(5, 0.7 * 10), decay_from=5)
    # 0.1 · 3 is a little more than 0.3: the drop still stands at step 3 of 10
    assert factors(Schedule(drops=(0.1,), drop=0.5).over(3), 1, 10) == [1] * 3 + [0.5] * 7


def test_a_schedule_goes_through_json():
    schedule = Schedule(warmup=10, drops=(100, 150), drop=0.1)
    assert from_json(Schedule, json.loads(json.dumps(asdict(schedule)))) == schedule


def test_times_and_factors_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="times and `inverse` should not be negative; found Schedule\\(warmup=-1"):
        Schedule(warmup=-1)
    with pytest.raises(ValueError, match="times and `inverse` should not be negative"):
        Schedule(drops=(-2,))
    with pytest.raises(ValueError, match="`drop` and `decay` should be positive factors"):
        Schedule(drop=0.0)
