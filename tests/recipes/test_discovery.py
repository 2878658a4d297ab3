"""Finding recipes: by name, by file, and with everything that is missing in them named."""

import textwrap
from pathlib import Path

import pytest

from paraboloid.recipes import discovery
from paraboloid.recipes.protocol import by_seed
from paraboloid.recipes.refused import Refused
from recipes import toys

TEXT = Path(toys.__file__).read_text()


def written(folder: Path, name: str = "mine", text: str = TEXT) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def test_modules_of_the_package_and_files_of_folders_are_found_by_name(tmp_path):
    written(tmp_path)
    written(tmp_path, "_private")
    (tmp_path / "notes.txt").write_text("")
    found = discovery.find("paraboloid.experiments", [tmp_path])
    assert found["linear_lemma"] == "paraboloid.experiments.linear_lemma"
    assert found["mine"] == str((tmp_path / "mine.py").resolve())
    assert not {"_private", "notes", "__init__"} & set(found)
    assert list(found) == sorted(found)


def test_every_recipe_of_the_package_loads():
    for name, reference in discovery.find("paraboloid.experiments").items():
        assert discovery.load(reference).name == name


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refused, match="which is not a folder; check PARABOLOID_RECIPES"):
        discovery.find("paraboloid.experiments", [tmp_path / "nowhere"])


def test_a_name_or_a_path_is_resolved_and_the_nearest_name_is_suggested(tmp_path, monkeypatch):
    path = written(tmp_path)
    known = {"linear_lemma": "a.b", "other": "a.c"}
    assert discovery.resolve("other", known) == "a.c"
    assert discovery.resolve(str(path), known) == str(path.resolve())
    monkeypatch.chdir(tmp_path)
    assert discovery.resolve("mine.py", known) == str(path.resolve())
    with pytest.raises(Refused, match="there is no recipe 'linear_lema'; did you mean linear_lemma"):
        discovery.resolve("linear_lema", known)
    with pytest.raises(Refused, match="there is no recipe 'zzz'; known: linear_lemma, other"):
        discovery.resolve("zzz", known)
    with pytest.raises(Refused, match="there is no recipe file nowhere.py"):
        discovery.resolve("nowhere.py", known)


def test_a_file_is_a_recipe_named_after_it(tmp_path):
    recipe = discovery.load(str(written(tmp_path)))
    assert (recipe.name, recipe.card.title) == ("mine", "A toy")
    assert [c.seeds for c in by_seed(recipe.config(seeds=(3, 4)))] == [(3,), (4,)]


def test_two_files_of_one_name_are_two_recipes(tmp_path):
    first = discovery.load(str(written(tmp_path / "a")))
    second = discovery.load(str(written(tmp_path / "b", text=TEXT.replace("A toy", "Another"))))
    assert (first.card.title, second.card.title) == ("A toy", "Another")
    assert discovery.load(str(tmp_path / "a" / "mine.py")).config is first.config


def without(part: str) -> str:
    return TEXT + f"\ndel {part}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((without(part), f"the recipe .* should define {part}; ") for part in ("CARD", "Config", "run", "TARGETS")),
        (without("figures"), "should define figures"),
        (TEXT.replace("@dataclass(frozen=True)", "@dataclass"), "Config should be a frozen dataclass: write"),
        (TEXT + "\nclass Config:\n    pass\n", "Config should be a frozen dataclass"),
        (TEXT.replace("    seeds: tuple", "    saat: tuple").replace("by_seed(config)", "[]"), "add `seeds: tuple"),
        (TEXT + "\ndel SCALES['paper']\n", "SCALES should have the keys smoke, laptop, paper; found smoke, laptop"),
        (TEXT + "\nSCALES['more'] = Config()\n", "SCALES should have the keys .* found smoke, laptop, paper, more"),
        ("def broken(:\n", "broken.py does not run: SyntaxError"),
        ("import nowhere_at_all\n", "broken.py does not run: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (textwrap.dedent("1 / 0"), "broken.py does not run: ZeroDivisionError"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_with_what_is_missing(tmp_path, text, message):
    path = written(tmp_path, "broken", text)
    with pytest.raises(Refused, match=message):
        discovery.load(str(path))
    written(tmp_path, "broken")
