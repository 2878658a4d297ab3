"""Cells side by side: worker processes that take one task after the other.

Processes, not threads: a cell owns its number of threads, and a crash stays its own. Workers are spawned afresh, find
the recipe by name or file, and end when their parent does, however it does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from paraboloid.recipes.cells import CellLog, Task, run_task
from paraboloid.recipes.circumstances import Circumstances
from paraboloid.recipes.discovery import load
from paraboloid.recipes.events import Event, Watch
from paraboloid.recipes.files import write_json
from paraboloid.recipes.refused import UNAVAILABLE
from paraboloid.recipes.stopping import Interrupted, Stop
from paraboloid.spaces.storage import NotWritten

MakeLog = Callable[[Path, Circumstances, Watch, Stop, str], CellLog]
TICK = 0.2  # seconds between looks at the stop flag


@dataclass
class Worker:
    """A process, the line to it, and the task it is at."""

    process: BaseProcess
    line: Connection
    task: Task | None = None


@dataclass
class Pool:
    """At most `jobs` workers over a list of tasks."""

    tasks: list[Task]
    circumstances: Circumstances
    make_log: MakeLog
    watch: Watch
    stop: Stop
    workers: list[Worker] = field(default_factory=list)
    broken: Exception | None = None  # what no further cell could escape: a full disk, missing data

    def run(self) -> None:
        """Until every task has left its result, or somebody asked to stop."""
        passed_on = False
        try:
            self._fill()
            while any(worker.task for worker in self.workers):
                self._listen()
                if self.stop.signum is not None and not passed_on:
                    passed_on = True
                    for worker in self.workers:
                        worker.process.terminate()  # a request, as workers understand it
        finally:
            self._dismiss()
        if self.broken is not None:
            raise self.broken
        self.stop.check()

    def _fill(self) -> None:
        """A task for every worker that has none, and new workers up to the limit."""
        for worker in list(self.workers):
            if worker.task is None:
                self._hand_out(worker)
        while self._may_go_on() and len(self.workers) < self.circumstances.jobs:
            worker = _hire(self.circumstances, self.make_log)
            self.workers.append(worker)
            self._hand_out(worker)

    def _may_go_on(self) -> bool:
        return bool(self.tasks) and self.stop.signum is None and self.broken is None

    def _hand_out(self, worker: Worker) -> None:
        if self._may_go_on():
            worker.task = self.tasks.pop(0)
            try:
                worker.line.send(worker.task)
            except OSError:  # it died while it was idle
                self._bury(worker)

    def _listen(self) -> None:
        busy = {worker.line: worker for worker in self.workers if worker.task}
        for line in wait(list(busy), TICK):
            worker = busy[line]  # type: ignore[index]
            try:
                message = worker.line.recv()
            except (EOFError, ConnectionError):
                self._bury(worker)
                continue
            if isinstance(message, Event):
                self.watch(message)
                continue
            if isinstance(message, (NotWritten, *UNAVAILABLE)):
                self.broken = message
            worker.task = None
            self._fill()

    def _bury(self, worker: Worker) -> None:
        """A worker died: its cell has failed, the others go on."""
        worker.process.join()
        self.workers.remove(worker)
        task = worker.task
        if task is not None and self.stop.signum is None:
            reason = f"its process ended with {_exit(worker.process.exitcode)}"
            outcome = {"state": "failed", "reason": reason, "result": None, "seconds": 0.0, "data": {}}
            write_json(task.folder / "result.json", outcome | {"name": task.name})
            self.watch(Event("failed", task.name, text=reason))
        self._fill()

    def _dismiss(self) -> None:
        """Idle workers end when their line closes; one that is still at work is torn down with this process."""
        for worker in self.workers:
            worker.line.close()
            if worker.task:
                worker.process.kill()
        for worker in self.workers:
            worker.process.join()


def _hire(circumstances: Circumstances, make_log: MakeLog) -> Worker:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_work, args=(theirs, circumstances, make_log), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)


def _work(line: Connection, circumstances: Circumstances, make_log: MakeLog) -> None:
    """What a worker process does: tasks come in, events and a closing word for each go out."""
    stop = Stop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent decides
    signal.signal(signal.SIGTERM, lambda signum, _: setattr(stop, "signum", signum))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(circumstances.threads)
    load(circumstances.recipe)  # tasks name functions of its module

    def below(folder: Path, name: str) -> CellLog:
        # a worker has no workers of its own: cells within cells run one after the other
        return make_log(folder, replace(circumstances, jobs=1), line.send, stop, name)

    while stop.signum is None:
        try:
            task = line.recv()
        except EOFError:
            return
        try:
            run_task(task, below, line.send, torch.device(circumstances.device))
            line.send("ended")
        except Interrupted:
            line.send("interrupted")
        except (NotWritten, *UNAVAILABLE) as error:
            line.send(error)


def _end_with_parent() -> None:
    """A worker whose parent was killed must not go on writing into a run that is being resumed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"{name} (out of memory, perhaps)" if -code == getattr(signal, "SIGKILL", 9) else name
    return f"exit code {code}"
