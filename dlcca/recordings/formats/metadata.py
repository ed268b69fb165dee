"""Metadata of samples: rate, start, names and units under their usual keys, or as options; kinds of channels."""

import contextlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import numpy as np

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.clock import UNIX_S
from dlcca.recordings.formats.recording import Channel
from dlcca.settings.schema import is_number

Item = TypeVar("Item")

RATE: tuple[str, ...] = ("rate", "fs", "sfreq", "sampling_rate", "sample_rate", "sampling_frequency")
RATE += ("sample_frequency", "sampling_freq", "samplerate", "samplingrate", "srate", "nominal_srate")
RATE += ("frame_rate", "framerate", "fps")
INTERVAL = ("dt", "sampling_interval", "sample_interval", "sampling_period")
START = ("start", "start_time", "start_datetime", "starttime", "start_date", "recording_start", "meas_date", "t0")
START_S = ("start_s", "offset_s", "start_seconds")
DRIFT = ("drift_ppm", "clock_drift_ppm")
NAMES = ("channels", "channel_names", "channel_labels", "ch_names", "names", "labels", "leads", "columns", "channel")
UNITS = ("units", "unit", "channel_units")
KNOWN = frozenset(RATE + INTERVAL + START + START_S + DRIFT + NAMES + UNITS)


@dataclass(frozen=True)
class Metadata:
    """What is known about samples; None or empty where nothing is."""

    rate: float | None = None
    start: datetime | None = None
    start_s: float | None = None
    drift_ppm: float | None = None
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # one for each channel, or one for all of them

    def over(self, other: "Metadata") -> "Metadata":
        """These values, and those of another where these are unknown."""
        return replace(other, **{name: value for name, value in vars(self).items() if value not in (None, ())})


def declared(attributes: Mapping[str, Any], where: str) -> Metadata:
    """The metadata among the attributes of a file or an array, under any of their usual keys."""
    known = {plain_key(key): value for key, value in attributes.items()}

    def first(keys: Sequence[str]) -> Any:
        return next((known[key] for key in keys if known.get(key) is not None), None)

    rate, interval = number(first(RATE)), number(first(INTERVAL))
    if rate is None and interval:
        rate = 1 / interval
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise DataError(f"{where} says that its rate is {rate}; a positive number of samples per second is needed.")
    start, start_s = moment(first(START)), number(first(START_S))
    if start is None and start_s is None:
        start_s = number(first(START))
    return Metadata(rate, start, start_s, number(first(DRIFT)), _words(first(NAMES)), _words(first(UNITS)))


def from_options(
    rate: float | None = None,
    start: datetime | date | str | None = None,
    start_s: float | None = None,
    drift_ppm: float | None = None,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
) -> Metadata:
    """The same as options of a reader, checked."""
    for option, value in (("rate", rate), ("start_s", start_s), ("drift_ppm", drift_ppm)):
        if value is not None and not is_number(value):
            raise SettingsError(f"{option} = {value!r} is not a finite number.")
    if rate is not None and rate <= 0:
        raise SettingsError(f"rate = {rate} is not positive; give samples per second.")
    if isinstance(names, str):
        raise SettingsError(f"names = {names!r} is one text; give a list with a name for each channel.")
    begun = moment(start)
    if start is not None and begun is None:
        raise SettingsError(f"start = {start!r} is not a date and time; write it like '2024-05-31T22:30:00'.")
    units = () if unit is None else (unit,) if isinstance(unit, str) else tuple(unit)
    return Metadata(number(rate), begun, start_s, drift_ppm, tuple(names or ()), units)


def plain_key(key: str) -> str:
    """A key without capital letters, spaces and hyphens."""
    return str(key).strip().lower().replace("-", "_").replace(" ", "_")


def in_utc(when: datetime) -> datetime:
    """A moment in UTC; one without a time zone is taken to be, as most formats write it."""
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def text_of(value: Any) -> Any:
    """Bytes as text, anything else as it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def decoded(text: bytes) -> str:
    """Text in UTF-8, or in Latin-1 as older programs write it."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def number(value: Any) -> float | None:
    """A number, also as text or as an array with one entry; None for anything else."""
    try:
        array = np.asarray(text_of(value), dtype=float)
    except (OverflowError, TypeError, ValueError):
        return None
    return array.item() if array.size == 1 and value is not None else None  # None would be NaN


def moment(value: Any) -> datetime | None:
    """A moment from a datetime, a text in ISO 8601, a NumPy time or Unix seconds; None for anything else."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    value = text_of(value)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(value.strip())
    seconds = number(value)
    if seconds is not None and UNIX_S[0] <= seconds < UNIX_S[1]:
        return datetime.fromtimestamp(seconds, UTC)
    return None


def _words(value: Any) -> tuple[str, ...]:
    """Texts from a text (split at commas), a list or an array; empty for anything else."""
    value = () if value is None else text_of(value)
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(","))
    return tuple(str(text_of(entry)) for entry in np.asarray(value, dtype=object).reshape(-1))


# A word in a label and the kind of channel that it means. EDF+ requires the kind as the first word ("EEG Fpz-Cz"),
# PhysioNet and the makers of polysomnographs have names of their own. Kinds are spelt as MNE spells them where
# it has one. Words are matched whole, the first two of a label only: what comes later is a place or a remark.
_WORDS: tuple[tuple[str, str], ...] = (
    ("ecg", r"e[ck]g\d*|m?cl\d|ml?i{1,3}|i{1,3}|av[rlf]|v\d?"),
    ("eog", r"\w?eog\w?|[lr]oc|e[12]"),
    ("emg", r"emg\w*|chin\d*|[lr]?leg\d*"),
    ("eeg", r"eeg\w*|ep"),
    ("ecog", r"ecog\w*"),
    ("seeg", r"seeg\w*|ieeg\w*"),
    ("mag", r"meg"),
    ("ppg", r"pleth\w*|ppg\w*"),
    ("spo2", r"s[pa]o2\w*"),
    ("resp", r"resp\w*|airflow|flow|nasal|thor\w*|abdo?\w*|chest"),
    ("bp", r"abp|art|bp|cvp|pap|icp|nibp"),
    ("gsr", r"gsr|eda|scl|scr"),
    ("acc", r"acc\w*|actigraphy"),
    ("gyro", r"gyro?\w*"),
    ("temperature", r"temp\w*"),
    ("sound", r"sound|snore?|mic\w*"),
    ("light", r"light"),
    ("stim", r"stim|sti\d*|trig\w*|status|event|marker"),
)
_KINDS = [(kind, re.compile(rf"(?:{words})", re.IGNORECASE)) for kind, words in _WORDS]

# Electrodes of the 10-5 system and its references; "C3-M2" is C3 against M2.
_ELECTRODE = re.compile(
    r"(?:N|Fp|AFp|AFF?|F|FFC|FCC?|FF?T|FTT?|C|CCP|CPP?|T|TTP|TPP?|P|PPO|POO?|O|OI|I|A|M)(?:z|\d{1,2}h?)", re.IGNORECASE
)
_SOCKET = re.compile(r"[A-I]\d{1,2}")  # of an amplifier with one letter for each bundle of 16 or 32 electrodes
_CAP = 16  # so many sockets are a cap of electrodes; E1 and E2 alone are the eyes


def kind_of(label: str) -> str:
    """The kind of channel that a label announces, in lower case; empty where it announces none."""
    words = [word for word in re.split(r"[\s\-_:/.,()]+", label) if word]
    for word in words[:2]:
        for kind, pattern in _KINDS:
            if pattern.fullmatch(word):
                return kind
        if _ELECTRODE.fullmatch(word):
            return "eeg"
    return ""


def kinds_of(labels: Sequence[str]) -> list[str]:
    """The kind of each channel of a file, where many sockets together make a cap of electrodes."""
    cap = sum(bool(_SOCKET.fullmatch(label)) for label in labels) >= _CAP
    return ["eeg" if cap and _SOCKET.fullmatch(label) else kind_of(label) for label in labels]


def channels_of(what: str, width: int, names: Sequence[str], units: Sequence[str]) -> tuple[Channel, ...]:
    """A channel for each of `width` columns; one unit may apply to all of them."""
    units = tuple(units or [""]) * (width if len(units) < 2 else 1)
    for kind, given in (("names", names), ("units", units)):
        if len(given) != width:
            raise SettingsError(f"{len(given)} {kind} were given for {what}, which has {width} channels.")
    return tuple(map(Channel, names, units, kinds_of(names)))


def distinct(labels: Sequence[str]) -> tuple[list[str], list[str]]:
    """Labels of which no two are the same ("EMG", "EMG" become "EMG-0", "EMG-1"), and a note for each change."""
    counts, names, seen = Counter(labels), list(labels), Counter[str]()
    shared = [label for label in counts if counts[label] > 1]
    taken = set(labels) - set(shared)
    for i, label in enumerate(labels):
        while counts[label] > 1 and (names[i] == label or names[i] in taken):
            names[i] = f"{label}-{seen[label]}"
            seen[label] += 1
        taken.add(names[i])
    notes = [f"{counts[label]} channels are called {label!r}; they were numbered from {label}-0" for label in shared]
    return names, notes


def grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """The items of one key together, in the order in which they come first."""
    groups = defaultdict[Hashable, list[Item]](list)
    for item in items:
        groups[key(item)].append(item)
    return list(groups.values())
