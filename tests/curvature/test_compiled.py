"""Compiled models give the number of the eager ones, or are refused by name; never another number."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from cases import by_name
from curvature.situations import ASKED, Posed, answer, on, relative
from paraboloid import Curvature, UncoveredError, curvature


def _whole(model: nn.Module, backend: str) -> nn.Module:
    return torch.compile(model, backend=backend)  # type: ignore[return-value]


def _in_place(model: nn.Module, backend: str) -> nn.Module:
    model.compile(backend=backend)
    return model


def _in_part(model: nn.Module, backend: str) -> nn.Module:
    for name, child in list(model.named_children())[-1:]:
        setattr(model, name, torch.compile(child, backend=backend))
    return model


WAYS: dict[str, Callable[[nn.Module, str], nn.Module]] = {
    "whole": _whole, "in_place": _in_place, "in_part": _in_part,
}  # fmt: skip


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Without compiled graphs of other tests; a compiler that gives up would run the eager model."""
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.compiler.reset()


def refused_or(wanted: Tensor, fit: Callable[[], Curvature]) -> bool:
    """Whether the fit is refused as compiled; if it is not, it has to be right."""
    try:
        found = answer(fit())
    except UncoveredError as refusal:
        return "ompile" in str(refusal)
    assert relative(found, wanted) < 1e-12
    return False


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_is_right_or_refused_by_name(backend, way, device, fresh_compiler):
    posed = Posed(by_name("mlp"), device)
    wanted = [answer(posed.fit(asked)) for asked in ASKED]
    model, data = WAYS[way](posed.model, backend), posed.data()
    refused = [
        refused_or(expected, lambda asked=asked: curvature(model, data, likelihood="categorical", **asked))
        for asked, expected in zip(ASKED, wanted, strict=True)
    ]
    assert not any(refused) or backend == "aot_eager"


@on("lenet_max", "lstm_tokens", "attention")
def test_a_compiled_model_of_another_kind_is_right_or_refused_by_name(case, device, fresh_compiler):
    for backend, structure in product(("eager", "aot_eager"), ("kronecker", "products")):
        posed = Posed(case, device)
        wanted = answer(posed.fit({"structure": structure}))
        model, data = _whole(posed.model, backend), posed.data()
        refused_or(wanted, lambda m=model, d=data, s=structure: curvature(m, d, likelihood="categorical", structure=s))
