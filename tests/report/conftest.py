"""A browser for the tests of the page, and the page it looks at."""

import pytest
from playwright.sync_api import sync_playwright

import chromium
from paraboloid import report
from paraboloid.recipes.figures import Figure
from paraboloid.recipes.protocol import Target
from report import invented

QUIET = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync"
)


@pytest.fixture(scope="module")
def browser():
    path = chromium.find()
    if path is None:
        pytest.fail(f"the tests of the report need a Chromium; {chromium.HOW}", pytrace=False)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=QUIET.split())
        yield running
        running.close()


@pytest.fixture(scope="module")
def report_file(tmp_path_factory):
    """A page with figures of all kinds, a failed run, and titles too long for a telephone."""
    titles = dict(
        title="Thompson sampling with a linearised Laplace posterior_and_a_name_that_cannot_be_broken_anywhere_at_all",
        claim="An agent that samples from the posterior has lower cumulative regret. " * 3,
    )
    targets = (Target("regret", "regret stays below that of uniform play", "0.35", high=0.4),)
    figures = [Figure("pair", "Two panels", "Regret.", [invented.curves(), invented.calibration()])]
    other = invented.recipe(lambda results: figures, targets, **titles)
    failed = invented.record(recipe="wheel", scale="smoke+", state="failed", reason="the loss is " + "9" * 300)
    path = tmp_path_factory.mktemp("report") / "report.html"
    return report.write(path, [invented.entry(), (other, failed)], title="A report that is looked at")


@pytest.fixture
def open_page(browser, report_file):
    """Opens the page at a size and in a scheme; at the end nothing may have gone wrong in it."""
    complaints, pages = [], []

    def open_it(width=1280, height=900, **settings):
        page = browser.new_page(viewport={"width": width, "height": height}, **settings)
        pages.append(page)
        url = report_file.as_uri()
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: request.url == url or complaints.append(f"request: {request.url[:200]}"))
        page.goto(url)
        return page

    yield open_it
    for page in pages:
        page.close()
    assert complaints == []
