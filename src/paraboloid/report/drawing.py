"""From a figure's panels to pictures, and to the data that the page shows under the pointer.

Every kind of panel has a file that draws it and returns the same things: SVG whose parts are named after their series,
and a mapping with the values and the place of the axes in the picture, from which the page's script finds the
value nearest to the pointer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paraboloid.recipes.figures import Bars, Figure, Panel, Surface
from paraboloid.report import bars, lines, palette, surfaces, svg
from paraboloid.report.stage import NARROW, WIDE, Stage
from paraboloid.report.values import printable

LONGEST_KEY = 18  # characters of a name that fits beside a line


@dataclass(frozen=True)
class Drawn:
    """A panel as SVG, and its values for the script; `hidden` counts values that a logarithmic axis cannot show."""

    svg: str
    data: dict[str, Any]
    hidden: int


def draw(figure: Figure, slots: Mapping[str, int], prefix: str) -> list[Drawn]:
    """All panels; `slots` maps series to their styles in this report, `prefix` keeps ids apart."""
    names = tuple(palette.series_of(figure))
    keys = can_carry_keys(figure)
    stage = Stage(names, slots, WIDE if len(figure.panels) in (1, 2, 4) else NARROW, keys)
    return [_draw(panel, stage, f"{prefix}-p{number}") for number, panel in enumerate(figure.panels)]


def can_carry_keys(figure: Figure) -> bool:
    """Names stand beside the lines of a single panel if they are few and short; otherwise there is a legend."""
    if len(figure.panels) != 1 or not isinstance(figure.panels[0], Panel):
        return False
    series = figure.panels[0].series
    lines_only = all(one.mark != "points" and len(one.x) > 1 for one in series)
    different = len({one.name for one in series}) == len(series)
    return 1 <= len(series) <= 4 and lines_only and different and all(len(one.name) <= LONGEST_KEY for one in series)


def _draw(panel: Panel | Bars | Surface, stage: Stage, prefix: str) -> Drawn:
    if isinstance(panel, Panel):
        text, data, hidden = lines.draw(panel, stage)
    elif isinstance(panel, Bars):
        text, data, hidden = bars.draw(panel, stage)
    else:
        text, data, hidden = surfaces.draw(panel, stage)
    title = printable(panel.title)
    return Drawn(svg.cleaned(text, prefix, title, stage.keys), {"title": title, **data}, hidden)
