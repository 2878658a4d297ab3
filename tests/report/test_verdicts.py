"""Claims beside measurements, as rows."""

from paraboloid.recipes.protocol import Target
from paraboloid.report import VerdictRow, verdict_rows
from paraboloid.report.verdicts import SEVERITY
from report import invented


def test_rows_stand_in_the_order_of_entries_and_targets():
    first, second = invented.entry(), invented.entry(scale="paper")
    rows = verdict_rows([first, second])
    assert [row.target for row in rows] == [*invented.TARGETS, *invented.TARGETS]
    assert [row.scale for row in rows] == ["laptop"] * 4 + ["paper"] * 4


def test_the_interval_of_the_mean_decides():
    found = [row.verdict for row in verdict_rows([invented.entry()])]
    assert found == ["confirmed", "confirmed", "not confirmed", "undecided"]


def test_what_failed_sorts_first():
    assert sorted(SEVERITY, key=SEVERITY.get) == ["not confirmed", "undecided", "confirmed"]


def test_only_a_finished_run_decides():
    for state in ("failed", "interrupted", "running"):
        rows = verdict_rows([invented.entry(state=state)])
        assert {row.verdict for row in rows} == {"undecided"}
        assert all(state in row.note for row in rows)
        assert rows[1].measured == "0.69925 ± 0.00092"


def test_a_missing_value_and_a_single_repetition_are_undecided_and_say_why():
    targets = (Target("missing", "it is there", "yes", low=0.0), Target("seconds", "it is fast", "< 1 min", high=60.0))
    missing, single = verdict_rows([(invented.recipe(targets=targets), invented.record())])
    assert (missing.verdict, missing.measured, missing.n) == ("undecided", "—", 0)
    assert "no value 'missing'" in missing.note
    assert (single.verdict, single.measured, single.n) == ("undecided", "12.5", 1)
    assert "one repetition" in single.note


def test_a_row_has_a_text_for_every_heading():
    for row in verdict_rows([invented.entry()]):
        assert len(row.cells) == len(VerdictRow.HEADINGS)
        assert all(isinstance(cell, str) and cell for cell in row.cells)
    assert verdict_rows([invented.entry()])[2].cells == (
        "The factors of a linear network are exact",
        "laptop",
        "it is faster than the dense matrix",
        "> 2×",
        "1.038 ± 0.029",
        "4",
        "≥ 2",
        "✗ not confirmed",
    )
