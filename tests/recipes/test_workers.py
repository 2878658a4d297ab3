"""Cells side by side in processes that are really spawned; test_killed.py has what can happen to them."""

import os
import signal
import threading
import time

import pytest

from paraboloid.recipes import runs
from paraboloid.recipes.events import Event
from paraboloid.recipes.stopping import Interrupted, Stop
from recipes import toys


@pytest.mark.usefixtures("single_precision")
def test_two_jobs_leave_the_same_bytes_as_one_and_tell_of_every_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config = toys.Config(steps=(4, 3), skipping=(2,), seeds=(0, 1, 2))
    alone = runs.carry_out(toys.plan(tmp_path / "one", config))
    told: list[Event] = []
    plan = toys.plan(tmp_path / "two", config, jobs=2)
    beside = runs.carry_out(plan, told.append)
    assert toys.left(tmp_path / "one") == toys.left(tmp_path / "two")
    assert beside.values == alone.values
    assert len(beside.values["loss"]) == 2
    ended = {event.cell: (event.kind, event.text) for event in told if event.kind in ("finished", "skipped", "failed")}
    assert ended == {
        "seed 0": ("finished", ""),
        "seed 1": ("finished", ""),
        "seed 2": ("skipped", "diverged with seed 2"),
    }
    assert any(event.kind == "step" and event.cell == "seed 1" and event.label == "sgd" for event in told)


@pytest.mark.usefixtures("single_precision")
def test_workers_are_asked_to_stop_and_one_that_is_killed_fails_only_its_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    mine = tmp_path / "mine"
    mine.touch()
    config = toys.Config(steps=(120, 3), pause=0.005, mine=str(mine), seeds=(0, 1))
    stop, plan = Stop(), toys.plan(tmp_path, config, jobs=2)

    def watch(event: Event) -> None:
        if event.kind == "step" and event.done > 3:
            stop.signum = signal.SIGTERM

    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        runs.carry_out(plan, watch, stop)
    assert runs.read(plan.folder).state == "interrupted"
    assert mine.exists()
    assert list(plan.folder.rglob("loop-0.safetensors"))
    with pytest.raises(runs.RunFailed, match=r"1 cell failed. seed 1: its process ended with SIGKILL \(out of memory"):
        runs.carry_out(plan)
    states = {cell.name: cell.state for cell in runs.read(plan.folder).cells}
    assert states == {"seed 0": "finished", "seed 1": "failed"}
    record = runs.carry_out(plan)  # one cell is left: it runs in this process
    assert (record.state, record.provenance.sessions) == ("finished", 3)
    assert len(record.values["loss"]) == 2


def test_a_worker_ends_when_its_parent_does(tmp_path, monkeypatch):
    """The thread that watches the parent: here the parent is a stand-in that ends."""
    from paraboloid.recipes import workers

    gone, left = threading.Event(), []

    class Parent:
        def join(self):
            gone.wait()

    monkeypatch.setattr(workers.multiprocessing, "parent_process", lambda: Parent())
    monkeypatch.setattr(os, "_exit", left.append)
    watching = threading.Thread(target=workers._end_with_parent)
    watching.start()
    time.sleep(0.05)
    assert left == []
    gone.set()
    watching.join()
    assert left == [1]
