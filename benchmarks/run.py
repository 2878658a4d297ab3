"""Run the comparison: python benchmarks/run.py [task ...] [--models M,L] [--device cuda] [--rounds 7].

Writes benchmarks/results/<date>-<machine>.json (records of the same day, machine and versions are renewed one
by one, so a long comparison may be run in pieces) and renders docs/benchmarks.md from the newest record. The task
`growth` stands for itself: paraboloid alone, at growing sizes; it writes docs/growth.md.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import growth
import measure
import page
import torch
from models import BUILDERS, Problem, problem
from peers import Absent, Call, Unsupported
from tasks import OURS, TASKS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
GROWTH = "growth"
DISTRIBUTIONS = {
    "torch": "torch",
    "paraboloid": "paraboloid",
    "curvlinops": "curvlinops-for-pytorch",
    "BackPACK": "backpack-for-pytorch",
    "nngeometry": "nngeometry",
    "posteriors": "posteriors",
    "laplace-torch": "laplace-torch",
}


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="paraboloid and its peers, side by side")
    parser.add_argument("tasks", nargs="*", metavar="task", help=f"any of {', '.join(TASKS)}; default: all; or growth")
    parser.add_argument("--models", help="letters, as M,L (default: those of each task)")
    parser.add_argument("--libraries", help="names separated by commas (default: all)")
    parser.add_argument("--device", default=os.environ.get("PARABOLOID_DEVICE", "cpu"))
    parser.add_argument("--rounds", type=int, default=7, help="measured calls of each library (default 7)")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of a row and of a trial (default 60)")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--no-memory", action="store_true", help="measure time only")
    parser.add_argument("--peak", nargs=3, metavar=("TASK", "MODEL", "LIBRARY"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    unknown = [task for task in chosen.tasks if task not in (*TASKS, GROWTH)]
    if unknown:
        parser.error(f"there is no task {unknown[0]!r}; the tasks are {', '.join(TASKS)} and {GROWTH}")
    if GROWTH in chosen.tasks and len(chosen.tasks) > 1:
        parser.error(f"{GROWTH} is run by itself")
    chosen.models = re.findall(r"\w", chosen.models) if chosen.models else None
    wrong = [key for key in chosen.models or [] if key not in BUILDERS]
    if wrong:
        parser.error(f"there is no model {wrong[0]!r}; the models are {', '.join(BUILDERS)}")
    return chosen


# ------------------------------------------------------------------------------------------ one row


def reason(error: Exception) -> str:
    """Why a library has no figure: its own words, or the first line of its error."""
    if isinstance(error, Absent | Unsupported):
        return str(error)
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def peak_of(task: str, model: str, library: str, device: str) -> dict[str, Any]:
    """In a child: memory of one call, after a call on two examples has loaded everything there is to load."""
    small, full = problem(model, device, batch=2), problem(model, device)
    if library == measure.UNIT:
        small.forward_backward()
        return {"megabytes": measure.peak(full.forward_backward, device)}
    try:
        TASKS[task].contenders[library](small)()
        call = TASKS[task].contenders[library](full)
        return {"megabytes": measure.peak(call, device)}
    except Exception as error:  # a library may fail in any way; the record says how
        return {"reason": reason(error)}


def trial(task: str, model: str, library: str, options: argparse.Namespace) -> dict[str, Any]:
    """Memory of one call, or why there is none: what is too slow or too large ends with its own process."""
    if options.no_memory:
        return {"megabytes": None}
    child = ["--peak", task, model, library, "--device", options.device]
    child += ["--threads", str(options.threads)] if options.threads else []
    return measure.in_a_process(child, limit=options.seconds)


def candidates(
    task: str, subject: Problem, options: argparse.Namespace
) -> tuple[dict[str, dict[str, Any]], dict[str, Call]]:
    """A record for every library, and the calls of those that can do it."""
    records: dict[str, dict[str, Any]] = {}
    calls: dict[str, Call] = {}
    wanted = options.libraries.split(",") if options.libraries else TASKS[task].contenders
    for library in [name for name in TASKS[task].contenders if name in wanted]:
        record = {"task": task, "model": subject.key, "library": library}
        records[library] = record | trial(task, subject.key, library, options)
        if "reason" in records[library]:
            continue
        try:
            call = TASKS[task].contenders[library](subject)
            records[library]["number"] = float(call())
            calls[library] = call
        except Exception as error:  # as above
            records[library]["reason"] = reason(error)
    return records, calls


def row(task: str, model: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One model under one task: a record per library."""
    subject = problem(model, options.device)
    subject.forward_backward()
    records, calls = candidates(task, subject, options)
    unit_memory = trial(task, model, measure.UNIT, options)
    timings = measure.interleaved(subject.forward_backward, calls, options.device, options.rounds, options.seconds)
    unit, first = timings[measure.UNIT], next(iter(calls), None)
    for library in calls:
        record = records[library]
        record |= {
            "ratio": timings[library].median / unit.median,
            "ratio_of_minima": timings[library].minimum / unit.minimum,
            "rounds": len(timings[library].seconds),
            "fb_ms": 1e3 * unit.median,
            "fb_megabytes": unit_memory.get("megabytes"),
        }
        if not TASKS[task].random:
            record |= {"compared": first, "quotient": record["number"] / records[first]["number"]}
    for record in records.values():
        show(record)
    return list(records.values())


def show(record: dict[str, Any]) -> None:
    """One line of progress."""
    place = f"{record['task']:24} {record['model']}  {record['library']:14}"
    if "ratio" not in record:
        print(f"{place} {record['reason']}", flush=True)
        return
    held = "" if record["megabytes"] is None else f"{record['megabytes']:7.0f} MB"
    print(
        f"{place} {record['ratio']:8.2f} fb  "
        f"(minima {record['ratio_of_minima']:.2f}, {record['rounds']} rounds) {held}  {record['number']:.6g}",
        flush=True,
    )


# ------------------------------------------------------------------------------------------ the record


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name, distribution in DISTRIBUTIONS.items():
        try:
            found[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def machine(device: str) -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        names = re.findall(r"model name\s*:\s*(.+)", listing.read_text())
        processor = names[0] if names else processor
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "CPU"
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": name,
    }


def commit() -> str | None:
    """The commit that was measured, with a + if the tree was changed."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return told.stdout.strip()


def store(new: list[dict[str, Any]], device: str) -> None:
    """Add to today's record of this machine, and write the page."""
    here, found, today = machine(device), versions(), datetime.date.today().isoformat()
    name = here["device"] if device.startswith("cuda") else f"{here['processor']} {here['cores']} cores"
    path = RESULTS / f"{today}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    record: dict[str, Any] = {"date": today, "machine": here, "versions": found, "results": []}
    if path.exists():
        old = json.loads(path.read_text())
        if (old["versions"], old["machine"]) == (found, here):
            record = old
    stamp = commit()
    renewed = {(r["task"], r["model"], r["library"]) for r in new}
    kept = [r for r in record["results"] if (r["task"], r["model"], r["library"]) not in renewed]
    record["results"] = kept + [r | {"commit": stamp} for r in new]
    order = list(TASKS)
    record["results"].sort(key=lambda r: (order.index(r["task"]), list(BUILDERS).index(r["model"])))
    RESULTS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page.render(record, str(path.relative_to(ROOT))))


def grow(options: argparse.Namespace) -> int:
    """The task that compares paraboloid with itself."""
    rows, here, found = growth.run(options.device, options.rounds), machine(options.device), versions()
    today = datetime.date.today().isoformat()
    record = {"date": today, "machine": here, "versions": found, "commit": commit(), "results": rows}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{today}-growth-{here['device'].lower().replace(' ', '-')}.json").write_text(
        json.dumps(record, indent=1) + "\n"
    )
    head = growth.PAGE.format(
        machine=f"{here['processor']}, {here['threads']} threads, {here['device']}",
        versions=f"torch {found['torch']}, paraboloid {found['paraboloid']}",
        date=today,
        rounds=options.rounds,
    )
    (PAGE.parent / "growth.md").write_text(head + growth.table(rows))
    return 0


def main(argv: list[str]) -> int:
    options = arguments(argv)
    warnings.simplefilter("ignore")  # of the peers about torch, of torch about the peers
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.tasks == [GROWTH]:
        return grow(options)
    if options.peak:
        print(json.dumps(peak_of(*options.peak, options.device)))
        return 0
    failed = False
    for task in options.tasks or TASKS:
        for model in options.models or TASKS[task].models:
            records = row(task, model, options)
            store(records, options.device)
            failed |= any(r["library"] == OURS and "reason" in r for r in records)
    print(f"\nwritten: {RESULTS.relative_to(ROOT)}/ and {PAGE.relative_to(ROOT)}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
