"""Where numbers come from: the code, the machine, the versions."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PACKAGE = Path(__file__).parents[1]
NAMED = ("torch", "numpy", "safetensors", "matplotlib", "scikit-learn")


def version() -> str:
    """Of paraboloid."""
    try:
        return metadata.version("paraboloid")
    except metadata.PackageNotFoundError:  # run from its sources, not installed
        return "from sources"


@cache
def source_digest() -> str:
    """sha256 over the package's Python files: the same code has the same digest, committed or not."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        total.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


@cache
def commit() -> str:
    """The commit of the source tree, with "+" where the package differs from it; "" without a repository."""
    head = _git("rev-parse", "HEAD")
    if not head or _git("ls-files", "--", "__init__.py") != "__init__.py":
        return ""
    return head[:12] + ("+" if _git("status", "--porcelain", "--", ".") else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(PACKAGE), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def versions() -> dict[str, str]:
    """Of Python and of the packages that numbers or pictures may depend on."""
    found = {"python": platform.python_version()}
    for name in NAMED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine(device: str, threads: int, jobs: int) -> dict[str, Any]:
    """What a time or a last digit may depend on; no name of the machine, no user, no path."""
    facts: dict[str, Any] = {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory() / 1e9),
        "device": device,
        "threads": threads,
        "jobs": jobs,
    }
    if device.startswith("cuda"):
        facts["gpu"] = torch.cuda.get_device_name(torch.device(device))
        facts["cuda"] = torch.version.cuda
    return facts


def processor() -> str:
    """Its name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def memory() -> int:
    """Bytes of main memory; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
