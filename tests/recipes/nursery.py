"""A process that has imported everything and forks a child for each run that it is asked for: births cost nothing.

Asked by one JSON line {"out", "config", "jobs", "limit", "crash", "full"}, it answers with the child's process id; when
the child has ended, with its exit code (negative: its signal). Started as a script: `Nursery` below does.
"""

import errno
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

FORK = multiprocessing.get_context("fork")
KEPT = []


class Nursery:
    """The asking side."""

    def __init__(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def begin(self, out, **how) -> int:
        """A child that runs the toy recipe; its process id."""
        self._process.stdin.write(json.dumps({"out": str(out), **how}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> tuple[int, str]:
        """Wait for it: exit code, and what it said on the error stream."""
        code, said = json.loads(self._process.stdout.readline())
        return code, said

    def run(self, out, **how) -> tuple[int, str]:
        self.begin(out, **how)
        return self.end()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def _serve() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import paraboloid.cli.main  # noqa: F401
    from paraboloid.recipes import provenance
    from paraboloid.recipes.locks import Lock
    from paraboloid.recipes.log import MemoryLog
    from recipes import toys  # the imports that are worth sharing

    toys.plan(Path("."))
    toys.one_seed(toys.Config(steps=(2, 2), seeds=(0,)), MemoryLog())  # torch imports some parts when they are used
    provenance.commit(), provenance.source_digest()
    multiprocessing.get_context = lambda method=None: _Forking()
    os.fsync = lambda handle: None  # a killed process loses nothing that it had written; only a power cut would
    take = Lock.__init__

    def remembered(lock, *arguments) -> None:
        take(lock, *arguments)
        KEPT.append(lock.release)

    Lock.__init__ = remembered
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.dup2(writing, 2)
            os.close(writing)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os._exit(_live(json.loads(line)))
        os.close(writing)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        os.set_blocking(reading, False)  # workers that outlive the child for a moment hold the other end
        said = _read(reading)
        print(json.dumps([os.waitstatus_to_exitcode(status), said]), flush=True)


class _Forking:
    """Workers are forked, not spawned: what they do is the same, and they need no two seconds to import torch."""

    def Pipe(self):
        ours, theirs = FORK.Pipe()
        KEPT.append(ours.close)
        return ours, theirs

    def Process(self, target, args, daemon):
        def alone(*arguments) -> None:
            # a spawned process would have inherited neither the other ends nor the lock of the run
            for kept in KEPT:
                kept()
            target(*arguments)

        return FORK.Process(target=alone, args=args, daemon=daemon)


def _read(reading: int) -> str:
    parts = []
    try:
        while part := os.read(reading, 1 << 16):
            parts.append(part)
    except BlockingIOError:
        pass
    os.close(reading)
    return b"".join(parts).decode()


def _live(how: dict) -> int:
    """The run, as the command line would carry it out."""
    from paraboloid_command import main
    from recipes import toys

    if "limit" in how:  # no file may grow beyond: the system's answer is an error, as from a full disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (how["limit"], how["limit"]))
    if "crash" in how:
        _at_file_event(how["crash"], lambda: os.kill(os.getpid(), signal.SIGKILL))
    if "full" in how:
        _at_file_event(how["full"], _no_space, once=False)
    config = how.get("config", {})
    words = ["run", toys.__file__, "--out", how["out"], "--checkpoint-seconds", "0", "--jobs", str(how.get("jobs", 1))]
    words += [word for key, value in config.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    try:
        return main([*words, "--quiet"])
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70


def _no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _at_file_event(number: int, do, once: bool = True) -> None:
    """`do` at the n-th time (and, unless `once`, ever after) a file is opened for writing, renamed, cut or removed."""
    seen = [0]

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            flags = arguments[2]
            if not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)) or arguments[0] == os.devnull:
                return
        elif event not in ("os.rename", "os.truncate", "os.mkdir") and not (once and event == "os.remove"):
            return
        seen[0] += 1
        if seen[0] == number or (seen[0] > number and not once):
            do()

    sys.addaudithook(hook)


if __name__ == "__main__":
    _serve()
