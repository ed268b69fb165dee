"""NWB: neurophysiology in HDF5, through pynwb; samples are read by h5py from where pynwb found them.

Every evenly sampled series of numbers is a signal, in the unit it declares (``data * conversion + offset``).
Series of text and tables of intervals are annotations.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.arrays import ArraySource, Opened, Scaling
from dlcca.recordings.formats.checks import optional
from dlcca.recordings.formats.clock import Clock
from dlcca.recordings.formats.hdf5 import opened_dataset
from dlcca.recordings.formats.metadata import distinct, kind_of, text_of
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Sampling, SourceSignal

FORMAT = "NWB"

_TIMES = 1 << 16  # time stamps read at once
_LABELS = ("label", "channel_name", "name")  # columns of the table of electrodes that may name a channel


def open(path: str) -> Recording:
    """A recording in NWB: all of its evenly sampled series, wherever in the file they are."""
    # Its first import would write a pickle next to the package, which another process may read half-written.
    os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
    pynwb = optional("pynwb", "nwb", FORMAT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of the standard and fields left out: the file is as it is
        with pynwb.NWBHDF5IO(path, mode="r", load_namespaces=True) as io:
            return _recording(path, io.read(), pynwb)


def _recording(path: str, file: Any, pynwb: Any) -> Recording:
    signals: list[SourceSignal] = []
    annotations: list[Annotation] = []
    notes: list[str] = []
    # By their place in the file, so that the channels have the same order each time.
    for item in sorted((item for item in file.objects.values() if getattr(item, "container_source", None)), key=_place):
        if isinstance(item, pynwb.misc.AnnotationSeries):
            pairs = zip(item.timestamps[:], item.data[:], strict=True)
            annotations += [Annotation(float(onset), 0.0, str(text_of(text))) for onset, text in pairs]
        elif isinstance(item, pynwb.epoch.TimeIntervals):
            annotations += _intervals(item)
        elif type(item).__name__ == "EventsTable":  # by name: releases before pynwb 4 have none
            annotations += _events(item)
        elif isinstance(item, pynwb.TimeSeries):
            try:
                signals += _signals(item)
            except DataError as error:
                reason = str(error).split(" Resample")[0].split(" Correct")[0]
                notes.append(f"series {item.name!r} was left out: {reason}")
    if not signals and not annotations:
        left_out = f" ({'; '.join(notes)})" if notes else ""
        raise DataError(f"{path!r} holds no evenly sampled series of numbers{left_out}: nothing in it can be a view.")
    start = file.timestamps_reference_time or file.session_start_time  # what its seconds count from
    start = start.astimezone(UTC) if start is not None and start.tzinfo else start
    marks = tuple(sorted(annotations, key=lambda mark: mark.onset_s))
    return Recording(path, FORMAT, tuple(signals), start, marks, tuple(notes))


def _place(item: Any) -> str:
    return f"{_place(item.parent)}/{item.name}" if item.parent is not None else item.name


def _signals(series: Any) -> tuple[SourceSignal, ...]:
    """The signals of a series, one for each stretch without a break; an error says why it has none."""
    data, gains = series.data, getattr(series, "channel_conversion", None)
    scale = [series.conversion, series.offset or 0, *(() if gains is None else gains[:])]
    if reason := _unusable(series, scale):
        raise DataError(reason)
    if series.rate is not None:
        sampling = Sampling.even(float(series.rate), len(data), float(series.starting_time or 0))
    else:
        starts = range(0, len(series.timestamps), _TIMES)
        blocks = (np.asarray(series.timestamps[first : first + _TIMES], float) for first in starts)
        sampling = Clock("its clock", row="sample").sampling(blocks)
    channels = _channels(series)
    gain = float(series.conversion) * np.array(scale[2:] or [1.0])
    scaling = Scaling(gain if (gain != gain[0]).any() else float(gain[0]), float(scale[1]))  # one is 3 times as fast
    opened = Opened(opened_dataset, str(data.file.filename), str(data.name))
    source = ArraySource(str(data.file.filename), FORMAT, opened, len(channels), scaling=scaling)
    return sampling.signals(source, channels)


def _unusable(series: Any, scale: Sequence[float]) -> str:
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
    if not np.isfinite(scale).all() or not series.conversion:
        return f"its samples are scaled by {series.conversion:g} and moved by {series.offset:g}"
    return ""


def _channels(series: Any) -> list[Channel]:
    """A channel for each column: the name of the series, and that of the electrode or a number if there are several."""
    unit = "" if series.unit in (None, "unknown", "n/a", "n.a.") else str(series.unit)
    kind = kind_of(series.name)
    if series.data.ndim == 1:
        return [Channel(series.name, unit, kind)]
    labels, region = list(map(str, range(series.data.shape[1]))), getattr(series, "electrodes", None)
    if region is not None and len(region.data) == len(labels):
        column = next((region.table[name] for name in _LABELS if name in region.table.colnames), region.table.id)
        labels = [str(column[int(row)]) for row in region.data[:]]
    return [Channel(f"{series.name}/{label}", unit, kind) for label in distinct(labels)[0]]


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
