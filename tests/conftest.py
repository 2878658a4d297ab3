"""What every test may assume: double precision, a device, and no use of the global generator."""

import os

import pytest
import torch

import chromium


def pytest_collection_modifyitems(config, items):
    """Without a browser its tests are left out, and the last lines say so; in CI they run and fail."""
    if os.environ.get("CI") or chromium.find():
        return
    browser = [item for item in items if item.get_closest_marker("browser")]
    if browser:
        config.hook.pytest_deselected(items=browser)
        items[:] = [item for item in items if not item.get_closest_marker("browser")]


def pytest_terminal_summary(terminalreporter, config):
    if not (os.environ.get("CI") or chromium.find()):
        terminalreporter.write_line(f"The report was not looked at in a browser: {chromium.HOW}")


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where tests run: PARABOLOID_DEVICE, the CPU without it."""
    return torch.device(os.environ.get("PARABOLOID_DEVICE", "cpu"))


@pytest.fixture(autouse=True)
def double_precision():
    """Oracles are compared in float64; a test of another precision asks for it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def single_precision(double_precision):
    """For tests whose subject is float32."""
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def generator(device) -> torch.Generator:
    """A seeded source of draws on the device."""
    return torch.Generator(device).manual_seed(0)
