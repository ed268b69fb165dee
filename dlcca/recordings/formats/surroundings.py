"""What stands around an array in its file and says something about it: attributes, scalars, names, clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.recordings.formats.clock import TIME_NAMES
from dlcca.recordings.formats.declared import KNOWN, Declared, declared, plain_key
from dlcca.recordings.formats.members import Member, called, is_time, says_rate, texts, widths

_WORDS_AT_MOST = 65536  # a longer array of texts is data, and not the names of channels
_SAMPLE_AXES = (*TIME_NAMES, "sample", "samples", "frame", "frames")


class Surroundings:
    """The arrays of a file and the attributes of its groups; the group "" is the file itself."""

    def __init__(
        self,
        path: str,
        members: Sequence[Member],
        groups: Mapping[str, Mapping[str, Any]],
        given: Declared,
        time_axis: int | None,
    ) -> None:
        self.path, self.given, self.time_axis = path, given, time_axis
        self.members = {member.name: member for member in members}
        self.groups = {group: dict(attributes) for group, attributes in groups.items()}
        self.words = {member.name for member in members if self._is_word(member)}

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
        silent = (m for m in self.members.values() if m.name not in self.words and not m.is_coordinate)
        return [member for member in silent if not self._is_clock(member)]

    # What is said about one array.

    def own(self, member: Member) -> Declared:
        """Facts about one array alone: its attributes, those named after it, those of its group."""
        facts = _fitting(declared(member.attributes, called(member)), member)
        start = f"{member.leaf}_"
        named = {key.removeprefix(start): v for key, v in self.groups[member.group].items() if key.startswith(start)}
        facts = facts.over(_fitting(declared(named, called(member)), member))
        if not facts.names:  # "ecg_leads" names the channels of "ecg", whatever leads are
            lists = [tuple(v) for v in named.values() if isinstance(v, list) and len(v) in widths(member)]
            facts = replace(facts, names=lists[0] if lists else ())
        group = member.group
        while group:
            facts = facts.over(_fitting(declared(self.groups.get(group, {}), f"group {group!r}"), member))
            group = group.rpartition("/")[0]
        return facts

    def of_all(self, member: Member) -> Declared:
        """What the file says of all its arrays, as far as it fits this one."""
        return _fitting(declared(self.groups.get("", {}), repr(self.path)), member)

    # Its axes and its clock.

    def axis(self, member: Member) -> int:
        """Which axis is time: as asked, as the axes are called, as the names of channels fit, else the first."""
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
        group = member.group
        while True:
            found = self.members.get(f"{group}/{dim}" if group else dim)
            if found is not None and found is not member and len(found.shape) == 1:
                return found
            if not group:
                return None
            group = group.rpartition("/")[0]

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


def _fitting(facts: Declared, member: Member) -> Declared:
    """Facts without names and units of other arrays: lists that do not have one entry for each channel."""
    fits = widths(member)
    names = facts.names if len(facts.names) in fits else ()
    units = facts.units if len(facts.units) in {1, *fits} else ()
    return replace(facts, names=names, units=units)
