"""`paraboloid data list | get | check`."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from dataclasses import asdict

from paraboloid.cli.tables import print_table
from paraboloid.datasets import DatasetAltered, DatasetMissing, catalogue
from paraboloid.recipes.refused import Refused


def act(given: Namespace) -> int:
    """Dispatch."""
    return {"list": _list, "get": _get, "check": _check}[given.action](given)


def _list(given: Namespace) -> int:
    rows = [(one, catalogue.available(one.name)) for one in catalogue.CATALOGUE.values()]
    if given.json:
        plain = [asdict(one) | {"function": one.function.__name__, "available": str(place)} for one, place in rows]
        print(json.dumps(plain, indent=1, ensure_ascii=False))
        return 0
    print_table(
        ("name", "what it is", "licence", "MB", "from"),
        [(one.name, one.summary, one.licence, f"{one.megabytes:g}", str(place)) for one, place in rows],
    )
    return 0


def _get(given: Namespace) -> int:
    for name in _known(given.names):
        path = catalogue.get(name, Percentages(name))
        print(f"{name}: {path or 'needs no file'}")
    return 0


def _check(given: Namespace) -> int:
    """Every set that is here, or those that were named; the first mistake does not hide the next."""
    names = _known(given.names) or [n for n in catalogue.CATALOGUE if catalogue.available(n).path is not None]
    wrong = 0
    for name in names:
        try:
            found = catalogue.check(name)
        except (DatasetMissing, DatasetAltered) as error:
            print(f"paraboloid: {error}", file=sys.stderr)
            wrong += 1
            continue
        print(f"{name}: {found.edition}{f' ({found.path})' if found.path else ''}")
    return 1 if wrong else 0


def _known(names: list[str]) -> list[str]:
    try:
        return [catalogue.entry(name).name for name in names]
    except ValueError as error:
        raise Refused(str(error)) from None


class Percentages:
    """Says how far a download is, once a second."""

    def __init__(self, name: str) -> None:
        self._name, self._next = name, time.monotonic() + 1

    def __call__(self, done: int, total: int | None) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 1
            share = f"{done / total:.0%} of {total / 1e6:.0f} MB" if total else f"{done / 1e6:.0f} MB"
            print(f"{self._name}: {share}", file=sys.stderr, flush=True)
