"""Pieces of the page of a pipeline: tables, states, times and numbers as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

#: Rows of a table before the others are folded away: a fortnight.
MOST_ROWS = 14


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; rows that come after many others are folded away."""
    shown = _plain_table(caption, heads, rows[:MOST_ROWS])
    if len(rows) <= MOST_ROWS:
        return shown
    folded = _plain_table(f"{caption}: the others", heads, rows[MOST_ROWS:])
    return f"{shown}<details><summary>{len(rows) - MOST_ROWS} more</summary>\n{folded}</details>\n"


def _plain_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose rows each begin with their header.

    On a phone a row is a card, and every cell says what it is; the roles keep it a table for those who listen to it.
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


def unfolded(text: str, good: Any) -> str:
    """What a run said; of one that went well the rest is there for those who ask."""
    first, _, rest = text.partition("\n")
    if not good or not rest:
        return paragraphs(text)
    return f"<details><summary>{escape(first)}</summary>{paragraphs(rest)}</details>"


def dates(days: Sequence[str]) -> str:
    return ", ".join(f'<span class="fixed">{escape(day)}</span>' for day in days) or "–"


def judged(said: str, good: Any) -> str:
    return f'<span class="{"good" if good else "bad"}">{escape(said)}</span>'


def paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in text.splitlines())


def moment(iso: str | None) -> str:
    return "–" if not iso else f"{iso[:10]} {iso[11:16]}"


def number(value: int) -> str:
    return f"{value:,}".replace(",", "\u202f")
