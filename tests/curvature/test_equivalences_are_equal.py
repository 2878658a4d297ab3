"""Both sides of every equivalence are one function, with the same exact curvature, in plain PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import oracles
from curvature.equivalences import EQUIVALENCES, Equivalence
from curvature.pairs import flat_of

EACH = pytest.mark.parametrize("pair", EQUIVALENCES, ids=lambda e: e.name)


def relative(found: Tensor, wanted: Tensor) -> float:
    return float(((found - wanted).norm() / wanted.norm().clamp_min(1e-12)).detach())


def positions(model: nn.Module, names: tuple[str, ...]) -> Tensor:
    """Where the named parameters lie in the flat vector."""
    places = oracles.layout(model)
    return torch.cat([torch.arange(places[name].start, places[name].stop) for name in names])


def test_names_are_different_and_every_parameter_is_matched():
    assert len({pair.name for pair in EQUIVALENCES}) == len(EQUIVALENCES)
    for pair in EQUIVALENCES:
        left, right = pair.build()
        for model, side in ((left, "left"), (right, "right")):
            matched = {name for match in pair.matches for name in getattr(match, side)}
            assert matched == set(oracles.names_of(model)), (pair.name, side)


@EACH
def test_both_sides_share_their_numbers_and_give_the_same_output(pair: Equivalence):
    left, right = pair.build()
    inputs, right_inputs = pair.both_inputs()
    wanted, found = left(*inputs), right(*right_inputs)
    assert wanted.shape == found.shape
    assert relative(found, wanted) < 1e-13
    for match in pair.matches:
        flat = flat_of(left, match.left)
        taken = flat if match.index is None else flat[match.index]
        assert torch.equal(match.scale * taken, flat_of(right, match.right))


@EACH
def test_exact_curvature_agrees_block_by_block_or_is_the_sum_over_copies(pair: Equivalence):
    left, right = pair.build()
    inputs, right_inputs = pair.both_inputs()
    exact = oracles.ggn(left, inputs, pair.targets, pair.likelihood)
    other = oracles.ggn(right, right_inputs, pair.targets, pair.likelihood)
    spread = torch.zeros(len(exact), len(other), dtype=exact.dtype)  # d(right) / d(left), transposed
    for match in pair.matches:
        mine = positions(left, match.left)
        mine = mine if match.index is None else mine[match.index]
        spread[mine, positions(right, match.right)] = match.scale
    assert relative(spread @ other @ spread.T, exact) < 1e-11
    if not pair.copies:
        assert (spread != 0).sum() == len(other)
        assert ((spread != 0).sum(1) <= 1).all()


@EACH
def test_networks_seen_by_hooks_are_made_of_linears(pair: Equivalence):
    _, right = pair.build()
    held = {f"{name}.{end}" for name, part in right.named_modules() if isinstance(part, nn.Linear)
            for end, _ in part.named_parameters()}  # fmt: skip
    assert (held == set(oracles.names_of(right))) == pair.by_hooks
