"""A run: one recipe with one config in one folder, from its first step to its record.

    <out>/<recipe>/<scale>-<hash of the config>/
        manifest.json      config, code, machine, versions, sessions, state
        results.json       values and tables, when it has finished
        metrics.jsonl      what the recipe logs; clock.jsonl the seconds of each line
        loop-*.safetensors checkpoints;  artefacts/  files of tensors
        cells/<name>/      the same for each cell, and its result.json

Giving the same command again resumes; a finished run is not repeated.
"""

from __future__ import annotations

import shutil
import signal
import sys
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from paraboloid.recipes import provenance
from paraboloid.recipes.cells import CellsFailed, cells_below, decided_draws, keep_traceback, reason_of
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.config import as_json, digest
from paraboloid.recipes.events import Watch, nobody
from paraboloid.recipes.files import read_json, write_json
from paraboloid.recipes.locks import Lock
from paraboloid.recipes.protocol import Recipe, Results
from paraboloid.recipes.records import FORMAT, Provenance, Record
from paraboloid.recipes.refused import UNAVAILABLE, Refused
from paraboloid.recipes.runlog import RunLog
from paraboloid.recipes.stopping import Interrupted, Stop
from paraboloid.spaces.storage import NotWritten

DESCRIBED = ("recipe", "scale", "config", "config_hash", "state", "reason")


class RunFailed(Exception):
    """The recipe raised; the folder keeps what there is, and error.txt the traceback."""


@dataclass(frozen=True)
class Plan:
    """What to run, and under which circumstances."""

    recipe: Recipe
    scale: str
    config: Any
    out: Path
    circumstances: Circumstances
    command: str = ""

    @property
    def label(self) -> str:
        """The scale, with "+" where a key differs from it."""
        return self.scale if self.config == self.recipe.scales[self.scale] else f"{self.scale}+"

    @property
    def folder(self) -> Path:
        """Where the run lives: the same plan has the same folder."""
        return self.out / self.recipe.name / f"{self.label}-{digest(self.config)[:10]}"


def carry_out(plan: Plan, watch: Watch = nobody, stop: Stop | None = None, restart: bool = False) -> Record:
    """Run, resume, or return the record of a run that has finished already."""
    _check(plan)
    folder = plan.folder
    _make(folder)
    lock = Lock(folder)
    try:
        if restart:
            _empty(folder)
        manifest = _open_manifest(plan, folder)
        if manifest["state"] == "finished":
            return read(folder)
        _run(plan, folder, manifest, watch, stop or Stop())
        return read(folder)
    finally:
        lock.release()


def read(folder: Path) -> Record:
    """The record of a run in whatever state it is."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise Refused(f"{folder} is not the folder of a run: it has no manifest.json.")
    manifest = _manifest(path)
    results: dict[str, Any] = read_json(folder / "results.json") if manifest["state"] == "finished" else {}
    sessions = manifest["sessions"]
    last = sessions[-1]
    origin = Provenance(
        version=last["version"],
        commit=last["commit"],
        source=last["source"],
        data=manifest["data"],
        machine=manifest["machine"],
        versions=manifest["versions"],
        started=sessions[0]["started"],
        seconds=round(sum(session["seconds"] for session in sessions), 1),
        sessions=len(sessions),
        command=manifest["command"],
    )
    described: dict[str, Any] = {key: manifest[key] for key in DESCRIBED}
    return Record(**described, provenance=origin, cells=cells_below(folder), **results)


def _manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise Refused(f"{path} should be the manifest of a run, which says its format; found none.")
    if manifest["format"] > FORMAT:
        raise Refused(f"{path} is of a newer paraboloid (format {manifest['format']}, known {FORMAT}). Update it.")
    return manifest


def _check(plan: Plan) -> None:
    seeds = plan.config.seeds
    if not seeds or any(seed < 0 for seed in seeds) or len(set(seeds)) != len(seeds):
        raise Refused(f"seeds should be different whole numbers, 0 or larger; found {list(seeds)}.")
    device = plan.circumstances.device
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise Refused(f"the device {device!r} is not there ({reason}); `paraboloid doctor` lists what is.") from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lock").touch()
    except (FileExistsError, NotADirectoryError):
        raise Refused(
            f"{folder} cannot be made: a file stands where a folder is needed. Choose another --out."
        ) from None
    except OSError as error:
        raise Refused(f"{folder} cannot be written to: {error.strerror}. Choose another --out.") from None


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _open_manifest(plan: Plan, folder: Path) -> dict[str, Any]:
    """The manifest of the run that is there, or a new one; with a new session unless it has finished."""
    path, circumstances = folder / "manifest.json", plan.circumstances
    manifest = _manifest(path) if path.exists() else _new_manifest(plan)
    if manifest["state"] == "finished":
        return manifest
    machine = manifest["machine"]
    if (machine["device"], machine["threads"]) != (circumstances.device, circumstances.threads):
        raise Refused(
            f"{folder} was begun on {machine['device']} with {machine['threads']} threads a cell, found "
            f"{circumstances.device} with {circumstances.threads}: digits may differ. Give the same --device and "
            "--jobs, or --restart."
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    code = {"version": provenance.version(), "commit": provenance.commit(), "source": provenance.source_digest()}
    manifest["sessions"].append({"started": now, "seconds": 0.0, **code})
    manifest["state"], manifest["reason"] = "running", ""
    return manifest


def _new_manifest(plan: Plan) -> dict[str, Any]:
    circumstances = plan.circumstances
    return {
        "format": FORMAT,
        "recipe": plan.recipe.name,
        "reference": circumstances.recipe,
        "scale": plan.label,
        "config": as_json(plan.config),
        "config_hash": digest(plan.config),
        "state": "running",
        "reason": "",
        "command": plan.command,
        "data": {},
        "machine": provenance.machine(circumstances.device, circumstances.threads, circumstances.jobs),
        "versions": provenance.versions(),
        "sessions": [],
    }


def _run(plan: Plan, folder: Path, manifest: dict[str, Any], watch: Watch, stop: Stop) -> None:
    """One session, to its end or to what stopped it."""
    log = RunLog(folder, plan.circumstances, watch, stop)  # refuses what is damaged before anything is written
    begun, threads = log.seconds, torch.get_num_threads()
    torch.set_num_threads(plan.circumstances.threads)
    try:
        write_json(folder / "manifest.json", manifest)
        with decided_draws(plan.config, plan.circumstances.device):
            results = plan.recipe.run(plan.config, log)
        write_json(folder / "results.json", _plain(results))
        manifest["state"] = "finished"
    except (Interrupted, KeyboardInterrupt) as signalled:
        name = str(signalled) or f"stopped by {signal.SIGINT.name}"
        manifest["state"], manifest["reason"] = "interrupted", name
        raise
    except (NotWritten, *UNAVAILABLE) as refused:
        manifest["state"], manifest["reason"] = "interrupted", " ".join(str(refused).split())
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, CellsFailed) else reason_of(error)
        manifest["state"], manifest["reason"] = "failed", reason
        keep_traceback(folder)
        raise RunFailed(reason) from error
    finally:
        torch.set_num_threads(threads)
        manifest["sessions"][-1]["seconds"] = round(log.seconds - begun, 3)
        manifest["data"].update(log.data)
        log.close()
        # a disk that is full must not hide what happened before
        with nullcontext() if sys.exc_info()[0] is None else suppress(NotWritten):
            write_json(folder / "manifest.json", manifest)


def _plain(results: Results) -> dict[str, Any]:
    """Results as the record has them: floats, and columns of equal length."""
    values = {name: [float(value) for value in repetitions] for name, repetitions in results.values.items()}
    for name, table in results.tables.items():
        lengths = {column: len(entries) for column, entries in table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of the table {name!r} should be of one length, found {lengths}.")
    return asdict(Results(values, {name: {c: list(v) for c, v in t.items()} for name, t in results.tables.items()}))
