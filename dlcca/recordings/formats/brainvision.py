"""BrainVision: a header (.vhdr), markers (.vmrk) and samples (.eeg), three files side by side; through MNE.

Samples come in the unit that the header names (µV, °C, ...), not in MNE's volts.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import Truncated, check_beginning, check_complete, check_sidecar
from dlcca.recordings.formats.fif import RawSource, channels_of, open_raw, recording_of_raw
from dlcca.recordings.formats.metadata import decoded, kind_of, moment
from dlcca.recordings.formats.recording import Annotation, Channel, Recording, Sampling, Stretch

FORMAT = "BrainVision"

_BYTES = {"INT_16": 2, "INT_32": 4, "IEEE_FLOAT_32": 4}


def open(path: str, *, truncated: Truncated = "refuse") -> Recording:
    """A recording in BrainVision format, named by any of its three files.

    With ``truncated="keep"``, what is there is read when the samples end inside one or are not as many as declared.
    """
    vhdr = _header_of(path)
    text = decoded(Path(vhdr).read_bytes())
    notes = _check(vhdr, text, truncated)
    raw, warned = open_raw(FORMAT, lambda mne: mne.io.read_raw_brainvision(vhdr, verbose="WARNING"))
    rate = float(raw.info["sfreq"])
    stretches, marked = _stretches(_segments(vhdr, text), int(raw.n_times), rate)
    if marked:
        warned.append(f"{len(marked)} pauses of unknown length were marked, and read as if they took no time")
    opened = recording_of_raw(raw, path, FORMAT, [*notes, *warned])
    source = RawSource(raw, path, FORMAT, np.array([float(ch["range"]) for ch in raw.info["chs"]]))
    signals = Sampling(rate, stretches).signals(source, _channels(channels_of(raw), text))
    # Local time: MNE calls it UTC, the file does not name a time zone.
    start = opened.start.replace(tzinfo=None) if opened.start else None
    marks = []
    for mark in opened.annotations:  # MNE has placed them as if there were no pauses
        within = [s for s in stretches if s.first / rate <= mark.onset_s + 0.5 / rate] or stretches[:1]
        marks.append(replace(mark, onset_s=within[-1].start_s + mark.onset_s - within[-1].first / rate))
    sidecars = (file for key in ("DataFile", "MarkerFile") if (file := _beside(vhdr, text, key)))
    every = (*marks, *marked)
    return replace(opened, signals=signals, start=start, annotations=every, sidecars=(vhdr, *sidecars))


def _header_of(path: str) -> str:
    """The header beside a file of markers or samples."""
    stem, ending = os.path.splitext(path)
    if ending.lower() in (".vhdr", ".ahdr"):
        return path
    for name in (stem + ".vhdr", stem + ".ahdr"):
        if os.path.isfile(name):
            return name
    raise DataError(
        f"{path!r} is described by a header, and {os.path.basename(stem)}.vhdr is not beside it: name the .vhdr file."
    )


def _value(text: str, key: str) -> str:
    """What a header says behind ``key=``; empty where it has no such line."""
    found = re.search(rf"^{key}[ \t]*=[ \t]*(.*?)[ \t]*\r?$", text, re.IGNORECASE | re.MULTILINE)
    return found[1] if found else ""


def _beside(vhdr: str, text: str, key: str) -> str:
    """The path of the file that a header names; empty where it names none."""
    name = _value(text, key)
    return os.path.join(os.path.dirname(vhdr), name) if name else ""


def _check(vhdr: str, text: str, truncated: Truncated) -> list[str]:
    """Refuse what MNE would read wrongly or report badly, and note what was read in spite of it."""
    first = text.lstrip("\ufeff").strip()[:12].replace("BrainVision ", "Brain Vision")
    check_beginning(vhdr, first, FORMAT, "Brain Vision")
    data = _beside(vhdr, text, "DataFile")
    if not data:
        raise DataError(f"{vhdr!r} names no DataFile, where its samples are: export it again.")
    size = check_sidecar(data, vhdr, "samples")
    try:
        count, points = int(_value(text, "NumberOfChannels")), int(_value(text, "DataPoints") or -1)
    except ValueError:
        what = f"{vhdr!r} does not give NumberOfChannels and DataPoints as numbers"
        raise DataError(f"{what}: export it again.") from None
    if count < 1:
        raise DataError(f"{vhdr!r} declares {count} channels, and at least 1 is needed: export it again.")
    width = _BYTES.get(_value(text, "BinaryFormat").upper())
    if width is None:  # text, or a format that MNE reports
        return []
    n, left = divmod(size, count * width)
    if left == 0 and points in (-1, n):
        return []
    declared = f", and its header declares {points}" if points >= 0 else ""
    found = f"holds {n} whole samples of every channel and {left} bytes more{declared}"
    if _value(text, "DataOrientation").upper() == "VECTORIZED":
        # One channel after the other: when the length is wrong, so is the place of every channel but the first.
        what = f"{data!r} {found}; channel by channel, the rest cannot be found again"
        raise DataError(f"{what}. Copy or export it again.")
    return check_complete(data, truncated, found, f"the {n} samples")


def _channels(channels: Sequence[Channel], text: str) -> list[Channel]:
    """The channels with the units of the file, and the kind that a name announces where MNE took it for EEG."""
    lines = re.findall(r"^Ch\d+=([^\r\n]*)", text.split("[Comment]")[0].split("[Coordinates]")[0], re.MULTILINE)
    units = [([*line.split(","), "", "", ""][3].strip()) or "µV" for line in lines]  # µV is the format's own
    if len(units) != len(channels):
        units = [channel.unit for channel in channels]  # an impedance file, or a header that MNE has corrected
    return [
        Channel(channel.name, unit, (channel.kind == "eeg" and kind_of(channel.name)) or channel.kind)
        for channel, unit in zip(channels, units, strict=True)
    ]


def _segments(vhdr: str, text: str) -> list[tuple[int, datetime | None]]:
    """Where a recorder was started or went on after a pause: the sample, and when it was taken."""
    path = _beside(vhdr, text, "MarkerFile")
    if not os.path.isfile(path):
        return []
    markers = decoded(Path(path).read_bytes())
    marks = re.findall(r"^Mk\d+=New Segment,[^,]*,(\d+),[^,]*,[^,\r\n]*(?:,(\d{20}))?", markers, re.MULTILINE)
    return [(int(position) - 1, moment(f"{date[:8]}T{date[8:14]}.{date[14:]}")) for position, date in marks]


def _stretches(
    segments: Sequence[tuple[int, datetime | None]], n: int, rate: float
) -> tuple[list[Stretch], list[Annotation]]:
    """The samples between pauses; those of unknown length are marked as bad, so that nothing reaches across them."""
    begun = next((when for first, when in segments if first == 0), None)
    later = [(first, when) for first, when in segments if 0 < first < n]
    edges = [0, *(first for first, _ in later), n]
    stretches = [Stretch(0, edges[1], 0.0)]
    marked = []
    for (first, when), end in zip(later, edges[2:], strict=True):
        before = stretches[-1].start_s + stretches[-1].n / rate
        start_s = (when - begun).total_seconds() if when and begun else -np.inf
        # Clocks are read in microseconds and samples start when they are ready: half a sample is no pause.
        if start_s < before - 0.5 / rate:
            start_s = before
            marked.append(Annotation(before - 0.5 / rate, 1 / rate, "BAD_pause of unknown length"))
        stretches.append(Stretch(first, end - first, start_s))
    return stretches, marked
