"""A recording from a file of named arrays (NPY, NPZ, HDF5, Zarr): those that are samples become signals."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.clock import Clock, Sampling, Stretch
from dlcca.recordings.formats.declared import Declared, asked, moments_apart
from dlcca.recordings.formats.labels import kinds_of
from dlcca.recordings.formats.members import Member, called, channel_names, fault, scaling, time_column
from dlcca.recordings.formats.recording import Channel, Recording
from dlcca.recordings.formats.slices import SlicedSignal
from dlcca.recordings.formats.surroundings import Surroundings

_ROWS = 1 << 20  # of an array of times, read at once


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
    def facts(self) -> Declared:
        return asked(self.rate, self.start, self.start_s, self.drift_ppm, self.names, self.unit)


def recording_of(
    path: str,
    format: str,
    members: Sequence[Member],
    groups: Mapping[str, Mapping[str, Any]],
    options: ArrayOptions,
    notes: Sequence[str] = (),
) -> Recording:
    """The recording in some arrays, with the attributes of their groups ("" is the file itself)."""
    around = Surroundings(path, members, groups, options.facts, options.time_axis)
    return _Container(path, format, around, options, notes).recording()


class _Container:
    def __init__(self, path: str, format: str, around: Surroundings, options: ArrayOptions, notes: Sequence[str]):
        self.path, self.format, self.around, self.options = path, format, around, options
        self.notes = list(notes)

    def recording(self) -> Recording:
        chosen = self._chosen()
        signals: list[SlicedSignal] = []
        starts: list[datetime | None] = []
        for member in chosen:
            made, start = self._signals(member, alone=len(chosen) == 1)
            signals += made
            starts += [start] * len(made)
        return Recording(self.path, self.format, tuple(signals), _one_start(signals, starts), notes=tuple(self.notes))

    # Which arrays are samples.

    @functools.cached_property
    def _candidates(self) -> dict[str, Member]:
        return {member.name: member for member in self.around.others() if not fault(member)}

    @functools.cached_property
    def _common(self) -> int:
        """The length that most numbers have: what the file says of all its arrays is meant for these."""
        sizes: Counter[int] = Counter()
        for member in self._candidates.values():
            sizes[self.around.length(member)] += int(np.prod(member.shape))
        return sizes.most_common(1)[0][0]

    def _chosen(self) -> list[Member]:
        if self.options.array is not None:
            wanted = [self.options.array] if isinstance(self.options.array, str) else list(self.options.array)
            return [self._named(name.strip("/")) for name in wanted]
        faults = [f"{called(member)} {fault(member)}" for member in self.around.others() if fault(member)]
        if not self._candidates:
            found = "; ".join(faults) or "no array is one of numbers"
            raise DataError(f"{self.path!r} holds no samples: {found}. Real numbers, (samples, channels), are needed.")
        self.notes += [f"{found}: left out" for found in faults]
        return self._of_common_length()

    def _named(self, name: str) -> Member:
        if name in self._candidates:
            return self._candidates[name]
        member = self.around.members.get(name)
        if member is None:
            raise SettingsError(f"array = {name!r} is not in {self.path!r}; {suggest(name, self._candidates)}")
        why = fault(member) or "holds times, or says something about other arrays"
        raise DataError(f"{self.path!r}: {called(member)} {why}; real numbers, (samples, channels), are needed.")

    def _of_common_length(self) -> list[Member]:
        """Arrays with a rate of their own, and of the others those of the length that most numbers have."""
        kept = []
        for member in self._candidates.values():
            n = self.around.length(member)
            if n == self._common or self.around.own(member).rate or self.around.clock_of(member) is not None:
                kept.append(member)
            else:
                self.notes.append(
                    f"{called(member)} has {n} samples, others have {self._common}, and no rate of its own: left out "
                    "(choose it with array and rate)"
                )
        return kept

    # The signals of one of them.

    def _signals(self, member: Member, *, alone: bool) -> tuple[list[SlicedSignal], datetime | None]:
        """One signal for each stretch between breaks, and when the array begins."""
        facts = self._facts(member)
        sampling, start = self._sampling(member, facts)
        channels = self._channels(member, facts, alone=alone)
        signals = [
            SlicedSignal(
                path=self.path,
                format=self.format,
                opened=member.opened,
                channels=channels,
                rate=sampling.rate,
                n=stretch.n,
                start_s=stretch.start_s + (facts.start_s or 0.0),
                drift_ppm=facts.drift_ppm or 0.0,
                first_row=stretch.first,
                time_axis=self.around.axis(member),
                scaling=scaling(member.attributes),
            )
            for stretch in sampling.stretches
        ]
        if len(signals) > 1:
            self.notes.append(f"breaks in the times of {called(member)}, which are kept: {len(signals) - 1}")
        return signals, facts.start if facts.start is not None else start

    def _facts(self, member: Member) -> Declared:
        own, every = self.around.own(member), self.around.of_all(member)
        if self.around.length(member) != self._common:
            every = replace(every, rate=None)
        found = own.over(every)
        wanted = self.options.facts
        if wanted.rate is not None and found.rate is not None and wanted.rate != found.rate:
            self.notes.append(f"{called(member)} is read at {wanted.rate:g} Hz as asked; it says {found.rate:g} Hz")
        return wanted.over(found)

    def _sampling(self, member: Member, facts: Declared) -> tuple[Sampling, datetime | None]:
        """Rate and breaks, from the times of the samples where the file has them, else as declared."""
        clock, n = self.around.clock_of(member), self.around.length(member)
        if clock is None:
            if facts.rate is None:
                what = f"{self.path!r} does not say how often {called(member)} was sampled"
                raise SettingsError(f"{what}: give rate, in samples per second.")
            return Sampling(facts.rate, (Stretch(0, n, 0.0),)), None
        column = time_column(clock)
        times = Clock(f"{clock.name!r} of {self.path!r}", rate=facts.rate, row="entry", base=0)
        for first in range(0, n, _ROWS):
            times.feed(column.seconds(np.asarray(clock.opened.array()[first : first + _ROWS])))
        sampling = times.sampling()
        self.notes += [*column.notes, *sampling.notes]
        return sampling, column.start

    def _channels(self, member: Member, facts: Declared, *, alone: bool) -> tuple[Channel, ...]:
        n = self.around.length(member)
        width = int(np.prod(member.shape)) // n
        given = facts.names or self.around.coordinate_names(member)
        units = facts.units or ("",)
        if given and len(given) != width:
            raise SettingsError(f"{len(given)} names were given for {called(member)}, which has {width} channels.")
        if len(units) not in (1, width):
            raise SettingsError(f"{len(units)} units were given for {called(member)}, which has {width} channels.")
        if len(member.shape) == 2 and width > n and not given and not member.dims:
            self.notes.append(
                f"{called(member)} is read as {n} samples of {width} channels; give time_axis="
                f"{1 - self.around.axis(member)} if it is the other way round"
            )
        names = channel_names(member, width, given, alone=alone)
        return tuple(map(Channel, names, units if len(units) == width else units * width, kinds_of(names)))


def _one_start(signals: Sequence[SlicedSignal], starts: Sequence[datetime | None]) -> datetime | None:
    """The earliest of the moments at which arrays begin; their signals start so much later."""
    known = [start for start in starts if start is not None]
    if not known:
        return None
    earliest = min(known, key=lambda start: moments_apart(start, known[0]))
    for signal, start in zip(signals, starts, strict=True):
        signal.start_s += 0.0 if start is None else moments_apart(start, earliest)
    return earliest
