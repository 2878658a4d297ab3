"""What a call used dies with it: graphs with their batch, model and data with the last thing that needs them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from cases import by_name
from curvature.situations import ASKED, EXACT, SUMMED, Posed, answer, each, on
from paraboloid import curvature


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_left_alone(device) -> Iterator[None]:
    """Looking for garbage is fast where all that was there before is left out."""
    # PyTorch loads parts of itself when forward mode first fails, and they hold on to that failure
    answer(Posed(by_name("lstm_projected"), device).fit({"structure": "products"}))
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def without_garbage_collection() -> Iterator[None]:
    """Whatever dies, dies because nothing refers to it: a cycle would hold a graph's memory for a long while."""
    gc.disable()
    yield
    gc.enable()


class Watched:
    """A network whose hidden outputs are followed: autograd's graph keeps them alive, and nothing else does."""

    def __init__(self, name: str, device: torch.device):
        self.posed = Posed(by_name(name), device)
        self.outputs: list[weakref.ref] = []
        self.hooks = [layer.register_forward_hook(self._see) for layer in self.posed.model.modules()]

    def _see(self, module: nn.Module, args: Any, out: Any) -> None:
        self.outputs.append(weakref.ref(out if isinstance(out, torch.Tensor) else out[0]))

    def alive(self) -> int:
        return sum(output() is not None for output in self.outputs)

    def batch(self) -> tuple:
        """A data set of a single batch, whose graph may be held for a while."""
        inputs, targets = self.posed.made[0]
        return inputs, targets


def test_a_graph_that_is_alive_is_seen(device):
    watched = Watched("mlp", device)
    out = watched.posed.model(watched.posed.made[0][0][0])
    assert watched.alive() >= 2
    del out
    assert watched.alive() == 0


@each(ASKED)
@on("mlp", "lstm_projected", "tied_embedding", "embedding_padding")
def test_graphs_die_with_their_batch_while_the_operator_lives(case, asked, device, without_garbage_collection):
    watched = Watched(case.name, device)
    ggn = watched.posed.fit(asked)
    answer(ggn)
    assert watched.outputs
    assert watched.alive() == 0
    assert ggn.num_data > 0


@each(EXACT)
@on("mlp", "lstm_projected", "weight_norm")
def test_the_graph_of_a_single_batch_is_held_by_products_alone(case, asked, device, without_garbage_collection):
    watched = Watched(case.name, device)
    model = watched.posed.model
    ggn = curvature(model, watched.batch(), likelihood=case.likelihood, **asked)
    answer(ggn)
    assert watched.alive() == 0 or asked["structure"] == "products"
    del ggn
    assert watched.alive() == 0


@each(EXACT)
@on("mlp", "lstm_projected")
def test_an_operator_of_its_own_holds_neither_model_nor_data(case, asked, device):
    posed = Posed(case, device)
    found = posed.fit(asked).operator
    references = [weakref.ref(thing) for thing in (posed.model, *posed.model.parameters(), *posed.tensors())]
    if asked["structure"] == "products":  # products go through the data with the model, as long as they are wanted
        assert all(reference() is not None for reference in references)
        del found
    del posed
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []


@each(SUMMED)
def test_an_operator_is_read_after_model_and_data_are_gone(asked, device):
    posed = Posed(by_name("mlp"), device)
    ggn = posed.fit(asked)
    wanted = answer(ggn)
    found = ggn.operator
    del posed, ggn
    gc.collect()
    generator = torch.Generator().manual_seed(1)
    probe = torch.randn(len(wanted), 2, generator=generator, dtype=torch.float64).to(device)
    assert torch.equal(found @ probe, wanted)


@each(EXACT)
@on("mlp", "lstm_projected")
def test_an_error_keeps_nothing(case, asked, device):
    watched = Watched(case.name, device)
    watched.posed.made[1][1][0] = 77
    with pytest.raises(ValueError, match="class indices"):
        answer(watched.posed.fit(asked))
    references = [weakref.ref(watched.posed.model), *map(weakref.ref, watched.posed.tensors()), *watched.outputs]
    del watched
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []


@each(SUMMED)
def test_batches_that_are_added_later_are_not_kept(asked, device, without_garbage_collection):
    watched = Watched("mlp", device)
    inputs, targets = watched.posed.made[0]
    ggn = curvature(watched.posed.model, (inputs, targets), likelihood="categorical", **asked)
    more, labels = inputs[0] + 1, targets.flip(0)
    references = [weakref.ref(more), weakref.ref(labels)]
    ggn.update((more, labels))
    del more, labels
    assert watched.alive() == 0
    assert [reference() for reference in references if reference() is not None] == []
