"""The part of a page in which the coordinates can be turned, coloured and searched, linked to a time-line.

Its script is small and our own; what it draws is handed over here as numbers in a data block: typed arrays in base64,
so that a page with thousands of points is read in a blink.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report.axes import COLORS, TIME_COLORS
from dlcca.report.channels import ViewChannels
from dlcca.report.coloring import Coloring
from dlcca.report.figures import data_block
from dlcca.report.overview import Overview
from dlcca.report.sentences import drawn_of
from dlcca.report.words import number

#: Values of channels that are handed over, one byte each.
MOST_VALUES = 600_000
#: Extremes that colours leave out at either end.
OUTSIDE = 0.01
#: The script, in the order in which its parts need each other.
SCRIPTS = ("numbers.js", "moments.js", "colors.js", "map.js", "timeline.js", "explorer.js", "reading.js")
_FOLDER = Path(__file__).with_name("script")


def script() -> str:
    """The script of every page; it does nothing where there is nothing to explore or to read."""
    parts = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f"(() => {{\n'use strict';\n{parts}\n}})();"


def section(found: Overview) -> str:
    """The controls and the numbers; hidden until the script runs. "" if there is but one coordinate."""
    if found.rows.sample.embedding.shape[1] < 2:
        return ""
    template = Path(__file__).with_name("explorer.html").read_text(encoding="utf-8")
    note = f"{drawn_of(found)}{_channel_note(found)}"
    return template.replace("$note", note).replace("$data", data_block(document(found), "explorer-data"))


def document(found: Overview) -> dict[str, Any]:
    """All numbers that the script draws."""
    sample, runs = found.rows.sample, found.rows.stretches
    marks = found.drawn_landmarks
    return {
        "hasClock": found.has_clock,
        "rows": packed(sample.rows, "<u4"),
        "time": packed(sample.time, "<f8"),
        "coordinates": [packed(column, "<f4") for column in sample.embedding.T],
        "landmarks": packed(marks, "<u4"),
        "stretches": {
            "begin": packed(runs.begin, "<f8"),
            "end": packed(runs.end, "<f8"),
            "low": [packed(column, "<f4") for column in runs.low.T],
            "high": [packed(column, "<f4") for column in runs.high.T],
            "leftOut": packed(runs.reasons[:, 1:].sum(axis=1) / np.maximum(1, runs.rows), "<f4"),
        },
        "strength": _strength(found),
        "colorings": [*map(_known, found.colorings), *(c for v in found.channels for c in _channels(v, found))],
        "lineColors": list(COLORS),
        "timeColors": list(TIME_COLORS),
    }


def moments(found: Overview) -> dict[str, Any]:
    """How the script tells times, as `dlcca.report.moments` does."""
    told = found.moments
    return {"form": told.form, "zero": told.zero_ms, "first": told.first, "last": told.last, "label": told.label}


def packed(values: NDArray, kind: str) -> str:
    """Numbers of a type that scripts know, in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _strength(found: Overview) -> dict[str, Any] | None:
    if not found.strengths or not found.has_clock:
        return None
    known = found.strengths[0]
    time, value = known.course(parts=400)
    time, value = time[np.isfinite(value)], value[np.isfinite(value)]
    chance = None if known.band is None else float(np.nanmedian(known.band[:, 1]))
    return {"time": packed(time, "<f8"), "value": packed(value, "<f4"), "chance": chance, "label": known.label}


def _known(coloring: Coloring) -> dict[str, Any]:
    """A colouring of all picked rows."""
    if coloring.labels:
        codes = np.where(np.isfinite(coloring.values), coloring.values, 255)
        return {
            "name": coloring.name,
            "group": "What is known",
            "labels": list(coloring.labels),
            "values": packed(codes, "u1"),
            "at": "rows",
        }
    return {"name": coloring.name, "group": "What is known", "at": "rows", **_quantized(coloring.values)}


def _channels(view: ViewChannels, found: Overview) -> list[dict[str, Any]]:
    """The channels of a view at the landmarks; of too many, those that carry most of what is common."""
    made = []
    for i in sorted(view.ranked[: _most_channels(found)]):
        share = "" if view.explained is None else f", R² {view.explained[i]:.2f}"
        name = {"name": view.labels[i], "told": f"{view.labels[i]}{share}", "group": f"Channels of {view.name}"}
        made.append({**name, "at": "landmarks", **_quantized(view.values[:, i])})
    return made


def _most_channels(found: Overview) -> int:
    """Channels of one view that are handed over."""
    landmarks = max((len(view.values) for view in found.channels), default=1)
    return max(1, MOST_VALUES // max(1, landmarks) // max(1, len(found.channels)))


def _channel_note(found: Overview) -> str:
    """What of the channels can be shown."""
    if not found.channels:
        return ""
    text = ""
    if len(found.drawn_landmarks) < len(found.rows.sample.rows):
        text = f" Channels are known at the {number(len(found.drawn_landmarks))} landmarks that are drawn."
    most = _most_channels(found)
    if any(view.count > most for view in found.channels):
        text += f" The {number(most)} channels of a view that carry most can be chosen."
    return text


def _quantized(values: NDArray) -> dict[str, Any]:
    """Numbers in 255 steps between their extremes, a few outliers left out; the last code is for what is not known."""
    known = np.isfinite(values)
    low, high = np.quantile(values[known], [OUTSIDE, 1 - OUTSIDE]) if known.any() else (0.0, 1.0)
    width = (high - low) or 1.0
    codes = np.full(len(values), 255.0)
    codes[known] = np.clip(np.rint((values[known] - low) / width * 254), 0, 254)
    return {"low": float(low), "high": float(low + width), "values": packed(codes, "u1")}
