"""The recipe that CONTRIBUTING.md shows is a whole one."""

import json
import re
from pathlib import Path

import pytest

from paraboloid_command import main

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A folder that holds the page's recipe and is found by its name."""
    (block,) = re.findall(r"^```python recipe\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "fair_coins.py").write_text(block, encoding="utf-8")
    monkeypatch.setenv("PARABOLOID_RECIPES", str(recipes))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_recipe_takes_one_file_for_list_run_record_report_and_table(workshop, capsys):
    assert main(["list", "--json"]) == 0
    assert "fair_coins" in [card["name"] for card in json.loads(capsys.readouterr().out)]
    assert main(["run", "fair_coins", "--scale", "laptop", "--jobs", "1"]) == 0
    assert "confirmed" in capsys.readouterr().out
    assert main(["record", "fair_coins"]) == 0
    assert main(["table", "--write", "results.md"]) == 0
    assert main(["table", "--check", "results.md"]) == 0
    assert main(["report", "--to", "report.html"]) == 0
    assert "Fair coins" in (workshop / "report.html").read_text(encoding="utf-8")
    assert "the spread is 1/(2√n)" in (workshop / "results.md").read_text(encoding="utf-8")


def test_a_page_of_results_that_differs_from_the_records_is_called_stale(workshop, capsys):
    assert main(["run", "fair_coins", "--jobs", "1", "--quiet"]) == 0
    assert main(["record", "fair_coins"]) == 0
    assert main(["table", "--write", "results.md"]) == 0
    page = workshop / "results.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Fair coins", "Unfair coins"), encoding="utf-8")
    assert main(["table", "--check", "results.md"]) == 1
    assert "stale" in capsys.readouterr().err
