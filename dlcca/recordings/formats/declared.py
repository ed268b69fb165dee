"""What a file says about its samples in words of its own: attributes, scalars beside arrays, key and value pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError
from dlcca.settings.fit import is_number

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
_UNIX_S = (1e9, 4e9)  # seconds since 1970 of the years 2001 to 2096


@dataclass(frozen=True)
class Declared:
    """Facts about samples; None or empty where nothing is said."""

    rate: float | None = None
    start: datetime | None = None
    start_s: float | None = None
    drift_ppm: float | None = None
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()  # one for each channel, or one for all of them

    def over(self, other: Declared) -> Declared:
        """These facts, and those of another where these are silent."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        theirs = {field.name: getattr(other, field.name) for field in fields(self)}
        return Declared(**{name: theirs[name] if value in (None, ()) else value for name, value in mine.items()})


def declared(attributes: Mapping[str, Any], where: str) -> Declared:
    """The facts among the attributes of a file or an array, under any of their usual names."""
    known = {plain_key(key): value for key, value in attributes.items()}

    def first(keys: Sequence[str]) -> Any:
        return next((known[key] for key in keys if known.get(key) is not None), None)

    rate, interval = _number(first(RATE)), _number(first(INTERVAL))
    if rate is None and interval:
        rate = 1 / interval
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise DataError(f"{where} says that its rate is {rate}; a positive number of samples per second is needed.")
    start, start_s = _moment(first(START)), _number(first(START_S))
    if start is None and start_s is None:
        start_s = _number(first(START))
    return Declared(rate, start, start_s, _number(first(DRIFT)), _words(first(NAMES)), _words(first(UNITS)))


def asked(
    rate: float | None = None,
    start: datetime | date | str | None = None,
    start_s: float | None = None,
    drift_ppm: float | None = None,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
) -> Declared:
    """The same facts as options, checked."""
    for option, value in (("rate", rate), ("start_s", start_s), ("drift_ppm", drift_ppm)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | np.number)):
            raise SettingsError(f"{option} = {value!r} is not a number.")
        if value is not None and not is_number(value):
            raise SettingsError(f"{option} = {value!r} is not finite.")
    if rate is not None and rate <= 0:
        raise SettingsError(f"rate = {rate} is not positive; give samples per second.")
    if isinstance(names, str):
        raise SettingsError(f"names = {names!r} is one text; give a list with a name for each channel.")
    units = () if unit is None else (unit,) if isinstance(unit, str) else tuple(unit)
    return Declared(
        None if rate is None else float(rate), start_option(start), start_s, drift_ppm, tuple(names or ()), units
    )


def start_option(start: Any) -> datetime | None:
    """The option `start` as a moment, or an error that says how to write one."""
    moment = _moment(start)
    if start is not None and moment is None:
        raise SettingsError(f"start = {start!r} is not a date and time; write it like '2024-05-31T22:30:00'.")
    return moment


def plain_key(key: str) -> str:
    """A key without capital letters, spaces and hyphens."""
    return str(key).strip().lower().replace("-", "_").replace(" ", "_")


def moments_apart(later: datetime, earlier: datetime) -> float:
    """Seconds between two moments; where only one has a time zone, the other is taken for UTC."""
    if (later.tzinfo is None) != (earlier.tzinfo is None):
        later, earlier = (m if m.tzinfo else m.replace(tzinfo=UTC) for m in (later, earlier))
    return (later - earlier).total_seconds()


def _number(value: Any) -> float | None:
    """A number, also as text or as an array with one entry; None for anything else."""
    value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=float)
    except (OverflowError, TypeError, ValueError):
        return None
    return float(array.reshape(-1)[0]) if array.size == 1 else None


def _moment(value: Any) -> datetime | None:
    """A moment from a datetime, a text in ISO 8601, a NumPy time or Unix seconds; None for anything else."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            pass
    number = _number(value)
    if number is not None and _UNIX_S[0] <= number < _UNIX_S[1]:
        return datetime.fromtimestamp(number, UTC)
    return None


def _words(value: Any) -> tuple[str, ...]:
    """Texts from a text (split at commas), a list or an array; empty for anything else."""
    if value is None:
        return ()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(","))
    entries = list(np.asarray(value, dtype=object).reshape(-1))
    return tuple(entry.decode("utf-8", "replace") if isinstance(entry, bytes) else str(entry) for entry in entries)
