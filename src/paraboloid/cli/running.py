"""`paraboloid run`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from paraboloid.cli import catalogue
from paraboloid.cli.progress import watching
from paraboloid.cli.tables import print_record
from paraboloid.recipes import provenance
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.config import as_json, from_json, with_changes
from paraboloid.recipes.files import read_json
from paraboloid.recipes.protocol import Recipe
from paraboloid.recipes.records import Record
from paraboloid.recipes.refused import Refused
from paraboloid.recipes.runs import Plan, RunFailed, carry_out
from paraboloid.recipes.stopping import Stop, listening


def run(given: Namespace) -> int:
    """One recipe after the other; a failed one does not keep the next from running."""
    plans = [_plan(given, name) for name in given.recipes]  # all of them are checked before the first one starts
    stop, failed = Stop(), 0
    with listening(stop):
        for plan in plans:
            try:
                with watching(plan.recipe.name, silent=given.quiet or given.json) as watch:
                    record = carry_out(plan, watch, stop, given.restart)
            except RunFailed as error:
                print(
                    f"paraboloid: {plan.recipe.name} failed: {error} (traceback: {plan.folder / 'error.txt'})",
                    file=sys.stderr,
                )
                failed += 1
                continue
            _tell(given, plan, record)
    return 1 if failed else 0


def _plan(given: Namespace, name: str) -> Plan:
    recipe, reference = catalogue.recipe(name)
    config = _config(given, recipe)
    cores = os.cpu_count() or 1
    jobs = given.jobs if given.jobs is not None else (cores if given.device == "cpu" else 1)
    if jobs < 1:
        raise Refused(f"--jobs should be 1 or more, found {jobs}.")
    if not given.checkpoint_seconds >= 0:  # nor not a number
        raise Refused(f"--checkpoint-seconds should be 0 or more, found {given.checkpoint_seconds}.")
    circumstances = Circumstances(given.device, jobs, max(1, cores // jobs), given.checkpoint_seconds, reference)
    return Plan(recipe, given.scale, config, Path(given.out), circumstances, _command(given, name))


def _command(given: Namespace, name: str) -> str:
    """What to type to compute this one recipe's numbers again."""
    words = ["paraboloid", "run", name, "--scale", given.scale]
    words += ["--seeds", *map(str, given.seeds)] if given.seeds is not None else []
    words += ["--config", given.config] if given.config is not None else []
    words += [word for change in given.set for word in ("--set", change)]
    words += ["--device", given.device] if given.device != "cpu" else []
    return shlex.join(words)


def _config(given: Namespace, recipe: Recipe) -> Any:
    """The scale's config, then the file's keys, then --set, then --seeds."""
    config = recipe.scales[given.scale]
    try:
        if given.config is not None:
            config = from_json(recipe.config, as_json(config) | dict(_table(Path(given.config))))
        config = with_changes(config, given.set)
        return config if given.seeds is None else replace(config, seeds=tuple(given.seeds))
    except Refused:
        raise
    except ValueError as error:  # a config that checks its own values
        raise Refused(f"{recipe.name}: {error}") from error


def _table(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise Refused(f"{path} should hold one table of keys and values, found {type(found).__name__}.")
    return found


def _tell(given: Namespace, plan: Plan, record: Record) -> None:
    if given.json:
        print(json.dumps(record.to_json() | {"folder": str(plan.folder)}, ensure_ascii=False), flush=True)
        return
    if given.quiet:
        return
    print_record(plan.recipe, record)
    if record.provenance.source != provenance.source_digest():
        print("These results are of an earlier version of the code; --restart computes them anew.")
    print(f"{plan.folder}\nparaboloid report {plan.folder}   makes a page of it")
