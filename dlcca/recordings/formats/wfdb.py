"""WFDB: PhysioNet's records, a header of text (.hea), samples (.dat) and annotations (.atr, ...) side by side.

Samples come in the unit that the header names (mV, mmHg, ...); where nothing was recorded, and in the gaps between
the segments of a record, they are NaN, as the wfdb package gives them.
"""

import os
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import Truncated, check_complete, check_file, check_sidecar, optional
from dlcca.recordings.formats.metadata import distinct, grouped, kinds_of
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Sampling, Source, SourceSignal

FORMAT = "WFDB"

# Annotators that PhysioNet's databases use as endings. Other files beside a record are not taken for annotations.
ANNOTATORS: tuple[str, ...] = ("atr", "ari", "al", "alm", "apn", "aux", "breath", "ecg", "event")
ANNOTATORS += ("gqrs", "man", "marker", "not", "pu", "pu0", "pu1", "q1c", "q2c", "qrs")
ANNOTATORS += ("resp", "sqrs", "st", "sta", "stb", "stc", "wabp", "wqrs", "xws")

# Bits of one sample in each format of fixed width; compressed ones declare their length.
_COMPRESSED = ("508", "516", "524")
_BITS = {"8": 8, "16": 16, "24": 24, "32": 32, "61": 16, "80": 8, "160": 16, "212": 12, "310": 32 / 3, "311": 32 / 3}


def open(path: str, *, annotators: Sequence[str] = ANNOTATORS, truncated: Truncated = "refuse") -> Recording:
    """A record, named by one of its files or without an ending; channels of different rates are different signals.

    Parameters
    ----------
    annotators : endings of the annotation files to look for beside the record
    truncated : "refuse", or "keep" to read what is there when the samples are not as many as the header declares
    """
    stem, ending = os.path.splitext(path)
    if ending.lower() not in (".hea", ".dat") and os.path.isfile(f"{path}.hea"):
        stem = path
    by_stem = os.path.exists(stem + ".hea") and not os.path.lexists(path)
    check_file(stem + ".hea" if by_stem else path, FORMAT)
    check_sidecar(stem + ".hea", path, "description")
    package = optional("wfdb", "wfdb", FORMAT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about how wfdb calls it
        header = package.rdheader(stem)
        segments = [name for name in getattr(header, "seg_name", None) or [] if name != "~"]  # "~" is a gap
        described = _described(package, stem, header, segments)
        n, notes = _length(package, stem, header, truncated)
        names, renamed = distinct([name or f"channel {i + 1}" for i, name in enumerate(described.sig_name)])
        channels = list(map(Channel, names, described.units, kinds_of(described.sig_name)))
        signals: list[SourceSignal] = []
        for group in grouped(range(len(channels)), lambda i: described.samps_per_frame[i]):
            source = WfdbSource(stem, described, group)
            sampling = Sampling.even(float(header.fs) * source.per_frame, n * source.per_frame)
            signals += sampling.signals(source, [channels[i] for i in group])
        annotations = sorted(_annotations(package, stem, annotators, float(header.fs)), key=lambda mark: mark.onset_s)
    is_dated = header.base_date is not None and header.base_time is not None
    start = datetime.combine(header.base_date, header.base_time) if is_dated else None  # in local time
    files = [f"{name}{ending}" for name in segments for ending in (".hea", ".dat")]
    files += [name for name in getattr(header, "file_name", None) or [] if name]
    sidecars = (f"{stem}.hea", *(_beside(stem, name) for name in dict.fromkeys(files)))
    return Recording(path, FORMAT, tuple(signals), start, tuple(annotations), (*notes, *renamed), sidecars)


class WfdbSource(Source):
    """Channels of one rate, read by the wfdb package on demand; a frame is one sample of the slowest channels."""

    def __init__(self, stem: str, described: Any, group: list[int]) -> None:
        self.path, self.format = f"{stem}.hea", FORMAT
        self.stem, self.group = stem, group
        self.per_frame = int(described.samps_per_frame[group[0]])
        # Of one sample in each frame wfdb makes one array, which is quicker than a list of signals.
        self.even = max(described.samps_per_frame) == 1
        self.differences = "8" in described.fmt

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float64]:
        # Format 8 stores steps: a level is known only from all the steps before it.
        a = 0 if self.differences else first // self.per_frame
        wanted = sorted(set(columns))
        record = optional("wfdb", "wfdb", FORMAT).rdrecord(
            self.stem,
            sampfrom=a,
            sampto=-(-last // self.per_frame),
            channels=[self.group[column] for column in wanted],
            smooth_frames=self.even,
            return_res=64,
        )
        samples = np.asarray(record.p_signal) if self.even else np.stack(record.e_p_signal, axis=1)
        skip = first - a * self.per_frame
        return samples[skip : skip + last - first, [wanted.index(column) for column in columns]]


def _beside(stem: str, name: str) -> str:
    return os.path.join(os.path.dirname(stem), name)


def _described(package: Any, stem: str, header: Any, segments: Sequence[str]) -> Any:
    """The header that describes the channels: of a record in segments, that of its layout or its first segment."""
    if not header.n_sig:
        raise DataError(f"'{stem}.hea' declares 0 channels, and at least 1 is needed to read samples.")
    described = package.rdheader(_segment(stem, segments[0])) if segments else header
    for name, gain in zip(described.sig_name, described.adc_gain, strict=True):
        if gain is None or not np.isfinite(gain) or gain == 0:
            raise DataError(
                f"'{stem}.hea' scales channel {name!r} by {gain}: a finite number other than 0 is needed. "
                "Correct the header, or get it again."
            )
    return described


def _segment(stem: str, name: str) -> str:
    path = _beside(stem, name)
    check_sidecar(path + ".hea", stem + ".hea", "segment")
    return path


def _length(package: Any, stem: str, header: Any, truncated: Truncated) -> tuple[int, list[str]]:
    """Frames to read, and what to say where the files hold another number than the header declares."""
    declared = None if header.sig_len is None else int(header.sig_len)
    if getattr(header, "seg_name", None):
        total = sum(header.seg_len)
        if declared not in (None, total):
            raise DataError(
                f"'{stem}.hea' declares {declared} samples and segments of {total} together: get the record again."
            )
        for name, length in zip(header.seg_name, header.seg_len, strict=True):
            if name == "~" or length == 0:  # a gap, and the layout
                continue
            segment = package.rdheader(_segment(stem, name))
            held = _frames_present(_segment(stem, name), segment) if segment.n_sig else None
            if held is not None and held < length:
                found = f"holds {held} samples of each channel, and {length} are declared"
                raise DataError(f"segment {name!r} of '{stem}.hea' {found}: get the record again.")
        return total, []
    present = _frames_present(stem, header)
    if declared is None:
        raise DataError(
            f"'{stem}.hea' does not give the number of samples, without which wfdb cannot read a part of them: "
            f"write {present} as the fourth word of its first line."
        )
    # A sample of 10 or 12 bits shares a byte with the next: one frame more may be nothing but the end of a byte.
    if present is None or declared <= present <= declared + 1:
        return declared, []
    found = f"declares {declared} samples of each channel, and the files of samples hold {present}"
    kept = min(present, declared)
    return kept, check_complete(f"{stem}.hea", truncated, found, f"the first {kept}")


def _frames_present(stem: str, header: Any) -> int | None:
    """How many frames the files of samples hold, the shortest of them; None where they are compressed."""
    present = []
    for name in dict.fromkeys(header.file_name):
        signals = [i for i, other in enumerate(header.file_name) if other == name]
        size = check_sidecar(_beside(stem, name), stem + ".hea", "samples")
        format = header.fmt[signals[0]]
        if format not in _BITS and format not in _COMPRESSED:
            raise DataError(f"'{stem}.hea' gives {name!r} the format {format!r}, which is none: get the record again.")
        bits = _BITS.get(format)
        if bits is not None:
            size -= header.byte_offset[signals[0]] or 0
            present.append(int(8 * size / bits + 1e-6) // sum(header.samps_per_frame[i] for i in signals))
    return min(present) if present else None


def _annotations(package: Any, stem: str, annotators: Sequence[str], rate: float) -> Iterator[Annotation]:
    """The symbols of the annotators, each with its note; "atr: N" instead of "N" where there are several annotators."""
    there = [annotator for annotator in annotators if os.path.isfile(f"{stem}.{annotator}")]
    for annotator in there:
        marks = package.rdann(stem, annotator)
        prefix = f"{annotator}: " if len(there) > 1 else ""
        for sample, symbol, note in zip(marks.sample, marks.symbol, marks.aux_note, strict=True):
            text = " ".join(word for word in (symbol, note.strip(" \0")) if word)
            yield Annotation(float(sample) / (marks.fs or rate), 0.0, prefix + text)
