"""From a recipe's figures to what the page shows: pictures, a legend, a caption and the data behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paraboloid.recipes.figures import Bars, Figure, Panel, Surface
from paraboloid.recipes.protocol import Results
from paraboloid.report import drawing, palette
from paraboloid.report.svg import MANY
from paraboloid.report.values import printable
from paraboloid.report.verdicts import Entry


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    index: int
    name: str
    colour: str  # a CSS variable
    dashes: str
    mark: str  # "line", "points" or "bars"
    shape: str  # of a point


@dataclass(frozen=True)
class Plot:
    """One figure, drawn."""

    id: str
    name: str
    title: str
    caption: str
    panels: Sequence[str]  # SVG
    legend: Sequence[Key]  # empty where names stand beside the lines
    note: str  # what the picture cannot show
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Gallery:
    """All figures of one record, or why there are none."""

    figures: Sequence[Figure] = ()
    problem: str = ""


def figures_of(entry: Entry) -> Gallery:
    """What the recipe makes of the record. One record that cannot be drawn does not take the others' page away."""
    recipe, record = entry
    if not record.values and not record.tables:
        return Gallery()
    try:
        return Gallery(tuple(recipe.figures(Results(record.values, record.tables))))
    except Exception as error:
        return Gallery(problem=_problem(entry, error))


def plots_of(entry: Entry, gallery: Gallery, slots: Mapping[str, int], prefix: str) -> tuple[list[Plot], str]:
    """The drawn figures, and what went wrong. A missing matplotlib is nobody's figure's fault and is raised."""
    plots, problems = [], [gallery.problem] if gallery.problem else []
    for number, figure in enumerate(gallery.figures):
        try:
            plots.append(plot(figure, slots, f"{prefix}-f{number}"))
        except ImportError:
            raise
        except Exception as error:
            problems.append(_problem(entry, error, figure.name))
    return plots, "\n".join(problems)


def plot(figure: Figure, slots: Mapping[str, int], prefix: str) -> Plot:
    """Draw one figure; `slots` maps its series to their styles."""
    names = palette.series_of(figure)
    keys = drawing.can_carry_keys(figure)
    drawn = drawing.draw(figure, slots, prefix)
    hidden = sum(one.hidden for one in drawn)
    alone = len(names) == 1 and all(isinstance(panel, Bars | Surface) for panel in figure.panels)
    return Plot(
        id=prefix,
        name=figure.name,
        title=printable(figure.title),
        caption=printable(figure.caption),
        panels=[one.svg for one in drawn],
        legend=[] if keys or alone else [_key(figure, name, i, slots[name]) for i, name in enumerate(names)],
        note=f"Not drawn on a logarithmic axis: {hidden} values at or below zero." if hidden else "",
        data={
            "name": figure.name,
            "title": printable(figure.title),
            "series": [{"name": printable(name), "slot": palette.style(slots[name]).slot} for name in names],
            "panels": [one.data for one in drawn],
        },
    )


def _key(figure: Figure, name: str, index: int, slot: int) -> Key:
    style = palette.style(slot)
    mark, count = _mark(figure, name)
    shape = style.shape if count <= MANY else palette.DOT
    return Key(index, printable(name), f"var(--s{style.slot})", style.stroke_dashes, mark, shape)


def _mark(figure: Figure, name: str) -> tuple[str, int]:
    """How the series is drawn where it is first met, and of how many values it is."""
    for panel in figure.panels:
        if isinstance(panel, Bars) and name in panel.values:
            return "bars", len(panel.labels)
        if isinstance(panel, Panel):
            for series in panel.series:
                if series.name == name:
                    return "points" if series.mark == "points" else "line", len(series.x)
    raise AssertionError(f"{name!r} is in no panel of {figure.name!r}")


def _problem(entry: Entry, error: Exception, figure: str = "") -> str:
    recipe, record = entry
    what = f"The figure {figure!r}" if figure else "The figures"
    return (
        f"{what} of {recipe.name} could not be drawn from the record {record.name} (run {record.state}): "
        f"{type(error).__name__}: {error}"
    )
