"""Killed at any moment, refused room by the disk, asked to stop: the same command ends with the same bytes.

The runs are real ones, given by the command line's words to processes that are forked (see nursery.py) and end as the
system ends them. Moments are drawn from a seeded generator: by time, and by the n-th change of a file.
"""

import json
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from recipes import toys
from recipes.nursery import Nursery

SHAPES = {
    "in the run itself": dict(config={"cells": False, "steps": [5, 5]}),
    "in cells": dict(config={"steps": [5, 5]}),
    "in cells side by side": dict(config={"steps": [5, 5]}, jobs=2),
}

SLOW = {name: how | {"config": how["config"] | {"pause": 0.005, "steps": [30, 5]}} for name, how in SHAPES.items()}


@pytest.fixture(scope="module")
def nursery():
    found = Nursery()
    yield found
    found.close()


@pytest.fixture(scope="module")
def expected(nursery, tmp_path_factory):
    """What each shape leaves when nothing happens; two jobs leave what one does."""
    return undisturbed(nursery, SHAPES, tmp_path_factory)


@pytest.fixture(scope="module")
def slowly(nursery, tmp_path_factory):
    """The same for longer runs."""
    return undisturbed(nursery, SLOW, tmp_path_factory)


def undisturbed(nursery, shapes, tmp_path_factory):
    found = {}
    for name, how in shapes.items():
        folder = tmp_path_factory.mktemp("whole")
        assert nursery.run(folder, **how) == (0, "")
        found[name] = toys.left(folder)
    assert found["in cells side by side"] == found["in cells"]
    return found


def manifest(out: Path) -> dict:
    (path,) = out.glob("toys/*/manifest.json")
    return json.loads(path.read_text())


def resumed(nursery, out, name):
    """The same command once more, without trouble."""
    assert nursery.run(out, **SHAPES[name]) == (0, "")
    assert manifest(out)["state"] == "finished"
    assert not list(out.rglob(".*"))  # half a file that nobody would ever finish
    return toys.left(out)


@pytest.mark.parametrize("name", SHAPES)
def test_a_run_killed_between_any_two_changes_of_files_ends_with_the_same_bytes(nursery, expected, tmp_path, name):
    drawn = random.Random(name)
    killed = 0
    for number in range(20):
        out = tmp_path / str(number)
        point = drawn.randrange(1, 90)
        code, said = nursery.run(out, **SHAPES[name], crash=point)
        killed += code == -signal.SIGKILL or "failed" in said or "SIGKILL" in said
        if number % 3 == 0:  # and once more while it resumes
            nursery.run(out, **SHAPES[name], crash=drawn.randrange(1, 60))
        assert resumed(nursery, out, name) == expected[name], point
        shutil.rmtree(out)
    assert killed > 10


@pytest.mark.parametrize("name", SHAPES)
def test_a_run_killed_at_any_time_ends_with_the_same_bytes_and_its_workers_end_with_it(
    nursery, expected, tmp_path, name
):
    drawn = random.Random(name)
    killed, number, longest = 0, 0, 0.12
    while killed < 8:  # a run that ended before its time came counts for nothing, and the next one has less of it
        number += 1
        assert number < 60, "runs end before they can be killed"
        out = tmp_path / str(number)
        child = nursery.begin(out, **SHAPES[name])
        time.sleep(drawn.uniform(0.0, longest))
        with suppress(ProcessLookupError):  # it was faster
            os.kill(child, signal.SIGKILL)
        code, _ = nursery.end()
        if code == -signal.SIGKILL:
            killed += 1
        else:
            longest *= 0.8
        assert resumed(nursery, out, name) == expected[name]


def test_the_workers_of_a_killed_run_write_no_more(nursery, tmp_path):
    child = nursery.begin(tmp_path, config={"pause": 0.02, "steps": [400, 5]}, jobs=2)
    streams = []
    until(lambda: streams.extend(p for p in tmp_path.rglob("metrics.jsonl") if p.stat().st_size > 300) or streams)
    os.kill(child, signal.SIGKILL)
    assert nursery.end()[0] == -signal.SIGKILL
    time.sleep(0.3)
    sizes = [path.stat().st_size for path in tmp_path.rglob("*.jsonl")]
    time.sleep(0.3)
    assert [path.stat().st_size for path in tmp_path.rglob("*.jsonl")] == sizes


def until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_is_saved_says_so_and_resumes_to_the_same_bytes(
    nursery, slowly, tmp_path, name, signum
):
    how = SLOW[name]
    child = nursery.begin(tmp_path, **how)
    until(lambda: [p for p in tmp_path.rglob("metrics.jsonl") if p.stat().st_size > 200])
    os.kill(child, signum)
    code, said = nursery.end()
    assert code == 128 + signum
    assert said == f"paraboloid: stopped by {signum.name}, saved. The same command goes on from there.\n"
    assert manifest(tmp_path)["state"] == "interrupted"
    assert manifest(tmp_path)["reason"] == f"stopped by {signum.name}"
    assert list(tmp_path.rglob("loop-0.safetensors"))
    assert nursery.run(tmp_path, **how) == (0, "")
    assert [len(manifest(tmp_path)["sessions"]), manifest(tmp_path)["state"]] == [2, "finished"]
    assert toys.left(tmp_path) == slowly[name]


@pytest.mark.parametrize("name", SHAPES)
def test_a_disk_that_fills_at_any_moment_is_said_in_one_line_and_costs_nothing_saved(nursery, expected, tmp_path, name):
    drawn = random.Random(name)
    for number in range(15):
        out = tmp_path / str(number)
        point = drawn.randrange(1, 80)
        code, said = nursery.run(out, **SHAPES[name], full=point)
        if code != 0:
            assert code in (1, 2), (point, said)
            assert one_line(said), (point, said)
            assert "No space left on device" in said, (point, said)
        assert resumed(nursery, out, name) == expected[name], point


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("limit", [100, 700, 1500, 4000, 30000])
def test_a_file_that_may_not_grow_is_said_in_one_line_and_the_run_resumes(nursery, expected, tmp_path, name, limit):
    code, said = nursery.run(tmp_path, **SHAPES[name], limit=limit)
    if code != 0:
        assert code == 1
        assert one_line(said), said
        assert "could not be written" in said
        assert "File too large" in said
        assert "Nothing that was saved before is lost." in said
    assert code == 1 or limit > 10000
    if limit > 2000:  # the manifest itself has room
        assert manifest(tmp_path)["state"] == ("finished" if code == 0 else "interrupted")
    assert resumed(nursery, tmp_path, name) == expected[name]


def one_line(said: str) -> bool:
    return said.startswith("paraboloid: ") and said.count("\n") == 1 and "Traceback" not in said


@pytest.mark.parametrize("jobs", [2])
def test_a_worker_that_is_killed_fails_only_its_cell_and_the_next_run_runs_only_that(nursery, tmp_path, jobs):
    mine = tmp_path / "mine"
    mine.touch()
    config = {"mine": str(mine), "seeds": [0, 1, 2], "steps": [5, 5]}
    code, said = nursery.run(tmp_path, config=config, jobs=jobs)
    assert code == 1
    assert one_line(said)
    assert "1 cell failed. seed 1: its process ended with SIGKILL" in said
    outcomes = {path.parent.name: path for path in tmp_path.rglob("result.json")}
    states = {json.loads(path.read_text())["name"]: json.loads(path.read_text())["state"] for path in outcomes.values()}
    assert states == {"seed 0": "finished", "seed 1": "failed", "seed 2": "finished"}
    times = {name: path.stat().st_mtime_ns for name, path in outcomes.items()}
    assert nursery.run(tmp_path, config=config, jobs=jobs) == (0, "")
    changed = [name for name, path in outcomes.items() if path.stat().st_mtime_ns != times[name]]
    assert len(changed) == 1
    assert changed[0].startswith("one_seed_seed_1-")
    assert manifest(tmp_path)["state"] == "finished"
