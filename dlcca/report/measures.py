"""Measures of trust, each with what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from dlcca.report.overview import Overview

#: By the names that they have in the store: what people call it, and what it means.
MEANINGS = {
    "trusted": ("trusted", "no check has given a reason for doubt"),
    "decidable": ("decidable", "whether recording and neighborhoods are large enough to tell common from chance"),
    "p_common": (
        "p of nothing common",
        "how often views that share nothing would look like these; below 0.05 is found",
    ),
    "common_against": ("held against", "what the views were compared with to find that out"),
    "common_by_chance": ("alike by chance", "squared correlation that the same views reach where they share nothing"),
    "common_strength": (
        "strength beyond chance",
        "of the leading common direction at the typical landmark, from 0 to 1",
    ),
    "landmarks_common": (
        "landmarks that show it alone",
        "share of the landmarks at which it is sure without the others",
    ),
    "top_correlation": ("largest correlation", "between the views, at the typical landmark"),
    "null_edge": ("largest by chance", "correlation that independent views would hardly ever exceed there"),
    "landmarks_above_edge": ("landmarks above chance", "share of the landmarks whose correlation exceeds that"),
    "effective_neighbors": ("effective neighbours", "independent samples that a neighborhood is worth"),
    "rank": ("directions of a neighborhood", "that are used, for each view, at the typical landmark"),
    "radius": ("radius of a neighborhood", "for each view, at the typical landmark"),
    "leading_eigenvalue": ("leading eigenvalue", "1, but for rounding"),
    "pieces": ("pieces", "that the kernel falls into; one is needed"),
    "far_rows": ("far rows", "share of the rows that lie far from every landmark"),
    "landmarks_seen": ("landmarks seen", "by the typical row; too few, or all, would be wrong"),
    "told_by_half": ("told by half of the landmarks", "R² of each coordinate from a fit with every other landmark"),
    "from_halves": (
        "comes again from halves",
        "share of each coordinate that two fits, to one half and to the other half of some rows, agree on",
    ),
    "eigengap": ("gap after the last coordinate", "relative; how sharply the coordinates end"),
    "independent_coordinates": ("independent coordinates", "those that do not follow from earlier ones"),
    "carriers": ("carriers", "share of the rows that hold half of the variance of each coordinate"),
    "neighbor_recall": ("neighbours found", "share of the true ones, by the approximate search"),
}
#: More numbers than these are not for a table.
MOST_NUMBERS = 12


def measures(found: Overview) -> Iterator[tuple[str, ...]]:
    """Name, value and meaning of each measure, those that decide first; one that is not known here keeps its name."""
    quality = {name: value for name, value in found.quality.items() if name != "notes" and is_small(value)}
    for name in sorted(quality, key=_place):
        called, meaning = MEANINGS.get(name, (name.replace("_", " "), ""))
        value = quality[name]
        shown = [i + 1 for i in value] if name == "independent_coordinates" else value
        yield escape(called), escape(worded(shown)), escape(meaning)


def is_small(value: Any) -> bool:
    """Whether a measure can be told in a line of a table."""
    return (
        value is not None
        and not isinstance(value, Mapping)
        and len(value if isinstance(value, list) else []) <= MOST_NUMBERS
    )


def worded(value: object) -> str:
    """A number, a list of them, a word or yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(worded(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _place(name: str) -> int:
    names = list(MEANINGS)
    return names.index(name) if name in names else len(names)
