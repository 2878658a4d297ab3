"""`paraboloid list`, and finding recipes by what was typed."""

from __future__ import annotations

import json
import os
import textwrap
from argparse import Namespace
from pathlib import Path

from paraboloid.recipes import discovery
from paraboloid.recipes.protocol import SCALE_NAMES, Recipe

PACKAGE = "paraboloid.experiments"


def known() -> dict[str, str]:
    """Recipe names -> where they are: the package's own, and those in the folders of PARABOLOID_RECIPES."""
    folders = [Path(part) for part in os.environ.get("PARABOLOID_RECIPES", "").split(os.pathsep) if part]
    return discovery.find(PACKAGE, folders)


def recipe(name: str) -> tuple[Recipe, str]:
    """The recipe of this name or file, and where workers find it."""
    reference = discovery.resolve(name, known())
    return discovery.load(reference), reference


def show(given: Namespace) -> int:
    """Every recipe with its claim and costs."""
    recipes = [discovery.load(reference) for reference in known().values()]
    if given.json:
        cards = [{"name": one.name, **one.card.__dict__, "cost": dict(one.card.cost)} for one in recipes]
        print(json.dumps(cards, indent=1, ensure_ascii=False))
        return 0
    for one in recipes:
        print(f"{one.name}\n    {one.card.title} ({one.card.source})")
        print(textwrap.fill(one.card.claim, 100, initial_indent="    ", subsequent_indent="    "))
        print("    " + "; ".join(f"{scale}: {one.card.cost.get(scale, '?')}" for scale in SCALE_NAMES) + "\n")
    print("paraboloid run NAME --scale smoke|laptop|paper")
    return 0
