"""What the panels of one figure have in common: their size, and how each series is called and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paraboloid.report import palette

# A panel that has half of the page, and one that has a third of it. On a wide screen both are shown about as large
# as they are drawn, so that letters have one size.
WIDE, NARROW = (440.0, 300.0), (360.0, 270.0)
# left, right, top, bottom; in the end left and bottom follow what is written there
MARGINS = 60.0, 12.0, 30.0, 46.0


@dataclass(frozen=True)
class Stage:
    """A figure's series in order, and the report's styles for them; `keys` puts names beside the lines."""

    names: Sequence[str]
    slots: Mapping[str, int]
    size: tuple[float, float] = WIDE
    keys: bool = False

    def group(self, name: str) -> str:
        """What the series' parts are called in the picture."""
        return f"series-{self.names.index(name)}"

    def style(self, name: str) -> palette.Style:
        """Its look everywhere in the report."""
        return palette.style(self.slots[name])
