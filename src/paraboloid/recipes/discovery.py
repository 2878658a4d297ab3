"""Finding recipes: modules of a package, files of folders, or one file by its path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from paraboloid.recipes.config import suggestion
from paraboloid.recipes.protocol import Recipe
from paraboloid.recipes.refused import Refused


def find(package: str, folders: Sequence[Path] = ()) -> dict[str, str]:
    """Names of recipes -> where `load` finds them; files in `folders` come on top of the package's modules."""
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    found = {module.name: f"{package}.{module.name}" for module in pkgutil.iter_modules(places or [])}
    for folder in folders:
        if not folder.is_dir():
            raise Refused(f"recipes were looked for in {folder}, which is not a folder; check PARABOLOID_RECIPES.")
        found |= {
            path.stem: str(path.resolve()) for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")
        }
    return dict(sorted(found.items()))


def resolve(name: str, known: Mapping[str, str]) -> str:
    """Where the recipe of this name is, or of this path; an unknown name gets the nearest one."""
    if name in known:
        return known[name]
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise Refused(f"there is no recipe file {name}.")
        return str(Path(name).resolve())
    raise Refused(f"there is no recipe {name!r}; {suggestion(name, list(known))}")


def load(reference: str) -> Recipe:
    """The recipe of a module's name or a file's path; a file that does not run is refused with its own error."""
    module = _from_file(Path(reference)) if reference.endswith(".py") else importlib.import_module(reference)
    try:
        return Recipe.of(module)
    except TypeError as error:
        raise Refused(str(error)) from None


def _from_file(path: Path) -> ModuleType:
    # under which workers find its functions too; two files of one name are two recipes
    name = f"paraboloid_recipe_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise Refused(f"the recipe {path} does not run: {type(error).__name__}: {error}.") from error
    return module
