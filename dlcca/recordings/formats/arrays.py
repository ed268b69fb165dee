"""A recording from a file of named arrays (NPY, NPZ, HDF5, Zarr): those that are samples become signals."""

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats import metadata, recording
from dlcca.recordings.formats.clock import TIME_NAMES, Clock, TimeColumn, time_unit
from dlcca.recordings.formats.metadata import Metadata, declared, from_options, plain_key, text_of
from dlcca.recordings.formats.recording import Channel, Digital, ProcessLocal, Recording, Sampling, Source, SourceSignal


@dataclass(frozen=True)
class Scaling:
    """How stored numbers become physical ones, as CF conventions and xarray write it."""

    factor: float | NDArray[np.float64] = 1.0  # of all channels, or of each (c,)
    offset: float = 0.0
    missing: float | None = None  # the stored number that stands for none
    dtype: type[np.floating] = np.float64  # in which it is computed

    @classmethod
    def declared(cls, attributes: Mapping[str, Any]) -> Self:
        factor, offset, missing = (
            metadata.number(attributes.get(key)) for key in ("scale_factor", "add_offset", "_FillValue")
        )
        missing = None if missing is None or np.isnan(missing) else missing
        return cls(1.0 if factor is None else factor, offset or 0.0, missing)

    def of(self, stored: NDArray[Any], columns: Sequence[int]) -> NDArray[Any]:
        """Of stored numbers of some channels: NaN where one is missing, else factor * stored + offset."""
        factor = self.factor[columns] if isinstance(self.factor, np.ndarray) else self.factor
        if np.all(factor == 1) and self.offset == 0 and self.missing is None:
            return stored
        values = stored.astype(self.dtype) * factor + self.offset
        return values if self.missing is None else np.where(stored == self.missing, np.nan, values)


class Opened(ProcessLocal):
    """An array that is opened when it is first sliced, again in each process that a signal is sent to."""

    _array: Any = None

    def __init__(self, open_array: Callable[..., Any], *args: Any) -> None:
        self.open_array, self.args = open_array, args  # a function of a module: it must survive pickling

    def array(self) -> Any:
        with self._lock:
            if self._array is None:
                self._array = self.open_array(*self.args)
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

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        """As float32 where it holds the samples exactly (float32, float16, 8 and 16 bits), else as float64."""
        values = self.scaling.of(self.stored(first, last, columns), columns)
        return np.require(values, np.result_type(values.dtype, np.float32), "W")  # not a part of the mapped file

    @property
    def digital(self) -> Digital | None:
        """Numbers of at most 16 bits, all of which are some value."""
        dtype = self.opened.array().dtype
        if dtype.kind not in "iu" or dtype.itemsize > 2 or self.scaling.missing is not None:
            return None
        gain, bias = np.full(self.width, self.scaling.factor), np.full(self.width, self.scaling.offset)
        return Digital(dtype.newbyteorder("="), gain, bias)

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        stored = self.stored(first, last, columns)
        return np.require(stored, stored.dtype.newbyteorder("="), ["C", "W", "E"])  # not a part of the mapped file

    def stored(self, first: int, last: int, columns: Sequence[int]) -> NDArray[Any]:
        array, chosen = self.opened.array(), np.asarray(columns, dtype=np.intp)
        if array.ndim != 2:
            return np.asarray(array[first:last]).reshape(last - first, -1)[:, chosen]
        # A slice first: libraries read one quickly, and scattered columns one by one.
        low = int(chosen.min())
        span = slice(low, int(chosen.max()) + 1)
        part = np.asarray(array[span, first:last]).T if self.time_axis == 1 else np.asarray(array[first:last, span])
        in_order = len(chosen) == part.shape[1] and (np.diff(chosen) == 1).all()
        part = part if in_order else part[:, chosen - low]
        if part.dtype != "V3":
            return part
        return recording.int24(np.ascontiguousarray(part).view(np.uint8).reshape(*part.shape, 3))


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
    def groups(self) -> list[str]:
        """The group that it is in, and those above; the last one is "", the file."""
        parts = self.name.split("/")[:-1]
        return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]

    @property
    def leaf(self) -> str:
        return self.name.rpartition("/")[2]

    def declared(self, attributes: Mapping[str, Any], where: str) -> Metadata:
        """Metadata among attributes, less names and units of other arrays: lists without an entry for each channel."""
        facts = declared(attributes, where)
        # How many channels it may have, whichever of its axes is time.
        fits = set(self.shape) if len(self.shape) == 2 else {int(np.prod(self.shape[1:]))}
        names = facts.names if len(facts.names) in fits else ()
        units = facts.units if len(facts.units) in {1, *fits} else ()
        return replace(facts, names=names, units=units)


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


_WORDS_AT_MOST = 65536  # a longer array of texts is data, and not the names of channels
_SAYS_RATE = re.compile(r"(?:^|_)(?:fs|rate|sfreq|srate)(?:_hz)?$")
_SAMPLE_AXES = (*TIME_NAMES, "sample", "samples", "frame", "frames")
_ROWS = 1 << 20  # of an array of times, read at once


class ArrayFile:
    """The arrays of a file and the attributes of its groups; the group "" is the file itself.

    Its keyword arguments, and those of `from_options`, are options of every reader of arrays. They go before what the
    file says.
    """

    def __init__(
        self,
        path: str,
        format: str,
        members: Sequence[Member],
        groups: Mapping[str, Mapping[str, Any]],
        notes: Sequence[str] = (),
        check: Callable[[Member], str] = lambda member: "",  # refuses an array that lacks data, or returns a note
        *,
        array: str | Sequence[str] | None = None,
        time_axis: int | None = None,
        **facts: Any,
    ) -> None:
        if not members:
            raise DataError(f"{path!r} holds no arrays.")
        if time_axis not in (None, 0, 1):
            raise SettingsError(f"time_axis = {time_axis!r} is not known; 0 (rows) and 1 (columns) are.")
        self.path, self.format, self.notes, self.check = path, format, list(notes), check
        self.array, self.time_axis, self.given = array, time_axis, from_options(**facts)
        self.members = {member.name: member for member in members}
        self.groups = {group: dict(attributes) for group, attributes in groups.items()}
        words = {member.name for member in members if self._is_word(member)}
        others = [  # that say nothing about other arrays; an array named after its only axis is a coordinate
            member
            for member in members
            if not (member.name in words or self._is_clock(member) or (member.leaf and member.dims == (member.leaf,)))
        ]
        self._faults = [f"{called(member)} {fault(member)}" for member in others if fault(member)]
        self._candidates = {member.name: member for member in others if not fault(member)}

    def recording(self) -> Recording:
        """The recording in the arrays that are samples."""
        chosen = self._chosen()
        made = [self._signals(member, alone=len(chosen) == 1) for member in chosen]
        self.notes += filter(None, map(self.check, chosen))
        # The recording starts with the earliest array; signals of the others start so much later.
        dated = [begun for _, begun in made if begun is not None]
        start = min(dated, key=metadata.in_utc, default=None)
        for signals, begun in made:
            if begun is not None and start is not None:
                for signal in signals:
                    signal.start_s += (metadata.in_utc(begun) - metadata.in_utc(start)).total_seconds()
        every = tuple(signal for signals, _ in made for signal in signals)
        return Recording(self.path, self.format, every, start, notes=tuple(self.notes))

    def _is_word(self, member: Member) -> bool:
        """Scalars and lists of texts beside arrays are taken as attributes of their group."""
        size, is_text, key = int(np.prod(member.shape)), member.dtype.kind in "USTO", plain_key(member.leaf)
        is_fact = not member.shape or (size == 1 and (key in metadata.KNOWN or _SAYS_RATE.search(key)))
        if not (size <= _WORDS_AT_MOST if is_text else member.name and is_fact):
            return False
        value = texts(member) if is_text else np.asarray(member.opened.array()[...]).reshape(-1)[0]
        self.groups.setdefault(member.groups[0], {}).setdefault(member.leaf, value)
        return True

    # Metadata of one array.

    def own(self, member: Member) -> Metadata:
        """Facts about one array alone: its attributes, those named after it, those of its group."""
        facts = member.declared(member.attributes, called(member))
        start = f"{member.leaf}_"
        beside = self.groups.get(member.groups[0], {})
        named = {key.removeprefix(start): value for key, value in beside.items() if key.startswith(start)}
        facts = facts.over(member.declared(named, called(member)))
        if not facts.names:  # "ecg_leads" names the channels of "ecg", whatever leads are
            lists = (member.declared({"names": v}, "").names for v in named.values() if isinstance(v, list))
            facts = replace(facts, names=next(filter(None, lists), ()))
        for group in member.groups[:-1]:
            facts = facts.over(member.declared(self.groups.get(group, {}), f"group {group!r}"))
        return facts

    def of_all(self, member: Member) -> Metadata:
        """What the file says of all its arrays, as far as it fits this one."""
        return member.declared(self.groups.get("", {}), repr(self.path))

    # Its axes and its clock.

    def axis(self, member: Member) -> int:
        """Which axis is time: as given, by the names of the axes, as the names of channels fit, else the first."""
        if self.time_axis is not None:
            return min(self.time_axis, len(member.shape) - 1)
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
        found = (self.members.get(f"{group}/{dim}".lstrip("/")) for group in member.groups)
        return next((m for m in found if m is not None and m is not member and len(m.shape) == 1), None)

    def clock_of(self, member: Member) -> Member | None:
        """The array with the times of the samples, where there is one."""
        axis = self.axis(member)
        if member.dims and is_time(found := self.coordinate(member, member.dims[axis])):
            return found
        for other in self.members.values():
            beside = other is not member and other.groups == member.groups
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
    def _common(self) -> int:
        """The length that most numbers have: what the file says of all its arrays is meant for these."""
        sizes: Counter[int] = Counter()
        for member in self._candidates.values():
            sizes[self.length(member)] += int(np.prod(member.shape))
        return sizes.most_common(1)[0][0]

    def _chosen(self) -> list[Member]:
        """The requested arrays, else those with a rate of their own and those of the length that most numbers have."""
        if self.array is not None:
            wanted = [self.array] if isinstance(self.array, str) else self.array
            return [self._named(name.strip("/")) for name in wanted]
        if not self._candidates:
            found = "; ".join(self._faults) or "no array is one of numbers"
            raise DataError(f"{self.path!r} holds no samples: {found}. Real numbers, (samples, channels), are needed.")
        self.notes += [f"{found}: left out" for found in self._faults]
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

    def _named(self, name: str) -> Member:
        if name in self._candidates:
            return self._candidates[name]
        member = self.members.get(name)
        if member is None:
            raise SettingsError(f"array = {name!r} is not in {self.path!r}; {suggest(name, self._candidates)}")
        why = fault(member) or "holds times, or says something about other arrays"
        raise DataError(f"{self.path!r}: {called(member)} {why}; real numbers, (samples, channels), are needed.")

    # The signals of one of them.

    def _signals(self, member: Member, *, alone: bool) -> tuple[tuple[SourceSignal, ...], datetime | None]:
        """One signal for each stretch between breaks, and when the array begins."""
        every = self.of_all(member)
        if self.length(member) != self._common:
            every = replace(every, rate=None)
        found = self.own(member).over(every)
        facts = self.given.over(found)
        if found.rate is not None and found.rate != facts.rate:
            self.notes.append(f"{called(member)} is read at {facts.rate:g} Hz as given; it says {found.rate:g} Hz")
        sampling = self._sampling(member, facts)
        channels = self._channels(member, facts, alone=alone)
        scaling = Scaling.declared(member.attributes)
        source = ArraySource(self.path, self.format, member.opened, len(channels), self.axis(member), scaling)
        return sampling.signals(source, channels, facts.start_s, facts.drift_ppm), facts.start or sampling.start

    def _sampling(self, member: Member, facts: Metadata) -> Sampling:
        """Rate and breaks, from the times of the samples where the file has them, else as declared."""
        clock, n = self.clock_of(member), self.length(member)
        if clock is None:
            if facts.rate is None:
                what = f"{self.path!r} does not say how often {called(member)} was sampled"
                raise SettingsError(f"{what}: give rate, in samples per second.")
            return Sampling.even(facts.rate, n)
        self.notes += filter(None, [self.check(clock)])
        times = Clock(f"{clock.name!r} of {self.path!r}", facts.rate, row="entry", base=0)
        blocks = (np.asarray(clock.opened.array()[first : first + _ROWS]) for first in range(0, n, _ROWS))
        # "s", "ms", ... or, as CF writes it, "seconds since 2024-05-31 22:30:00".
        unit, since, epoch = str(clock.attributes.get("units", "")).partition(" since ")
        start = declared({"start": epoch.strip()}, called(clock)).start if since else None
        sampling = TimeColumn(clock.name, time_unit(unit), start).sampling(times, blocks)
        self.notes += sampling.notes
        return sampling

    def _channels(self, member: Member, facts: Metadata, *, alone: bool) -> tuple[Channel, ...]:
        axis, given = self.axis(member), facts.names
        n = member.shape[axis]
        width = int(np.prod(member.shape)) // n
        if not given and len(member.dims) == 2:  # names from the coordinate of the other axis, as xarray writes them
            found = self.coordinate(member, member.dims[1 - axis])
            given = tuple(texts(found)) if found is not None and found.dtype.kind in "biufUSTO" else ()
        prefix, names = f"{member.name}." if member.name else "", list(given)
        if given and not alone:
            names = [f"{prefix}{name}" for name in given]
        elif not given and len(member.shape) == 1 and member.name:
            names = [member.name]
        elif not given:
            places = np.ndindex(member.shape[1:]) if len(member.shape) > 2 else np.ndindex(width)
            names = [prefix + ".".join(map(str, place)) for place in places]
        if len(member.shape) == 2 and width > n and not given and not member.dims:
            self.notes.append(
                f"{called(member)} is read as {n} samples of {width} channels; give time_axis={1 - axis} if it is the "
                "other way round"
            )
        return metadata.channels_of(called(member), width, names, facts.units)


def array_reader(opener: Callable[..., Recording]) -> Callable[..., Recording]:
    """The function ``open(path, **options)`` of a reader, with the options of `ArrayFile` in its signature."""
    every = [*signature(opener).parameters.values(), *signature(ArrayFile).parameters.values()]
    options = [parameter for parameter in every if parameter.kind is parameter.KEYWORD_ONLY]
    options += [option.replace(kind=option.KEYWORD_ONLY) for option in signature(from_options).parameters.values()]
    opener.__signature__ = signature(opener).replace(parameters=[every[0], *options])  # type: ignore[attr-defined]
    return opener
