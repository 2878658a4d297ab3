"""Records: what a run found, in a file that can be read again, by others and by the next version."""

import json
import math
from dataclasses import replace

import pytest

from paraboloid.recipes import records
from paraboloid.recipes.records import Cell, Provenance, Record, compact
from paraboloid.recipes.refused import Refused
from paraboloid.recipes.summary import Summary

RECORD = Record(
    recipe="toy",
    scale="smoke",
    config={"lr": 0.1, "seeds": [0, 1]},
    config_hash="ab" * 32,
    provenance=Provenance("0.1", "", "cd" * 32, {"digits": "ef"}, {"cores": 2}, {"torch": "2"}, "2026", 1.5, 2, "c"),
    values={"loss": [0.1, 1e-300, -0.0], "δ": [1.0]},
    tables={"curve": {"step": [0, 1], "name": ["a", "b"], "z": [[1, 2], [3, 4]]}},
    cells=[Cell("seed 0", "finished", 1.0), Cell("seed 1", "skipped", 0.5, "diverged")],
)


def test_a_record_comes_back_from_its_file(tmp_path):
    path = records.write(tmp_path / "new" / "folder", RECORD)
    assert path == tmp_path / "new" / "folder" / "toy-smoke.json"
    assert records.read(path) == RECORD
    assert records.read_all(path.parent) == [RECORD]


def test_the_file_has_one_line_for_each_list_and_does_not_change_when_written_again(tmp_path):
    path = records.write(tmp_path, RECORD)
    first = path.read_bytes()
    assert b'\n  "loss": [0.1, 1e-300, -0.0],\n' in first
    assert json.loads(first)["format"] == records.FORMAT
    records.write(tmp_path, records.read(path))
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": {}}, {"a": []}, {"a": [{"b": 1}, {"b": [1, {"c": 2}]}]}, [1, [2, {"x": None}]], "δ", None, 1.5],
)
def test_compact_json_means_what_plain_json_means(value):
    assert json.loads(compact(value)) == value


def test_records_are_read_by_name_and_other_files_are_left_alone(tmp_path):
    for recipe in ("b", "a"):
        records.write(tmp_path, replace(RECORD, recipe=recipe))
    (tmp_path / "notes.txt").write_text("")
    assert [record.name for record in records.read_all(tmp_path)] == ["a-smoke", "b-smoke"]


def test_a_value_is_summarised_where_there_is_one():
    assert RECORD.summary("loss") == Summary.of([0.1, 1e-300, -0.0])
    assert RECORD.summary("nothing") is None
    assert math.isnan(RECORD.summary("δ").standard_error)


@pytest.mark.parametrize("state", ["failed", "interrupted", "running"])
def test_only_finished_runs_are_recorded(tmp_path, state):
    with pytest.raises(Refused, match=rf"only finished runs are recorded; toy-smoke is {state}: because"):
        records.write(tmp_path, replace(RECORD, state=state, reason="because"))
    with pytest.raises(Refused, match=rf"{state}: resume it"):
        records.write(tmp_path, replace(RECORD, state=state))
    assert not list(tmp_path.iterdir())


def changed(**parts):
    return json.dumps(RECORD.to_json() | parts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(format=2), r"a.json was written by a newer paraboloid \(format 2; this one reads up to 1\). Update"),
        (changed(format="1"), "a.json should be a record of a run, which says its format; found none"),
        ("[1]", "a.json should be a record of a run"),
        ("{}", "a.json should be a record of a run"),
        (changed(extra=1), "a.json is not a whole record: .*extra"),
        (changed(provenance={"version": "1"}), "a.json is not a whole record"),
        (changed(provenance=None), "a.json is not a whole record"),
        (changed(cells=[{"nam": 1}]), "a.json is not a whole record: .*nam"),
        ('{"format": 1}', "a.json is not a whole record: 'provenance'"),
        (changed()[:100], "a.json should be JSON, but"),
        ("", "a.json should be JSON, but"),
    ],
)
def test_a_record_of_another_shape_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    for read in (lambda: records.read(tmp_path / "a.json"), lambda: records.read_all(tmp_path)):
        with pytest.raises(Refused, match=message) as refusal:
            read()
        assert "\n" not in str(refusal.value)


def test_a_folder_of_records_that_is_missing_or_a_file_is_refused(tmp_path):
    with pytest.raises(Refused, match="there is no folder of records .*nowhere; run and record a recipe first"):
        records.read_all(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="--records should name a folder, found the file"):
        records.write(tmp_path / "file", RECORD)
