"""The files that a source holds, by looking at names and stamps alone: none of them is opened."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines.sections import SourceSection
from dlcca.pipelines.stats import Stat, stat_of


@dataclass(frozen=True)
class Seen:
    """A recording as it lies there: its main file, those that go with it, and what tells that it has not changed.

    Paths are as [sources] files has them: relative to the folder of pipeline.toml where the pattern is.
    """

    path: str  # of the main file
    parts: tuple[str, ...]  # all files, the main one first; sidecars last
    n_read: int  # how many of them are opened; the rest are sidecars
    size: int
    stamp: str
    changed: float | None  # seconds since 1970: the last change of any of them; None where storage does not tell
    missing: str = ""  # a companion that is not there (yet)

    @property
    def read(self) -> tuple[str, ...]:
        """The files that a reader is given."""
        return self.parts[: self.n_read]


def seen(sources: SourceSection, folder: Path, known_before: bool) -> Iterator[Seen]:
    """Everything that the patterns match, in the order of names.

    ``known_before`` says whether the sources have ever held a file: if not, a folder that is missing is a slip of the
    settings; if so, it is a disk that is not there.
    """
    taken: set[str] = set()
    for pattern in sources.files:
        for path, found in _listed(pattern, folder, known_before):
            if path not in taken:
                taken.add(path)
                yield _with_companions(path, found, pattern, sources, folder)


def _as_named(path: str, pattern: str, folder: Path) -> str:
    """A path that a pattern has led to, relative to the folder if the pattern is."""
    return path if os.path.isabs(pattern) else path.removeprefix(os.path.join(str(folder), ""))


def _listed(pattern: str, folder: Path, known_before: bool) -> Iterator[tuple[str, Stat]]:
    if "://" not in pattern:
        found = _local(str(folder / pattern), known_before)
        return ((_as_named(path, pattern, folder), stat) for path, stat in found)
    from dlcca.pipelines import objects

    return objects.listed(pattern, known_before)


def _stat_of(path: str, folder: Path) -> Stat | None:
    if "://" not in path:
        return stat_of(os.path.join(folder, path))
    from dlcca.pipelines import objects

    return objects.stat_of(path)


def _local(pattern: str, known_before: bool) -> Iterator[tuple[str, Stat]]:
    root = Path(pattern)
    while glob.has_magic(str(root)):
        root = root.parent
    _refuse_absent(root, pattern, known_before)
    for path in sorted(glob.iglob(pattern, recursive=True)):
        found = stat_of(path)
        if found is not None:
            yield path, found


def closed_folders(sources: SourceSection, folder: Path) -> dict[str, str]:
    """Folders below the sources that may not be looked into, each with the reason: their files are not seen."""
    closed: dict[str, str] = {}
    for pattern in sources.files:
        found: dict[str, str] = {}

        def note(error: OSError, found: dict[str, str] = found) -> None:
            found[str(error.filename)] = error.strerror or str(error)

        where = str(folder / pattern).rpartition("/")[0]
        if "://" in pattern or not glob.has_magic(where):
            continue  # one folder alone, which was looked into, or object storage, which has none
        root = Path(where)
        while glob.has_magic(str(root)):
            root = root.parent
        for inner, folders, _names in os.walk(root, onerror=note):
            folders[:] = [name for name in folders if not name.startswith(".")]  # no pattern matches these
            try:
                os.stat(f"{inner}/.")
            except OSError as error:
                found[inner] = error.strerror or str(error)
        closed |= {_as_named(path, pattern, folder): why for path, why in found.items()}
    return closed


def _refuse_absent(root: Path, pattern: str, known_before: bool) -> None:
    try:
        if root.is_dir():
            os.scandir(root).close()
            os.stat(f"{root}/.")  # names that can be listed are not yet files that can be reached
            return
        if root.exists():
            return
    except OSError as error:
        raise StorageError(f"the source {root} cannot be read: {error.strerror or error}.") from error
    if known_before:
        raise StorageError(f"the source {root} is not there, though it was: is its disk mounted? Nothing was changed.")
    raise SettingsError(f"[sources] files = {pattern!r}: there is no folder {root}. Mend the path, or make the folder.")


def _with_companions(path: str, main: Stat, pattern: str, sources: SourceSection, folder: Path) -> Seen:
    parts, stats, missing = [path], [main], ""
    for form in (*sources.companions, *sources.sidecars):
        parts.append(_beside(path, pattern, form))
        found = _stat_of(parts[-1], folder)
        if found is None:
            missing = missing or parts[-1]
        else:
            stats.append(found)
    times = [found.changed for found in stats if found.changed is not None]
    return Seen(
        path=path,
        parts=tuple(parts),
        n_read=1 + len(sources.companions),
        size=sum(found.size for found in stats),
        stamp=" ".join(found.stamp for found in stats),
        changed=max(times) if times else None,
        missing=missing,
    )


def _beside(path: str, pattern: str, form: str) -> str:
    """The companion of a file: what the * is in its name, put in the place of the other's."""
    before, _, after = pattern.rsplit("/", 1)[-1].partition("*")
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{form.replace('*', name[len(before) : len(name) - len(after)])}"


def is_complete(found: Seen, sources: SourceSection, folder: Path, now: datetime, unchanged: bool) -> str:
    """Why a recording is not complete yet; "" if it is. ``unchanged`` says that an earlier look saw the same."""
    if found.missing:
        return f"{os.path.basename(found.missing)}, which goes with it, is not there yet"
    if found.size == 0:
        return "it is empty"
    if sources.complete == "marker":
        marker = _marker(found.path, sources.marker)
        there = _stat_of(marker, folder) is not None
        return "" if there else f"its marker {os.path.basename(marker)} is not there yet"
    if found.changed is None:
        return "" if unchanged else "it was seen for the first time"
    age = now.timestamp() - found.changed
    if age >= sources.settle_s or (age < 0 and unchanged):  # from the future: the clock was set back
        return ""
    told = f"{max(age, 0):.0f} s ago" if age >= 0 else "after the time of this machine's clock"
    return f"it changed {told}, and settle_s = {sources.settle_s:g}"


def _marker(path: str, form: str) -> str:
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{form.replace('*', name)}"


def names_of(paths: Iterable[str], most: int = 3) -> str:
    """Some names, for people."""
    names = [os.path.basename(path) for path in paths]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
