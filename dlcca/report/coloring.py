"""What the points of a report may be coloured by besides time and channels: what is known of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.report.gathering import Sample
from dlcca.storage import views as view_store

#: Labels that get a colour of their own; the rest are "other".
MOST_LABELS = 9


@dataclass(frozen=True)
class Coloring:
    """A number or a label for each picked row."""

    name: str
    values: NDArray[np.float64]  # (p,) NaN where nothing is known; of labels, their numbers
    labels: tuple[str, ...] = ()  # empty for numbers


def of_rows(known: Mapping[str, NDArray], rows: NDArray[np.int64]) -> list[Coloring]:
    """From arrays (n,) of all rows: numbers, or texts, which are labels."""
    made = []
    for name, values in known.items():
        values = np.asarray(values)
        if values.shape != (rows[-1] + 1,):  # the last row is always picked
            raise DataError(
                f"{name!r} has shape {values.shape}; to colour by it a value for each of {rows[-1] + 1} rows is needed."
            )
        values = values[rows]
        is_text = values.dtype.kind in "US"
        made.append(_labelled(name, values.astype(str)) if is_text else Coloring(name, values.astype(np.float64)))
    return made


def of_recordings(address: str, sample: Sample) -> list[Coloring]:
    """The annotations of the recordings that a run was made of: at every row the kind that holds there."""
    place = f"{address.rstrip('/')}/recordings"
    if not view_store.is_views(place):
        return []
    header = view_store.describe(place)
    marks = header.get("annotations", [])
    labels = _in_force(sample.time, marks, float(header.get("window_s") or 0))
    return [_labelled("annotation", labels)] if (labels != "").any() else []


def _in_force(time: NDArray, marks: Sequence[Any], window_s: float) -> NDArray:
    """The text of the annotation that holds at each moment, "" where none does; a later one goes before an earlier."""
    labels = np.full(len(time), "", dtype=object)
    order = np.argsort(time, kind="stable")
    rising = time[order]
    for onset, end, text in sorted(marks, key=lambda mark: mark[0]):
        low = np.searchsorted(rising, onset - window_s, "right")  # windows that reach into it
        high = np.searchsorted(rising, end) if end > onset else np.searchsorted(rising, onset, "right")
        labels[order[low:high]] = str(text)
    return labels.astype(str)


def _labelled(name: str, texts: NDArray) -> Coloring:
    counts = Counter(texts[texts != ""].tolist())
    kept = sorted(text for text, _ in counts.most_common(MOST_LABELS))
    names = [*kept, "other"] if len(counts) > len(kept) else kept
    numbers = {text: float(i) for i, text in enumerate(kept)}
    values = np.array([np.nan if text == "" else numbers.get(text, float(len(kept))) for text in texts])
    return Coloring(name, values, tuple(names))
