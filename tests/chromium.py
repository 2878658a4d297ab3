"""Where this machine's Chromium is."""

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW = (
    f"none of {', '.join(NAMES)} is on the PATH. Debian, Ubuntu: sudo apt install chromium. Elsewhere: "
    "python -m playwright install chromium, and set PARABOLOID_CHROMIUM to its executable."
)


def find() -> str | None:
    """The executable; None where there is none."""
    return os.environ.get("PARABOLOID_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
