"""Checkpoints: whatever changes in a loop comes back exactly, in place; what cannot is refused by name."""

import math
import random
from collections import OrderedDict

import numpy
import pytest
import torch
from torch import nn

from paraboloid.recipes import checkpoints
from paraboloid.recipes.refused import Refused

lr_scheduler = torch.optim.lr_scheduler


def network(seed: int = 0) -> nn.Sequential:
    layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 1))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return layers


def same(a, b) -> bool:
    """Equal in value and in kind, down to NaN and the types of keys."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) and type(k) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def train(model, optimizer, schedule, steps):
    for step in range(steps):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step(lambda loss=loss: loss) if isinstance(optimizer, torch.optim.LBFGS) else optimizer.step()
        if isinstance(schedule, lr_scheduler.ReduceLROnPlateau):
            schedule.step(loss.item())
        elif schedule is not None:
            schedule.step()


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
    "AdamW, two groups": lambda p: torch.optim.AdamW([{"params": p[:2], "lr": 0.2}, {"params": p[2:]}], lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.9),
    "LBFGS": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=2),
}
SCHEDULES = {
    "none": lambda o: None,
    "steps": lambda o: lr_scheduler.MultiStepLR(o, [2, 3, 7], 0.5),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 12),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False),
    "function": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "one after the other": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 3), lr_scheduler.ExponentialLR(o, 0.9)], [3]
    ),
}
PAIRS = [(o, "cosine") for o in OPTIMIZERS] + [("Adam", s) for s in SCHEDULES]


@pytest.mark.parametrize(("optimizer", "schedule"), PAIRS)
def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(tmp_path, optimizer, schedule):
    def begin(seed):
        model = network(seed)
        chosen = OPTIMIZERS[optimizer](list(model.parameters()))
        plan = SCHEDULES[schedule](chosen)
        return model, chosen, plan, {"model": model, "optimizer": chosen} | ({"plan": plan} if plan else {})

    with torch.random.fork_rng():
        torch.manual_seed(1)
        model, chosen, plan, kept = begin(0)
        train(model, chosen, plan, 5)
        checkpoints.write(tmp_path / "a", kept, {"done": 5})
        train(model, chosen, plan, 6)  # Dropout draws from the global generator all the while
        other, second, again, states = begin(7)
        torch.manual_seed(2)
        assert checkpoints.restore(tmp_path / "a", states) == {"done": 5}
        train(other, second, again, 6)
    assert same(dict(model.state_dict()), dict(other.state_dict()))
    assert same(chosen.state_dict(), second.state_dict())
    assert plan is None or same(plan.state_dict(), again.state_dict())


STATES = {
    "numbers": [0, -1, 2**70, 0.1, 1e-320, True, False, None, "text", "", "δ\n"],
    "infinite": [math.inf, -math.inf, math.nan, -0.0],
    "nested": [[1, [2, []]], (1, (2.5, ())), {"a": [{"b": ()}]}, {}],
    "keys": {0: "int", "0": "text", 1.5: "float", None: "none", (1, "a"): "tuple", True: "bool"},
    "tensors": {"a": torch.arange(3), 1: [torch.ones(2, dtype=torch.float32), (torch.zeros(0, 3),)]},
    "dtypes": [torch.ones(2, dtype=d) for d in (torch.bfloat16, torch.float16, torch.bool, torch.uint8, torch.int16)],
    "complex": [torch.tensor([1 + 2j], dtype=torch.complex128), torch.tensor(1j, dtype=torch.complex64)],
    "transposed": [torch.arange(6.0).reshape(2, 3).mT, torch.arange(4)[1::2], torch.ones(1).expand(3)],
    "look-alikes": {"tensor": "a", "dict": [], "list": {"tuple": 1}},
}


@pytest.mark.parametrize("name", STATES)
def test_lists_and_dictionaries_are_filled_again_in_place_exactly(tmp_path, name):
    state = STATES[name]
    checkpoints.write(tmp_path / "a", {"state": state}, {})
    empty = type(state)()
    alias = empty
    empty.append(9) if isinstance(empty, list) else empty.update(old=9)
    checkpoints.restore(tmp_path / "a", {"state": empty})
    assert alias is empty
    assert same(state, empty)
    assert math.copysign(1.0, empty[3]) == -1.0 if name == "infinite" else True


def test_tensors_and_generators_are_restored_in_place(tmp_path):
    generator, tensor = torch.Generator().manual_seed(5), torch.arange(6.0).reshape(2, 3)
    weight = nn.Parameter(torch.ones(2))
    checkpoints.write(tmp_path / "a", {"g": generator, "t": tensor, "w": weight, "v": tensor[0]}, {})
    expected, before = torch.rand(4, generator=generator), tensor.clone()
    views = tensor.data_ptr(), weight.data_ptr()
    tensor += 1
    with torch.no_grad():
        weight *= 3
    checkpoints.restore(tmp_path / "a", {"g": generator, "t": tensor, "w": weight, "v": tensor[0]})
    assert torch.equal(torch.rand(4, generator=generator), expected)
    assert torch.equal(tensor, before)
    assert weight.tolist() == [1, 1]
    assert weight.requires_grad
    assert (tensor.data_ptr(), weight.data_ptr()) == views


def test_the_global_generators_of_torch_numpy_and_python_go_on_with_the_same_draws(tmp_path):
    def draws():
        return torch.rand(3).tolist(), numpy.random.rand(3).tolist(), numpy.random.randn(), random.random()

    before = torch.get_rng_state(), numpy.random.get_state(), random.getstate()
    try:
        numpy.random.randn()  # leaves a second normal number behind
        random.gauss(0, 1)
        checkpoints.write(tmp_path / "a", {}, {})
        first = draws(), random.gauss(0, 1), numpy.random.randn()
        torch.manual_seed(3), numpy.random.seed(3), random.seed(3)
        checkpoints.restore(tmp_path / "a", {})
        assert (draws(), random.gauss(0, 1), numpy.random.randn()) == first
    finally:
        torch.set_rng_state(before[0]), numpy.random.set_state(before[1]), random.setstate(before[2])


def test_a_packed_state_does_not_change_with_what_it_was_taken_from():
    tensor, held = torch.zeros(2), [1]
    tensors, metadata = checkpoints.packed({"t": tensor, "l": held}, {})
    tensor += 1
    held.append(2)
    assert any(torch.equal(found, torch.zeros(2)) for found in tensors.values() if found.shape == (2,))
    assert metadata["states"]["l"] == {"list": [1]}


def test_no_name_of_a_state_collides_with_the_surroundings(tmp_path):
    kept = {"global": [torch.ones(3)], "states": {0: torch.zeros(1)}}
    checkpoints.write(tmp_path / "a", kept, {})
    empty = {"global": [], "states": {}}
    checkpoints.restore(tmp_path / "a", empty)
    assert same(empty, kept)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, "x is a int, which cannot be restored in place"),
        ((1, 2), "x is a tuple, which cannot be restored"),
        (None, "x is a NoneType, which cannot be restored"),
        (lambda: 0, "x is a function"),
        (numpy.zeros(2), "x is a ndarray"),
        ([{1, 2}], "x/0 is a set; a state is made of tensors"),
        ([nn.Linear(1, 1)], "x/0 is a Linear; a state is made of"),
        ({"a": [numpy.zeros(2)]}, "x/0/0 is a ndarray"),
        ({torch.ones(1): 1}, "x has a key that is a Tensor"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_kept_is_refused_by_name_and_leaves_no_file(tmp_path, thing, message):
    with pytest.raises(TypeError, match=message):
        checkpoints.write(tmp_path / "a", {"x": thing}, {})
    assert not list(tmp_path.iterdir())


def test_a_loop_that_keeps_other_things_than_its_checkpoint_is_refused_by_name(tmp_path):
    checkpoints.write(tmp_path / "a", {"one": [1], "two": [2]}, {})
    for kept in ({"one": []}, {"one": [], "two": [], "three": []}, {"one": [], "tow": []}):
        with pytest.raises(ValueError, match=r"a holds the states of one, two, but the loop keeps .*Start"):
            checkpoints.restore(tmp_path / "a", kept)
        assert kept["one"] == []


@pytest.mark.parametrize(
    ("before", "now"),
    [(torch.ones(1), torch.zeros(3)), (torch.ones(2), torch.zeros(2, dtype=torch.int64)), ([1], torch.zeros(1))],
)
def test_a_tensor_of_another_shape_or_kind_is_refused_by_name(tmp_path, before, now):
    checkpoints.write(tmp_path / "a", {"x": before}, {})
    with pytest.raises(ValueError, match=r"a .*x.*(recipe has changed|anew)"):
        checkpoints.restore(tmp_path / "a", {"x": now})


def test_a_module_of_another_shape_is_refused(tmp_path):
    checkpoints.write(tmp_path / "a", {"x": nn.Linear(2, 2)}, {})
    with pytest.raises(ValueError, match=r"a .*x.*size mismatch"):
        checkpoints.restore(tmp_path / "a", {"x": nn.Linear(2, 3)})


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused_by_name(tmp_path, part):
    path = tmp_path / "loop-0.safetensors"
    checkpoints.write(path, {"model": network()}, {"done": 3})
    path.write_bytes(path.read_bytes()[: int(part * path.stat().st_size)])
    for read in (checkpoints.read_position, lambda where: checkpoints.restore(where, {"model": network()})):
        with pytest.raises(Refused, match=r"loop-0.safetensors .*(damaged|whole).*--restart") as refusal:
            read(path)
        assert "\n" not in str(refusal.value)


def test_the_position_is_read_without_restoring(tmp_path):
    checkpoints.write(tmp_path / "a", {"x": OrderedDict(a=1)}, {"done": 3, "stream": (1, 2, 0.5)})
    assert checkpoints.read_position(tmp_path / "a") == {"done": 3, "stream": [1, 2, 0.5]}
