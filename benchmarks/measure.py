"""Time in units of one forward + backward, side by side; memory in a process of its own.

The speed of a machine drifts by half within minutes, so absolute times are not worth much. Here every
contender is called once per round, each call stands next to one call of the unit, and what is reported is a
ratio: of the medians, and of the minima, which a busy machine disturbs less.
"""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

MEGABYTE = 2**20
UNIT = "fb"


@dataclass
class Timings:
    """Seconds of every call of one contender."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        return min(self.seconds)


def clock(call: Callable[[], Any], device: str) -> float:
    """Seconds of one call, the device's queue included, the garbage collector not."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
    gc.collect()
    gc.disable()
    try:
        wait()
        start = time.perf_counter()
        call()
        wait()
        return time.perf_counter() - start
    finally:
        gc.enable()


def interleaved(
    unit: Callable[[], Any], calls: dict[str, Callable[[], Any]], device: str, rounds: int, budget: float
) -> dict[str, Timings]:
    """Timings of the unit and of all calls, round by round; at most `budget` seconds, but two rounds.

    Every call runs once before, unmeasured.
    """
    timings = {name: Timings() for name in (UNIT, *calls)}
    clock(unit, device)
    for call in calls.values():
        clock(call, device)
    start = time.perf_counter()
    for done in range(rounds):
        spent = time.perf_counter() - start
        if done >= 2 and spent * (done + 1) / done > budget:
            break
        for name, call in calls.items():
            timings[UNIT].seconds.append(clock(unit, device))
            timings[name].seconds.append(clock(call, device))
    return timings


# ------------------------------------------------------------------------------------------ memory


def status_megabytes(name: str) -> float:
    """A line of /proc/self/status, as VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"/proc/self/status has no {name}")


def trim() -> None:
    """Give freed memory back to the system, so that it is not reused unseen."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except OSError:
        return  # another C library: the figure may come out a little small


def peak_on_cpu(call: Callable[[], Any]) -> float:
    trim()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again at what is resident
        before = status_megabytes("VmRSS")
        call()
        return max(0.0, status_megabytes("VmHWM") - before)
    except OSError:
        scale = MEGABYTE if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
        call()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale - before


def peak_on_gpu(call: Callable[[], Any]) -> float:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MEGABYTE


def peak(call: Callable[[], Any], device: str) -> float:
    """Most megabytes that one call holds beyond what was held before it."""
    return peak_on_gpu(call) if device.startswith("cuda") else peak_on_cpu(call)


def in_a_process(arguments: list[str], limit: float) -> dict[str, Any]:
    """Run this program as a child that prints a line of JSON; a child that fails or is slow gives a reason."""
    command = [sys.executable, str(Path(__file__).with_name("run.py")), *arguments]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"reason": f"not finished after {limit:.0f} s"}
    try:
        return json.loads(child.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = (child.stderr.strip().splitlines() or [""])[-1]
        return {"reason": f"its process ended with code {child.returncode} {last[:160]}".strip()}
