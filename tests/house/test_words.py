"""Words that must not appear: the paths of a machine, promises not kept, tests that do not run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples")
KINDS = {".py", ".md", ".toml", ".txt", ".cfg", ".json"}
TEXTS = sorted(
    [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in KINDS]
    + [p for p in ROOT.iterdir() if p.suffix in KINDS or p.name == "x"]
)
TEXTS = [p for p in TEXTS if Path(__file__).parent not in p.parents and "__pycache__" not in p.parts]
MACHINE = re.compile(r"(?<![\w.:/])/(?:work|home|root|tmp|mnt|Users|private)/|\.\./shared|[A-Z]:\\Users")
UNKEPT = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|raise NotImplementedError)\b")
SILENT = re.compile(r"\bpytest\.(?:skip|xfail|importorskip)\b|\bmark\.(?:skip|skipif|xfail)\b")


def hits(path: Path, pattern: re.Pattern[str]) -> list[str]:
    """Lines that match, as line number and text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [f"line {n}: {line.strip()}" for n, line in enumerate(lines, 1) if pattern.search(line)]


def in_folder(name: str) -> list[Path]:
    return [p for p in TEXTS if ROOT / name in p.parents]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", TEXTS, ids=shown)
def test_no_path_of_a_machine(path):
    found = hits(path, MACHINE)
    assert not found, f"works on one machine only: {found}"


@pytest.mark.parametrize("path", in_folder("src"), ids=shown)
def test_no_unkept_promise(path):
    found = hits(path, UNKEPT)
    assert not found, f"do it, or raise an error that names the road that works: {found}"


@pytest.mark.parametrize("path", in_folder("tests"), ids=shown)
def test_no_test_that_does_not_run(path):
    found = hits(path, SILENT)
    assert not found, f"a test either runs or does not exist: {found}"
