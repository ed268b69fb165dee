"""The interactive part of a page: a map of the coordinates to turn, colour and select, linked to a time-line.

The script gets its data from a JSON block with typed arrays in base64, so that thousands of points load at once.
"""

import base64
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report.figures import COLORS, TIME_COLORS, data_block
from dlcca.report.landmarks import ViewChannels
from dlcca.report.overview import Overview
from dlcca.report.rows import Coloring
from dlcca.report.sentences import number, sample_note

#: Values of channels in the page, one byte each.
MOST_VALUES = 600_000
#: Quantile at either end of a colour scale.
OUTSIDE = 0.01
#: The script, in the order in which its parts need each other.
SCRIPTS = ("numbers.js", "moments.js", "colors.js", "map.js", "timeline.js", "explorer.js", "reading.js")
_FOLDER = Path(__file__).with_name("script")


def script() -> str:
    parts = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f"(() => {{\n'use strict';\n{parts}\n}})();"


def content(found: Overview) -> dict[str, str] | None:
    """What `explorer.html` shows: a note, and the data for the script; None if there is one coordinate only."""
    if found.rows.sample.embedding.shape[1] < 2:
        return None
    note = f"{sample_note(found)}{_channel_note(found)}"
    return {"note": note, "data": data_block(document(found), "explorer-data")}


def document(found: Overview) -> dict[str, Any]:
    sample, runs = found.rows.sample, found.rows.stretches
    return {
        "hasClock": found.has_clock,
        "rows": packed(sample.rows, "<u4"),
        "time": packed(sample.time, "<f8"),
        "coordinates": [packed(column, "<f4") for column in sample.embedding.T],
        "landmarks": packed(found.drawn_landmarks, "<u4"),
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


def time_format(found: Overview) -> dict[str, Any]:
    """How the script formats times, as `TimeAxis` does."""
    axis = found.time_axis
    return {"form": axis.form, "zero": axis.zero_ms, "first": axis.first, "last": axis.last, "label": axis.label}


def packed(values: NDArray, kind: str) -> str:
    """A typed array in base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _strength(found: Overview) -> dict[str, Any] | None:
    if not found.strengths or not found.has_clock:
        return None
    shown = found.strengths[0]
    time, value = shown.course(parts=400)
    known, chance = np.isfinite(value), None if shown.chance is None else float(np.nanmedian(shown.chance))
    times, values = packed(time[known], "<f8"), packed(value[known], "<f4")
    return {"time": times, "value": values, "chance": chance, "label": shown.label}


def _known(coloring: Coloring) -> dict[str, Any]:
    """A colouring of all rows of the sample."""
    made = {"name": coloring.name, "group": "What is known", "at": "rows"}
    if not coloring.labels:
        return made | _quantized(coloring.values)
    return made | {"labels": list(coloring.labels), "values": packed(np.nan_to_num(coloring.values, nan=255), "u1")}


def _channels(view: ViewChannels, found: Overview) -> list[dict[str, Any]]:
    """The channels of a view at the landmarks; of too many, those with the largest R²."""
    made = []
    for i in sorted(view.ranked[: _most_channels(found)]):
        share = "" if view.r2 is None else f", R² {view.r2[i]:.2f}"
        name = {"name": view.labels[i], "label": f"{view.labels[i]}{share}", "group": f"Channels of {view.name}"}
        made.append({**name, "at": "landmarks", **_quantized(view.values[:, i])})
    return made


def _most_channels(found: Overview) -> int:
    """Channels of one view in the page."""
    landmarks = max((len(view.values) for view in found.channels), default=1)
    return max(1, MOST_VALUES // max(1, landmarks) // max(1, len(found.channels)))


def _channel_note(found: Overview) -> str:
    """Which channels can be shown."""
    if not found.channels:
        return ""
    text = ""
    if len(found.drawn_landmarks) < len(found.rows.sample.rows):
        text = f" Channels are known at the {number(len(found.drawn_landmarks))} landmarks that are drawn."
    most = _most_channels(found)
    if any(view.count > most for view in found.channels):
        text += f" The {number(most)} channels of a view with the largest R² can be chosen."
    return text


def _quantized(values: NDArray) -> dict[str, Any]:
    """Numbers in 255 steps between their extremes, without a few outliers; code 255 is for what is not known."""
    known = np.isfinite(values)
    low, high = np.quantile(values[known], [OUTSIDE, 1 - OUTSIDE]) if known.any() else (0.0, 1.0)
    width = (high - low) or 1.0
    codes = np.full(len(values), 255.0)
    codes[known] = np.clip(np.rint((values[known] - low) / width * 254), 0, 254)
    return {"low": float(low), "high": float(low + width), "values": packed(codes, "u1")}
