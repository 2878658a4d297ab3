"""A claim and a measurement on one small scale: where the claim holds, the mean, and its 95 % interval."""

from __future__ import annotations

import math

from markupsafe import Markup

from paraboloid.report.verdicts import VerdictRow

WIDTH, HEIGHT, INSET = 120.0, 18.0, 6.0


def strip(row: VerdictRow) -> Markup:
    """The picture, or nothing where there is no finite number to show; the same facts stand in the row as text."""
    if row.summary is None or not math.isfinite(row.summary.mean):
        return Markup("")
    low, high = row.summary.interval
    mean, target = row.summary.mean, row.target
    known = [v for v in (low, high, mean, target.low, target.high) if math.isfinite(v)]
    # room on both sides, so that an open end of an interval is seen to go on
    room = (max(known) - min(known)) * 0.35 or abs(mean) * 0.5 or 1.0
    first, last = min(known) - room, max(known) + room

    def place(value: float) -> float:
        share = (min(max(value, first), last) - first) / (last - first)
        return round(INSET + share * (WIDTH - 2 * INSET), 1)

    a, b = place(target.low), place(target.high)
    parts = [
        f'<line class="strip-axis" x1="0" x2="{WIDTH:g}" y1="9" y2="9"/>',
        f'<rect class="strip-claim" x="{a:g}" width="{max(b - a, 2):g}" y="3" height="12" rx="2"/>',
    ]
    if math.isfinite(low):
        parts.append(f'<line class="strip-reach" x1="{place(low):g}" x2="{place(high):g}" y1="9" y2="9"/>')
    parts.append(f'<circle class="strip-mean" cx="{place(mean):g}" cy="9" r="3.2"/>')
    size = f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="{WIDTH:g}" height="{HEIGHT:g}"'
    return Markup(f'<svg class="strip" {size} aria-hidden="true">{"".join(parts)}</svg>')
