"""Files on one clock: which channels of which files belong to a view, and when each of their samples was taken.

Only headers are read. The clock begins at the earliest sample of any view. A view is made of tracks (channels that were
sampled together), a track of pieces: what one signal of one file holds of it. Between two pieces there is a break,
however short.
"""

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.metadata import grouped, in_utc
from dlcca.recordings.formats.recording import Channel, Recording
from dlcca.recordings.formats.registry import open_recording
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
    """A file: its path, its reader with options, and its size and time, which show whether it has changed."""

    path: str
    options: dict[str, Any] = field(default_factory=dict)
    stamp: tuple[int, int] = (0, 0)  # bytes, and when it was last written
    opener: Opener = open_recording

    def __hash__(self) -> int:
        return hash((self.path, self.stamp))  # options may be lists and tables

    @classmethod
    def at(cls, path: str, options: Mapping[str, Any], opener: Opener | None = None) -> Self:
        stamp = 0, 0
        with suppress(OSError):  # the reader reports it, or reads from elsewhere
            stamp = (about := os.stat(path)).st_size, about.st_mtime_ns
        return cls(path, dict(options), stamp, opener or open_recording)

    @property
    def recording(self) -> Recording:
        """The recording, which stays open: a worker reads many blocks of one file."""
        return cache.get(("recording", self), lambda: self.opener(self.path, **self.options), keep=OPEN_FILES)


#: Those of each view; and where a channel is: file, number of the signal, column.
Files = Mapping[str, list[File]]
Place = tuple[File, int, int]


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


class Timeline:
    """All views on one clock, by the headers of all files; an error if they do not fit together."""

    def __init__(self, recipes: Mapping[str, ViewRecipe], opener: Opener | None = None) -> None:
        notes: list[str] = []
        files = {
            name: [File.at(path, recipe.reader_options, opener) for path in found(recipe.source, f"view {name!r}")]
            for name, recipe in recipes.items()
        }
        given = {file: file.recording.start for group in files.values() for file in group}
        dated = {file: in_utc(start) for file, start in given.items() if start}
        starts = _one_after_another(files, recipes, _starts(files, dated, notes), notes)
        views = []
        for name, recipe in recipes.items():
            ordered = sorted(files[name], key=starts.__getitem__)
            if ordered != files[name]:
                order = ", ".join(Path(file.path).name for file in ordered)
                notes.append(f"view {name!r}: the files were put in the order of their starts: {order}.")
            views.append(View(name, recipe, tuple(_tracks(name, ordered, recipe, starts))))
        latest, earliest = max(views, key=lambda view: view.span[0]), min(views, key=lambda view: view.span[1])
        if latest.span[0] >= earliest.span[1]:
            raise DataError(
                f"view {earliest.name!r} ends {latest.span[0] - earliest.span[1]:g} s before view {latest.name!r} "
                "begins; views must be of the same time. Do the start times in the files agree?"
            )
        zero = min(view.span[0] for view in views)
        self.views = [replace(view, tracks=tuple(_moved(track, -zero) for track in view.tracks)) for view in views]
        # When the clock begins, where the files say it; annotations: from, to, text; what had to be assumed.
        self.start = next((when + timedelta(seconds=zero - starts[file]) for file, when in dated.items()), None)
        self.marks = sorted(
            {
                (mark.onset_s + start - zero, mark.onset_s + mark.duration_s + start - zero, mark.text)
                for file, start in starts.items()
                for mark in file.recording.annotations
            }
        )
        notes += [f"{file.path}: {note}" for file in starts for note in file.recording.notes]
        self.notes = list(dict.fromkeys(notes))


def _moved(track: Track, by_s: float) -> Track:
    return replace(track, pieces=tuple(replace(piece, start_s=piece.start_s + by_s) for piece in track.pieces))


def _starts(files: Files, dated: Mapping[File, datetime], notes: list[str]) -> dict[File, float]:
    """Seconds from the start of the earliest file to that of each."""
    first = min(dated.values(), default=datetime.min)
    starts: dict[File, float] = {}
    for name, group in files.items():
        undated = [file for file in group if file not in dated]
        if undated and len(undated) < len(group):
            raise DataError(
                f"view {name!r}: {undated[0].path} has no start time, others do; they cannot be put in order. Give "
                "files that all have a start time, or none."
            )
        end = 0.0
        for file in group:
            start = (dated[file] - first).total_seconds() if file in dated else end
            if starts.setdefault(file, start) != start:
                raise DataError(
                    f"{file.path} has no start time, and its place among the files of view {name!r} is another than in "
                    "the view before. Give both views the same files."
                )
            end = start + file.recording.end_s
        if undated and (len(group) > 1 or dated):
            alone = "it is taken to begin with the earliest of the others"
            place = "the files were put one after another, as named" if len(group) > 1 else alone
            notes.append(f"view {name!r}: {undated[0].path} has no start time; {place}.")
    return starts


def _one_after_another(
    files: Files, recipes: Mapping[str, ViewRecipe], starts: dict[File, float], notes: list[str]
) -> dict[File, float]:
    """The starts, for all views; a file that overlaps the one before by no more than rounding is moved to its end."""
    moved = dict(starts)
    for name, group in files.items():
        for one, other in pairwise(sorted(group, key=starts.__getitem__)):
            before, most = one.recording, recipes[name].overlap_s
            if most is None:  # start times may be rounded to whole seconds
                both = before.start, other.recording.start
                most = float(all(start is not None and start.microsecond == 0 for start in both))
            over = moved[one] + before.end_s - moved[other]
            fastest = max((signal.rate for signal in before.signals), default=0.0)
            if fastest > 0 and 1 / fastest < over < min(most, before.end_s):  # by a sample or more
                moved[other] += over
                notes.append(
                    f"view {name!r}: {other.path} begins {over:g} s before {one.path} ends, by their start times; it "
                    f"was taken to follow at once (overlap_s = {most:g})."
                )
    return moved


def _tracks(name: str, files: list[File], recipe: ViewRecipe, starts: Mapping[File, float]) -> list[Track]:
    """The channels of a view in groups that were sampled together, with their pieces in the order of time."""
    holding = [file for file in files if file.recording.signals]  # a file may hold nothing but annotations
    known: dict[str, Channel] = {}
    places: dict[str, list[Place]] = {}
    for file in holding:
        for number, signal in enumerate(file.recording.signals):
            for column, channel in enumerate(signal.channels):
                known.setdefault(channel.name, channel)
                held = places.setdefault(channel.name, [])
                if not held or held[-1][:2] != (file, number):  # a name that is twice in a signal means the first
                    held.append((file, number, column))
    where = {channel: places[channel] for channel in chosen(list(known.values()), recipe.channels, f"view {name!r}")}
    for file in holding:
        lacking = [channel for channel, held in where.items() if not any(f == file for f, _, _ in held)]
        if lacking:
            raise DataError(
                f"view {name!r}: {file.path} lacks channel{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking))}, "
                f"which {where[lacking[0]][0][0].path} has. {there_are(file.recording.channels)} Choose channels "
                "that all files have, or leave this file out."
            )
    groups = grouped(where, lambda channel: tuple(place[:2] for place in where[channel]))
    return [_track(name, [known[c] for c in group], [where[c] for c in group], starts) for group in groups]


def _track(view: str, channels: list[Channel], where: list[list[Place]], starts: Mapping[File, float]) -> Track:
    """Channels that are together in every file; ``where`` are the places of each."""
    pieces, rates = [], {}
    for places in zip(*where, strict=True):
        file, number, _ = places[0]
        signal = file.recording.signals[number]
        rates[float(signal.rate)] = file.path
        period = (1 + signal.drift_ppm * 1e-6) / signal.rate
        columns = tuple(column for _, _, column in places)
        pieces.append(Piece(file, number, columns, starts[file] + signal.start_s, period, signal.n))
    what = f"view {view!r}: channel {channels[0].name!r}"
    if len(rates) > 1:
        each = ", ".join(f"{rate:g} Hz in {path}" for rate, path in rates.items())
        raise DataError(f"{what} has different rates: {each}. Give files of one rate.")
    pieces = sorted((piece for piece in pieces if piece.n), key=lambda piece: piece.start_s)
    if not pieces:
        raise DataError(f"{what} has no samples in any file.")
    for one, other in pairwise(pieces):
        if other.start_s >= one.end_s - one.period_s:
            continue
        if one.file == other.file:
            raise DataError(
                f"{what} is twice in {one.file.path}, at the same time. Choose channels whose names are unique."
            )
        raise DataError(
            f"view {view!r}: {other.file.path} begins {one.end_s - other.start_s:g} s before {one.file.path} ends; "
            "files of one recording must follow each other. Leave one of them out, correct their start times, or raise "
            "overlap_s if these are less exact."
        )
    return Track(tuple(channels), next(iter(rates)), tuple(pieces))


def chosen(channels: Sequence[Channel], wanted: Sequence[str], where: str) -> list[str]:
    """Names of the channels that are selected, each once, in the order of the selection.

    ``wanted`` are names, patterns such as ``EEG *``, or types such as ``type:ecg`` (patterns too: ``type:e[ce]g``). One
    without a match is an error that lists the channels. ``where`` names their owner in errors.
    """
    names: list[str] = []
    if not wanted:
        raise SettingsError(f"{where} chooses no channels (channels = []). {there_are(channels)}")
    for pattern in wanted:
        if any(channel.name == pattern for channel in channels):  # a name may look like a pattern: "EEG [A1]"
            found = [pattern]
        elif pattern.startswith("type:"):
            kind = pattern.removeprefix("type:").strip().lower()
            found = [channel.name for channel in channels if fnmatchcase(channel.kind.lower(), kind)]
        else:
            found = [channel.name for channel in channels if fnmatchcase(channel.name, pattern)]
        if not found:
            near = suggest(pattern, [channel.name for channel in channels])
            near = f"{near} " if near.startswith("did you mean") else ""
            raise SettingsError(f"{where} has no channel {pattern!r}; {near}{there_are(channels)}")
        names += found
    return list(dict.fromkeys(names))


def there_are(channels: Sequence[Channel]) -> str:
    """A sentence that lists the channels."""
    each = list(dict.fromkeys(f"{c.name!r}{f' ({c.kind})' if c.kind else ''}" for c in channels))
    more = f" and {len(each) - MOST_LISTED} more" if len(each) > MOST_LISTED else ""
    return f"There are {', '.join(each[:MOST_LISTED])}{more}." if each else "There are no channels at all."
