"""Data in the forms people have it."""

from collections import UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from paraboloid.spaces.batches import Batches

X, Y, W = torch.arange(8.0).reshape(4, 2), torch.arange(4), torch.ones(4)


@dataclass
class Record:
    x: Tensor
    mask: Tensor
    target: Tensor


def only(batches: Batches):
    (batch,) = batches
    return batch


@pytest.mark.parametrize("data", [(X, Y), [X, Y], [(X, Y)], iter([(X, Y)]), DataLoader(TensorDataset(X, Y), 4)])
def test_pairs_are_inputs_and_targets(data):
    batch = only(Batches(data))
    assert torch.equal(batch.args[0], X)
    assert torch.equal(batch.targets, Y)
    assert (len(batch.args), batch.kwargs, batch.weights) == (1, {}, None)


@pytest.mark.parametrize("data", [(X, Y, W), [[X, Y, W]]])
def test_triples_have_weights(data):
    assert torch.equal(only(Batches(data)).weights, W)


@pytest.mark.parametrize("data", [((X, X), Y), [((X, X), Y)]])
def test_inputs_may_be_several(data):
    assert len(only(Batches(data)).args) == 2


def test_inputs_may_be_keywords():
    batch = only(Batches(({"a": X}, Y)))
    assert batch.args == ()
    assert batch.kwargs.keys() == {"a"}


@pytest.mark.parametrize("key", ["labels", "targets", "target", "label", "y"])
@pytest.mark.parametrize("kind", [dict, UserDict])
def test_mappings_hold_targets_under_the_usual_names(key, kind):
    data = kind({"input_ids": X, "attention_mask": W, key: Y, "sample_weight": W})
    for form in (data, [data]):
        batch = only(Batches(form))
        assert batch.args == ()
        assert batch.kwargs.keys() == {"input_ids", "attention_mask"}
        assert torch.equal(batch.targets, Y)
        assert torch.equal(batch.weights, W)


def test_dataclasses_are_read_by_their_fields():
    batch = only(Batches([Record(X, W, Y)]))
    assert batch.kwargs.keys() == {"x", "mask"}
    assert torch.equal(batch.targets, Y)


def test_the_user_says_where_things_are():
    triple = (X, W, Y)
    batch = only(Batches([triple], inputs=lambda b: b[:2], targets=lambda b: b[2], weights=lambda b: W))
    assert len(batch.args) == 2
    assert torch.equal(batch.targets, Y)
    assert torch.equal(batch.weights, W)
    graph = SimpleNamespace(x=X, y=Y)
    batch = only(Batches([graph], inputs=lambda b: {"x": b.x}, targets=lambda b: b.y))
    assert batch.kwargs.keys() == {"x"}
    named = only(Batches([{"x": X, "y": Y}], inputs=lambda b: b["x"]))
    assert torch.equal(named.args[0], X)
    assert torch.equal(named.targets, Y)
    shifted = only(Batches([{"x": X, "y": Y}], targets=lambda b: b["y"] + 1))
    assert torch.equal(shifted.targets, Y + 1)
    assert shifted.kwargs.keys() == {"x"}


def test_several_batches_come_in_order():
    found = [batch.targets.tolist() for batch in Batches(DataLoader(TensorDataset(X, Y), 3))]
    assert found == [[0, 1, 2], [3]]


Pair = namedtuple("Pair", "a b")


def test_everything_is_moved_to_the_device():
    packed = torch.nn.utils.rnn.pack_sequence([X[:2], X[:1]])
    data = {
        "x": [X, (X, {"deep": X})],
        "pair": Pair(X, 3),
        "packed": packed,
        "flag": True,
        "y": Y,
        "weights": W,
    }
    batch = only(Batches([data], device="meta"))
    assert batch.targets.device.type == batch.weights.device.type == "meta"
    assert batch.kwargs["x"][0].device.type == batch.kwargs["x"][1][1]["deep"].device.type == "meta"
    assert isinstance(batch.kwargs["pair"], Pair)
    assert batch.kwargs["pair"].a.device.type == "meta"
    assert batch.kwargs["packed"].data.device.type == "meta"
    assert batch.kwargs["flag"] is True
    assert only(Batches((X, Y))).targets is Y


def test_one_shot_iterators_are_recognised():
    def produce():
        yield X, Y

    once = Batches(produce())
    assert once.one_pass
    with pytest.raises(ValueError, match=r"several passes .* generator gives one.\s*Pass a list or a DataLoader"):
        once.restartable()
    assert len(list(once)) == 1
    with pytest.raises(ValueError, match=r"one pass, and it is over"):
        list(once)
    for data in ((X, Y), [(X, Y)], DataLoader(TensorDataset(X, Y), 2), {"x": X, "y": Y}):
        assert not Batches(data).one_pass
        assert Batches(data).restartable() is not None
        many = Batches(data)
        assert len(list(many)) == len(list(many))


def test_asking_for_one_pass_draws_nothing_from_the_global_generator():
    loader = DataLoader(TensorDataset(X, Y), 2, shuffle=True)
    state = torch.get_rng_state()
    Batches(loader).restartable()
    assert torch.equal(torch.get_rng_state(), state)


def test_no_batches_is_an_error():
    for data in ([], iter([]), DataLoader(TensorDataset(X[:1], Y[:1]), 2, drop_last=True)):
        with pytest.raises(ValueError, match="no batches in the data: .* was empty"):
            list(Batches(data))


def test_outputs_are_found_or_said():
    assert Batches([]).output(SimpleNamespace(logits=X)) is X
    assert Batches([], outputs=lambda out: out[0]).output((X, Y)) is X
    with pytest.raises(TypeError, match="outputs="):
        Batches([]).output((X, Y))
    with pytest.raises(TypeError, match="outputs= should return a tensor, found tuple"):
        Batches([], outputs=lambda out: out).output((X, Y))


REFUSED = [
    (X, {}, r"hold targets too, as \(x, y\); found one tensor of shape \(4, 2\)"),
    (TensorDataset(X, Y), {}, r"gives single examples, found TensorDataset.*DataLoader\(dataset"),
    (3, {}, r"should be \(x, y\) or an iterable of batches, found int"),
    ([X], {}, "found Tensor. Say where things are: paraboloid.Batches"),
    ([(X,)], {}, "found tuple of 1"),
    ([(X, X, X, Y)], {}, "found tuple of 4"),
    ((X, X, Y), {}, r"third part of a batch should be weights, floating; found torch.int64.*targets=lambda"),
    ([(X, X, Y)], {"inputs": lambda b: b[:2]}, "give both inputs= and targets="),
    ([(X, X, Y)], {"targets": lambda b: b[2]}, "give both inputs= and targets="),
    ({"x": X}, {}, "none among x. Say which by targets="),
    ({"x": X, "y": Y, "label": Y}, {}, "several: label, y"),
    ({"x": X, "y": Y, "weights": W, "sample_weight": W}, {}, "several names, weights, sample_weight"),
]


@pytest.mark.parametrize(("data", "options", "message"), REFUSED, ids=range(len(REFUSED)))
def test_forms_that_are_unclear_are_refused_with_the_way_out(data, options, message):
    with pytest.raises((TypeError, ValueError), match=f"(?s){message}"):
        list(Batches(data, **options))
