"""A run: its folder, manifest and record, and everything that is refused before it begins."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from paraboloid.recipes import provenance, runs
from paraboloid.recipes.files import read_json, write_json
from paraboloid.recipes.locks import Lock
from paraboloid.recipes.protocol import Results
from paraboloid.recipes.refused import Refused
from paraboloid.recipes.runs import RunFailed, carry_out
from paraboloid.spaces.storage import NotWritten
from recipes import toys

SHORT = toys.Config(steps=(3, 2))


def with_run(plan, run):
    """The same plan with another function."""
    return replace(plan, recipe=replace(plan.recipe, run=run))


def test_a_finished_run_leaves_its_record_and_is_not_repeated(tmp_path):
    plan = toys.plan(tmp_path, SHORT)
    record = carry_out(plan)
    assert plan.folder.parent == tmp_path / "toys"
    assert re.fullmatch(r"smoke\+-[0-9a-f]{10}", plan.folder.name)
    assert (record.recipe, record.scale, record.state, record.reason) == ("toys", "smoke+", "finished", "")
    assert record.config == json.loads(json.dumps(SHORT.__dict__))
    assert [(cell.name, cell.state) for cell in record.cells] == [("seed 0", "finished"), ("seed 1", "finished")]
    assert len(record.values["loss"]) == 2
    assert len(record.tables["curve"]["loss"]) == 5
    times = {path: path.stat().st_mtime_ns for path in plan.folder.rglob("*") if path.name != "lock"}

    def never(config, log):
        raise AssertionError

    assert carry_out(with_run(plan, never)) == record == runs.read(plan.folder)
    assert {path: path.stat().st_mtime_ns for path in plan.folder.rglob("*") if path.name != "lock"} == times


def test_the_manifest_names_code_machine_and_versions_but_no_user_and_no_path(tmp_path):
    plan = toys.plan(tmp_path, SHORT)
    record = carry_out(plan)
    origin = record.provenance
    assert origin.source == provenance.source_digest()
    assert re.fullmatch(r"[0-9a-f]{64}", origin.source)
    assert re.fullmatch(r"([0-9a-f]{12}\+?)?", origin.commit)
    assert origin.versions["torch"] == torch.__version__.partition("+")[0] or origin.versions["torch"]
    assert origin.machine["threads"] == 1
    assert origin.machine["device"] == "cpu"
    assert origin.command == "paraboloid run toys"
    assert origin.sessions == 1
    assert origin.seconds >= 0
    text = json.dumps(record.to_json())
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_the_same_config_has_the_same_folder_and_a_changed_one_another(tmp_path):
    plan = toys.plan(tmp_path)
    assert plan.folder.name.startswith("smoke-")
    assert toys.plan(tmp_path).folder == plan.folder
    assert toys.plan(tmp_path, jobs=2, checkpoint_seconds=5.0).folder == plan.folder
    assert toys.plan(tmp_path, toys.Config(dropout=0.4)).folder.name.startswith("smoke+-")


def test_two_runs_of_one_config_have_the_same_values_whatever_was_drawn_before(tmp_path):
    first = carry_out(toys.plan(tmp_path / "a", SHORT))
    torch.rand(5)
    before = torch.get_rng_state()
    second = carry_out(toys.plan(tmp_path / "b", SHORT))
    assert (first.values, first.tables) == (second.values, second.tables)
    assert torch.equal(torch.get_rng_state(), before)
    assert toys.left(tmp_path / "a") == toys.left(tmp_path / "b")


def test_a_recipe_that_raises_fails_with_its_reason_in_one_line_and_goes_on_next_time(tmp_path):
    plan = toys.plan(tmp_path, SHORT)

    def raises(config, log):
        log(here=1)
        raise ArithmeticError("first line\nsecond line")

    with pytest.raises(RunFailed, match=r"^ArithmeticError: first line second line$"):
        carry_out(with_run(plan, raises))
    record = runs.read(plan.folder)
    assert (record.state, record.reason) == ("failed", "ArithmeticError: first line second line")
    assert record.values == {}
    assert "Traceback" in (plan.folder / "error.txt").read_text()
    record = carry_out(plan)
    assert (record.state, record.reason, record.provenance.sessions) == ("finished", "", 2)


def test_failed_and_skipped_cells_are_in_the_record_and_the_others_are_kept(tmp_path):
    plan = toys.plan(tmp_path, replace(SHORT, failing=(1,), skipping=(2,), seeds=(0, 1, 2)))
    with pytest.raises(RunFailed, match=r"^1 cell failed. seed 1: ArithmeticError: seed 1 cannot be divided$"):
        carry_out(plan)
    record = runs.read(plan.folder)
    assert {cell.name: (cell.state, cell.reason) for cell in record.cells} == {
        "seed 0": ("finished", ""),
        "seed 1": ("failed", "ArithmeticError: seed 1 cannot be divided"),
        "seed 2": ("skipped", "diverged with seed 2"),
    }


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (Results({"x": ["a"]}), "ValueError: could not convert string to float"),
        (Results({}, {"t": {"a": [1], "b": [1, 2]}}), "columns of the table 't' should be of one length, found"),
        (Results({}, {"t": {"a": [torch.ones(1)]}}), "Object of type Tensor is not JSON serializable"),
        (None, "AttributeError"),
    ],
)
def test_results_of_a_wrong_kind_fail_the_run_by_name(tmp_path, results, message):
    plan = toys.plan(tmp_path, SHORT)
    with pytest.raises(RunFailed, match=message):
        carry_out(with_run(plan, lambda config, log: results))
    assert runs.read(plan.folder).state == "failed"


def test_numbers_of_any_kind_become_floats_in_the_record(tmp_path):
    values = {"x": [1, True, torch.tensor(2.5), float("inf"), float("nan")]}
    record = carry_out(with_run(toys.plan(tmp_path, SHORT), lambda config, log: Results(values)))
    assert record.values["x"][:4] == [1.0, 1.0, 2.5, float("inf")]
    assert record.values["x"][4] != record.values["x"][4]


def test_restart_throws_away_what_was_there(tmp_path):
    plan = toys.plan(tmp_path, SHORT)
    carry_out(plan)
    (plan.folder / "stray").mkdir()
    before = toys.left(tmp_path)
    record = carry_out(plan, restart=True)
    assert not (plan.folder / "stray").exists()
    assert record.provenance.sessions == 1
    assert toys.left(tmp_path) == before


def test_a_second_keyboard_interrupt_leaves_the_run_interrupted(tmp_path):
    def stopped(config, log):
        raise KeyboardInterrupt

    plan = toys.plan(tmp_path, SHORT)
    with pytest.raises(KeyboardInterrupt):
        carry_out(with_run(plan, stopped))
    assert (runs.read(plan.folder).state, runs.read(plan.folder).reason) == ("interrupted", "stopped by SIGINT")
    assert carry_out(plan).state == "finished"


def test_threads_are_set_for_the_run_and_given_back(tmp_path):
    before, seen = torch.get_num_threads(), []

    def asks(config, log):
        seen.append(torch.get_num_threads())
        return Results({})

    carry_out(with_run(toys.plan(tmp_path, SHORT, threads=before + 1), asks))
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


# ---------------------------------------------------------------------- what is refused
@pytest.mark.parametrize("seeds", [(), (0, 0), (-1,), (3, 4, 3)])
def test_seeds_that_repeat_or_are_negative_are_refused(tmp_path, seeds):
    with pytest.raises(Refused, match=r"seeds should be different whole numbers, 0 or larger; found \["):
        carry_out(toys.plan(tmp_path, toys.Config(seeds=seeds)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", ["cuda:77", "gpu", "", "meta", "cpu:x"])
def test_a_device_that_is_not_there_is_refused(tmp_path, device):
    with pytest.raises(
        Refused, match=rf"the device '{device}' is not there \(.*\); `paraboloid doctor` lists"
    ) as refusal:
        carry_out(toys.plan(tmp_path, SHORT, device=device))
    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Refused, match="a file stands where a folder is needed. Choose another --out"):
            carry_out(toys.plan(out, SHORT))
    if os.path.isdir("/proc/self"):
        with pytest.raises(Refused, match="cannot be written to: .*. Choose another --out"):
            carry_out(toys.plan(Path("/proc/self/fdinfo"), SHORT))


def test_two_runs_in_one_folder_at_the_same_time_are_refused(tmp_path):
    plan = toys.plan(tmp_path, SHORT)
    seen = []

    def twice(config, log):
        with pytest.raises(Refused, match=r"another run is writing into .*: wait for it, stop it, or give") as refusal:
            carry_out(plan)
        seen.append(refusal)
        return Results({})

    carry_out(with_run(plan, twice))
    assert len(seen) == 1
    assert carry_out(plan).state == "finished"


def test_a_lock_is_given_back_when_it_is_released_and_waits_as_long_as_it_is_told(tmp_path):
    first = Lock(tmp_path)
    with pytest.raises(Refused):
        Lock(tmp_path, patience=0.1)
    first.release()
    Lock(tmp_path).release()
    with pytest.raises(NotWritten, match="lock could not be written"):
        Lock(tmp_path / "nowhere")


@pytest.mark.parametrize(("device", "threads"), [("cpu", 2), ("cuda", 1)])
def test_a_run_goes_on_only_under_the_device_and_threads_it_was_begun_with(tmp_path, device, threads, monkeypatch):
    plan = toys.plan(tmp_path, replace(SHORT, failing=(0,)))
    with pytest.raises(RunFailed):
        carry_out(plan)
    monkeypatch.setattr(runs, "_check", lambda plan: None)
    changed = replace(plan, circumstances=replace(plan.circumstances, device=device, threads=threads))
    with pytest.raises(Refused, match=rf"was begun on cpu with 1 threads a cell, found {device} with {threads}:"):
        carry_out(changed)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ('{"format": 99}', r"manifest.json is of a newer paraboloid \(format 99, known 1\). Update it"),
        ('{"format"', r"manifest.json should be JSON, but .*cut off"),
        ("[1]", "manifest.json should be the manifest of a run, which says its format; found none"),
        ("{}", "manifest.json should be the manifest of a run"),
    ],
)
def test_a_manifest_that_cannot_be_understood_is_refused_by_name(tmp_path, manifest, message):
    plan = toys.plan(tmp_path, SHORT)
    carry_out(plan)
    (plan.folder / "manifest.json").write_text(manifest)
    for call in (lambda: runs.read(plan.folder), lambda: carry_out(plan)):
        with pytest.raises(Refused, match=message):
            call()


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(Refused, match=r"is not the folder of a run: it has no manifest.json"):
        runs.read(tmp_path)


def test_a_damaged_checkpoint_is_refused_before_anything_is_written_and_restart_helps(tmp_path):
    plan = toys.plan(tmp_path, replace(SHORT, cells=False, failing=(1,)))
    with pytest.raises(RunFailed):
        carry_out(plan)
    path = plan.folder / "loop-0.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    before = (plan.folder / "manifest.json").read_bytes()
    with pytest.raises(Refused, match=r"loop-0.safetensors .*--restart"):
        carry_out(plan)
    assert (plan.folder / "manifest.json").read_bytes() == before
    with pytest.raises(RunFailed, match="cannot be divided"):
        carry_out(plan, restart=True)


def test_json_is_written_whole_and_read_with_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"δ": [1, None]})
    assert read_json(path) == {"δ": [1, None]}
    with pytest.raises(TypeError):
        write_json(path, {"x": object()})
    assert read_json(path) == {"δ": [1, None]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Refused, match=r"a.json should be JSON, but"):
        read_json(path)
    with pytest.raises(Refused, match=r"there is no file .*b.json"):
        read_json(tmp_path / "b.json")
    with pytest.raises(Refused, match="cannot be read: Is a directory"):
        read_json(tmp_path)
