"""docs/results.md says what the records say, and the records are results of recipes that are there."""

from pathlib import Path

from paraboloid.cli.catalogue import known
from paraboloid.recipes import discovery, records
from paraboloid.recipes.config import as_json, digest, from_json
from paraboloid.recipes.summary import verdict
from paraboloid_command import main

ROOT = Path(__file__).parents[2]


def test_the_page_of_results_is_what_the_records_give(capsys):
    status = main(["table", "--check", str(ROOT / "docs" / "results.md"), "--records", str(ROOT / "records")])
    assert status == 0, capsys.readouterr().err


def test_every_record_is_a_finished_run_of_a_recipe_at_one_of_its_scales():
    kept = records.read_all(ROOT / "records")
    assert {record.recipe for record in kept} == set(known())
    for record in kept:
        recipe = discovery.load(known()[record.recipe])
        config = from_json(recipe.config, record.config)
        assert record.state == "finished"
        assert digest(config) == record.config_hash
        assert as_json(recipe.scales[record.scale]) == record.config, "record the recipe anew: its scale has changed"
        assert len(record.config["seeds"]) >= 3
        assert not record.provenance.commit.endswith("+"), "record a run of committed code"


def test_every_target_of_a_record_has_a_verdict():
    for record in records.read_all(ROOT / "records"):
        for target in discovery.load(known()[record.recipe]).targets:
            summary = record.summary(target.value)
            assert summary is not None, f"{record.name} lacks {target.value!r}: record it anew"
            assert verdict(summary, target) in ("confirmed", "not confirmed", "undecided")
