"""NWB: neurophysiology in HDF5, through pynwb; samples are read by h5py from where pynwb found them.

Every evenly sampled series of numbers is a signal, in the unit it declares (``data * conversion + offset``).
Series of text and tables of intervals are annotations.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArraySource, Opened
from dlcca.recordings.formats.checks import check_file, optional, refusing
from dlcca.recordings.formats.clock import Clock
from dlcca.recordings.formats.hdf5 import opened_dataset
from dlcca.recordings.formats.metadata import distinct, kind_of
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Sampling, SourceSignal

FORMAT = "NWB"

_TIMES = 1 << 16  # time stamps read at once
_LABELS = ("label", "channel_name", "name")  # columns of the table of electrodes that may name a channel


def open(path: str) -> Recording:
    """A recording in NWB: all of its evenly sampled series, wherever in the file they are."""
    check_file(path, FORMAT)
    # Its first import would write a pickle next to the package, which another process may read half-written.
    os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
    pynwb = optional("pynwb", "nwb", FORMAT)
    with refusing(path, FORMAT), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of the standard and fields left out: the file is as it is
        with pynwb.NWBHDF5IO(path, mode="r", load_namespaces=True) as io:
            return _recording(path, io.read(), pynwb)


def _recording(path: str, file: Any, pynwb: Any) -> Recording:
    signals: list[SourceSignal] = []
    annotations: list[Annotation] = []
    notes: list[str] = []
    for item in _in_order(file.objects.values()):
        if isinstance(item, pynwb.misc.AnnotationSeries):
            annotations += _texts(item)
        elif isinstance(item, pynwb.epoch.TimeIntervals):
            annotations += _intervals(item)
        elif type(item).__name__ == "EventsTable":  # by name: releases before pynwb 4 have none
            annotations += _events(item)
        elif isinstance(item, pynwb.TimeSeries):
            found, note = _signals(item)
            signals += found
            notes += [note] if note else []
    if not signals and not annotations:
        left_out = f" ({'; '.join(notes)})" if notes else ""
        raise DataError(f"{path!r} holds no evenly sampled series of numbers{left_out}: nothing in it can be a view.")
    return Recording(
        path=path,
        format=FORMAT,
        signals=tuple(signals),
        start=_start(file),
        annotations=tuple(sorted(annotations, key=lambda mark: mark.onset_s)),
        notes=tuple(notes),
    )


@dataclass
class NwbSource(ArraySource):
    """The samples of a series, in the unit that it declares."""

    gain: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))  # of each channel
    bias: float = 0.0
    digital = None

    def rows(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float64]:
        gain = self.gain[columns]
        samples = self.stored(first, last, columns) * (gain[0] if (gain == gain[0]).all() else gain)  # thrice as fast
        if self.bias:
            samples += self.bias
        return np.asarray(samples)


def _source(series: Any, width: int) -> NwbSource:
    path, name = str(series.data.file.filename), str(series.data.name)
    gains = getattr(series, "channel_conversion", None)
    gain = float(series.conversion) * (np.ones(width) if gains is None else np.asarray(gains[:]))
    opened = Opened(functools.partial(opened_dataset, path, name))
    return NwbSource(path, FORMAT, opened, width, gain=gain, bias=float(series.offset or 0))


def _in_order(items: Any) -> list[Any]:
    """The objects of a file, by their place in it, so that the channels have the same order each time."""
    placed = [item for item in items if getattr(item, "container_source", None)]
    return sorted(placed, key=_place)


def _place(item: Any) -> str:
    names = []
    while item is not None:
        names.append(item.name)
        item = item.parent
    return "/".join(reversed(names))


def _signals(series: Any) -> tuple[tuple[SourceSignal, ...], str]:
    """The signals of a series, one for each stretch without a break, or why it has none."""
    reason = _unusable(series)
    if not reason:
        try:
            sampling = _sampling(series)
        except DataError as error:
            reason = str(error).split(" Resample")[0].split(" Correct")[0]
    if reason:
        return (), f"series {series.name!r} was left out: {reason}"
    channels = _channels(series)
    return sampling.signals(_source(series, len(channels)), channels), ""


def _unusable(series: Any) -> str:
    """Why a series cannot be a signal; empty if it can."""
    data = series.data
    if not hasattr(data, "file") or not hasattr(data, "dtype"):
        return "its samples are not in the file"
    if data.dtype.kind not in "iufb":
        return f"its samples are of type {data.dtype}, not numbers"
    if data.ndim not in (1, 2):
        return f"its samples have {data.ndim} dimensions, and time by channel are 2"
    if 0 in data.shape:
        return "it has no samples"
    if series.rate is None and (series.timestamps is None or len(series.timestamps) < 2):
        return "it has neither a rate nor two time stamps"
    if series.rate is not None and not 0 < series.rate < np.inf:
        return f"its rate is {series.rate:g} Hz"
    gains = getattr(series, "channel_conversion", None)
    scale = [series.conversion, series.offset or 0, *(() if gains is None else gains[:])]
    if not np.isfinite(scale).all() or not series.conversion:
        return f"its samples are scaled by {series.conversion:g} and moved by {series.offset:g}"
    return ""


def _sampling(series: Any) -> Sampling:
    if series.rate is not None:
        return Sampling.even(float(series.rate), len(series.data), float(series.starting_time or 0))
    clock = Clock("its clock", row="sample")
    for first in range(0, len(series.timestamps), _TIMES):
        clock.feed(np.asarray(series.timestamps[first : first + _TIMES], float))
    return clock.sampling()


def _channels(series: Any) -> list[Channel]:
    """A channel for each column: the name of the series, and that of the electrode or a number if there are several."""
    count = 1 if series.data.ndim == 1 else series.data.shape[1]
    unit = "" if series.unit in (None, "unknown", "n/a", "n.a.") else str(series.unit)
    kind = kind_of(series.name)
    if series.data.ndim == 1:
        return [Channel(series.name, unit, kind)]
    labels, _ = distinct(_electrodes(series, count) or [str(i) for i in range(count)])
    return [Channel(f"{series.name}/{label}", unit, kind) for label in labels]


def _electrodes(series: Any, count: int) -> list[str]:
    """What the table of electrodes calls the columns; nothing where there is none or it does not fit."""
    region = getattr(series, "electrodes", None)
    if region is None or len(region.data) != count:
        return []
    rows = [int(row) for row in region.data[:]]
    for column in _LABELS:
        if column in region.table.colnames:
            return [str(region.table[column][row]) for row in rows]
    return [str(region.table.id[row]) for row in rows]


def _texts(series: Any) -> Iterator[Annotation]:
    for onset, text in zip(series.timestamps[:], series.data[:], strict=True):
        yield Annotation(float(onset), 0.0, text.decode() if isinstance(text, bytes) else str(text))


def _events(table: Any) -> Iterator[Annotation]:
    """The rows of a table of events, of which not each has a duration or a text."""
    for row in range(len(table)):
        duration = float(table["duration"][row]) if "duration" in table.colnames else 0.0
        text = str(table["annotation"][row]) if "annotation" in table.colnames else ""
        yield Annotation(float(table["timestamp"][row]), 0.0 if np.isnan(duration) else duration, text or table.name)


def _intervals(table: Any) -> Iterator[Annotation]:
    """The rows of a table of trials, epochs or other intervals; those declared invalid are marked as bad."""
    name = f"BAD_{table.name}" if table.name == "invalid_times" else table.name
    worded = next((column for column in ("label", "tags", "condition") if column in table.colnames), None)
    for row in range(len(table)):
        onset, stop = float(table["start_time"][row]), float(table["stop_time"][row])
        words = table[worded][row] if worded else ""
        words = words if isinstance(words, str) else ", ".join(map(str, words))
        yield Annotation(onset, stop - onset, f"{name}: {words}" if words else name)


def _start(file: Any) -> datetime | None:
    """What its seconds count from."""
    zero = file.timestamps_reference_time or file.session_start_time
    return zero.astimezone(UTC) if zero is not None and zero.tzinfo else zero
