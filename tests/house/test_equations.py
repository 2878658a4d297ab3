"""Numbered equations: what is cited exists, what exists is cited, and no number is used twice."""

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
LABEL = r"[A-Z][A-Z]?'?\.\d+[a-z]?"
DEFINITION = re.compile(rf"\*\*\(({LABEL})\)\*\*")
CITATION = re.compile(rf"\(({LABEL}(?:(?:, | and |; |–|-){LABEL})*)\)")
MATHS = ROOT / "docs" / "maths"


def places(paths, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Label -> where it occurs, as file:line."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for group in pattern.findall(line):
                for label in re.findall(LABEL, group):
                    found[label].append(f"{path.relative_to(ROOT)}:{number}")
    return found


def definitions() -> dict[str, list[str]]:
    return places(MATHS.rglob("*.md"), DEFINITION)


def citations() -> dict[str, list[str]]:
    """Citations in code and tests; this folder only talks about equations."""
    house = Path(__file__).parent
    tests = (path for path in (ROOT / "tests").rglob("*.py") if house not in path.parents)
    code = [*(ROOT / "src").rglob("*.py"), *tests]
    return places(code, CITATION)


def test_no_number_is_used_twice():
    twice = {label: where for label, where in definitions().items() if len(where) > 1}
    assert not twice, f"defined more than once: {twice}"


def test_every_cited_equation_exists():
    known = definitions()
    unknown = {label: where for label, where in citations().items() if label not in known}
    assert not unknown, f"cited, but not defined as **(label)** in docs/maths/*.md: {unknown}"


def test_pages_cite_equations_that_exist():
    known = definitions()
    cited = places((ROOT / "docs").rglob("*.md"), CITATION)
    unknown = {label: where for label, where in cited.items() if label not in known}
    assert not unknown, f"cited in docs, but not defined as **(label)** in docs/maths/*.md: {unknown}"


def test_every_equation_is_cited_by_code_or_tests():
    cited = citations()
    unused = {label: where for label, where in definitions().items() if label not in cited}
    assert not unused, f"defined, but cited nowhere in src/ or tests/: {unused}"
