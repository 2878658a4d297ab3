"""One look for each method: a colour, a dash and a marker, the same in all figures of a report.

Eight colours and five dashes are counted through together: as 5 and 8 share no factor, forty methods differ in the
pair. Within each theme any two colours differ for readers with normal, red-blind and green-blind sight, and all
of them stand out from the page by 3 : 1 (tests/report/test_palette.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paraboloid.recipes.figures import Bars, Figure, Panel, Surface

# (on a light page, on a dark page)
COLOURS = (
    ("#244dd8", "#3b90ff"),  # blue
    ("#e04a06", "#fe7a2c"),  # orange
    ("#0e9070", "#6ea98c"),  # green
    ("#54027e", "#c355b8"),  # purple
    ("#4e95f4", "#d3df4a"),  # sky; lime
    ("#e456a0", "#62e2fb"),  # pink; sky
    ("#843508", "#fdbcb2"),  # brown; rose
    ("#2b2931", "#edfff6"),  # ink
)
PAPER = ("#ffffff", "#15181d")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (3, 1.5, 1, 1.5, 1, 1.5)))
# matplotlib's marker, and the same shape in a box of 12 for the legend
_MARKERS = (
    ("o", "M6 2a4 4 0 1 0 .01 0z"),
    ("s", "M2.2 2.2h7.6v7.6h-7.6z"),
    ("^", "M6 1.6l4.6 8.4h-9.2z"),
    ("D", "M6 1l5 5-5 5-5-5z"),
    ("v", "M6 10.4l4.6-8.4h-9.2z"),
    ("P", "M4.2 1.5h3.6v2.7h2.7v3.6h-2.7v2.7h-3.6v-2.7h-2.7v-3.6h2.7z"),
    ("X", "M3.5 1.2l2.5 2.5 2.5-2.5 2.3 2.3-2.5 2.5 2.5 2.5-2.3 2.3-2.5-2.5-2.5 2.5-2.3-2.3 2.5-2.5-2.5-2.5z"),
    ("*", "M6 .8l1.5 3.4 3.7.4-2.8 2.5.8 3.6-3.2-1.9-3.2 1.9.8-3.6-2.8-2.5 3.7-.4z"),
)
DOT = _MARKERS[0][1]
_LINE_WIDTH = 1.8


@dataclass(frozen=True)
class Style:
    """How a series is drawn; `placeholder` stands for its colour until the page's theme decides."""

    slot: int
    placeholder: str
    dash: Any
    marker: str
    shape: str

    @property
    def stroke_dashes(self) -> str:
        """The dash as SVG says it, for a line of the usual width."""
        if self.dash == "-":
            return ""
        return " ".join(f"{length * _LINE_WIDTH:g}" for length in self.dash[1])


def style(slot: int) -> Style:
    """
    >>> style(0).stroke_dashes, style(1).stroke_dashes
    ('', '9 3.6')
    """
    colour = slot % len(COLOURS)
    return Style(colour, placeholder(colour), _DASHES[slot % len(_DASHES)], *_MARKERS[slot % len(_MARKERS)])


def placeholder(colour: int) -> str:
    """A colour that nobody would choose, for one of COLOURS."""
    return f"#0b0c{colour:02x}"


def slots_of(figures: Iterable[Figure]) -> dict[str, int]:
    """Each method's style, counted in the order in which a reader meets them."""
    slots: dict[str, int] = {}
    for figure in figures:
        for name in series_of(figure):
            slots.setdefault(name, len(slots))
    return slots


def series_of(figure: Figure) -> list[str]:
    """The names of a figure's series, each once, in order; a surface has none."""
    names: dict[str, None] = {}
    for panel in figure.panels:
        names |= dict.fromkeys(_names(panel))
    return list(names)


def _names(panel: Panel | Bars | Surface) -> list[str]:
    if isinstance(panel, Panel):
        return [one.name for one in panel.series]
    return list(panel.values) if isinstance(panel, Bars) else []
