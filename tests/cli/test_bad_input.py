"""Whatever is mistyped or missing: one line that names it and what to do, no traceback, exit code 2."""

import json
import os
from pathlib import Path

import pytest

from cli.commands import call, refused
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.locks import Lock
from paraboloid.recipes.runs import Plan
from recipes import toys

TOYS = toys.__file__


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["linear_lema"], "there is no recipe 'linear_lema'; did you mean linear_lemma?"),
        (["nowhere.py"], "there is no recipe file nowhere.py"),
        (["linear_lemma", "--set", "widht=3"], "there is no key 'widht'; did you mean width?"),
        (["linear_lemma", "--set", "width=wide"], "width should be a whole number, found 'wide'"),
        (["linear_lemma", "--set", "width=true"], "width should be a whole number, found True"),
        (["linear_lemma", "--set", "width"], "a change should look like key=value, found 'width'"),
        (["linear_lemma", "--set", "width.x=1"], "'width' holds a value, not further keys"),
        (["linear_lemma", "--set", "seeds=a"], "seeds[0] should be a whole number, found 'a'"),
        (["linear_lemma", "--set", "seeds=[]"], "seeds should be different whole numbers, 0 or larger; found []"),
        (["linear_lemma", "--seeds", "-1"], "seeds should be different whole numbers, 0 or larger; found [-1]"),
        (["linear_lemma", "--seeds", "1", "1"], "seeds should be different whole numbers, 0 or larger; found [1, 1]"),
        (["linear_lemma", "--seeds", "x"], "argument --seeds: invalid int value: 'x'"),
        (["linear_lemma", "--device", "cuda:77"], "the device 'cuda:77' is not there"),
        (["linear_lemma", "--device", "gpu"], "the device 'gpu' is not there"),
        (["linear_lemma", "--jobs", "0"], "--jobs should be 1 or more, found 0"),
        (["linear_lemma", "--jobs", "-2"], "--jobs should be 1 or more, found -2"),
        (["linear_lemma", "--checkpoint-seconds", "-1"], "--checkpoint-seconds should be 0 or more, found -1.0"),
        (["linear_lemma", "--checkpoint-seconds", "nan"], "--checkpoint-seconds should be 0 or more, found nan"),
        (["linear_lemma", "--config", "nowhere.json"], "there is no file nowhere.json"),
        (["linear_lemma", "--scale", "smok"], "--scale 'smok' is not there. Did you mean smoke?"),
        (["linear_lemma", "--sed", "1"], "there is no option --sed. Did you mean --se"),
        (["linear_lemma", "--json", "--quiet"], "not allowed with argument"),
        ([], "the following arguments are required: RECIPE"),
    ],
)
def test_a_run_that_cannot_be_is_refused(capfd, out, words, message):
    answer = call(capfd, "run", *words, "--out", out)
    assert message in refused(answer)
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "COMMAND 'rnu' is not there. Did you mean run?"),
        (["zzzzz"], "COMMAND 'zzzzz' is not there. `paraboloid --help` shows what is."),
        (["--versoin"], "there is no option --versoin. Did you mean --version?"),
        (["list", "--jsno"], "there is no option --jsno. Did you mean --json?"),
        (["data"], "the following arguments are required: ACTION"),
        (["data", "gte"], "ACTION 'gte' is not there. Did you mean get?"),
        (["data", "get", "mnits"], "there is no data set 'mnits'; did you mean mnist"),
        (["data", "check", "zzzzzz"], "there is no data set 'zzzzzz'. All names: mnist,"),
        (
            ["show", "nowhere"],
            "there is no run 'nowhere': neither a folder with a manifest.json, nor a recipe with",
        ),
        (["record", "nowhere"], "there is no run 'nowhere'"),
        (["report", "nowhere"], "there is no run 'nowhere'"),
        (["report"], "there is no folder of records records; run and record a recipe first"),
        (["table"], "there is no folder of records records"),
    ],
)
def test_a_command_that_cannot_be_is_refused(capfd, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(call(capfd, *words))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json should be JSON, but"),
        ("[1, 2]", "config.json should hold one table of keys and values, found list"),
        ('{"widht": 3}', "there is no key 'widht'; did you mean width?"),
        ('{"width": "3x"}', "width should be a whole number, found '3x'"),
    ],
)
def test_a_broken_config_file_is_refused(capfd, out, tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    answer = call(capfd, "run", "linear_lemma", "--out", out, "--config", tmp_path / "config.json")
    assert message in refused(answer)


def test_a_config_that_refuses_its_own_values_is_heard(capfd, out, tmp_path):
    check = "    def __post_init__(self):\n        if self.dropout > 1:\n            raise ValueError('too much')\n"
    last = "    seeds: tuple[int, ...] = (0, 1)\n"
    text = Path(TOYS).read_text().replace(last, f"{last}\n{check}")
    (tmp_path / "strict.py").write_text(text)
    answer = call(capfd, "run", tmp_path / "strict.py", "--out", out, "--set", "dropout=2.0")
    assert "strict: too much" in refused(answer)


def test_an_out_that_is_a_file_or_below_one_is_refused(capfd, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        message = refused(call(capfd, "run", TOYS, "--out", folder, "--quiet"))
        assert "a file stands where a folder is needed. Choose another --out." in message
    if os.path.isdir("/proc/self"):
        assert "cannot be written to" in refused(call(capfd, "run", TOYS, "--out", "/proc/self/task", "--quiet"))


def test_a_second_run_into_the_same_folder_is_refused(capfd, out):
    from paraboloid.recipes.discovery import load

    recipe = load(TOYS)
    folder = Plan(recipe, "smoke", recipe.scales["smoke"], out, Circumstances()).folder
    folder.mkdir(parents=True)
    lock = Lock(folder)
    assert "another run is writing into" in refused(call(capfd, "run", TOYS, "--out", out))
    lock.release()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with one finished run and its record."""
    from paraboloid_command import main

    place = tmp_path_factory.mktemp("finished")
    assert main(["run", TOYS, "--out", str(place / "runs"), "--jobs", "1", "--quiet"]) == 0
    assert main(["record", "toys", "--out", str(place / "runs"), "--records", str(place / "records")]) == 0
    return place


def test_records_and_manifests_of_a_newer_format_are_refused(capfd, finished, tmp_path, monkeypatch):
    monkeypatch.setenv("PARABOLOID_RECIPES", str(written(tmp_path)))
    record = json.loads((finished / "records" / "toys-smoke.json").read_text())
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "toys-smoke.json").write_text(json.dumps(record | {"format": 99}))
    for words in (["table"], ["report", "--to", str(tmp_path / "a.html")]):
        answer = call(capfd, *words, "--records", tmp_path / "records")
        assert "was written by a newer paraboloid (format 99; this one reads up to 1). Update" in refused(answer)
    (folder,) = (finished / "runs" / "toys").iterdir()
    newer = tmp_path / "newer"
    newer.mkdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    for words in (["show", newer], ["record", newer], ["report", newer, "--to", tmp_path / "a.html"]):
        assert "is of a newer paraboloid (format 99, known 1). Update it." in refused(call(capfd, *words))
    assert not (tmp_path / "a.html").exists()


def written(folder: Path) -> Path:
    place = folder / "recipes"
    place.mkdir()
    (place / "toys.py").write_text(Path(TOYS).read_text())
    return place


def test_a_report_or_a_page_that_cannot_be_written_where_it_should_is_refused(capfd, finished, tmp_path, monkeypatch):
    monkeypatch.setenv("PARABOLOID_RECIPES", str(written(tmp_path)))
    for target in (tmp_path, tmp_path / "nowhere" / "a.html"):
        answer = call(capfd, "report", "toys", "--out", finished / "runs", "--to", target)
        assert "--to should name a file in a folder that exists, found" in refused(answer)
        answer = call(capfd, "table", "--records", finished / "records", "--write", target)
        assert "--write should name a file in a folder that exists, found" in refused(answer)
    (tmp_path / "file").write_text("")
    answer = call(capfd, "record", "toys", "--out", finished / "runs", "--records", tmp_path / "file")
    assert "--records should name a folder, found the file" in refused(answer)


def test_a_folder_that_is_no_run_and_a_recipe_that_is_gone_are_refused(capfd, finished, tmp_path):
    assert "there is no run" in refused(call(capfd, "show", tmp_path))
    (folder,) = (finished / "runs" / "toys").iterdir()
    gone = tmp_path / "gone"
    gone.mkdir()
    for name in ("manifest.json", "results.json"):
        text = (folder / name).read_text()
        (gone / name).write_text(text.replace(str(Path(TOYS).resolve()), str(tmp_path / "gone.py")))
    assert "the recipe of" in refused(call(capfd, "show", gone))


def test_recipes_that_are_looked_for_in_no_folder_or_do_not_run_are_refused(capfd, tmp_path, monkeypatch):
    monkeypatch.setenv("PARABOLOID_RECIPES", str(tmp_path / "nowhere"))
    assert "which is not a folder; check PARABOLOID_RECIPES" in refused(call(capfd, "list"))
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.setenv("PARABOLOID_RECIPES", str(tmp_path))
    assert "broken.py does not run: ZeroDivisionError" in refused(call(capfd, "list"))


def test_data_that_is_not_here_is_said_with_what_to_do_and_without_a_traceback(capfd, out, tmp_path, monkeypatch):
    from paraboloid.datasets import download

    def unreachable(*arguments, **options):
        raise OSError("no network here")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    monkeypatch.setenv("PARABOLOID_DATA", str(tmp_path))
    monkeypatch.setenv("PARABOLOID_CACHE", str(tmp_path / "cache"))
    for words in (["data", "get", "mnist"], ["run", "kronecker_quality", "--scale", "paper", "--out", out, "--quiet"]):
        answer = call(capfd, *words, *(["--jobs", "1"] if words[0] == "run" else []))
        assert answer.code == 2
        assert "The data set mnist is not on this machine:" in answer.err
        assert "no network here" in answer.err
        assert "PARABOLOID_DATA" in answer.err
        assert "Traceback" not in answer.err
    assert call(capfd, "data", "check", "mnist").code in (1, 2)
