"""Every file of a store held against what was written: results, blocks, what Zarr and the stages say of them, the log.

What is read is checked where it is read. Here also that is found which reading would overlook, or never look at: a file
that is gone, a number that nobody has asked for yet, a zarr.json that says the same in other words.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlcca.engine import given_rows
from dlcca.errors import DamagedBlock, StoreFileError
from dlcca.fitting import pipeline
from dlcca.recordings import ingest, input_integrity
from dlcca.storage import comparison, event_log, lock, transformed, views
from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at
from dlcca.storage.formats import Format, open_sealed
from dlcca.storage.manifest import ATTEMPT, ZARR_JSON, current_attempt, group_attributes, group_json, known_stage

#: Parts of a store that are stores of their own.
INNER = ("recordings", "model", comparison.GROUP)
#: What may be there besides zarr.json: a file that fits none is not ours. Those that begin with a dot, or end in
#: .partial, are what a kill has left of a file that was being written.
OURS = re.compile(
    r"(.*/)?(c/[\d/]+|c|stage\.json|stages/[^/]+/inputs\.json|done/\d{5,}\.json|zarr\.json|\.[^/]*|[^/]*\.partial)"
    rf"|{ATTEMPT}|{lock.FOLDER}/\d{{5,}}\.json|{given_rows.FOLDER}/[0-9a-f]{{64}}\.npy|{event_log.FILE}|{event_log.REPORT}"
)


@dataclass
class Findings:
    """What a look at a store has found."""

    entries: dict[str, str | None] = field(default_factory=dict)  # by part, what is wrong with it; None if nothing is
    strangers: list[str] = field(default_factory=list)  # files that are not ours, which do no harm
    finished: bool = False

    @property
    def damages(self) -> dict[str, str]:
        return {name: problem for name, problem in self.entries.items() if problem is not None}


def look(address: str) -> Findings:
    """Look at every file of a store; an error if there is none."""
    names = files_at(address).all_names()
    if not any(_fits(name) for name in names):
        raise StoreFileError(f"there is no run at {address}.")
    found = Findings(strangers=[name for name in names if not _fits(name)])
    kind = _kind(address, names, found)
    found.finished = kind is not None
    known: dict[str, str | None] = {}
    header = _header(address, kind, found, known)
    chunks = _Chunks(address, names)
    _look_at_chunks(chunks, header.get("metadata", {}), found)
    _look_at_stages(address, kind, header, found, known, chunks)
    _look_at_groups(address, names, found, known)
    for inner in ("model", comparison.GROUP):
        _look_at_inner(address, inner, names, found)
    found.entries |= event_log.damages(address, expected=bool(header.get("log")))
    _look_at_the_rest(address, names, found)
    if any(name.startswith("recordings/") for name in names):
        below = look(f"{address.rstrip('/')}/recordings")
        found.entries |= {f"recordings: {name}": problem for name, problem in below.entries.items()}
    return found


class _Chunks:
    """The chunks of the arrays of a store. All were written, those of zeros too, so that none may be missing."""

    def __init__(self, address: str, names: list[str]) -> None:
        self.address, self._names = address, set(names)
        self._grids: dict[str, tuple[list[int], list[int]]] = {}

    def missing(self, array: str, first: int = 0, rows: int | None = None) -> dict[str, str]:
        """What is wrong with some rows of an array, by chunk; an array whose zarr.json is damaged is passed over."""
        try:
            shape, chunk = self._grid(array)
        except (ValueError, KeyError, TypeError):
            return {}
        rows = (shape[0] if shape else 1) if rows is None else rows
        if not rows or 0 in shape:
            return {}
        counts = [range(-(-n // c)) for n, c in zip(shape, chunk, strict=True)]
        if shape:
            counts[0] = range(first // chunk[0], -(-(first + rows) // chunk[0]))
        places = ("/".join((array, "c", *map(str, at))) for at in itertools.product(*counts))
        return {place: f"{place} of {self.address} is missing" for place in places if place not in self._names}

    def _grid(self, array: str) -> tuple[list[int], list[int]]:
        """Shape, and shape of a chunk."""
        if array not in self._grids:
            node = json.loads(files_at(self.address).get(f"{array}/{ZARR_JSON}") or b"")
            self._grids[array] = node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"]
        return self._grids[array]


def _fits(name: str) -> bool:
    return OURS.fullmatch(name) is not None


@dataclass(frozen=True)
class _Kind:
    """A kind of finished store: how its results are checked, and by which stages it was made."""

    form: Format
    damages: Callable[[str], Mapping[str, str | None]]
    stages: Callable[[Mapping[str, Any]], list[str]]


_KINDS = {
    kind.form.name: kind
    for kind in (
        _Kind(run_store.FORM, run_store.damages, lambda header: header.get("stages", [])),
        _Kind(transformed.FORM, transformed.damages, lambda header: header.get("stages", ["transform"])),
        _Kind(views.FORM, lambda address: {}, ingest.needed),
        _Kind(model_store.FORM, model_store.damages, lambda header: []),
    )
}


def _kind(address: str, names: list[str], found: Findings) -> _Kind | None:
    """What a store is by its header; None if it is not finished, or damaged, which is then noted."""
    raw = files_at(address).get(ZARR_JSON)
    if raw is None:
        if any(name.endswith(f"/{ZARR_JSON}") for name in names if not name.startswith(("recordings/", "log/"))):
            found.entries["header"] = f"{ZARR_JSON} of {address} is missing. Restore it, or run again"
        return None
    try:
        attributes = group_attributes(raw)
        if attributes:
            return _KINDS[attributes["format"]]
    except (ValueError, KeyError, TypeError):
        found.entries["header"] = f"{address} is no store of dlcca, or its header is damaged: restore it, or run again"
    return None


def _header(address: str, kind: _Kind | None, found: Findings, known: dict[str, str | None]) -> dict[str, Any]:
    """The header of a finished store, after a look at its results; empty if there is none that can be read."""
    if kind is None:
        return {}
    try:
        header = open_sealed(address, kind.form)[1]
        found.entries |= kind.damages(address)
    except StoreFileError as error:
        found.entries["header"] = str(error)
        return {}
    known |= dict.fromkeys(header.get("manifest", {})) | header["metadata"]
    return header


def _look_at_stages(
    address: str,
    kind: _Kind | None,
    header: Mapping[str, Any],
    found: Findings,
    known: dict[str, str | None],
    chunks: _Chunks,
) -> None:
    """Every stage that was begun; of a finished store, all its stages must be there and whole."""
    is_views = files_at(address).get("stages/drafts/stage.json") is not None or (
        kind is not None and kind.form is views.FORM
    )
    expected = kind.stages(header) if kind is not None and header else []
    for name in (*pipeline.on_disk(), *(ingest.ON_DISK if is_views else ()), "transform"):
        try:
            content = known_stage(address, name)
        except DamagedBlock as error:
            found.entries[f"stage {name}"] = str(error)
            continue
        if content is None:
            if name in expected:
                found.entries[f"stage {name}"] = f"stage.json of stage {name!r} in {address} is missing"
            continue
        stage = Blocks(address, name, content["fingerprint"], content["n_blocks"])
        gone = ingest.gone(kind is not None)
        problems = stage.check(whole=kind is not None, gone=gone)
        problems = problems or list(_missing_chunks(stage, chunks, gone).values())
        problems += input_integrity.damages(stage, whole=kind is not None)
        found.entries |= {f"stage {name}, {i}": problem for i, problem in enumerate(problems)}
        if not problems:
            found.entries[f"stage {name}"] = None
        known |= {stage.path(array): made for array, made in content["arrays"].items()}


def _missing_chunks(stage: Blocks, chunks: _Chunks, gone: Callable[[str], bool]) -> dict[str, str]:
    """The chunks that finished blocks have written and that are not there: Zarr reads them as zeros."""
    unfinished, missing = set(stage.missing()), dict[str, str]()
    for block in (block for block in range(stage.n_blocks) if block not in unfinished):
        for array, part in stage.parts(block).items():
            if not gone(array):
                missing |= chunks.missing(stage.path(array), part["first"], part["rows"])
    return missing


def _look_at_chunks(chunks: _Chunks, arrays: Iterable[str], found: Findings) -> None:
    """All chunks of arrays with which nothing else is wrong."""
    for array in arrays:
        missing = chunks.missing(array) if found.entries.get(array) is None else {}
        if missing:
            found.entries[array] = next(iter(missing.values()))


def _look_at_groups(address: str, names: list[str], found: Findings, known: Mapping[str, str | None]) -> None:
    """Groups between the root and the arrays say nothing but that they are groups; and none of them is missing."""
    files, there = files_at(address), set(names)
    for name in names:
        place = name.removesuffix(f"/{ZARR_JSON}")
        if place == name or place in known or place.split("/")[0] in INNER:
            continue
        if not _is_plain(files.get(name) or b""):
            found.entries[name] = f"{name} of {address} is damaged"
    for parent in {parent for array in known for parent in _parents(array)}:
        if f"{parent}/{ZARR_JSON}" not in there:
            found.entries[f"{parent}/{ZARR_JSON}"] = f"{parent}/{ZARR_JSON} of {address} is missing"


def _look_at_inner(address: str, inner: str, names: list[str], found: Findings) -> None:
    """The groups of a model or a comparison within a run; its arrays are looked at with the run."""
    place, form = f"{address.rstrip('/')}/{inner}", model_store.FORM if inner == "model" else comparison.FORM
    within = [name.removeprefix(f"{inner}/") for name in names if name.startswith(f"{inner}/")]
    raw = files_at(place).get(ZARR_JSON)
    if not within or raw == group_json({}):  # not there, or not finished
        return
    try:
        known = open_sealed(place, form)[1].get("metadata", {})
    except StoreFileError as error:
        found.entries[inner] = str(error)
        return
    below, chunks = Findings(), _Chunks(place, within)
    _look_at_groups(place, within, below, known)
    if found.entries.get(inner) is None:
        _look_at_chunks(chunks, known, below)
    found.entries |= {f"{inner}/{name}": problem for name, problem in below.entries.items()}


def _is_plain(raw: bytes) -> bool:
    """Whether it is a group without attributes; or an array that no header or stage has a checksum of."""
    if raw == group_json({}):
        return True
    try:
        return json.loads(raw)["node_type"] == "array"
    except (ValueError, KeyError, TypeError):
        return False


def _parents(array: str) -> list[str]:
    parts = array.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]


def _look_at_the_rest(address: str, names: list[str], found: Findings) -> None:
    """Rows that the user gave, locks that were left, and the attempt of a run that was begun again."""
    try:
        current_attempt(address, "scan")
    except DamagedBlock as error:
        found.entries[ATTEMPT] = str(error)
    for name in names:
        if name.startswith(f"{given_rows.FOLDER}/") and not _is_given(files_at(address).get(name) or b"", name):
            found.entries[name] = f"{name} of {address} is damaged"
    for number in lock.numbers(address):
        if lock.read_owner(address, number).process is None:
            name = lock.name_of(number)
            found.entries[name] = f"the lock {name} of {address} is damaged; if nobody uses the store, remove it"


def _is_given(content: bytes, name: str) -> bool:
    """Whether a file holds the rows that it is named for, byte for byte."""
    try:
        X = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return False
    again = io.BytesIO()
    np.save(again, X, allow_pickle=False)
    return again.getvalue() == content and given_rows.digest(X) == name.rpartition("/")[2].removesuffix(".npy")
