"""The demo on a reduced setting: its functions run, and what its tables claim is true."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

EXAMPLE = Path(__file__).parents[1] / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    """The example as a module; importing it runs nothing."""
    spec = importlib.util.spec_from_file_location("demo", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RANK = 20
    return module


@pytest.fixture(scope="module")
def measured(demo):
    """Every structure of a narrow network after one epoch on few digits; also the gradient and a generator."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    generator = torch.Generator().manual_seed(0)
    data, _ = demo.digits(96, generator)
    model = demo.Net(2, data[0].mean(0), generator)
    demo.train(model, data, 1, generator)
    g = demo.gradient(model, data)
    fits = {name: demo.measure(model, data, g, name, generator) for name in demo.STRUCTURES}
    torch.set_default_dtype(before)
    return fits, g, generator


def test_eigenkronecker_keeps_the_trace_and_is_at_least_as_close_as_kronecker(demo, measured):
    fits, g, generator = measured
    exact = fits["dense"]
    torch.testing.assert_close(fits["eigenkronecker"].curvature.trace(), exact.curvature.trace(), rtol=1e-10, atol=0)
    distances = {name: demo.errors(one, exact, g, generator)[0] for name, one in fits.items()}
    assert 0 < distances["block"] < distances["eigenkronecker"] < distances["kronecker"]


def test_exact_structures_have_no_error_and_no_direction_beats_the_exact_step(demo, measured):
    fits, g, generator = measured
    for name, one in fits.items():
        distance, step_error, decrease = demo.errors(one, fits["dense"], g, generator)
        if name in ("dense", "products"):
            assert distance < 1e-10
            assert step_error < 1e-4  # products solves by iteration
            assert decrease == pytest.approx(1, abs=1e-6)
        else:
            assert distance > 1e-3
            assert step_error > 1e-3
            assert 0 < decrease < 1


def test_the_coverage_shows_three_treatments(measured):
    fits, _, _ = measured
    assert {row.treatment for row in fits["kronecker"].curvature.coverage} == {"frozen", "exact block", "kronecker"}


def test_a_missing_package_is_named_with_the_way_to_install_it(demo, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.delitem(sys.modules, "rich.console", raising=False)
    with pytest.raises(SystemExit, match=r"needs rich(.|\n)*pip install") as stopped:
        demo.main()
    assert "./x demo" in str(stopped.value)
