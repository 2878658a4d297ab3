"""The report as a file: whole, small, the same each time, and safe whatever the records say."""

import html.parser
import json
import re
import sys
from collections import Counter
from functools import cache

import pytest

from paraboloid import report
from paraboloid.recipes.figures import Axis, Figure, Panel, Series
from paraboloid.recipes.records import Cell
from paraboloid.report import page
from report import invented

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"'&{{ 7 * 7 }} \u2028 ]]> -->"


class Elements(html.parser.HTMLParser):
    """Every start tag with its attributes, and the text of the data elements."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.tags.append((f"/{tag}", {}))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.tags[-1][1].get("type") == "application/json":
            self.data.append(data)


@cache
def plain_page() -> str:
    return page.html([invented.entry()], title="A title")


def test_the_same_records_give_the_same_bytes(tmp_path):
    one = report.write(tmp_path / "one.html", [invented.entry()]).read_bytes()
    two = report.write(tmp_path / "two.html", [invented.entry()]).read_bytes()
    assert one == two
    assert len(one) > 50_000


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = report.write(tmp_path / "report.html", [(invented.recipe(), invented.record())])
    before = path.read_bytes()
    with pytest.raises(AttributeError):
        report.write(path, [(invented.recipe(), invented.record(provenance=None))])
    with pytest.raises(UnicodeEncodeError):
        report.write(path, [(invented.recipe(), invented.record())], title="half a character \ud800")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_eight_methods_with_two_thousand_points_in_four_figures_stay_below_three_megabytes():
    figures = [Figure(f"f{i}", "title", "caption", [noisy(i)]) for i in range(4)]
    text = page.html([(invented.recipe(lambda results: figures, invented.TARGETS), invented.record())])
    assert len(text.encode()) < 3_000_000


def noisy(seed):
    """Curves in which no digit is predictable."""
    panel = invented.curves(2000, invented.METHODS)
    ragged = [
        Series(
            s.name,
            s.x,
            *(
                [v * (1 + 0.1 * ((hash((seed, i, k)) % 997) / 997)) for i, v in enumerate(part)]
                for k, part in enumerate((s.y, s.low, s.high))
            ),
        )
        for s in panel.series
    ]
    return type(panel)(panel.title, panel.x, panel.y, ragged)


def hostile_entry():
    figures = [Figure(HOSTILE, HOSTILE, HOSTILE, [invented.curves(methods=(HOSTILE, "b"), title=HOSTILE)])]
    card = dict(title=HOSTILE, claim=HOSTILE, source=HOSTILE, differences=(HOSTILE,), cost={HOSTILE: HOSTILE})
    recipe = invented.recipe(lambda results: figures, invented.TARGETS, **card)
    return recipe, invented.record(
        recipe=HOSTILE,
        scale=HOSTILE,
        state="failed",
        reason=HOSTILE,
        values={HOSTILE: (1.0, 2.0)},
        cells=(Cell(HOSTILE, "failed", 1.0, HOSTILE),),
        config={HOSTILE: {HOSTILE: [HOSTILE, 1]}},
    )


def test_whatever_a_record_says_is_text():
    plain = Elements(page.html([invented.entry(state="failed", reason="x")]))
    text = page.html([hostile_entry()], title=HOSTILE)
    hostile = Elements(text)
    scripts = [attributes for tag, attributes in hostile.tags if tag == "script"]
    assert [attributes.get("type") for attributes in scripts] == ["application/json", None]
    assert {tag for tag, _ in hostile.tags} <= {tag for tag, _ in plain.tags}
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)
    assert "{{ 7 * 7 }}" in text and "<script>alert" not in text and "<img" not in text


def test_embedded_json_comes_back_as_it_was():
    value = {"name": HOSTILE, "values": [1, None, 0.5]}
    text = str(page.embedded(value))
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)
    (data,) = Elements(page.html([hostile_entry()])).data
    assert json.loads(data)["series"][0]["name"] == HOSTILE


def test_nothing_is_loaded_from_anywhere():
    elements = Elements(plain_page())
    for tag, attributes in elements.tags:
        for name in ("src", "href", "data", "action", "poster", "srcset"):
            link = attributes.get(name)
            assert link is None or link.startswith(("#", "data:")), (tag, link)
    policy = next(a["content"] for _, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy and "http" not in policy
    text = plain_page()
    assert not re.search(r"@import|url\((?!#)", text)


def test_ids_are_unique_and_every_link_has_a_target():
    few = invented.recipe(lambda results: invented.gallery(results)[:1], invented.TARGETS)
    text = page.html([(few, invented.record()), invented.entry(), (few, invented.record(scale="laptop+"))])
    tags = Elements(text).tags
    ids = Counter(attributes["id"] for _, attributes in tags if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    links = {a["href"][1:] for _, a in tags if a.get("href", "").startswith("#")} | set(
        re.findall(r"url\(#([^)]+)\)", text)
    )
    labels = {a["aria-labelledby"] for _, a in tags if "aria-labelledby" in a}
    assert (links | labels) - set(ids) == set()


@pytest.mark.parametrize("state", ["failed", "interrupted", "running"])
def test_an_unfinished_run_says_so_with_its_reason(state):
    text = page.html([(invented.recipe(), invented.record(state=state, reason="the loss was not finite"))])
    alert = text[text.index('class="alert"') :][:400]
    assert {"failed": "failed", "interrupted": "interrupted", "running": "not over"}[state] in alert
    assert "the loss was not finite" in alert


def test_figures_that_cannot_be_drawn_are_said_and_the_rest_of_the_page_stays():
    def broken(results):
        return [Figure("f", "t", "c", [invented.curves()]), Figure("g", "t", "c", [results.tables["missing"]["x"]])]

    recipe = invented.recipe(broken, invented.TARGETS)
    text = page.html([(recipe, invented.record()), invented.entry(scale="paper")])
    assert "could not be drawn from the record linear_factors-laptop (run finished): KeyError:" in text
    assert text.count("<figure") == 4


def test_one_figure_that_cannot_be_drawn_leaves_the_others():
    wrong = Panel("p", Axis("x"), Axis("y"), [Series("a", [1, 2], [1])])
    figures = [Figure(name, "t", "c", [panel]) for name, panel in (("first", wrong), ("second", invented.curves()))]
    text = page.html([(invented.recipe(lambda results: figures), invented.record())])
    assert "The figure &#39;first&#39; of linear_factors could not be drawn" in text
    assert "found 2 x, 1 y" in text
    assert text.count("<figure") == 1


def test_a_report_without_records_is_a_page():
    assert "No record here has a published value" in page.html([])


def test_a_record_without_values_asks_for_no_figures():
    def never(results):
        raise AssertionError("nothing to draw")

    text = page.html([(invented.recipe(never), invented.record(values={}, tables={}, state="failed", reason="early"))])
    assert "could not be drawn" not in text


def test_the_page_shows_the_card_the_cells_and_where_the_numbers_come_from():
    text = plain_page()
    card = invented.recipe().card
    shown = [card.title, card.claim, card.source, card.reported, *card.differences, *card.cost.values()]
    shown += ["2 of 4 finished", "diverged at step 12", "Try 1e-4", "3 h on one GPU", invented.PROVENANCE.source]
    shown += ["1 h 24 min", "resumed 2×", *invented.PROVENANCE.data.values(), *invented.PROVENANCE.versions.values()]
    shown += [invented.PROVENANCE.command, invented.record().config_hash, "64, 32, 10", "A title", "2026-03-14"]
    assert [part for part in shown if part not in text] == []


def test_drawing_without_matplotlib_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "paraboloid\[cli\]"'):
        report.write(tmp_path / "report.html", [invented.entry()])
    assert list(tmp_path.iterdir()) == []
    assert report.results_page([invented.entry()])


def test_neither_a_users_settings_nor_ours_reach_the_other(tmp_path):
    import matplotlib

    expected = plain_page()
    with matplotlib.rc_context({"font.size": 40.0, "svg.fonttype": "path", "axes.xmargin": 0.4}):
        assert page.html([invented.entry()], title="A title") == expected
        assert matplotlib.rcParams["font.size"] == 40.0
