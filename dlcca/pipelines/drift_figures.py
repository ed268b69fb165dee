"""Drift over time, drawn: one small figure for each measure, as SVG that needs nothing but the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from itertools import pairwise
from typing import Any

from dlcca.pipelines.sections import DriftSection

#: Column of the catalog, its bound in the settings, the title, and how a value is written.
MEASURES = (
    ("outside", "most_outside", "Share of rows outside", "{:.0%}"),
    ("distance", "most_distance", "Distance to the nearest landmark", "{:.2f}"),
    ("correlation_change", "correlation_change", "Change of local correlation", "{:.2f}"),
    ("eigenvalue_change", "eigenvalue_change", "Change of leading eigenvalues", "{:.2f}"),
)
#: In units of the figure, which are about pixels of a phone.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 190, 44, 10, 26, 28
#: Room for the name of a model.
LABEL = 48

Row = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """From days and values to places in the figure."""

    first: int
    last: int
    top: float

    def x(self, day: str) -> float:
        share = (date.fromisoformat(day).toordinal() - self.first) / max(1, self.last - self.first)
        return LEFT + share * (WIDTH - LEFT - RIGHT) if self.last > self.first else (LEFT + WIDTH - RIGHT) / 2

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def figures(rows: Sequence[Row], bounds: DriftSection) -> list[tuple[str, str]]:
    """Title and SVG of each measure; ``rows`` as of `overview.Overview.drift`."""
    rows = [row for row in rows if row["day"]]
    return [
        (title, _figure(rows, column, getattr(bounds, bound), title, form))
        for column, bound, title, form in MEASURES
        if any(row[column] is not None for row in rows)
    ]


def _figure(rows: Sequence[Row], column: str, bound: float, title: str, form: str) -> str:
    known = [row for row in rows if row[column] is not None]
    days = [date.fromisoformat(row["day"]).toordinal() for row in rows]
    highest = max(row[column] for row in known)
    top = rounded_up(max(1.25 * bound, 1.1 * highest, 0.02))  # below that, two figures would not tell lines apart
    scale = Scale(min(days), max(days), min(top, 1.0) if column == "outside" else top)
    over = sum(row[column] > bound for row in known)
    told = f"{title}, {len(known)} recordings from {rows[0]['day']} to {rows[-1]['day']}: highest "
    told += f"{form.format(highest)}, alarm above {form.format(bound)}, {over} above it."
    parts = [
        _axes(scale, form), _model_changes(rows, scale), _bound(scale, bound, form),
        *(_mark(row, column, bound, scale, form) for row in known),
    ]  # fmt: skip
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(told)}">\n' + "\n".join(parts) + "\n</svg>"
    )


def rounded_up(value: float) -> float:
    """The next number that is as tidy as its half: 0.25 becomes 0.4, and 16 becomes 20."""
    step = 10.0 ** math.floor(math.log10(value))
    return next(times * step for times in (1, 2, 4, 6, 8, 10) if times * step >= value * (1 - 1e-9))


def _axes(scale: Scale, form: str) -> str:
    """Lines of height, with their values, and the first and the last day."""
    lines = []
    for share in (0, 0.5, 1):
        value = share * scale.top
        y = scale.y(value)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{form.format(value)}</text>')
    first, last = date.fromordinal(scale.first).isoformat(), date.fromordinal(scale.last).isoformat()
    if first == last:
        lines.append(f'<text x="{scale.x(first):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{first}</text>')
    else:
        lines.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">{first}</text>')
        lines.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{last}</text>')
    return "\n".join(lines)


def _bound(scale: Scale, bound: float, form: str) -> str:
    y = scale.y(bound)
    return (
        f'<line class="bound" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="bound" x="{LEFT + 4}" y="{y - 4:.1f}">alarm above {form.format(bound)}</text>'
    )


def _model_changes(rows: Sequence[Row], scale: Scale) -> str:
    """A line where recordings begin to be held against another model; the last such place, as late files go back."""
    begins = {
        after["model"]: (scale.x(before["day"]) + scale.x(after["day"])) / 2
        for before, after in pairwise(rows)
        if after["model"] > before["model"]
    }
    lines, labelled = [], 0.0
    for model, x in sorted(begins.items(), key=lambda item: item[1]):
        lines.append(f'<line class="change" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        if x - labelled > LABEL:
            lines.append(f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">model {model}</text>')
            labelled = x
    return "\n".join(lines)


def _mark(row: Row, column: str, bound: float, scale: Scale, form: str) -> str:
    """A recording: a point, or a triangle where it is above the bound; its shape tells it as well as its colour."""
    x, y = scale.x(row["day"]), scale.y(row[column])
    told = f"<title>{escape(row['day'])}: {form.format(row[column])}, model {row['model']}</title>"
    if row[column] > bound:
        return f'<path class="alarm" d="M{x:.1f} {y - 5:.1f}l5 9h-10z">{told}</path>'
    return f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3">{told}</circle>'
