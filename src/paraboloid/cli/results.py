"""`paraboloid show`, `record`, `report` and `table`: what runs have left."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from paraboloid.cli import catalogue
from paraboloid.cli.tables import print_record, print_table
from paraboloid.recipes import discovery, files, records, runs
from paraboloid.recipes.protocol import Recipe
from paraboloid.recipes.records import Record
from paraboloid.recipes.refused import Refused
from paraboloid.report import results_page, verdict_rows, write
from paraboloid.report.verdicts import VerdictRow
from paraboloid.spaces import storage

Entry = tuple[Recipe, Record]


def show(given: Namespace) -> int:
    """One run."""
    folder = _folder(given.run, Path(given.out))
    record = runs.read(folder)
    if given.json:
        print(json.dumps(record.to_json(), indent=1, ensure_ascii=False))
        return 0
    print_record(_recipe_of(record, folder), record)
    print(f"\n{folder}\nrepeat with: {record.provenance.command}")
    return 0


def record(given: Namespace) -> int:
    """Finished runs become records."""
    for name in given.runs:
        found = runs.read(_folder(name, Path(given.out)))
        if found.scale.endswith("+"):
            raise Refused(f"{name} changed keys of its scale ({found.scale}); records hold a scale as it is.")
        print(records.write(Path(given.records), found))
    return 0


def report(given: Namespace) -> int:
    """One page of the runs that were named, or of all records."""
    if given.runs:
        entries = [_entry(_folder(name, Path(given.out))) for name in given.runs]
    else:
        entries = _recorded(Path(given.records))
    target = Path(given.to)
    if target.is_dir() or not target.parent.is_dir():
        raise Refused(f"--to should name a file in a folder that exists, found {target}.")
    write(target, entries)
    print(target.resolve())
    return 0


def table(given: Namespace) -> int:
    """Measured beside published."""
    entries = _recorded(Path(given.records))
    page = results_page(entries)
    if given.check is not None:
        path = Path(given.check)
        if path.is_file() and path.read_text(encoding="utf-8") == page:
            return 0
        print(f"paraboloid: {path} is stale: paraboloid table --write {path}", file=sys.stderr)
        return 1
    if given.write is not None:
        if Path(given.write).is_dir() or not Path(given.write).parent.is_dir():
            raise Refused(f"--write should name a file in a folder that exists, found {given.write}.")
        with storage.replacing(Path(given.write)) as temporary:
            temporary.write_text(page, encoding="utf-8")
        print(given.write)
        return 0
    print_table(VerdictRow.HEADINGS, [row.cells for row in verdict_rows(entries)])
    return 0


def _folder(name: str, out: Path) -> Path:
    """A run's folder by its path, or the latest run of a recipe."""
    if (Path(name) / "manifest.json").is_file():
        return Path(name)
    manifests = sorted((out / name).glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    if manifests:
        return manifests[-1].parent
    raise Refused(f"there is no run {name!r}: neither a folder with a manifest.json, nor a recipe with runs in {out}.")


def _entry(folder: Path) -> Entry:
    record = runs.read(folder)
    return _recipe_of(record, folder), record


def _recipe_of(record: Record, folder: Path) -> Recipe:
    """The recipe that made a run: by its name, or by the file that its manifest names."""
    known = catalogue.known()
    reference = known.get(record.recipe) or files.read_json(folder / "manifest.json")["reference"]
    if reference.endswith(".py") and not Path(reference).is_file():
        raise Refused(f"the recipe of {folder} was {reference}, which is gone.")
    return discovery.load(reference)


def _recorded(folder: Path) -> Sequence[Entry]:
    known = catalogue.known()
    return [(discovery.load(discovery.resolve(r.recipe, known)), r) for r in records.read_all(folder)]
