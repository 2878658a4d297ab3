"""Colours that can be told apart, and that belong to a method everywhere."""

from itertools import combinations

import numpy as np
import pytest

from paraboloid.report import palette
from report import invented

THEMES = pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
# Machado, Oliveira and Fernandes (2009), table 1, severity 1.0, on linear RGB
SIGHTS = {
    "normal": np.eye(3),
    "red-blind": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "green-blind": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
# Ottosson's OKLab, in which equal distances look about equally different
CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour: str) -> np.ndarray:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@THEMES
def test_every_colour_stands_out_from_the_page(theme):
    for colours in palette.COLOURS:
        assert contrast(colours[theme], palette.PAPER[theme]) >= 3.0, colours[theme]


@THEMES
@pytest.mark.parametrize("sight", SIGHTS)
def test_any_two_colours_differ(theme, sight):
    seen = {c[theme]: LAB @ np.cbrt(CONES @ np.clip(SIGHTS[sight] @ linear(c[theme]), 0, 1)) for c in palette.COLOURS}
    for one, other in combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 0.08, (one, other)


def test_forty_methods_differ_in_colour_or_dash():
    looks = {(style.placeholder, str(style.dash)) for style in map(palette.style, range(40))}
    assert len(looks) == 40


def test_a_method_has_one_slot_in_all_figures_of_a_report():
    figures = invented.gallery(None)
    slots = palette.slots_of(figures)
    assert slots == palette.slots_of([*figures, *reversed(figures)])
    assert list(slots) == list(invented.METHODS[:5])
    assert sorted(slots.values()) == list(range(5))
