"""Everything that looks like an example runs: doctests of the package, marked blocks of the pages.

A block of a page runs if its fence says "python run". The blocks of one page share their variables, in order.
"""

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "paraboloid"
FILES = sorted(p for p in SRC.rglob("*.py") if p.name != "__main__.py")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```python run[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def as_a_user_finds_it():
    """float32 by default, and a global generator that an example may seed as a user would."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
    torch.set_default_dtype(before)


def run_doctest(test: doctest.DocTest) -> str:
    """The failures of one docstring, as text."""
    report = io.StringIO()
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=report.write)
    return report.getvalue()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_docstrings_run(path):
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    reports = [run_doctest(test) for test in doctest.DocTestFinder(exclude_empty=True).find(module)]
    assert not any(reports), "\n".join(filter(None, reports))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_marked_blocks_of_a_page_run(page):
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    for match in FENCE.finditer(text):
        block, line = match[1], text[: match.start(1)].count("\n")
        if ">>>" in block:
            report = run_doctest(doctest.DocTestParser().get_doctest(block, names, page.name, str(page), line))
            assert not report, report
        else:
            # empty lines in front, so that a traceback shows the line of the page
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("\n" * line + block, str(page), "exec"), names)


def test_the_readme_shows_something_that_runs():
    assert FENCE.search((ROOT / "README.md").read_text(encoding="utf-8"))
