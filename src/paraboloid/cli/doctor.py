"""`paraboloid doctor`: what is installed, what the machine offers, which data is here, and what is slow."""

from __future__ import annotations

import importlib.metadata
import os
import statistics
import time
from argparse import Namespace
from collections.abc import Callable

import torch

from paraboloid.cli.tables import print_table
from paraboloid.datasets import catalogue
from paraboloid.recipes import provenance

EXTRAS = {
    "matplotlib": "figures and reports",
    "jinja2": "reports",
    "rich": "bars and tables on a terminal",
    "scikit-learn": "digits, and downloads from OpenML",
    "scipy": "downloads of SVHN",
}


def examine(given: Namespace) -> int:
    """Print everything, then the advice that follows from it."""
    advice: list[str] = []
    print_table(("package", "version", "for"), _packages(advice))
    print_table(("machine", ""), _machine(advice))
    print_table(("speed", "measured"), _speeds(advice))
    print_table(("data set", "from"), [(name, str(catalogue.available(name))) for name in catalogue.CATALOGUE])
    print("\n" + ("\n".join(f"- {line}" for line in advice) if advice else "Nothing to improve was found."))
    return 0


def _packages(advice: list[str]) -> list[tuple[str, str, str]]:
    rows = [(name, version, "") for name, version in provenance.versions().items() if name not in EXTRAS]
    rows.insert(0, ("paraboloid", provenance.version(), provenance.commit()))
    missing = []
    for name, purpose in EXTRAS.items():
        try:
            rows.append((name, importlib.metadata.version(name), purpose))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, "missing", purpose))
            missing.append(name)
    if missing:
        advice.append(f"{', '.join(missing)} missing: pip install 'paraboloid[cli]'.")
    return rows


def _machine(advice: list[str]) -> list[tuple[str, str]]:
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    if threads < cores:
        advice.append(f"torch uses {threads} of {cores} cores: check OMP_NUM_THREADS.")
    if threads > cores:
        advice.append(f"torch uses {threads} threads on {cores} cores, which slows it down: check OMP_NUM_THREADS.")
    rows = [
        ("processor", provenance.processor()),
        ("cores, threads of torch", f"{cores}, {threads}"),
        ("memory", f"{provenance.memory() / 1e9:.0f} GB"),
    ]
    if not torch.cuda.is_available():
        advice.append("there is no GPU: smoke and laptop scales run here, paper scales mostly do not.")
        return [*rows, ("GPU", "none")]
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        rows.append((f"cuda:{index}", f"{facts.name}, {facts.total_memory / 1e9:.0f} GB"))
    return rows


def _speeds(advice: list[str]) -> list[tuple[str, str]]:
    """Three kinds of work that curvature is made of."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1000, 1000, generator=generator)
    S = (A @ A.T)[:512, :512]
    product, whole, half = (
        _seconds(lambda: A @ A),
        _seconds(lambda: torch.linalg.eigh(S.double())),
        _seconds(lambda: A.bfloat16() @ A.bfloat16()),
    )
    if half > 2 * product:
        advice.append("bfloat16 is slower than float32 on this processor: keep precision='float32' here.")
    return [
        ("float32 product, 1000 × 1000", f"{2 / product:.0f} GFLOP/s"),
        ("bfloat16 product, 1000 × 1000", f"{2 / half:.0f} GFLOP/s"),
        ("float64 eigendecomposition, 512", f"{whole * 1e3:.0f} ms"),
    ]


def _seconds(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
