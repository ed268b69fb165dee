"""Files on one clock: which channels of which files belong to a view, and when each of their samples was taken.

Only headers are read. The clock begins at the earliest sample of any view. A view is made of tracks (channels that were
sampled together), a track of pieces: what one signal of one file holds of it. Between two pieces there is a break,
however short.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.metadata import grouped
from dlcca.recordings.formats.recording import Channel, Recording, Signal
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import cache

#: Opens a file, with the options of its reader.
Opener = Callable[..., Recording]
#: Files that stay open in a process.
OPEN_FILES = 32
#: Channels that an error lists.
MOST_LISTED = 60


@dataclass(frozen=True)
class File:
    """A file: its path, the options of its reader, and its size and time, which show whether it has changed."""

    path: str
    options: dict[str, Any] = field(default_factory=dict)
    stamp: tuple[int, int] = (0, 0)  # bytes, and when it was last written

    def __hash__(self) -> int:
        return hash((self.path, self.stamp))  # options may be lists and tables

    @classmethod
    def at(cls, path: str, options: Mapping[str, Any]) -> File:
        try:
            found = os.stat(path)
        except OSError:  # the reader reports it, or reads from elsewhere
            return cls(path, dict(options))
        return cls(path, dict(options), (found.st_size, found.st_mtime_ns))

    def open(self, opener: Opener) -> Recording:
        """The recording, which stays open: a worker reads many blocks of one file."""
        return cache.get(("recording", opener, self), lambda: opener(self.path, **self.options), keep=OPEN_FILES)


@dataclass(frozen=True)
class Piece:
    """What one signal of one file holds of a track. Sample i lies at ``start_s + i * period_s`` on the clock."""

    file: File
    signal: int
    columns: tuple[int, ...]
    start_s: float
    period_s: float
    n: int

    @property
    def end_s(self) -> float:
        return self.start_s + self.n * self.period_s


@dataclass(frozen=True)
class Track:
    """Channels that were sampled together."""

    channels: tuple[Channel, ...]
    rate: float
    pieces: tuple[Piece, ...]  # in the order of time

    @property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]


@dataclass(frozen=True)
class View:
    """A view: its tracks and its recipe."""

    name: str
    recipe: ViewRecipe
    tracks: tuple[Track, ...]

    @property
    def span(self) -> tuple[float, float]:
        pieces = [piece for track in self.tracks for piece in track.pieces]
        return min(piece.start_s for piece in pieces), max(piece.end_s for piece in pieces)


@dataclass(frozen=True)
class Timeline:
    """All views on one clock."""

    views: tuple[View, ...]
    start: datetime | None  # of the clock, where the files say
    marks: tuple[tuple[float, float, str], ...]  # annotations: from, to, text
    notes: tuple[str, ...] = ()  # what had to be assumed


def found(source: Sequence[str], where: str) -> list[str]:
    """Paths of files: patterns are expanded, names taken as they are."""
    paths: list[str] = []
    for name in source:
        is_pattern = glob.has_magic(name) and "://" not in name and not os.path.exists(name)
        here = sorted(glob.glob(name)) if is_pattern else [name]
        if not here:
            raise DataError(f"{where}: no file matches {name!r}.")
        paths += here
    if not paths:
        raise DataError(f"{where} names no file; give source = 'file' or a list of files.")
    twice = {path for path in paths if paths.count(path) > 1}
    if twice:
        raise DataError(f"{where} names {sorted(twice)[0]} twice; name each file once.")
    return paths


def lay_out(recipes: Mapping[str, ViewRecipe], opener: Opener) -> Timeline:
    """Read the headers of all files and put them on one clock; an error if they do not fit together."""
    notes: list[str] = []
    files = {
        name: [File.at(path, recipe.reader_options) for path in found(recipe.source, f"view {name!r}")]
        for name, recipe in recipes.items()
    }
    starts = _one_after_another(files, recipes, _starts(files, opener, notes), opener, notes)
    views = []
    for name, recipe in recipes.items():
        ordered = sorted(files[name], key=lambda file: starts[file])
        if ordered != files[name]:
            notes.append(
                f"view {name!r}: the files were put in the order of their starts: "
                f"{', '.join(Path(file.path).name for file in ordered)}."
            )
        tracks = _tracks(name, ordered, recipe, starts, opener)
        views.append(View(name, recipe, tuple(tracks)))
    zero = min(view.span[0] for view in views)
    notes += [f"{file.path}: {note}" for file in starts for note in file.open(opener).notes]
    _refuse_apart(views)
    marks = sorted(
        {
            (mark.onset_s + start - zero, mark.onset_s + mark.duration_s + start - zero, mark.text)
            for file, start in starts.items()
            for mark in file.open(opener).annotations
        }
    )
    known = next((file for file in starts if file.open(opener).start is not None), None)
    begin = None
    if known is not None:
        begin = _aware(known.open(opener).start) + timedelta(seconds=zero - starts[known])
    return Timeline(tuple(_moved(view, zero) for view in views), begin, tuple(marks), tuple(dict.fromkeys(notes)))


def _aware(start: datetime | None) -> datetime:
    """A time without a zone is taken to be UTC, as most formats write it."""
    assert start is not None
    return start.replace(tzinfo=UTC) if start.tzinfo is None else start


def _starts(files: Mapping[str, list[File]], opener: Opener, notes: list[str]) -> dict[File, float]:
    """Seconds from the start of the earliest file to that of each."""
    every = list(dict.fromkeys(file for group in files.values() for file in group))
    given = {file: file.open(opener).start for file in every}
    known = [_aware(start) for start in given.values() if start is not None]
    first = min(known) if known else None
    starts: dict[File, float] = {}
    for name, group in files.items():
        undated = [file for file in group if given[file] is None]
        if undated and len(undated) < len(group):
            raise DataError(
                f"view {name!r}: {undated[0].path} has no start time, others do; they cannot be put "
                "in order. Give files that all have a start time, or none."
            )
        end = 0.0
        for file in group:
            start = (_aware(given[file]) - first).total_seconds() if first is not None and not undated else end
            if starts.setdefault(file, start) != start:
                raise DataError(
                    f"{file.path} has no start time, and its place among the files of view "
                    f"{name!r} is another than in the view before. Give both views the same files."
                )
            end = start + file.open(opener).end_s
        if undated and (len(group) > 1 or known):
            notes.append(
                f"view {name!r}: {undated[0].path} has no start time; "
                + (
                    "the files were put one after another, as named."
                    if len(group) > 1
                    else "it is taken to begin with the earliest of the others."
                )
            )
    return starts


def _one_after_another(
    files: Mapping[str, list[File]],
    recipes: Mapping[str, ViewRecipe],
    starts: dict[File, float],
    opener: Opener,
    notes: list[str],
) -> dict[File, float]:
    """The starts, moved where a file overlaps the one before by no more than the rounding of start times.

    A file is moved once, to the end of the one before, for all views that have it.
    """
    moved = dict(starts)
    for name, group in files.items():
        for one, other in pairwise(sorted(group, key=lambda file: starts[file])):
            over = moved[one] + one.open(opener).end_s - moved[other]
            most = _most_overlap(recipes[name], one.open(opener), other.open(opener))
            if not _is_rounding(over, one.open(opener), most):
                continue
            moved[other] += over
            notes.append(
                f"view {name!r}: {other.path} begins {over:g} s before {one.path} ends, by their start times; it was "
                f"taken to follow at once (overlap_s = {most:g})."
            )
    return moved


def _most_overlap(recipe: ViewRecipe, one: Recording, other: Recording) -> float:
    """Seconds by which start times may be wrong: as given, or the rounding to whole seconds."""
    if recipe.overlap_s is not None:
        return recipe.overlap_s
    return float(all(file.start is not None and file.start.microsecond == 0 for file in (one, other)))


def _is_rounding(over: float, one: Recording, most: float) -> bool:
    """Whether files overlap by a sample or more, and by less than is allowed."""
    fastest = max((signal.rate for signal in one.signals), default=0.0)
    return fastest > 0 and 1 / fastest < over < min(most, one.end_s)


def _tracks(
    name: str, files: list[File], recipe: ViewRecipe, starts: Mapping[File, float], opener: Opener
) -> list[Track]:
    """The channels of a view in groups that were sampled together, with their pieces in the order of time."""
    holding = [file for file in files if file.open(opener).signals]  # a file may hold nothing but annotations
    known: dict[str, Channel] = {}
    for channel in (channel for file in holding for channel in file.open(opener).channels):
        known.setdefault(channel.name, channel)
    names = chosen(list(known.values()), recipe.channels, f"view {name!r}")
    where = {channel: _found_in(channel, holding, opener) for channel in names}
    for file in holding:
        lacking = [channel for channel, places in where.items() if not any(f == file for f, _, _ in places)]
        if lacking:
            others = next(f.path for f, _, _ in where[lacking[0]])
            there = there_are(file.open(opener).channels)
            raise DataError(
                f"view {name!r}: {file.path} lacks channel{'s' * (len(lacking) > 1)} "
                f"{', '.join(map(repr, lacking))}, which {others} has. {there} Choose channels that all "
                "files have, or leave this file out."
            )
    groups = grouped(where, lambda channel: tuple((file, signal) for file, signal, _ in where[channel]))
    return [_track(name, members, where, known, starts, opener) for members in groups]


def _found_in(channel: str, files: list[File], opener: Opener) -> list[tuple[File, int, int]]:
    """Where a channel is: file, number of the signal, column."""
    return [
        (file, number, signal.names.index(channel))
        for file in files
        for number, signal in enumerate(file.open(opener).signals)
        if channel in signal.names
    ]


def _track(
    view: str,
    members: list[str],
    where: Mapping[str, list[tuple[File, int, int]]],
    known: Mapping[str, Channel],
    starts: Mapping[File, float],
    opener: Opener,
) -> Track:
    pieces, rates = [], {}
    for place, (file, number, _) in enumerate(where[members[0]]):
        signal: Signal = file.open(opener).signals[number]
        rates[float(signal.rate)] = file.path
        columns = tuple(where[channel][place][2] for channel in members)
        period = (1 + signal.drift_ppm * 1e-6) / signal.rate
        pieces.append(Piece(file, number, columns, starts[file] + signal.start_s, period, signal.n))
    if len(rates) > 1:
        each = ", ".join(f"{rate:g} Hz in {path}" for rate, path in rates.items())
        raise DataError(f"view {view!r}: channel {members[0]!r} has different rates: {each}. Give files of one rate.")
    pieces = sorted((piece for piece in pieces if piece.n), key=lambda piece: piece.start_s)
    if not pieces:
        raise DataError(f"view {view!r}: channel {members[0]!r} has no samples in any file.")
    for one, other in pairwise(pieces):
        if other.start_s < one.end_s - one.period_s:
            _refuse_overlap(view, members[0], one, other)
    return Track(tuple(known[channel] for channel in members), next(iter(rates)), tuple(pieces))


def _refuse_overlap(view: str, channel: str, one: Piece, other: Piece) -> None:
    if one.file == other.file:
        raise DataError(
            f"view {view!r}: channel {channel!r} is twice in {one.file.path}, at the same time. Choose "
            "channels whose names are unique."
        )
    raise DataError(
        f"view {view!r}: {other.file.path} begins {one.end_s - other.start_s:g} s before "
        f"{one.file.path} ends; files of one recording must follow each other. Leave one of them out, "
        "correct their start times, or raise overlap_s if these are less exact."
    )


def _refuse_apart(views: Sequence[View]) -> None:
    latest = max(views, key=lambda view: view.span[0])
    earliest = min(views, key=lambda view: view.span[1])
    if latest.span[0] >= earliest.span[1]:
        raise DataError(
            f"view {earliest.name!r} ends {latest.span[0] - earliest.span[1]:g} s before view "
            f"{latest.name!r} begins; views must be of the same time. Do the start times in the files "
            "agree?"
        )


def _moved(view: View, zero: float) -> View:
    tracks = tuple(
        replace(track, pieces=tuple(replace(piece, start_s=piece.start_s - zero) for piece in track.pieces))
        for track in view.tracks
    )
    return replace(view, tracks=tracks)


def chosen(channels: Sequence[Channel], wanted: Sequence[str], where: str) -> list[str]:
    """Names of the channels that are selected, each once, in the order of the selection.

    ``wanted`` are names, patterns such as ``EEG *``, or types such as ``type:ecg`` (patterns too: ``type:e[ce]g``). One
    without a match is an error that lists the channels. ``where`` names their owner in errors.
    """
    names: list[str] = []
    if not wanted:
        raise SettingsError(f"{where} chooses no channels (channels = []). {there_are(channels)}")
    for pattern in wanted:
        found = _matching(channels, pattern)
        if not found:
            near = suggest(pattern, [channel.name for channel in channels])
            near = f"{near} " if near.startswith("did you mean") else ""
            raise SettingsError(f"{where} has no channel {pattern!r}; {near}{there_are(channels)}")
        names += found
    return list(dict.fromkeys(names))


def _matching(channels: Sequence[Channel], pattern: str) -> list[str]:
    if any(channel.name == pattern for channel in channels):  # a name may look like a pattern: "EEG [A1]"
        return [pattern]
    if pattern.startswith("type:"):
        kind = pattern.removeprefix("type:").strip().lower()
        return [channel.name for channel in channels if fnmatchcase(channel.kind.lower(), kind)]
    return [channel.name for channel in channels if fnmatchcase(channel.name, pattern)]


def there_are(channels: Sequence[Channel]) -> str:
    """A sentence that lists the channels."""
    each = list(dict.fromkeys(f"{c.name!r}{f' ({c.kind})' if c.kind else ''}" for c in channels))
    more = f" and {len(each) - MOST_LISTED} more" if len(each) > MOST_LISTED else ""
    return f"There are {', '.join(each[:MOST_LISTED])}{more}." if each else "There are no channels at all."
