"""In every exactness setting the exact block is one Kronecker product; the hook factors of Linears agree."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import kronecker_oracle
import oracles
from curvature.equivalences import EQUIVALENCES, Equivalence, exactness
from curvature.exact_settings import Block, Exact

SETTINGS = exactness()
EACH = pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
HOOKED = [s for s in SETTINGS if s.name.startswith(("one_example_softmax", "one_example_pois", "deep", "last_l"))]
POOLED = [s for s in SETTINGS if s.name.startswith("pooled_linear")]


def relative(found: Tensor, wanted: Tensor) -> float:
    return float(((found - wanted).norm() / wanted.norm().clamp_min(1e-12)).detach())


def exact_block(setting: Exact, block: Block) -> Tensor:
    """The dense Gauss-Newton matrix of the block's elements, in their order."""
    model = setting.build()
    matrix = oracles.ggn(model, setting.inputs, setting.targets, setting.likelihood)
    layout = oracles.layout(model)
    rows = torch.cat([torch.arange(layout[name].start, layout[name].stop) for name in block.names])
    rows = rows if block.index is None else rows[block.index]
    return matrix[rows][:, rows]


def rearranged(matrix: Tensor, outputs: int, inputs: int) -> Tensor:
    """Van Loan's rearrangement: a Kronecker product G ⊗ A becomes the rank-one matrix vec(G)vec(A)ᵀ."""
    return matrix.reshape(outputs, inputs, outputs, inputs).transpose(1, 2).reshape(outputs**2, inputs**2)


def joint_order(matrix: Tensor, outputs: int) -> Tensor:
    """From (weight by rows, bias) to (out, in + 1) by rows."""
    inputs = len(matrix) // outputs - 1
    weight = torch.arange(outputs * inputs).reshape(outputs, inputs)
    bias = torch.arange(outputs * inputs, len(matrix))[:, None]
    order = torch.cat([weight, bias], 1).reshape(-1)
    return matrix[order][:, order]


def is_product(matrix: Tensor, outputs: int) -> bool:
    values = torch.linalg.svdvals(rearranged(matrix, outputs, len(matrix) // outputs))
    return bool((values[1:] <= 1e-12 * values[0]).all())


@EACH
def test_exact_blocks_are_kronecker_products(setting: Exact):
    model = setting.build()
    for block in setting.blocks:
        matrix, first = exact_block(setting, block), model.get_parameter(block.names[0])
        assert matrix.norm() > 1e-8
        if len(block.names) == 1:
            assert is_product(matrix, len(first))
        elif "transpose" in setting.name and block.names[0] != "head.weight":
            assert is_product(*_transposed(matrix, first))
        else:
            bias = model.get_parameter(block.names[1])
            outputs = len(bias) if block.index is None else int((block.index >= first.numel()).sum())
            assert is_product(joint_order(matrix, outputs), outputs)


def _transposed(matrix: Tensor, weight: Tensor) -> tuple[Tensor, int]:
    """The block of a transposed convolution (in, out, *kernel) with the output channel first."""
    inside, outside = weight.shape[:2]
    order = torch.arange(weight.numel()).reshape(inside, outside, -1).transpose(0, 1).reshape(-1)
    order = torch.cat([order, torch.arange(weight.numel(), len(matrix))])
    return joint_order(matrix[order][:, order], outside), outside


@pytest.mark.parametrize("setting", [*HOOKED, *POOLED], ids=lambda s: s.name)
def test_factors_by_hooks_are_exact_where_they_should_be(setting: Exact):
    model = setting.build()
    for sharing in setting.sharings:
        factors = kronecker_oracle.kronecker_factors(
            model, setting.inputs, setting.targets, setting.likelihood, sharing
        )
        for block in setting.blocks:
            a, g = factors[block.names[0].rsplit(".", 1)[0]]
            found = kronecker_oracle.stored_block(a, g, bias=len(block.names) == 2)
            assert relative(found, exact_block(setting, block)) < 1e-11


def test_factors_by_hooks_are_not_exact_where_they_should_not_be():
    setting = next(s for s in SETTINGS if s.name == "pooled_linear_mean")
    factors = kronecker_oracle.kronecker_factors(
        setting.build(), setting.inputs, setting.targets, setting.likelihood, "expand"
    )
    found = kronecker_oracle.stored_block(*factors["inner"], bias=True)
    assert relative(found, exact_block(setting, setting.blocks[0])) > 0.1


@pytest.mark.parametrize("sharing", ["expand", "reduce"])
@pytest.mark.parametrize("pair", [e for e in EQUIVALENCES if e.copies], ids=lambda e: e.name)
def test_statistics_of_copies_add_up_to_those_of_the_reused_layer(pair: Equivalence, sharing: str):
    left, right = pair.build()
    a, g = _factors(left, pair, sharing)["step"]
    copies = [_factors(right, pair, sharing)[f"steps.{i}"] for i in range(len(right.get_submodule("steps")))]  # type: ignore[arg-type]
    lengths = [1] * 3 if pair.name == "reused_linear" else [4, 2]
    if sharing == "expand":
        both = [
            sum(a * t for (a, _), t in zip(copies, lengths, strict=True)) / sum(lengths),
            sum(g for _, g in copies),
        ]
        assert relative(a, both[0]) < 1e-13
        assert relative(g, both[1]) < 1e-13
    else:  # the sums over positions meet before they are squared: the factors of copies do not add up
        assert relative(g, sum(g for _, g in copies)) > 1e-3


def _factors(model: nn.Module, pair: Equivalence, sharing: str) -> kronecker_oracle.Factors:
    return kronecker_oracle.kronecker_factors(model, pair.inputs, pair.targets, pair.likelihood, sharing)
