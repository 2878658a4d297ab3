"""Pictures of panels: named parts, places that agree with the data, and errors that say what is wrong."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from paraboloid.recipes.figures import Axis, Bars, Figure, Panel, Series, Surface
from paraboloid.report import drawing, palette
from report import invented

SVG = "{http://www.w3.org/2000/svg}"


def draw(*panels):
    figure = Figure("name", "title", "caption", panels)
    return drawing.draw(figure, palette.slots_of([figure]), "x")


def place(data, x, y):
    """Where the script looks for a value."""
    left, top, right, bottom = data["box"]

    def share(axis, value):
        return ((math.log10(value) if axis["log"] else value) - axis["from"]) / (axis["to"] - axis["from"])

    return left + share(data["x"], x) * (right - left), bottom - share(data["y"], y) * (bottom - top)


def numbers_of(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_data_say_where_the_line_is(scale):
    x, y = [1.0, 3.0, 10.0], [0.2, 5.0, 0.7]
    (drawn,) = draw(Panel("p", Axis("x", scale), Axis("y", scale), [Series("a", x, y)]))
    root = ElementTree.fromstring(drawn.svg)
    lines = [g for g in root.iter(f"{SVG}g") if g.get("class") == "series"]
    path = next(p.get("d") for g in lines for p in g.iter(f"{SVG}path"))
    expected = [place(drawn.data, *point) for point in zip(x, y, strict=True)]
    assert np.allclose(np.reshape(numbers_of(path), (-1, 2)), expected, atol=0.02)


def test_the_data_say_where_a_bar_ends():
    (drawn,) = draw(Bars("p", ["one", "two"], Axis("y"), {"a": [1.0, 2.0], "b": [3.0, 4.0]}))
    root = ElementTree.fromstring(drawn.svg)
    tops = [
        min(numbers_of(p.get("d"))[1::2])
        for g in root.iter(f"{SVG}g")
        if g.get("class") == "series"
        for p in g.iter(f"{SVG}path")
    ]
    expected = [place(drawn.data, 0, y)[1] for series in drawn.data["list"] for y in series["y"]]
    assert np.allclose(tops, expected, atol=0.02)


def test_cells_of_a_surface_are_cut_half_way_between_their_centres():
    z = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    (drawn,) = draw(Surface("p", Axis("x", "log"), Axis("y"), [1.0, 10.0, 100.0], [0.0, 2.0], z))
    assert drawn.data["x"]["from"] == pytest.approx(-0.5) and drawn.data["x"]["to"] == pytest.approx(2.5)
    assert drawn.data["y"]["from"] == pytest.approx(-1.0) and drawn.data["y"]["to"] == pytest.approx(3.0)
    assert drawn.data["z"] == z
    assert "data:image/png;base64," in drawn.svg


def test_a_large_surface_stays_small():
    (drawn,) = draw(invented.landscape(200, 200))
    assert len(drawn.svg) < 150_000


def test_parts_of_a_series_carry_its_number_in_every_panel():
    drawn = draw(invented.curves(), invented.calibration())
    for panel in drawn:
        found = set(re.findall(r'data-series="(\d+)"', panel.svg))
        assert found == {"0", "1", "2"}
        assert all(f"var(--s{slot})" in panel.svg for slot in range(3))


def test_the_page_decides_about_colours_and_fonts():
    for panel in draw(*invented.gallery(None)[1].panels, invented.landscape()):
        assert not re.search(r"#0[ab]0[bc][0-9a-f]{2}", panel.svg)
        assert "font-family" not in panel.svg and "DejaVu" not in panel.svg
        assert "<style" not in panel.svg and "metadata" not in panel.svg


def test_names_beside_lines_are_buttons_and_do_not_touch():
    (drawn,) = draw(invented.curves())
    root = ElementTree.fromstring(drawn.svg)
    keys = [g for g in root.iter(f"{SVG}g") if g.get("role") == "button"]
    texts = [text for g in keys for text in g.iter(f"{SVG}text")]
    assert sorted(text.text for text in texts) == ["adam", "kfac", "sgd"]
    heights = sorted(float(text.get("y")) for text in texts)
    assert min(np.diff(heights)) > 12


def test_names_beside_lines_need_one_panel_and_few_short_names():
    assert drawing.can_carry_keys(Figure("", "", "", [invented.curves()]))
    assert not drawing.can_carry_keys(Figure("", "", "", [invented.curves(), invented.curves()]))
    assert not drawing.can_carry_keys(Figure("", "", "", [invented.curves(methods=invented.METHODS)]))
    assert not drawing.can_carry_keys(
        Figure("", "", "", [invented.curves(methods=("a", "a name that goes on and on"))])
    )
    assert not drawing.can_carry_keys(Figure("", "", "", [invented.calibration()]))


def test_an_x_that_series_share_is_written_once():
    (drawn,) = draw(invented.curves(methods=invented.METHODS))
    assert len(drawn.data["xs"]) == 1


def test_dots_take_few_bytes():
    cloud = Series("a", list(range(2000)), [math.sin(i) for i in range(2000)], mark="points")
    (drawn,) = draw(Panel("p", Axis("x"), Axis("y"), [cloud]))
    assert len(drawn.svg) < 45_000
    assert drawn.svg.count("h0") == 2000


def test_values_without_a_logarithm_are_counted():
    (drawn,) = draw(Panel("p", Axis("x", "log"), Axis("y", "log"), [Series("a", [0, 1, 2, 3], [1, -1, 2, math.nan])]))
    assert drawn.hidden == 2


def test_bands_and_errors_that_reach_below_zero_leave_a_logarithmic_axis_readable():
    x, y = [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]
    band = Panel(
        "p", Axis("x"), Axis("y", "log"), [Series("a", x, y, [-1.0, 1.0, 2.0], [2.0, 3.0, 4.0])], [("below", -1.0)]
    )
    bars = Bars("p", ["one", "two"], Axis("y", "log"), {"a": [1.0, 3.0]}, {"a": [2.0, 0.5]})
    for drawn in draw(band, bars):
        assert drawn.data["y"]["from"] > -3 and drawn.data["y"]["to"] < 2
        coordinates = [number for d in re.findall(r' d="([^"]*)"', drawn.svg) for number in numbers_of(d)]
        assert max(map(abs, coordinates)) < 2000


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_every_tick_says_its_whole_value(unit):
    (drawn,) = draw(Panel("p", Axis("x"), Axis("y"), [Series("a", [0, 1], [0.0, 4 * unit])]))
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn.svg)
    factor = {1e-9: "× 10⁻⁹", 1.0: "", 1e9: "× 10⁹"}[unit]
    assert any(text.startswith("4") and text.endswith(factor) for text in texts)
    assert not any("e" in text for text in texts)


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("y", [[], [math.nan, math.inf]])
def test_a_panel_without_a_value_says_so(scale, y):
    empty = Panel("p", Axis("x", scale), Axis("y", scale), [Series("a", [1.0] * len(y), y)], [("level", 0.5)])
    nothing = Surface("p", Axis("x"), Axis("y"), [1, 2], [1, 2], [[math.nan] * 2] * 2, scale=scale)
    for drawn in draw(empty, nothing):
        assert "no values" in drawn.svg


def test_a_single_point_is_drawn_as_one():
    (drawn,) = draw(Panel("p", Axis("x"), Axis("y"), [Series("a", [1.0], [2.0])]))
    assert "<use" in drawn.svg


def test_dollars_and_control_characters_are_text():
    title = "costs $1 & $2 <b> \x00\x08" + "\\frac"
    (drawn,) = draw(Panel(title, Axis("$x"), Axis("y"), [Series("a", [1, 2], [1, 2])]))
    texts = [text.text for text in ElementTree.fromstring(drawn.svg).iter(f"{SVG}text")]
    assert "costs $1 & $2 <b> \\frac" in texts and "$x" in texts


def test_flat_surfaces_and_single_rows_are_drawn():
    flat = Surface("p", Axis("x"), Axis("y"), [1, 2], [1, 2], [[3.0, 3.0], [3.0, 3.0]])
    row = Surface("p", Axis("x"), Axis("y"), [1, 2], [1], [[3.0, 4.0]], scale="log")
    assert all("data:image/png" in drawn.svg for drawn in draw(flat, row))


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        (Panel("p", Axis("x"), Axis("y"), [Series("a", [1, 2], [1])]), "as many y .* found 2 x, 1 y"),
        (Panel("p", Axis("x"), Axis("y"), [Series("a", [1], [1], low=[0])]), "both or neither"),
        (Bars("p", ["one"], Axis("y"), {"a": [1, 2]}), "one value for each of the 1 labels; found 2"),
        (Bars("p", ["one"], Axis("y"), {"a": [1]}, {"b": [1]}), "'b' .* found 1 errors and no values"),
        (Surface("p", Axis("x"), Axis("y"), [1, 2], [1], [[1.0]]), "found 1 rows of .1. columns"),
        (Surface("p", Axis("x"), Axis("y"), [2, 1], [1], [[1.0, 2.0]]), "finite and ascend"),
        (Surface("p", Axis("x", "log"), Axis("y"), [0, 1], [1], [[1.0, 2.0]]), "from above 0"),
    ],
)
def test_figures_that_do_not_fit_together_are_refused(panel, message):
    with pytest.raises(ValueError, match=message):
        draw(panel)
