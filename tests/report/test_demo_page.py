"""What ./x demo ends with is a page that works."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.browser
def test_the_demo_ends_with_a_report_that_a_browser_opens_without_complaint(browser, tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("demo_with_report", EXAMPLE)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    path = demo.run_recipe(tmp_path)
    assert str(path) in capsys.readouterr().out
    complaints = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: request.url == path.as_uri() or complaints.append(request.url))
    page.goto(path.as_uri())
    assert page.get_by_role("heading", name="Quality of Kronecker approximations, layer by layer").count() == 1
    assert page.locator("figure svg").count() >= 3
    page.close()
    assert complaints == []
