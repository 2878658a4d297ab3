"""A new recipe takes one file: it is listed, run, shown, recorded, reported and tabled without anything else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.commands import call
from recipes import toys


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a recipe in it, and nothing else."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "novelty.py").write_text(Path(toys.__file__).read_text().replace("A toy", "A novelty"))
    monkeypatch.setenv("PARABOLOID_RECIPES", str(folder))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_goes_through_every_command(capfd, place):
    listed = call(capfd, "list")
    assert listed.code == 0
    assert re.search(
        r"^novelty\n    A novelty \(nowhere\)\n    The loss of a small network is positive.", listed.out, re.M
    )
    cards = json.loads(call(capfd, "list", "--json").out)
    assert {"novelty", "linear_lemma"} <= {card["name"] for card in cards}

    ran = call(capfd, "run", "novelty", "--jobs", "1")
    assert ran.code == 0
    assert "novelty, smoke: finished" in ran.out
    assert re.search(r"the loss is positive +> 0 +\S", ran.out)
    (folder,) = (place / "runs" / "novelty").iterdir()
    assert str(Path("runs") / "novelty" / folder.name) in ran.out
    # progress is plain lines on the error stream, where nobody has a terminal
    assert re.fullmatch(
        r"novelty +\d+\.\d s  seed 0 finished \(1 of 2\)\nnovelty +\d+\.\d s  seed 1 finished \(2 of 2\)\n", ran.err
    )

    shown = call(capfd, "show", "novelty")
    assert (shown.code, shown.err) == (0, "")
    assert "novelty, smoke: finished" in shown.out
    assert "repeat with: paraboloid run novelty --scale smoke" in shown.out
    assert call(capfd, "show", folder.relative_to(place)).out == shown.out
    record = json.loads(call(capfd, "show", "novelty", "--json").out)
    assert (record["recipe"], record["state"], record["format"]) == ("novelty", "finished", 1)

    recorded = call(capfd, "record", "novelty")
    assert (recorded.code, recorded.out) == (0, f"{Path('records') / 'novelty-smoke.json'}\n")
    assert json.loads((place / "records" / "novelty-smoke.json").read_text()) == record

    for words in (["report", "novelty", "--to", "one.html"], ["report", "--to", "all.html"]):
        assert call(capfd, *words).code == 0
        page = (place / words[-1]).read_text(encoding="utf-8")
        assert "A novelty" in page
        assert "The loss of a small network is positive." in page

    table = call(capfd, "table")
    assert table.code == 0
    assert "A novelty" in table.out
    assert call(capfd, "table", "--check", "page.md").code == 1
    assert call(capfd, "table", "--write", "page.md").out == "page.md\n"
    assert call(capfd, "table", "--check", "page.md").code == 0
    (place / "page.md").write_text((place / "page.md").read_text() + "edited by hand\n")
    stale = call(capfd, "table", "--check", "page.md")
    assert (stale.code, stale.out) == (1, "")
    assert stale.err == "paraboloid: page.md is stale: paraboloid table --write page.md\n"


def test_json_is_nothing_but_json_and_quiet_is_nothing(capfd, place):
    words = ["run", "novelty", "linear_lemma", "--seeds", "3", "4", "--jobs", "1"]
    quiet = call(capfd, *words, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    told = call(capfd, *words, "--json")
    assert (told.code, told.err) == (0, "")
    found = [json.loads(line) for line in told.out.splitlines()]
    assert [one["recipe"] for one in found] == ["novelty", "linear_lemma"]
    assert all(one["config"]["seeds"] == [3, 4] and one["scale"] == "smoke+" for one in found)
    assert all((Path(one["folder"]) / "manifest.json").is_file() for one in found)


def test_a_run_whose_keys_were_changed_is_not_recorded(capfd, place):
    assert call(capfd, "run", "novelty", "--set", "dropout=0.1", "--jobs", "1", "--quiet").code == 0
    answer = call(capfd, "record", "novelty")
    assert answer.code == 2
    assert answer.err == "paraboloid: novelty changed keys of its scale (smoke+); records hold a scale as it is.\n"


def test_keys_come_from_the_scale_then_the_file_then_the_command_line(capfd, place):
    (place / "c.json").write_text('{"dropout": 0.3, "steps": [3, 2], "seeds": [5]}')
    words = ["run", "novelty", "--config", "c.json", "--set", "steps=4,3", "--seeds", "7", "8", "--jobs", "1", "--json"]
    config = json.loads(call(capfd, *words).out)["config"]
    assert (config["dropout"], config["steps"], config["seeds"]) == (0.3, [4, 3], [7, 8])
    command = json.loads(call(capfd, "show", "novelty", "--json").out)["provenance"]["command"]
    again = call(capfd, *command.split()[1:], "--jobs", "1", "--json")
    assert json.loads(again.out)["config"] == config


def test_a_recipe_that_fails_says_why_keeps_what_there_is_and_lists_it(capfd, place):
    words = ["run", "novelty", "linear_lemma", "--set", "seeds=0,1,2", "--jobs", "1"]
    path, empty = place / "mine" / "novelty.py", "tuple[int, ...] = ()"
    text = path.read_text().replace(f"failing: {empty}", "failing: tuple[int, ...] = (1,)")
    path.write_text(text.replace(f"skipping: {empty}", "skipping: tuple[int, ...] = (2,)"))
    answer = call(capfd, *words, "--json")
    assert answer.code == 1
    assert [json.loads(line)["recipe"] for line in answer.out.splitlines()] == ["linear_lemma"]  # the next one ran
    (folder,) = (place / "runs" / "novelty").iterdir()
    assert answer.err == (
        "paraboloid: novelty failed: 1 cell failed. seed 1: ArithmeticError: seed 1 cannot be divided "
        f"(traceback: {Path('runs') / 'novelty' / folder.name / 'error.txt'})\n"
    )
    assert "Traceback" in (folder / "error.txt").read_text()
    shown = call(capfd, "show", "novelty")
    assert "novelty, smoke+: failed" in shown.out
    assert "  seed 1 failed: ArithmeticError: seed 1 cannot be divided\n" in shown.out
    assert "  seed 2 skipped: diverged with seed 2\n" in shown.out
    assert call(capfd, "report", "novelty", "--to", "a.html").code == 0
    page = (place / "a.html").read_text(encoding="utf-8")
    assert "seed 1 cannot be divided" in page
    assert "diverged with seed 2" in page
    answer = call(capfd, "record", "novelty")
    assert answer.code == 2
    assert "records hold a scale as it is" in answer.err or "only finished runs are recorded" in answer.err


def test_the_module_and_the_console_script_are_one_command(place):
    command = [sys.executable, "-m", "paraboloid", "run", "novelty", "--jobs", "1", "--seeds", "1", "2", "--json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "finished"
