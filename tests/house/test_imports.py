"""The plan of the house: imports run downhill, files and functions stay short."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "paraboloid"
FLOORS = [
    {"spaces"},
    {"operators", "metrics", "datasets"},
    {"curvature"},
    {"prediction"},
    {"optim", "laplace", "sampling", "noise", "continual", "diagnostics"},
    {"bandits", "recipes"},
    {"experiments", "report"},
    {"cli"},
    {"__init__", "__main__"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
OPTIONAL = {"arviz", "matplotlib", "optuna", "rich", "scipy", "sklearn", "tensorboard", "tyro", "wandb"}
HOMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
MAX_FILE_LINES = 350
MAX_FUNCTION_LINES = 60

FILES = sorted(SRC.rglob("*.py"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(path: Path) -> str:
    return path.relative_to(SRC).with_suffix("").parts[0]


def imports(tree: ast.AST) -> Iterator[tuple[str, list[str], int]]:
    """(module, names imported from it, line) of every import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names], node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, [], node.lineno


def imported_modules(path: Path) -> Iterator[tuple[str, int]]:
    """Modules of this package that a file imports; `from package import module` counts as the module."""
    known = {module_of(p) for p in FILES}
    for module, names, line in imports(tree_of(path)):
        if module.split(".")[0] != "paraboloid":
            continue
        if not names:
            yield module, line
        for name in names:
            yield (f"{module}.{name}" if f"{module}.{name}" in known else module), line


def room_of_module(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@every_file
def test_imports_run_downhill(path):
    here = room_of(path)
    assert here in FLOOR, f"the room {here!r} has no floor: give it one in FLOORS, or move the file into a room"
    for module, line in imported_modules(path):
        there = room_of_module(module)
        assert there in FLOOR, f"line {line} imports {module}, whose room {there!r} has no floor"
        assert there == here or FLOOR[there] < FLOOR[here], (
            f"line {line} imports {module}: {there} (floor {FLOOR[there]}) does not lie below {here} (floor "
            f"{FLOOR[here]}); what both rooms want belongs on a lower floor"
        )


@every_file
def test_imports_are_absolute(path):
    relative = [f"line {line}: {module}" for module, _, line in imports(tree_of(path)) if module.startswith(".")]
    assert not relative, f"write `from paraboloid.room.file import name`; found {relative}"


def test_no_module_imports_itself_through_others():
    needs = {module_of(path): {module for module, _ in imported_modules(path)} for path in FILES}
    finished: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"a cycle: {' -> '.join([*trail[trail.index(module) :], module])}"
        if module in finished:
            return
        for needed in sorted(needs.get(module, set()) - {module}):
            visit(needed, (*trail, module))
        finished.add(module)

    for module in sorted(needs):
        visit(module, ())


@every_file
def test_imports_stand_at_the_top(path):
    """Inside a function only an optional dependency may be imported."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for module, _, line in imports(node):
            assert module.split(".")[0] in OPTIONAL, (
                f"line {line}: {node.name} imports {module!r}; only {sorted(OPTIONAL)} may be imported late"
            )


@every_file
def test_files_open_with_a_header_and_stay_short(path):
    text = path.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "open the file by saying what it holds"
    lines = text.count("\n")
    assert lines <= MAX_FILE_LINES, f"{lines} lines, {MAX_FILE_LINES} at most: find the seam and split the file"


@every_file
def test_functions_stay_short(path):
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = node.end_lineno - node.lineno + 1
        if ast.get_docstring(node):
            lines -= node.body[0].end_lineno - node.body[0].lineno + 1
        assert lines <= MAX_FUNCTION_LINES, (
            f"{node.name} (line {node.lineno}) has {lines} lines without its docstring, "
            f"{MAX_FUNCTION_LINES} at most: find the functions inside it"
        )


@every_file
def test_files_are_named_after_an_idea(path):
    assert path.stem.strip("_") not in HOMELESS, "a function without a home is missing a noun: name the file after it"
