"""HTML and SVG of the page of a pipeline: tables, states, times, numbers, and figures of drift over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from itertools import pairwise
from typing import Any

from dlcca.pipelines.catalog import Row
from dlcca.pipelines.settings import DriftSection

#: Rows of a table; further ones are folded.
MOST_ROWS = 14


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, the first `MOST_ROWS` rows visible and the others folded."""
    shown = _plain_table(caption, heads, rows[:MOST_ROWS])
    if len(rows) <= MOST_ROWS:
        return shown
    folded = _plain_table(f"{caption}: the others", heads, rows[MOST_ROWS:])
    return f"{shown}<details><summary>{len(rows) - MOST_ROWS} more</summary>\n{folded}</details>\n"


def _plain_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose rows begin with their header.

    On a phone a row is a card, and every cell has its head; the roles keep it a table for screen readers.
    """
    above = "".join(f'<th role="columnheader" scope="col">{escape(head)}</th>' for head in heads)
    lines = []
    for first, *others in rows:
        cells = "".join(
            f'<td role="cell" data-head="{escape(head)}"><div>{cell}</div></td>'
            for head, cell in zip(heads[1:], others, strict=True)
        )
        lines.append(f'<tr role="row"><th role="rowheader" scope="row">{first}</th>{cells}</tr>')
    head = f'<thead role="rowgroup"><tr role="row">{above}</tr></thead>'
    body = '<tbody role="rowgroup">\n' + "\n".join(lines) + "\n</tbody>"
    return f'<table role="table">\n<caption>{escape(caption)}</caption>\n{head}\n{body}\n</table>\n'


def foldable(text: str, good: Any) -> str:
    """The text of a run; of a good one, only the first line is visible."""
    first, _, rest = text.partition("\n")
    if not good or not rest:
        return paragraphs(text)
    return f"<details><summary>{escape(first)}</summary>{paragraphs(rest)}</details>"


def dates(days: Sequence[str]) -> str:
    return ", ".join(f'<span class="fixed">{escape(day)}</span>' for day in days) or "–"


def colored(text: str, good: Any) -> str:
    return f'<span class="{"good" if good else "bad"}">{escape(text)}</span>'


def paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in text.splitlines())


def moment(iso: str | None) -> str:
    return "–" if not iso else f"{iso[:10]} {iso[11:16]}"


def number(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")


# Figures of drift.

#: Column of the catalog, its bound in the settings, the title, and the format of a value.
MEASURES = (
    ("outside", "most_outside", "Share of rows outside", "{:.0%}"),
    ("distance", "most_distance", "Distance to the nearest landmark", "{:.2f}"),
    ("correlation_change", "correlation_change", "Change of local correlation", "{:.2f}"),
    ("eigenvalue_change", "eigenvalue_change", "Change of leading eigenvalues", "{:.2f}"),
)
#: In units of the figure, about pixels of a phone.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 190, 44, 10, 26, 28
#: Width of the name of a model.
LABEL = 48


@dataclass(frozen=True)
class Scale:
    """From days and values to positions in the figure."""

    first: int
    last: int
    top: float

    def x(self, day: str) -> float:
        share = (date.fromisoformat(day).toordinal() - self.first) / max(1, self.last - self.first)
        return LEFT + share * (WIDTH - LEFT - RIGHT) if self.last > self.first else (LEFT + WIDTH - RIGHT) / 2

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def drift_figures(rows: Sequence[Row], bounds: DriftSection) -> list[tuple[str, str]]:
    """Title and SVG of each measure; ``rows`` in order of day."""
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
    top = rounded_up(max(1.25 * bound, 1.1 * highest, 0.02))  # below 0.02, labels with two digits would be equal
    scale = Scale(min(days), max(days), min(top, 1.0) if column == "outside" else top)
    over = sum(row[column] > bound for row in known)
    label = f"{title}, {len(known)} recordings from {rows[0]['day']} to {rows[-1]['day']}: highest "
    label += f"{form.format(highest)}, alarm above {form.format(bound)}, {over} above it."
    parts = [_axes(scale, form), _model_changes(rows, scale), _bound(scale, bound, form)]
    parts += [_mark(row, column, bound, scale, form) for row in known]
    content = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">\n{content}\n</svg>'


def rounded_up(value: float) -> float:
    """The next number of which the half is round too: 0.25 becomes 0.4, and 16 becomes 20."""
    step = 10.0 ** math.floor(math.log10(value))
    return next(times * step for times in (1, 2, 4, 6, 8, 10) if times * step >= value * (1 - 1e-9))


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _axes(scale: Scale, form: str) -> str:
    """Horizontal grid lines with their values, and the first and the last day."""
    lines = []
    for share in (0, 0.5, 1):
        value = share * scale.top
        y = scale.y(value)
        lines.append(_line("grid", LEFT, WIDTH - RIGHT, y, y))
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
    text = f'<text class="bound" x="{LEFT + 4}" y="{y - 4:.1f}">alarm above {form.format(bound)}</text>'
    return _line("bound", LEFT, WIDTH - RIGHT, y, y) + text


def _model_changes(rows: Sequence[Row], scale: Scale) -> str:
    """A vertical line where the model changes; the last such place, because late files still have the earlier days."""
    begins = {
        after["model"]: (scale.x(before["day"]) + scale.x(after["day"])) / 2
        for before, after in pairwise(rows)
        if after["model"] > before["model"]
    }
    lines, labelled = [], 0.0
    for model, x in sorted(begins.items(), key=lambda item: item[1]):
        lines.append(_line("change", x, x, TOP, HEIGHT - BOTTOM))
        if x - labelled > LABEL:
            lines.append(f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">model {model}</text>')
            labelled = x
    return "\n".join(lines)


def _mark(row: Row, column: str, bound: float, scale: Scale, form: str) -> str:
    """A recording: a point, or a triangle above the bound, so that the colour is not needed to tell them apart."""
    x, y = scale.x(row["day"]), scale.y(row[column])
    title = f"<title>{escape(row['day'])}: {form.format(row[column])}, model {row['model']}</title>"
    if row[column] > bound:
        return f'<path class="alarm" d="M{x:.1f} {y - 5:.1f}l5 9h-10z">{title}</path>'
    return f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3">{title}</circle>'
