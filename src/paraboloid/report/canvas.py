"""A sheet that matplotlib draws on: one style, no global state, the same bytes for the same input.

Colours are placeholders, which `paraboloid.report.svg` turns into CSS variables, so that one drawing serves light and
dark pages. matplotlib is optional and only loaded when something is drawn.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from paraboloid.report import numbers

# placeholders: colours that nobody would choose
INK, SOFT, GRID = "#0a0b0c", "#0a0b0d", "#0a0b0e"
FONT = 12.0  # in units of the picture; they are a little smaller than pixels on a phone and a little larger on a screen
EDGE = 2.0  # between what is written and the edge of the picture
LETTER = 0.56 * FONT  # mean width of a character
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "paraboloid",
    "font.size": FONT,
    "text.color": INK,
    "text.parse_math": False,  # names come from records: a dollar sign is a dollar sign
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": FONT,
    "axes.titleweight": "bold",
    "axes.titlepad": 10.0,
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.major.pad": 5.0,
    "xtick.minor.pad": 5.0,
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}


@dataclass
class Canvas:
    """A figure of matplotlib with one pair of axes at a fixed place; margins left, right, top and bottom."""

    figure: Any
    axes: Any
    width: float
    height: float

    def segment(self, x: list[float], y: list[float], **look: Any) -> None:
        """A line anywhere on the sheet, in fractions of it."""
        from matplotlib.lines import Line2D

        self.figure.add_artist(Line2D(x, y, transform=self.figure.transFigure, **look))

    def norm(self, low: float, high: float, log: bool) -> Any:
        """The map from heights to 0 … 1."""
        from matplotlib.colors import LogNorm, Normalize

        return LogNorm(low, high) if log else Normalize(low, high)

    def svg(self, dpi: float = 72) -> str:
        """The drawing as matplotlib writes it; `dpi` is that of its images."""
        stream = io.StringIO()
        self.figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True, dpi=dpi)
        return stream.getvalue()

    def fit(self) -> None:
        """Move the left and lower edges of the axes so that what is written beside them just has room."""
        outside, place = self.axes.get_tightbbox(), self.axes.get_position()
        left = place.x0 - outside.x0 / self.width + EDGE / self.width
        bottom = place.y0 - outside.y0 / self.height + EDGE / self.height
        self.axes.set_position((left, bottom, place.x1 - left, place.y1 - bottom))

    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the axes, as the picture counts: downwards."""
        place = self.axes.get_position()
        x0, x1 = place.x0 * self.width, place.x1 * self.width
        y0, y1 = (1 - place.y1) * self.height, (1 - place.y0) * self.height
        return round(x0, 2), round(y0, 2), round(x1, 2), round(y1, 2)


@contextmanager
def canvas(width: float, height: float, margins: tuple[float, float, float, float]) -> Iterator[Canvas]:
    """An empty canvas; whatever the user's matplotlibrc says, it looks the same."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'the report draws its figures with matplotlib, which is missing: pip install "paraboloid[cli]".'
        ) from error
    left, right, top, bottom = margins
    with matplotlib.rc_context(), warnings.catch_warnings():
        # the browser has glyphs that matplotlib's font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update(STYLE)
        figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        FigureCanvasSVG(figure)
        place = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
        yield Canvas(figure, figure.add_axes(place), width, height)


def label_axis(axis: Any, label: str, scale: str) -> None:
    """Label and plain-text ticks: 10⁻³ in one piece, which a browser can set in its own font."""
    axis.set_label_text(label)
    low, high = sorted(axis.get_view_interval())
    if scale == "log":
        decades = math.log10(high / low)
        # all numbers of an axis in one notation
        plain = low > 0.9e-3 and high < 1.1e4
        axis.get_major_locator().set_params(numticks=6)
        axis.set_major_formatter(lambda value, _: _decade(value, plain))
        # within two decades the powers of ten alone say too little
        axis.set_minor_formatter(lambda value, _: _between(value, decades))
    elif 1e-3 <= max(-low, high) < 1e6:
        axis.get_major_formatter().set_scientific(False)
    else:  # a factor at the end of the axis would be read last, or not at all
        axis.set_major_formatter(lambda value, _: numbers.number(value, 4))


def _decade(value: float, plain: bool) -> str:
    exponent = math.log10(value)
    whole = abs(exponent - round(exponent)) < 1e-9
    return numbers.power(round(exponent)) if whole and not plain else numbers.number(value, 3)


def _between(value: float, decades: float) -> str:
    leading = round(value / 10 ** math.floor(math.log10(value) + 1e-9), 6)
    wanted = (2, 5) if 0.7 < decades < 2 else (2, 3, 4, 5, 6, 8) if decades <= 0.7 else ()
    return numbers.number(value, 3) if leading in wanted else ""
