"""The public names: listed with their meaning, exported, documented by an example."""

import inspect
from pathlib import Path

import paraboloid

API = Path(__file__).parents[2] / "src" / "paraboloid" / "api.txt"
BARE = {"__version__"}  # public, but not a function or a class


def listed() -> dict[str, str]:
    """Name -> meaning, one per line; lines that begin with # are headings."""
    entries: dict[str, str] = {}
    for number, line in enumerate(API.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, meaning = line.strip().partition(" ")
        assert name not in entries, f"{API.name}, line {number}: {name} is listed twice"
        entries[name] = meaning.strip()
    return entries


def test_every_listed_name_has_a_meaning():
    empty = [name for name, meaning in listed().items() if not meaning]
    assert not empty, f"say in one line what these are: {empty}"


def test_the_list_equals_what_is_exported():
    exported = list(paraboloid.__all__)
    assert len(exported) == len(set(exported)), "a name stands twice in paraboloid.__all__"
    listed_only = sorted(set(listed()) - set(exported))
    exported_only = sorted(set(exported) - set(listed()))
    assert not listed_only, f"in {API.name}, but not in paraboloid.__all__: {listed_only}"
    assert not exported_only, f"in paraboloid.__all__, but without a line in {API.name}: {exported_only}"


def test_every_exported_name_exists():
    missing = [name for name in paraboloid.__all__ if not hasattr(paraboloid, name)]
    assert not missing, f"in paraboloid.__all__, but not defined: {missing}"


def test_every_exported_name_is_documented_by_an_example():
    for name in sorted(set(paraboloid.__all__) - BARE):
        thing = getattr(paraboloid, name)
        assert inspect.isclass(thing) or inspect.isroutine(thing), f"{name} is neither a class nor a function"
        own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
        assert own, f"paraboloid.{name} has no docstring of its own"
        assert ">>>" in own, f"the docstring of paraboloid.{name} shows no example (>>> ...)"
