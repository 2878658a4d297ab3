"""Rewards of arms, and the wheel."""

import math

import pytest
import torch

from paraboloid.datasets import Rewards, wheel
from paraboloid.datasets.bandits import classification_rewards


def test_a_reward_is_one_of_two_outcomes_by_a_fair_coin(device, generator):
    rewards = Rewards(torch.tensor([[[0.0, 0.0], [5.0, -35.0]]])).to(device)
    n = 20_000
    labels, arms = torch.zeros(n, dtype=torch.long, device=device), torch.ones(n, dtype=torch.long, device=device)
    drawn = rewards.draw(labels, arms, generator)
    assert set(drawn.unique().tolist()) == {5.0, -35.0}
    assert abs(drawn.mean() + 15) < 5 * 20 / math.sqrt(n)
    assert rewards.expected(labels[:1]).tolist() == [[0.0, -15.0]]


def test_noise_is_added_with_the_sd_it_has(device, generator):
    rewards = Rewards(torch.zeros(1, 1, 2, device=device), noise_sd=0.5)
    labels = torch.zeros(20_000, dtype=torch.long, device=device)
    drawn = rewards.draw(labels, labels, generator).double()
    assert abs(drawn.var() / 0.25 - 1) < 5 * math.sqrt(2 / 20_000)


def test_the_right_class_pays_1_and_the_others_nothing(generator):
    rewards = classification_rewards(4).to(generator.device)
    labels = torch.arange(4, device=generator.device)
    assert torch.equal(rewards.expected(labels), torch.eye(4, dtype=torch.float32, device=generator.device))
    assert rewards.draw(labels, labels.flip(0), generator).tolist() == [0, 0, 0, 0]
    assert rewards.draw(labels, labels, generator).tolist() == [1, 1, 1, 1]


def test_the_wheel_s_contexts_are_uniform_in_the_disk():
    bandit = wheel(num=40_000, delta=0.5)
    radius = bandit.contexts.double().norm(dim=1)
    assert radius.max() <= 1
    for r in (0.3, 0.5, 0.9):
        p = r**2
        assert abs((radius < r).double().mean() - p) < 5 * math.sqrt(p * (1 - p) / 40_000)
    assert bandit.contexts.double().mean(0).abs().max() < 5 * 0.5 / math.sqrt(40_000)


def test_the_wheel_pays_50_only_outside_in_the_quadrant_of_the_arm():
    bandit = wheel(num=5000, delta=0.7)
    expected = torch.ones(5000, 5)
    expected[:, 0] = 1.2
    for n, (x1, x2) in enumerate(bandit.contexts.tolist()):
        if math.hypot(x1, x2) > 0.7:
            arm = {(True, True): 1, (True, False): 2, (False, True): 3, (False, False): 4}[x1 > 0, x2 > 0]
            expected[n, arm] = 50
    assert torch.allclose(bandit.rewards.expected(bandit.labels).double(), expected)
    assert bandit.rewards.noise_sd == 0.01
    assert (len(bandit), len(bandit.arms), len(bandit.columns)) == (5000, 5, 2)


def test_everything_of_a_bandit_moves_to_a_device():
    bandit = wheel(num=10).to("meta")
    assert bandit.contexts.is_meta and bandit.labels.is_meta
    assert bandit.rewards.outcomes.is_meta and bandit.normalise.mean.is_meta


def test_rewards_are_drawn_with_a_generator_of_their_device():
    with pytest.raises(TypeError, match="`generator` should be a torch.Generator"):
        classification_rewards(2).draw(torch.zeros(1), torch.zeros(1), 3)
    with pytest.raises(TypeError, match="found None: without one every call would draw the same"):
        classification_rewards(2).draw(torch.zeros(1), torch.zeros(1), None)
