"""JSON on disk: whole or not at all, and read with an error that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paraboloid.recipes.refused import Refused
from paraboloid.spaces import storage
from paraboloid.spaces.storage import NotWritten


def write_json(path: Path, value: Any) -> None:
    """Indented JSON under `path`, atomically."""
    with storage.replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make_folder(path: Path) -> None:
    """The folder and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotWritten.because(path, error) from error


def read_json(path: Path) -> Any:
    """What the file holds; a file that is missing or broken is refused by name."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(f"there is no file {path}.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(
            f"{path} should be JSON, but {error}: it was changed or cut off. Delete it, or restore it."
        ) from None
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from None
