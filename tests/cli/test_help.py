"""Help, versions, lists and progress: what a newcomer sees first."""

import io
import json
import os
import subprocess
import sys

import pytest

import paraboloid_command
from cli.commands import call
from paraboloid.cli.progress import Bars, PlainLines, watching
from paraboloid.recipes.events import Event

COMMANDS = ("list", "run", "show", "record", "report", "table", "data", "doctor")


@pytest.mark.parametrize("words", [["--help"], [], *([command, "--help"] for command in COMMANDS)], ids=" ".join)
def test_help_is_there_for_every_command_with_its_exit_codes(capfd, words):
    answer = call(capfd, *words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("usage: paraboloid")
    assert "143 stopped by SIGTERM" in answer.out.replace("\n", " ").replace("  ", " ")


def test_help_and_mistakes_do_not_import_torch():
    text = (
        "import sys, paraboloid_command\n"
        "for words in (['--help'], ['run', '--help'], ['--version'], [], ['rnu'], ['run'], ['list', '--jsno']):\n"
        "    try:\n"
        "        paraboloid_command.main(words)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "heavy = sorted({'torch', 'numpy', 'paraboloid', 'matplotlib', 'rich', 'jinja2'} & set(sys.modules))\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


def test_the_version_is_the_packages(capfd):
    from importlib.metadata import version

    answer = call(capfd, "--version")
    assert (answer.code, answer.out) == (0, version("paraboloid") + "\n")


def test_sources_that_are_not_installed_say_so(capfd, monkeypatch):
    import importlib.metadata

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert call(capfd, "--version").out == "from sources\n"


def test_data_sets_are_listed_as_a_table_and_as_json(capfd):
    from paraboloid.datasets import catalogue

    found = json.loads(call(capfd, "data", "list", "--json").out)
    assert [one["name"] for one in found] == list(catalogue.CATALOGUE)
    text = call(capfd, "data", "list").out
    assert all(name in text for name in catalogue.CATALOGUE)
    assert call(capfd, "data", "get", "curves").out == "curves: needs no file\n"
    checked = call(capfd, "data", "check", "curves", "digits")
    assert checked.code == 0
    assert checked.out.startswith("curves: simulated\n")


def test_the_doctor_names_versions_machine_speed_and_data(capfd):
    answer = call(capfd, "doctor")
    assert (answer.code, answer.err) == (0, "")
    for word in ("torch", "memory", "GFLOP/s", "mnist", "GPU"):
        assert word in answer.out


def test_a_reader_who_leaves_early_is_no_error(monkeypatch):
    """`paraboloid list | head`: the pipe is closed while the table is being printed."""
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.FileIO(writing, "w"), write_through=True))
    assert paraboloid_command.main(["list"]) == 0


def test_silence_and_plain_lines(capfd):
    with watching("toy", silent=True) as watch:
        watch(Event("finished", "a"))
    assert capfd.readouterr() == ("", "")
    with watching("toy") as watch:
        assert isinstance(watch, PlainLines)
        watch(Event("cells", done=1, count=3))
        watch(Event("step", "a", "training", 5, 10))  # ten seconds have not passed
        watch(Event("failed", "a", text="why"))
        watch._last -= 100
        watch(Event("step", "b", "training", 5, 10))
    lines = [line.partition(" s  ")[2] for line in capfd.readouterr().err.splitlines()]
    assert lines == ["1 of 3 parts were there already", "a failed: why (2 of 3)", "b training 5 of 10"]


def test_bars_follow_cells_and_loops():
    from rich.console import Console
    from rich.progress import Progress

    screen = io.StringIO()
    bars = Progress(console=Console(file=screen, force_terminal=True, color_system=None, width=100), auto_refresh=False)
    watch = Bars("toy", bars)
    watch(Event("cells", done=1, count=3))
    watch(Event("step", "seed 0", "one", 0, 4))
    watch(Event("step", "seed 0", "one", 4, 4))
    watch(Event("step", "seed 0", "two", 1, 9))
    shown = {task.description.strip(): (task.completed, task.total) for task in bars.tasks}
    assert shown == {"toy": (1, 3), "seed 0 two": (1, 9)}
    watch(Event("finished", "seed 0"))
    watch(Event("failed", "seed [1]", text="[bold] reason"))
    assert [(task.description, task.completed) for task in bars.tasks] == [("toy", 3)]
    assert "seed [1] failed: [bold] reason" in screen.getvalue()
