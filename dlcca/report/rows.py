"""What a report draws of the rows: a sample, extremes of stretches, gaps, spectra, and values to colour points by.

A result may have many millions of rows. They are read once, block by block, so that neither memory nor the page grows
with the recording.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.report.spectrum import Spectrum, SpectrumEstimator
from dlcca.settings.runfile import recordings_of
from dlcca.storage import views as view_store
from dlcca.storage.formats import Format, read_rows

Ints = NDArray[np.int64]
#: Consecutive rows: the number of the first, and "time" (b,), "embedding" (b, q) and, if it is known, "reason" (b,).
Block = tuple[int, Mapping[str, Any]]
#: Bytes of all arrays together that are held at a time, about.
AT_ONCE = 24 << 20

#: Rows that are drawn as points, evenly over the recording, and landmarks besides.
POINTS, LANDMARKS = 6000, 2500
#: Stretches of the recording whose extremes are drawn.
STRETCHES = 1200
#: Coordinates that are kept; further ones say little.
COORDINATES = 6
#: Steps of time that differ by less, as a share of a step, are one step.
EVEN = 1e-4
#: Reasons for which a row may be left out, 0 for none.
REASONS = 8
#: Labels that get a colour of their own; the rest are "other".
MOST_LABELS = 9


@dataclass(frozen=True)
class Sample:
    """The rows that are drawn."""

    rows: Ints  # (p,) rising
    time: NDArray[np.float64]  # (p,)
    embedding: NDArray[np.float64]  # (p, q) the first coordinates

    def at(self, rows: NDArray) -> Ints:
        """Positions of rows in the sample."""
        return np.searchsorted(self.rows, rows)


@dataclass(frozen=True)
class Stretches:
    """All rows, in stretches of equal length."""

    edges: Ints  # (s + 1,) row numbers
    begin: NDArray[np.float64]  # (s,) time of the first row
    end: NDArray[np.float64]  # (s,) time of the last one
    low: NDArray[np.float64]  # (s, q) extremes of each coordinate; NaN where no row is valid
    high: NDArray[np.float64]
    reasons: Ints  # (s, REASONS) rows by the reason for which they were left out

    @classmethod
    def of(cls, n: int, q: int) -> Self:
        """The stretches of n rows, before any block is taken."""
        s = min(n, STRETCHES)
        edges = np.linspace(0, n, s + 1).round().astype(np.int64)
        time, extremes = np.full(s, np.nan), np.full((s, q), np.nan)
        return cls(edges, time, time.copy(), extremes, extremes.copy(), np.zeros((s, REASONS), np.int64))

    @property
    def rows(self) -> Ints:
        return np.diff(self.edges)

    def take(self, first: int, time: NDArray, E: NDArray, reason: NDArray | None) -> None:
        """Add consecutive rows, from row ``first`` on."""
        if reason is None:
            reason = np.where(np.isnan(E[:, 0]), REASONS - 1, 0)
        codes, last = np.minimum(reason, REASONS - 1), first + len(time)
        for s in range(np.searchsorted(self.edges, first, "right") - 1, np.searchsorted(self.edges, last)):
            here = slice(max(0, self.edges[s] - first), self.edges[s + 1] - first)
            self.low[s] = np.fmin(self.low[s], np.fmin.reduce(E[here]))
            self.high[s] = np.fmax(self.high[s], np.fmax.reduce(E[here]))
            self.reasons[s] += np.bincount(codes[here], minlength=REASONS)
            if self.edges[s] >= first:  # it begins in this block
                self.begin[s] = time[here][0]
            self.end[s] = time[here][-1]


@dataclass(frozen=True)
class RowSummary:
    """All that a report draws of the rows."""

    sample: Sample
    stretches: Stretches
    mark_time: NDArray[np.float64]  # (L,) times of the landmarks
    spectrum: Spectrum | None  # None where rows are not evenly spaced in time
    step: float | None  # between two rows, if it is always the same


def picked_rows(n: int, landmarks: NDArray, also: Sequence[int] | NDArray = ()) -> Ints:
    """The rows that are drawn: evenly spaced ones, some landmarks, and those in ``also``."""
    return np.unique(np.concatenate([evenly(n, POINTS), some_landmarks(landmarks), np.asarray(also, np.int64)]))


def some_landmarks(landmarks: NDArray) -> Ints:
    """Row numbers of the landmarks that are drawn."""
    return np.asarray(landmarks, np.int64)[evenly(len(landmarks), LANDMARKS)]


def evenly(n: int, most: int) -> Ints:
    """Some of n things, evenly spaced, the first and the last among them; all if they are not more than ``most``."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def summarize(
    blocks: Iterable[Block], n: int, q: int, rows: Ints, marks: Ints, *, has_clock: bool = True
) -> RowSummary:
    """Summarize n rows with q coordinates, which come in blocks and in order, in one pass.

    The sample are ``rows`` (p,), rising; times of the rows ``marks`` (L,) are kept. Without a clock, the order of the
    rows means nothing, and there is no spectrum.
    """
    q, marks = min(q, COORDINATES), np.asarray(marks, np.int64)
    sample = Sample(rows, np.full(len(rows), np.nan), np.full((len(rows), q), np.nan))
    mark_time, stretches = np.full(len(marks), np.nan), Stretches.of(n, q)
    estimator = SpectrumEstimator(n, q) if has_clock else None
    least, most, last = np.inf, -np.inf, np.empty(0)  # of the steps of time; and the time of the last row
    for first, part in blocks:
        time, E = (np.asarray(X, np.float64) for X in (part["time"], part["embedding"][:, :q]))
        _copy(time, first, rows, sample.time)
        _copy(E, first, rows, sample.embedding)
        _copy(time, first, marks, mark_time)
        stretches.take(first, time, E, part.get("reason"))
        steps = np.diff(time, prepend=last)
        least, most, last = steps.min(initial=least), steps.max(initial=most), time[-1:]
        if estimator is not None:
            estimator.take(E)
    mean = float(stretches.end[-1] - stretches.begin[0]) / max(1, n - 1)
    step = mean if n > 3 and least > 0 and most - least <= 2 * EVEN * mean else None
    spectrum = None if estimator is None or step is None else estimator.finished(step)
    return RowSummary(sample, stretches, mark_time, spectrum, step)


def _copy(block: NDArray, first: int, rows: Ints, out: NDArray) -> None:
    """Copy those of the given rows, in any order, that are in a block, which begins with row ``first``."""
    here = (rows >= first) & (rows < first + len(block))
    out[here] = block[rows[here] - first]


def read_picked(group: Any, name: str, rows: Ints, digests: Mapping[str, str], address: str, form: Format) -> NDArray:
    """Some rows of an array, in the given order; the whole array is read and checked, some rows at a time."""
    found = np.empty((len(rows), *group[name].shape[1:]), group[name].dtype)
    for first, block in read_blocks(group, [name], digests, address, form):
        _copy(block[name], first, rows, found)
    return found


def read_blocks(
    group: Any, names: list[str], digests: Mapping[str, str], address: str, form: Format
) -> Iterator[tuple[int, dict[str, NDArray]]]:
    """All rows of some arrays of a store; an error at the end if a digest differs.

    Whole chunks of the widest array are read at a time; chunks of narrow ones are decompressed again.
    """
    widths = [group[name].dtype.itemsize * int(np.prod(group[name].shape[1:])) for name in names]
    chunk = group[names[int(np.argmax(widths))]].chunks[0]
    step = chunk * max(1, AT_ONCE // max(1, chunk * sum(widths)))
    return read_rows(group, names, digests, address, form, step=step)


@dataclass(frozen=True)
class Coloring:
    """A number or a label for each row of the sample."""

    name: str
    values: NDArray[np.float64]  # (p,) NaN where it is not known; codes of labels
    labels: tuple[str, ...] = ()  # empty for numbers


def colorings(known: Mapping[str, NDArray], rows: Ints) -> list[Coloring]:
    """From arrays (n,) of all rows: numbers, or texts, which are labels."""
    made = []
    for name, values in known.items():
        values = np.asarray(values)
        if values.shape != (rows[-1] + 1,):  # the last row is always in the sample
            raise DataError(
                f"{name!r} has shape {values.shape}; to colour by it a value for each of {rows[-1] + 1} rows is needed."
            )
        is_text, values = values.dtype.kind in "US", values[rows]
        made.append(_labelled(name, values.astype(str)) if is_text else Coloring(name, values.astype(np.float64)))
    return made


def annotation_colorings(address: str, sample: Sample) -> list[Coloring]:
    """The annotations of the recordings that a run was made of: for each row the one in force."""
    place = recordings_of(address)
    if not view_store.is_views(place):
        return []
    header = view_store.describe(place)
    labels = _in_force(sample.time, header.get("annotations", []), float(header.get("window_s") or 0))
    return [_labelled("annotation", labels)] if (labels != "").any() else []


def _in_force(time: NDArray, marks: Sequence[Any], window_s: float) -> NDArray:
    """The text of the annotation at each time, "" where there is none; the one with the latest onset wins."""
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
