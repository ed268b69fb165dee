"""A recording from a file of named arrays (NPY, NPZ, HDF5, Zarr): those that are samples become signals."""

from __future__ import annotations

import functools
import inspect
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.clock import TIME_NAMES, Clock, TimeColumn, time_unit
from dlcca.recordings.formats.metadata import (
    KNOWN,
    Metadata,
    channels_of,
    declared,
    from_options,
    moments_apart,
    number,
    plain_key,
    text_of,
)
from dlcca.recordings.formats.recording import Channel, Digital, ProcessLocal, Recording, Sampling, Source, SourceSignal


@dataclass(frozen=True)
class Scaling:
    """How stored numbers become physical ones, as CF conventions and xarray write it."""

    factor: float = 1.0
    offset: float = 0.0
    missing: float | None = None  # the stored number that stands for none

    def of(self, stored: NDArray[Any]) -> NDArray[Any]:
        """NaN where a number is missing, else factor * stored + offset."""
        if self == Scaling():
            return stored
        values = stored.astype(np.float64) * self.factor + self.offset
        return values if self.missing is None else np.where(stored == self.missing, np.nan, values)


class Opened(ProcessLocal):
    """An array that is opened when it is first sliced, again in each process that a signal is sent to."""

    def __init__(self, open_array: Callable[[], Any]) -> None:
        self.open_array = open_array  # a function of a module, or a partial of one: it must survive pickling
        self._reset()

    def _reset(self) -> None:
        self._array: Any = None
        self._lock = threading.Lock()

    def array(self) -> Any:
        with self._lock:
            if self._array is None:
                self._array = self.open_array()
            return self._array


@dataclass
class ArraySource(Source):
    """An array of shape (samples, channels), or the other way round.

    An array with more than two axes has one channel for each entry of a sample: frames (n, height, width) have
    height * width of them.
    """

    path: str
    format: str
    opened: Opened
    width: int  # channels
    time_axis: int = 0
    scaling: Scaling = Scaling()

    def rows(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        """As float32 where it holds the samples exactly (float32, float16, 8 and 16 bits), else as float64."""
        values = self.scaling.of(self.stored(first, last, columns))
        values = values.astype(np.result_type(values.dtype, np.float32), copy=False)
        return values if values.flags.writeable else values.copy()  # not a part of the mapped file

    @property
    def digital(self) -> Digital | None:
        """Numbers of at most 16 bits, all of which are some value."""
        dtype = self.opened.array().dtype
        if dtype.kind not in "iu" or dtype.itemsize > 2 or self.scaling.missing is not None:
            return None
        gain, bias = np.full(self.width, self.scaling.factor), np.full(self.width, self.scaling.offset)
        return Digital(dtype.newbyteorder("="), gain, bias)

    def numbers(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        stored = self.stored(first, last, columns)
        numbers = np.asarray(stored, dtype=stored.dtype.newbyteorder("="), order="C")
        return numbers if numbers.flags.writeable else numbers.copy()  # not a part of the mapped file

    def stored(self, first: int, last: int, columns: Sequence[int]) -> NDArray[Any]:
        array, chosen = self.opened.array(), np.asarray(columns, dtype=np.intp)
        if array.ndim != 2:
            return np.asarray(array[first:last]).reshape(last - first, -1)[:, chosen]
        # A slice first: libraries read one quickly, and scattered columns one by one.
        low = int(chosen.min())
        span = slice(low, int(chosen.max()) + 1)
        part = np.asarray(array[span, first:last]).T if self.time_axis == 1 else np.asarray(array[first:last, span])
        in_order = len(chosen) == part.shape[1] and (np.diff(chosen) == 1).all()
        return part if in_order else part[:, chosen - low]


@dataclass(frozen=True)
class Member:
    """One array of a file: "group/name", or "" where the file is the array."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    opened: Opened
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dims: tuple[str, ...] = ()  # names of its axes, where the file has them

    @property
    def group(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def groups(self) -> list[str]:
        """The group that it is in, and those above; the last one is "", the file."""
        parts = self.name.split("/")[:-1]
        return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]

    @property
    def leaf(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def is_text(self) -> bool:
        return self.dtype.kind in "USTO"


def channel_names(member: Member, width: int, given: Sequence[str], *, alone: bool) -> list[str]:
    """Names of channels: as given, with the array before them where there are several; else numbers."""
    prefix = f"{member.name}." if member.name else ""
    if given:
        return [name if alone else f"{prefix}{name}" for name in given]
    if len(member.shape) == 1 and member.name:
        return [member.name]
    if len(member.shape) > 2:
        return [prefix + ".".join(map(str, place)) for place in np.ndindex(*member.shape[1:])]
    return [f"{prefix}{i}" for i in range(width)]


def widths(member: Member) -> set[int]:
    """How many channels an array may have, whichever of its axes is time."""
    if len(member.shape) == 2:
        return set(member.shape)
    return {int(np.prod(member.shape[1:]))}


def called(member: Member) -> str:
    return repr(member.name) if member.name else "the array"


def fault(member: Member) -> str:
    """Why an array cannot be samples; empty where it can."""
    if member.dtype.kind == "c":
        return f"holds complex numbers ({member.dtype}; save its real and imaginary parts, or its modulus, as channels)"
    if member.dtype.kind not in "biuf":
        return f"holds {member.dtype} and no numbers"
    if not member.shape:
        return "is a single number"
    return f"is empty (shape {member.shape})" if 0 in member.shape else ""


def says_rate(leaf: str) -> bool:
    return re.search(r"(?:^|_)(?:fs|rate|sfreq|srate)(?:_hz)?$", plain_key(leaf)) is not None


def texts(member: Member) -> Any:
    """Texts of an array as a list, or as one text where it is a scalar; numbers are written out."""
    values = np.asarray(member.opened.array()[...])
    words = [str(text_of(word)) for word in values.reshape(-1)]
    return words if values.ndim else words[0]


def is_time(member: Member | None) -> bool:
    if member is None:
        return False
    named = plain_key(member.leaf) in TIME_NAMES and member.dtype.kind in "iuf"
    return member.dtype.kind in "Mm" or named or " since " in str(member.attributes.get("units", ""))


def time_column(clock: Member) -> TimeColumn:
    """The clock in seconds; `units` is "s", "ms", ... or, as CF writes it, "seconds since 2024-05-31 22:30:00"."""
    unit, since, epoch = str(clock.attributes.get("units", "")).partition(" since ")
    start = declared({"start": epoch.strip()}, called(clock)).start if since else None
    return TimeColumn(clock.name, time_unit(unit), epoch=start)


def scaling(attributes: Mapping[str, Any]) -> Scaling:
    factor, offset, missing = (number(attributes.get(key)) for key in ("scale_factor", "add_offset", "_FillValue"))
    if missing is not None and np.isnan(missing):
        missing = None
    return Scaling(1.0 if factor is None else factor, 0.0 if offset is None else offset, missing)


@dataclass(frozen=True)
class ArrayOptions:
    """The options of every file of arrays; what they say goes before what the file says."""

    array: str | Sequence[str] | None = None
    rate: float | None = None
    start: datetime | date | str | None = None
    start_s: float | None = None
    drift_ppm: float | None = None
    names: Sequence[str] | None = None
    unit: str | Sequence[str] | None = None
    time_axis: int | None = None

    def __post_init__(self) -> None:
        if self.time_axis not in (None, 0, 1):
            raise SettingsError(f"time_axis = {self.time_axis!r} is not known; 0 (rows) and 1 (columns) are.")

    @property
    def facts(self) -> Metadata:
        return from_options(self.rate, self.start, self.start_s, self.drift_ppm, self.names, self.unit)


def array_reader(opener: Callable[..., Recording]) -> Callable[..., Recording]:
    """The function ``open(path, **options)`` of a reader, with `ArrayOptions` in its signature, to check them."""
    signature, shared = inspect.signature(opener), inspect.signature(ArrayOptions).parameters.values()
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    options = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in shared]
    opener.__signature__ = signature.replace(parameters=[own[0], *options, *own[1:]])  # type: ignore[attr-defined]
    return opener


_WORDS_AT_MOST = 65536  # a longer array of texts is data, and not the names of channels
_SAMPLE_AXES = (*TIME_NAMES, "sample", "samples", "frame", "frames")
_ROWS = 1 << 20  # of an array of times, read at once


class ArrayFile:
    """The arrays of a file and the attributes of its groups; the group "" is the file itself."""

    def __init__(
        self,
        path: str,
        format: str,
        members: Sequence[Member],
        groups: Mapping[str, Mapping[str, Any]],
        options: ArrayOptions,
        notes: Sequence[str] = (),
    ) -> None:
        self.path, self.format, self.options, self.notes = path, format, options, list(notes)
        self.given = options.facts
        self.members = {member.name: member for member in members}
        self.groups = {group: dict(attributes) for group, attributes in groups.items()}
        self.words = {member.name for member in members if self._is_word(member)}

    def recording(self) -> Recording:
        """The recording in the arrays that are samples."""
        chosen = self._chosen()
        signals: list[SourceSignal] = []
        starts: list[datetime | None] = []
        for member in chosen:
            made, start = self._signals(member, alone=len(chosen) == 1)
            signals += made
            starts += [start] * len(made)
        return Recording(self.path, self.format, tuple(signals), _one_start(signals, starts), notes=tuple(self.notes))

    def _is_word(self, member: Member) -> bool:
        """Scalars and lists of texts beside arrays are taken as attributes of their group."""
        attributes = self.groups.setdefault(member.group, {})
        size = int(np.prod(member.shape))
        if member.is_text and size <= _WORDS_AT_MOST:
            attributes.setdefault(member.leaf, texts(member))
            return True
        if not member.name or member.is_text:
            return False
        if not member.shape or (size == 1 and (plain_key(member.leaf) in KNOWN or says_rate(member.leaf))):
            attributes.setdefault(member.leaf, np.asarray(member.opened.array()[...]).reshape(-1)[0])
            return True
        return False

    def others(self) -> list[Member]:
        """Arrays that say nothing about others."""
        silent = [member for member in self.members.values() if member.name not in self.words]
        return [m for m in silent if not self._is_clock(m) and not (m.leaf and m.dims == (m.leaf,))]  # a coordinate

    # Metadata of one array.

    def own(self, member: Member) -> Metadata:
        """Facts about one array alone: its attributes, those named after it, those of its group."""
        facts = _fitting(declared(member.attributes, called(member)), member)
        start = f"{member.leaf}_"
        named = {key.removeprefix(start): v for key, v in self.groups[member.group].items() if key.startswith(start)}
        facts = facts.over(_fitting(declared(named, called(member)), member))
        if not facts.names:  # "ecg_leads" names the channels of "ecg", whatever leads are
            lists = [tuple(v) for v in named.values() if isinstance(v, list) and len(v) in widths(member)]
            facts = replace(facts, names=lists[0] if lists else ())
        for group in member.groups[:-1]:
            facts = facts.over(_fitting(declared(self.groups.get(group, {}), f"group {group!r}"), member))
        return facts

    def of_all(self, member: Member) -> Metadata:
        """What the file says of all its arrays, as far as it fits this one."""
        return _fitting(declared(self.groups.get("", {}), repr(self.path)), member)

    # Its axes and its clock.

    def axis(self, member: Member) -> int:
        """Which axis is time: as given, by the names of the axes, as the names of channels fit, else the first."""
        if self.options.time_axis is not None:
            return min(self.options.time_axis, len(member.shape) - 1)
        for axis, dim in enumerate(member.dims[:2]):
            if plain_key(dim) in _SAMPLE_AXES or is_time(self.coordinate(member, dim)):
                return axis
        if len(member.shape) != 2:
            return 0
        n, d = member.shape
        names = self.given.over(self.own(member)).over(self.of_all(member)).names
        return 1 if len(names) == n != d else 0

    def length(self, member: Member) -> int:
        return member.shape[self.axis(member)]

    def coordinate(self, member: Member, dim: str) -> Member | None:
        """The array with the places along an axis, beside the member or above it."""
        for group in member.groups:
            found = self.members.get(f"{group}/{dim}".lstrip("/"))
            if found is not None and found is not member and len(found.shape) == 1:
                return found
        return None

    def coordinate_names(self, member: Member) -> tuple[str, ...]:
        """Names of channels from the coordinate of the other axis, as xarray writes it."""
        if len(member.dims) != 2:
            return ()
        found = self.coordinate(member, member.dims[1 - self.axis(member)])
        if found is None or found.dtype.kind not in "biufUSTO":
            return ()
        return tuple(texts(found))

    def clock_of(self, member: Member) -> Member | None:
        """The array with the times of the samples, where there is one."""
        axis = self.axis(member)
        if member.dims:
            found = self.coordinate(member, member.dims[axis])
            if is_time(found):
                return found
        for other in self.members.values():
            beside = other is not member and other.group == member.group
            if beside and self._is_clock(other) and other.shape[0] == member.shape[axis]:
                return other
        return None

    def _is_clock(self, member: Member) -> bool:
        """A 1-D array that is called time, in a file that has others, or that holds times."""
        if len(member.shape) != 1 or member.shape[0] < 2 or len(self.members) == 1:
            return False
        return member.dtype.kind in "Mm" or (member.dtype.kind in "iuf" and plain_key(member.leaf) in TIME_NAMES)

    # Which arrays are samples.

    @functools.cached_property
    def _candidates(self) -> dict[str, Member]:
        return {member.name: member for member in self.others() if not fault(member)}

    @functools.cached_property
    def _common(self) -> int:
        """The length that most numbers have: what the file says of all its arrays is meant for these."""
        sizes: Counter[int] = Counter()
        for member in self._candidates.values():
            sizes[self.length(member)] += int(np.prod(member.shape))
        return sizes.most_common(1)[0][0]

    def _chosen(self) -> list[Member]:
        if self.options.array is not None:
            wanted = [self.options.array] if isinstance(self.options.array, str) else list(self.options.array)
            return [self._named(name.strip("/")) for name in wanted]
        faults = [f"{called(member)} {fault(member)}" for member in self.others() if fault(member)]
        if not self._candidates:
            found = "; ".join(faults) or "no array is one of numbers"
            raise DataError(f"{self.path!r} holds no samples: {found}. Real numbers, (samples, channels), are needed.")
        self.notes += [f"{found}: left out" for found in faults]
        return self._of_common_length()

    def _named(self, name: str) -> Member:
        if name in self._candidates:
            return self._candidates[name]
        member = self.members.get(name)
        if member is None:
            raise SettingsError(f"array = {name!r} is not in {self.path!r}; {suggest(name, self._candidates)}")
        why = fault(member) or "holds times, or says something about other arrays"
        raise DataError(f"{self.path!r}: {called(member)} {why}; real numbers, (samples, channels), are needed.")

    def _of_common_length(self) -> list[Member]:
        """Arrays with a rate of their own, and of the others those of the length that most numbers have."""
        kept = []
        for member in self._candidates.values():
            n = self.length(member)
            if n == self._common or self.own(member).rate or self.clock_of(member) is not None:
                kept.append(member)
            else:
                self.notes.append(
                    f"{called(member)} has {n} samples, others have {self._common}, and no rate of its own: left out "
                    "(choose it with array and rate)"
                )
        return kept

    # The signals of one of them.

    def _signals(self, member: Member, *, alone: bool) -> tuple[tuple[SourceSignal, ...], datetime | None]:
        """One signal for each stretch between breaks, and when the array begins."""
        facts = self._facts(member)
        sampling = self._sampling(member, facts)
        channels = self._channels(member, facts, alone=alone)
        axis, scale = self.axis(member), scaling(member.attributes)
        source = ArraySource(self.path, self.format, member.opened, len(channels), axis, scale)
        signals = sampling.signals(source, channels, start_s=facts.start_s, drift_ppm=facts.drift_ppm)
        if len(signals) > 1:
            self.notes.append(f"breaks in the times of {called(member)}, which are kept: {len(signals) - 1}")
        return signals, facts.start or sampling.start

    def _facts(self, member: Member) -> Metadata:
        own, every = self.own(member), self.of_all(member)
        if self.length(member) != self._common:
            every = replace(every, rate=None)
        found = own.over(every)
        if self.given.rate is not None and found.rate is not None and self.given.rate != found.rate:
            self.notes.append(f"{called(member)} is read at {self.given.rate:g} Hz as given; it says {found.rate:g} Hz")
        return self.given.over(found)

    def _sampling(self, member: Member, facts: Metadata) -> Sampling:
        """Rate and breaks, from the times of the samples where the file has them, else as declared."""
        clock, n = self.clock_of(member), self.length(member)
        if clock is None:
            if facts.rate is None:
                what = f"{self.path!r} does not say how often {called(member)} was sampled"
                raise SettingsError(f"{what}: give rate, in samples per second.")
            return Sampling.even(facts.rate, n)
        times = Clock(f"{clock.name!r} of {self.path!r}", rate=facts.rate, row="entry", base=0)
        blocks = (np.asarray(clock.opened.array()[first : first + _ROWS]) for first in range(0, n, _ROWS))
        sampling = time_column(clock).sampling(times, blocks)
        self.notes += sampling.notes
        return sampling

    def _channels(self, member: Member, facts: Metadata, *, alone: bool) -> tuple[Channel, ...]:
        n = self.length(member)
        width = int(np.prod(member.shape)) // n
        given = facts.names or self.coordinate_names(member)
        if len(member.shape) == 2 and width > n and not given and not member.dims:
            self.notes.append(
                f"{called(member)} is read as {n} samples of {width} channels; give time_axis="
                f"{1 - self.axis(member)} if it is the other way round"
            )
        return channels_of(called(member), width, channel_names(member, width, given, alone=alone), facts.units)


def _fitting(facts: Metadata, member: Member) -> Metadata:
    """Facts without names and units of other arrays: lists that do not have one entry for each channel."""
    fits = widths(member)
    names = facts.names if len(facts.names) in fits else ()
    units = facts.units if len(facts.units) in {1, *fits} else ()
    return replace(facts, names=names, units=units)


def _one_start(signals: Sequence[SourceSignal], starts: Sequence[datetime | None]) -> datetime | None:
    """The earliest of the moments at which arrays begin; their signals start so much later."""
    known = [start for start in starts if start is not None]
    if not known:
        return None
    earliest = min(known, key=lambda start: moments_apart(start, known[0]))
    for signal, start in zip(signals, starts, strict=True):
        signal.start_s += 0.0 if start is None else moments_apart(start, earliest)
    return earliest
