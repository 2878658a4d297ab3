"""Cells: each in its folder, none run twice, none stopping another, each beginning with draws its config decides."""

import json
import random
from dataclasses import dataclass

import numpy
import pytest
import torch

from paraboloid.recipes.cells import CellsFailed, cells_below, decided_draws, names_of, tasks_of
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.events import Event
from paraboloid.recipes.log import Skip
from paraboloid.recipes.protocol import by_seed
from paraboloid.recipes.refused import Refused
from paraboloid.recipes.runlog import RunLog
from paraboloid.recipes.stopping import Interrupted, Stop


@dataclass(frozen=True)
class Config:
    lr: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2)


CALLS = []


def plain(config, log):
    CALLS.append(config.seeds)
    log(seed=config.seeds[0])
    return {"seed": config.seeds[0], "pair": (1, 2)}


def mixed(config, log):
    CALLS.append(config.seeds)
    (seed,) = config.seeds
    if seed == 1:
        raise Skip("diverged at step 12")
    if seed == 2 and len(CALLS) < 5:
        raise ArithmeticError("of two\nlines")
    return {"seed": seed}


def drawing(config, log):
    return {"draws": [float(torch.rand(())), numpy.random.rand(), random.random()]}


def not_json(config, log):
    return {"tensor": torch.ones(1)}


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def mapped(folder, function, configs, **how):
    log = RunLog(folder, **how)
    try:
        return log.map(function, configs)
    finally:
        log.close()


def test_results_come_in_order_through_json_and_are_not_computed_again(tmp_path):
    expected = [{"seed": seed, "pair": [1, 2]} for seed in (0, 1, 2)]
    assert mapped(tmp_path, plain, by_seed(Config())) == expected
    assert mapped(tmp_path, plain, by_seed(Config())) == expected
    assert CALLS == [(0,), (1,), (2,)]
    assert mapped(tmp_path, plain, by_seed(Config(seeds=(3, 0)))) == [{"seed": 3, "pair": [1, 2]}, expected[0]]
    assert CALLS[3:] == [(3,)]


def test_a_cell_that_raises_does_not_stop_the_others_and_alone_runs_again(tmp_path):
    with pytest.raises(CellsFailed, match=r"^1 cell failed. seed 2: ArithmeticError: of two lines$"):
        mapped(tmp_path, mixed, by_seed(Config(seeds=(0, 1, 2, 3))))
    assert CALLS == [(0,), (1,), (2,), (3,)]
    states = {cell.name: (cell.state, cell.reason) for cell in cells_below(tmp_path)}
    assert states == {
        "seed 0": ("finished", ""),
        "seed 1": ("skipped", "diverged at step 12"),
        "seed 2": ("failed", "ArithmeticError: of two lines"),
        "seed 3": ("finished", ""),
    }
    (text,) = tmp_path.rglob("error.txt")
    assert "Traceback" in text.read_text()
    assert 'raise ArithmeticError("of two\\nlines")' in text.read_text()
    assert mapped(tmp_path, mixed, by_seed(Config(seeds=(0, 1, 2, 3)))) == [
        {"seed": 0},
        None,
        {"seed": 2},
        {"seed": 3},
    ]
    assert CALLS[4:] == [(2,)]


def test_a_result_that_json_cannot_hold_is_the_cells_failure(tmp_path):
    with pytest.raises(CellsFailed, match="TypeError: Object of type Tensor is not JSON serializable"):
        mapped(tmp_path, not_json, by_seed(Config(seeds=(0,))))


def test_the_global_generators_begin_where_the_config_says_and_are_left_alone(tmp_path):
    before = torch.get_rng_state(), numpy.random.get_state()[1].tolist(), random.getstate()
    first = mapped(tmp_path / "a", drawing, by_seed(Config())) if (tmp_path / "a").mkdir() is None else None
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (numpy.random.get_state()[1].tolist(), random.getstate()) == before[1:]
    torch.rand(1), numpy.random.rand(), random.random()
    (tmp_path / "b").mkdir()
    assert mapped(tmp_path / "b", drawing, by_seed(Config(seeds=(2, 0, 1)))) == [first[2], first[0], first[1]]
    draws = [number for cell in first for number in cell["draws"]]
    assert len(set(draws)) == len(draws)


def test_draws_are_given_back_after_an_error():
    before = numpy.random.get_state()[1].tolist(), random.getstate()

    def fails():
        with decided_draws(Config(), "cpu"):
            numpy.random.rand(), random.random()
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fails()
    assert (numpy.random.get_state()[1].tolist(), random.getstate()) == before


def test_configs_are_told_from_each_other_by_their_seed_and_what_varies():
    assert names_of([Config(0.1, (0,)), Config(0.2, (0,))]) == ["lr 0.1, seed 0", "lr 0.2, seed 0"]
    assert names_of(by_seed(Config())) == ["seed 0", "seed 1", "seed 2"]
    assert names_of([Config(seeds=())]) == ["all"]


def test_folders_differ_by_function_and_config_and_can_be_read(tmp_path):
    tasks = tasks_of(plain, [Config(0.1, (0,)), Config(0.2, (0,))], tmp_path) + tasks_of(mixed, [Config()], tmp_path)
    names = [task.folder.name for task in tasks]
    assert len(set(names)) == 3
    assert names[0].startswith("plain_lr_0.1,_seed_0-")
    assert all(task.folder.parent == tmp_path / "cells" for task in tasks)


def test_the_same_config_twice_is_run_once(tmp_path):
    found = mapped(tmp_path, plain, [Config(seeds=(4,)), Config(seeds=(4,))])
    assert found == [{"seed": 4, "pair": [1, 2]}] * 2
    assert CALLS == [(4,)]


def test_a_request_to_stop_is_met_between_cells(tmp_path):
    stop, told = Stop(), []

    def watch(event: Event) -> None:
        told.append((event.kind, event.cell, event.done, event.count))
        if event.kind == "finished":
            stop.request(15)

    with pytest.raises(Interrupted):
        mapped(tmp_path, plain, by_seed(Config()), watch=watch, stop=stop)
    assert CALLS == [(0,)]
    assert told == [("cells", "", 0, 3), ("started", "seed 0", 0, 0), ("finished", "seed 0", 0, 0)]
    told.clear()
    mapped(tmp_path, plain, by_seed(Config()), watch=lambda event: told.append((event.kind, event.done)))
    assert CALLS == [(0,), (1,), (2,)]
    assert told[0] == ("cells", 1)


def test_cells_within_cells_run_in_their_own_folders(tmp_path):
    def outer(config, log):
        return {"inner": log.map(plain, [Config(seeds=(seed,)) for seed in (7, 8)])}

    found = mapped(tmp_path, outer, by_seed(Config(seeds=(0,))))
    assert [cell["seed"] for cell in found[0]["inner"]] == [7, 8]
    assert len(list(tmp_path.glob("cells/*/cells/*/result.json"))) == 2


def test_a_result_that_was_cut_off_is_refused_by_name(tmp_path):
    mapped(tmp_path, plain, by_seed(Config(seeds=(0,))))
    (path,) = tmp_path.rglob("result.json")
    path.write_text(path.read_text()[:20])
    with pytest.raises(Refused, match=r"result.json should be JSON, but .* Delete it"):
        mapped(tmp_path, plain, by_seed(Config(seeds=(0,))))


def test_missing_data_stops_the_run_at_the_first_cell_since_no_other_could_escape_it(tmp_path):
    from paraboloid.datasets import DatasetMissing

    def needs(config, log):
        CALLS.append(config.seeds)
        raise DatasetMissing("nowhere to be found")

    with pytest.raises(DatasetMissing, match="nowhere to be found"):
        mapped(tmp_path, needs, by_seed(Config()))
    assert CALLS == [(0,)]
    assert not list(tmp_path.rglob("result.json"))


def test_seconds_of_a_cell_are_kept(tmp_path):
    mapped(tmp_path, plain, by_seed(Config(seeds=(0,))), circumstances=Circumstances())
    (path,) = tmp_path.rglob("result.json")
    assert 0 <= json.loads(path.read_text())["seconds"] < 60
