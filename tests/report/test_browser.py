"""The page in a browser: what a reader can click, press, hover, read and download."""

import csv
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from paraboloid.recipes.figures import Panel
from report import invented

pytestmark = pytest.mark.browser
RACE, SIDES, VALLEY = 0, 1, 2
SVG = "{http://www.w3.org/2000/svg}"


def figure(page, number):
    return page.locator("figure.plot").nth(number)


def visible(page, number, series):
    """How many drawn parts of a series can be seen, buttons not counted."""
    parts = figure(page, number).locator(f'.panel .series[data-series="{series}"]:not(.key)')
    return sum(part.is_visible() for part in parts.all())


def place_of(page, number, panel, x, y):
    """Where on the screen a value lies, from the data in the page."""
    view = figure(page, number).locator(".view").nth(panel)
    view.scroll_into_view_if_needed()
    data = json.loads(figure(page, number).locator("script.data").text_content())
    frame = data["panels"][panel]
    left, top, right, bottom = frame["box"]
    shares = []
    for axis, value in ((frame["x"], x), (frame["y"], y)):
        value = np.log10(value) if axis["log"] else value
        shares.append((value - axis["from"]) / (axis["to"] - axis["from"]))
    box = view.locator("svg.panel").bounding_box()
    scale = box["width"] / frame["width"]
    across, up = left + shares[0] * (right - left), bottom - shares[1] * (bottom - top)
    return box["x"] + across * scale, box["y"] + up * scale


def column(page, table, number):
    return [cell.inner_text() for cell in page.locator(f"{table} tbody tr > *:nth-child({number})").all()]


def table_of(download):
    return list(csv.DictReader(io.StringIO(download.path().read_bytes().decode(), newline="")))


def pixels_of(screenshot):
    return np.asarray(Image.open(io.BytesIO(screenshot)).convert("RGB")).astype(int)


def test_a_click_on_a_legend_entry_hides_its_series_in_all_panels_and_another_shows_it(open_page):
    page = open_page()
    key = figure(page, SIDES).locator(".legend .key", has_text=re.compile("^kfac$"))
    number = int(key.get_attribute("data-series"))
    before = visible(page, SIDES, number)
    assert before >= 3 + 2  # line and band, three bars, points
    key.click()
    assert visible(page, SIDES, number) == 0
    assert key.get_attribute("aria-pressed") == "false"
    assert visible(page, SIDES, 0) > 0
    assert visible(page, RACE, 2) > 0  # another figure is another matter
    key.click()
    assert visible(page, SIDES, number) == before
    assert key.get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("key_name", ["Enter", " "])
def test_names_beside_lines_and_legend_entries_answer_to_the_keyboard(open_page, key_name):
    page = open_page()
    for number, place in ((RACE, ".panel .key"), (SIDES, ".legend .key")):
        key = figure(page, number).locator(place).first
        series = int(key.get_attribute("data-series"))
        key.focus()
        page.keyboard.press(key_name)
        assert visible(page, number, series) == 0
        page.keyboard.press(key_name)
        assert visible(page, number, series) > 0


def test_a_click_on_a_name_beside_a_line_hides_the_line(open_page):
    page = open_page()
    key = figure(page, RACE).locator(".panel .key", has_text="adam")
    key.click()
    assert visible(page, RACE, int(key.get_attribute("data-series"))) == 0
    assert key.is_visible()


def test_columns_sort_by_number(open_page):
    page = open_page()
    header = page.locator("table.verdicts thead th", has_text="Measured")
    values = {"(2.50": 2.5e-12, "0.699": 0.699, "1.038": 1.038, "0.400": 0.4}
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    shown = column(page, "table.verdicts", 5)
    up = [next(value for start, value in values.items() if text.startswith(start)) for text in shown]
    assert up == sorted(up) and len(up) == 5
    header.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    down = [text[:5] for text in column(page, "table.verdicts", 5)]
    assert down[0] == "1.038" and down[-1] == "(2.50"


def test_columns_sort_by_text_and_missing_numbers_stand_last(open_page):
    page = open_page()
    section = "#record-linear_factors-laptop table.values"
    page.locator(f"{section} thead button", has_text="Value").click()
    assert column(page, section, 1) == sorted(invented.VALUES)
    errors = page.locator(f"{section} thead button", has_text="Standard error")
    for _ in range(2):
        errors.click()
        assert column(page, section, 3)[-1] == "—"
    assert page.locator(f"{section} th[aria-sort=none]").count() == 3


def test_verdicts_sort_by_severity(open_page):
    page = open_page()
    page.locator("table.verdicts thead button", has_text="Verdict").click()
    order = [text.split("\n")[0] for text in column(page, "table.verdicts", 2)]
    assert order == ["not confirmed", "undecided", "undecided", "confirmed", "confirmed"]


def test_the_pointer_shows_series_x_and_value_with_its_band(open_page):
    page = open_page()
    kfac = invented.curves().series[2]
    page.mouse.move(*place_of(page, RACE, 0, kfac.x[9], kfac.y[9]))
    lines = page.locator("#tip").inner_text().split("\n")
    assert lines[:2] == ["kfac", "steps: 10"]
    value, error = (float(part) for part in lines[2].removeprefix("training loss: ").split(" ± "))
    assert value == pytest.approx(kfac.y[9], rel=1e-5)
    assert error == pytest.approx(0.07 * kfac.y[9], rel=1e-2)
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_a_hidden_series_is_not_pointed_at(open_page):
    page = open_page()
    figure(page, RACE).locator(".panel .key", has_text="kfac").click()
    kfac = invented.curves().series[2]
    page.mouse.move(*place_of(page, RACE, 0, kfac.x[9], kfac.y[9]))
    assert page.locator("#tip b").inner_text() in ("sgd", "adam")


def test_the_pointer_shows_bars_and_cells_of_a_surface(open_page):
    page = open_page()
    page.mouse.move(*place_of(page, SIDES, 1, 0.0, 0.14))
    assert page.locator("#tip").inner_text().split("\n") == ["kfac", "in distribution", "ECE: 0.14 ± 0.01"]
    surface = invented.landscape()
    page.mouse.move(*place_of(page, VALLEY, 0, surface.xs[7] * 1.05, surface.ys[5] + 0.02))
    lines = page.locator("#tip").inner_text().split("\n")
    assert float(lines[0].removeprefix("loss: ")) == pytest.approx(surface.z[5][7], rel=1e-5)
    assert lines[2] == f"temperature: {surface.ys[5]:g}"


def test_arrow_keys_walk_through_the_values_and_are_read_aloud(open_page):
    page = open_page()
    figure(page, RACE).locator(".view").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowRight")
    assert first.split("\n")[0] == page.locator("#tip b").inner_text() == "sgd"
    assert first != page.locator("#tip").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#tip b").inner_text() == "adam"
    page.keyboard.press("End")
    assert "steps: 40" in page.locator("#said").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_a_touch_shows_a_value(open_page):
    page = open_page(390, 800, has_touch=True)
    sgd = invented.curves().series[0]
    page.touchscreen.tap(*place_of(page, RACE, 0, sgd.x[0], sgd.y[0]))
    assert page.locator("#tip b").inner_text() == "sgd"
    box = page.locator("#tip").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_the_scheme_changes_the_page_and_the_button_changes_it_back(open_page):
    light = open_page().evaluate("getComputedStyle(document.body).backgroundColor")
    page = open_page(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    axis = "getComputedStyle(document.querySelector('.panel text')).fill"
    dark, dark_axis = page.evaluate(background), page.evaluate(axis)
    assert light == "rgb(255, 255, 255)" and dark != light
    page.locator("#theme").click()
    assert page.evaluate(background) == light
    assert page.evaluate(axis) != dark_axis
    page.reload()
    assert page.evaluate(background) == light  # remembered for the session


@pytest.mark.parametrize(("width", "side_by_side"), [(1280, True), (390, False)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window(open_page, width, side_by_side, scheme):
    page = open_page(width, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        "width => [...document.querySelectorAll('main *:not(.scroll *), header *, footer *')].filter(part => {"
        " const box = part.getBoundingClientRect(); return box.width && (box.left < 0 || box.right > width + 0.5); })"
        ".map(part => part.tagName + ': ' + part.textContent.slice(0, 40))",
        width,
    )
    assert outside == []
    boxes = [view.bounding_box() for view in figure(page, SIDES).locator(".view").all()]
    assert (len({round(box["y"]) for box in boxes}) == 1) is side_by_side
    assert (len({round(box["x"]) for box in boxes}) == 1) is not side_by_side

    pixels = pixels_of(page.screenshot())
    paper = pixels[2, 2]
    ink = (np.abs(pixels - paper).sum(-1) > 150).mean()
    assert 0.01 < ink < 0.3  # something is written, and most of it is paper
    assert (paper.mean() > 200) == (scheme == "light")
    figure(page, RACE).locator(".view").scroll_into_view_if_needed()
    drawn = pixels_of(figure(page, RACE).locator(".view").screenshot())
    spread = drawn.max(-1) - drawn.min(-1)
    assert (spread > 100).mean() > 0.002  # the coloured lines are there


def test_letters_in_figures_can_be_read_at_every_width(open_page):
    for width in (1280, 390):
        page = open_page(width)
        for view in page.locator(".view").all():
            scale = view.locator("svg.panel").bounding_box()["width"] / float(
                view.locator("svg.panel").get_attribute("viewBox").split()[2]
            )
            assert 9 <= 12 * scale <= 16


def test_the_csv_holds_the_data_of_the_figure(open_page):
    page = open_page()
    with page.expect_download() as download:
        figure(page, RACE).get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "race.csv"
    rows = table_of(download.value)
    expected = [
        {"panel": "Loss", "series": s.name, "x": x, "y": y, "low": low, "high": high}
        for s in invented.curves().series
        for x, y, low, high in zip(s.x, s.y, s.low, s.high, strict=True)
    ]
    compare(rows, expected)


def test_the_csv_of_a_mixed_figure_has_a_column_for_everything(open_page):
    page = open_page()
    with page.expect_download() as download:
        figure(page, SIDES).get_by_role("button", name="Download CSV").click()
    rows = table_of(download.value)
    assert list(rows[0]) == ["panel", "series", "label", "x", "y", "low", "high"]
    panels = [panel for panel in invented.gallery(None)[SIDES].panels if isinstance(panel, Panel)]
    bars = invented.calibration(invented.METHODS[:5])
    assert len(rows) == sum(len(s.x) for p in panels for s in p.series) + sum(map(len, bars.values.values()))
    expected = [
        {"series": name, "label": label, "x": "", "y": y, "low": y - error, "high": y + error}
        for name, values in bars.values.items()
        for label, y, error in zip(bars.labels, values, bars.errors[name], strict=True)
    ]
    compare([row for row in rows if row["panel"] == bars.title], expected)


def test_the_csv_of_a_surface_has_a_row_for_each_cell(open_page):
    page = open_page()
    with page.expect_download() as download:
        figure(page, VALLEY).get_by_role("button", name="Download CSV").click()
    rows = table_of(download.value)
    surface = invented.landscape()
    cells = [(r, c) for r in range(len(surface.ys)) for c in range(len(surface.xs))]
    compare(rows, [{"x": surface.xs[c], "y": surface.ys[r], "z": surface.z[r][c]} for r, c in cells])


def compare(rows, expected):
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        for name, value in wanted.items():
            assert row[name] == value if isinstance(value, str) else float(row[name]) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_svg_stands_alone_without_what_was_hidden(open_page, scheme, tmp_path, browser):
    page = open_page(color_scheme=scheme)
    figure(page, SIDES).locator(".legend .key", has_text="adam").click()
    with page.expect_download() as download:
        figure(page, SIDES).get_by_role("button", name="Download SVG").click()
    assert download.value.suggested_filename == "sides.svg"
    text = download.value.path().read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert len(root.findall(f"{SVG}svg")) == 3 + 4  # panels, and a swatch for each method that is left
    assert "var(" not in text and 'data-series="1"' not in text and "adam" not in text
    assert "rgb(27, 31, 38)" in text  # the light theme's ink, on white paper
    alone = browser.new_page(viewport={"width": 1100, "height": 320})
    target = tmp_path / "sides.svg"
    target.write_text(text, encoding="utf-8")
    alone.goto(target.as_uri())
    pixels = pixels_of(alone.screenshot())
    alone.close()
    assert (pixels.min(-1) > 240).mean() > 0.6
    assert (pixels.max(-1) - pixels.min(-1) > 100).mean() > 0.005


def test_what_a_reader_tabs_to_has_an_outline_and_a_name(open_page):
    page = open_page()
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "[document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim(),"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert name and outline != "none", name
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert max(np.diff(levels)) == 1
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.locator("svg.panel:not([aria-label])").count() == 0


def test_paper_gets_everything_in_light_colours(open_page):
    page = open_page(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 38)"
    assert page.locator("#theme").is_hidden()
    assert page.locator(".pairs").first.is_visible()
