"""One pass over the rows of a result, whatever their number: a sample of them, their extremes, gaps and spectra.

A report draws thousands of points, and a result may have many millions of rows. What is drawn is gathered here while
the rows go by, some at a time, so that neither memory nor the page grows with the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.report.spectrum import Rhythms, Spectrum

#: Rows that are drawn as points, evenly over the recording, and landmarks besides.
POINTS, LANDMARKS = 6000, 2500
#: Stretches of the recording whose extremes are drawn.
STRETCHES = 1200
#: Coordinates that are gathered; further ones say little.
COORDINATES = 6
#: Steps of time that differ by less, as a share of a step, are one step.
EVEN = 1e-4
#: Reasons for which a row may be left out, 0 for none.
REASONS = 8


@dataclass(frozen=True)
class Block:
    """Some rows that follow each other."""

    first: int
    time: NDArray  # (b,)
    embedding: NDArray  # (b, q)
    reason: NDArray[np.uint8] | None = None  # (b,)


@dataclass(frozen=True)
class Sample:
    """Rows that were picked."""

    rows: NDArray[np.int64]  # (p,) rising
    time: NDArray[np.float64]  # (p,)
    embedding: NDArray[np.float64]  # (p, q) the first coordinates

    def at(self, rows: NDArray) -> NDArray[np.int64]:
        """Where rows that are among the picked ones are found."""
        return np.searchsorted(self.rows, rows)


@dataclass(frozen=True)
class Stretches:
    """All rows, in stretches of equally many."""

    edges: NDArray[np.int64]  # (s + 1,) row numbers
    begin: NDArray[np.float64]  # (s,) time of the first row
    end: NDArray[np.float64]  # (s,) time of the last one
    low: NDArray[np.float64]  # (s, q) extremes of each coordinate; NaN where no row is valid
    high: NDArray[np.float64]
    reasons: NDArray[np.int64]  # (s, REASONS) rows by the reason for which they were left out

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of each stretch."""
        return np.diff(self.edges)


@dataclass(frozen=True)
class Gathered:
    """All that a report draws of the rows."""

    n: int
    sample: Sample
    stretches: Stretches
    mark_time: NDArray[np.float64]  # (L,) moments of the rows that were marked
    spectrum: Spectrum | None  # None where rows are not evenly spaced in time
    step: float | None  # between two rows, if it is always the same

    @property
    def first_time(self) -> float:
        return float(self.stretches.begin[0])

    @property
    def last_time(self) -> float:
        return float(self.stretches.end[-1])


def picked_rows(n: int, landmarks: NDArray, also: Sequence[int] | NDArray = ()) -> NDArray[np.int64]:
    """The rows that are drawn: evenly over all of them, some landmarks, and what else is asked for."""
    even = np.linspace(0, n - 1, min(n, POINTS)).round().astype(np.int64)
    return np.unique(np.concatenate([even, some_landmarks(landmarks), np.asarray(also, np.int64)]))


def some_landmarks(landmarks: NDArray) -> NDArray[np.int64]:
    """Row numbers of the landmarks that are drawn, all of them where they are few."""
    return np.asarray(landmarks, np.int64)[which_landmarks(len(landmarks))]


def which_landmarks(count: int) -> NDArray[np.int64]:
    """Numbers of those of so many landmarks that are drawn."""
    return np.unique(np.linspace(0, count - 1, min(count, LANDMARKS)).round().astype(np.int64))


def gather(
    blocks: Iterable[Block],
    n: int,
    q: int,
    rows: NDArray[np.int64],
    marks: NDArray[np.int64],
    *,
    has_clock: bool = True,
) -> Gathered:
    """Go through n rows once.

    Parameters
    ----------
    blocks : of all rows, in order
    q : coordinates of the result
    rows : (p,) rising, those to be kept
    marks : (L,) in any order, rows whose moments are kept
    has_clock : whether the order of the rows means something; if not there is no spectrum
    """
    q = min(q, COORDINATES)
    sampling, stretching, steps = _Sampling(rows, q), _Stretching(n, q), _Steps()
    order = np.argsort(marks, kind="stable")
    marking = _Sampling(np.asarray(marks, np.int64)[order], 0)
    rhythms = Rhythms(n, q) if has_clock else None
    for block in blocks:
        E = np.asarray(block.embedding[:, :q], np.float64)
        sampling.take(block.first, block.time, E)
        marking.take(block.first, block.time, E[:, :0])
        stretching.take(block.first, block.time, E, block.reason)
        steps.take(block.time)
        if rhythms is not None:
            rhythms.take(E)
    step = steps.even
    spectrum = None if rhythms is None or step is None else rhythms.finished(step)
    mark_time = np.empty(len(marks))
    mark_time[order] = marking.time
    return Gathered(n, sampling.finished(), stretching.finished(), mark_time, spectrum, step)


class _Sampling:
    def __init__(self, rows: NDArray[np.int64], q: int) -> None:
        self.rows = rows
        self.time, self.E = np.full(len(rows), np.nan), np.full((len(rows), q), np.nan)

    def take(self, first: int, time: NDArray, E: NDArray) -> None:
        low, high = np.searchsorted(self.rows, [first, first + len(time)])
        wanted = self.rows[low:high] - first
        self.time[low:high], self.E[low:high] = time[wanted], E[wanted]

    def finished(self) -> Sample:
        return Sample(self.rows, self.time, self.E)


class _Stretching:
    def __init__(self, n: int, q: int) -> None:
        s = min(n, STRETCHES)
        self.edges = np.linspace(0, n, s + 1).round().astype(np.int64)
        self.begin, self.end = np.full(s, np.nan), np.full(s, np.nan)
        self.low, self.high = np.full((s, q), np.nan), np.full((s, q), np.nan)
        self.reasons = np.zeros((s, REASONS), np.int64)

    def take(self, first: int, time: NDArray, E: NDArray, reason: NDArray | None) -> None:
        if not len(time):
            return
        last = first + len(time)
        low, high = int(np.searchsorted(self.edges, first, "right")) - 1, int(np.searchsorted(self.edges, last))
        touched = slice(low, high)
        cuts = np.maximum(self.edges[low:high] - first, 0)
        self.low[touched] = np.fmin(self.low[touched], np.fmin.reduceat(E, cuts, axis=0))
        self.high[touched] = np.fmax(self.high[touched], np.fmax.reduceat(E, cuts, axis=0))
        whole = self.edges[low:high] >= first  # those that begin in this block
        self.begin[touched][whole] = time[cuts[whole]]
        ends = np.append(cuts[1:], len(time)) - 1
        self.end[touched] = time[ends]
        codes = np.zeros(len(time), np.int64) if reason is None else np.minimum(reason, REASONS - 1).astype(np.int64)
        if reason is None:
            codes[np.isnan(E[:, 0])] = REASONS - 1
        stretch = np.repeat(np.arange(high - low), np.diff(np.append(cuts, len(time))))
        counts = np.bincount(stretch * REASONS + codes, minlength=(high - low) * REASONS)
        self.reasons[touched] += counts.reshape(-1, REASONS)

    def finished(self) -> Stretches:
        return Stretches(self.edges, self.begin, self.end, self.low, self.high, self.reasons)


class _Steps:
    """Whether time goes on in equal steps."""

    def __init__(self) -> None:
        self.least, self.most, self.count = np.inf, -np.inf, 0
        self.first: float | None = None
        self.last = 0.0

    def take(self, time: NDArray) -> None:
        if not len(time):
            return
        time = np.asarray(time, np.float64)
        if self.first is None:
            self.first = float(time[0])
        else:
            time = np.append(self.last, time)
        steps = np.diff(time)
        if len(steps):
            self.least, self.most = min(self.least, steps.min()), max(self.most, steps.max())
        self.count, self.last = self.count + len(steps), float(time[-1])

    @property
    def even(self) -> float | None:
        """The step; None if it is not always the same."""
        if self.first is None or self.count < 3 or not self.least > 0:
            return None
        mean = (self.last - self.first) / self.count
        return float(mean) if self.most - self.least <= 2 * EVEN * mean else None
