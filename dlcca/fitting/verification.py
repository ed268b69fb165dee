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
from pathlib import PurePosixPath
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
    names = sorted(files_at(address).signatures())
    strangers = [name for name in names if OURS.fullmatch(name) is None]
    if len(strangers) == len(names):
        raise StoreFileError(f"there is no run at {address}.")
    found = _Look(address, names, Findings(strangers=strangers)).whole()
    if any(name.startswith("recordings/") for name in names):
        below = look(f"{address.rstrip('/')}/recordings")
        found.entries |= {f"recordings: {name}": problem for name, problem in below.entries.items()}
    return found


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


class _Look:
    """A look at one store, or at a group in it that is a store of its own: its files, and what was found so far."""

    def __init__(self, address: str, names: list[str], found: Findings) -> None:
        self.address, self.names, self.files, self.found = address, names, files_at(address), found
        self.known: dict[str, str | None] = {}  # arrays that a header or a stage knows, with their checksums
        self._there = set(names)
        self._grids: dict[str, tuple[list[int], list[int]]] = {}

    def whole(self) -> Findings:
        kind = self._kind()
        self.found.finished = kind is not None
        header = self._header(kind) if kind is not None else {}
        self._look_at_chunks(header.get("metadata", {}))
        self._look_at_stages(kind, header)
        self._look_at_groups()
        for inner in ("model", comparison.GROUP):
            self._look_at_inner(inner)
        self.found.entries |= event_log.damages(self.address, expected=bool(header.get("log")))
        self._look_at_the_rest()
        return self.found

    def missing(self, array: str, first: int = 0, rows: int | None = None) -> dict[str, str]:
        """What is wrong with some rows of an array, by chunk; an array whose zarr.json is damaged is passed over.

        All chunks were written, those of zeros too, so that none may be missing.
        """
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
        return {place: f"{place} of {self.address} is missing" for place in places if place not in self._there}

    def _grid(self, array: str) -> tuple[list[int], list[int]]:
        """Shape, and shape of a chunk."""
        if array not in self._grids:
            node = json.loads(self.files.get(f"{array}/{ZARR_JSON}") or b"")
            self._grids[array] = node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"]
        return self._grids[array]

    def _kind(self) -> _Kind | None:
        """What the store is by its header; None if it is not finished, or damaged, which is then noted."""
        raw, entries = self.files.get(ZARR_JSON), self.found.entries
        if raw is None:
            if any(n.endswith(f"/{ZARR_JSON}") for n in self.names if not n.startswith(("recordings/", "log/"))):
                entries["header"] = f"{ZARR_JSON} of {self.address} is missing. Restore it, or run again"
            return None
        try:
            attributes = group_attributes(raw)
            return _KINDS[attributes["format"]] if attributes else None
        except (ValueError, KeyError, TypeError):
            entries["header"] = (
                f"{self.address} is no store of dlcca, or its header is damaged: restore it, or run again"
            )
            return None

    def _header(self, kind: _Kind) -> dict[str, Any]:
        """The header of a finished store, after a look at its results; empty if it cannot be read."""
        try:
            header = open_sealed(self.address, kind.form)[1]
            self.found.entries |= kind.damages(self.address)
        except StoreFileError as error:
            self.found.entries["header"] = str(error)
            return {}
        self.known |= dict.fromkeys(header.get("manifest", {})) | header["metadata"]
        return header

    def _look_at_stages(self, kind: _Kind | None, header: Mapping[str, Any]) -> None:
        """Every stage that was begun; of a finished store, all its stages must be there and whole."""
        is_views = self.files.get("stages/drafts/stage.json") is not None or (kind and kind.form is views.FORM)
        expected, whole = kind.stages(header) if kind and header else [], kind is not None
        gone, entries = ingest.gone(whole), self.found.entries
        for name in (*pipeline.on_disk(), *(ingest.ON_DISK if is_views else ()), "transform"):
            try:
                content = known_stage(self.address, name)
            except DamagedBlock as error:
                entries[f"stage {name}"] = str(error)
                continue
            if content is None:
                if name in expected:
                    entries[f"stage {name}"] = f"stage.json of stage {name!r} in {self.address} is missing"
                continue
            stage = Blocks(self.address, name, content["fingerprint"], content["n_blocks"])
            problems = stage.check(whole=whole, gone=gone) or list(self._missing_chunks(stage, gone).values())
            problems += input_integrity.damages(stage, whole=whole)
            entries |= {f"stage {name}, {i}": problem for i, problem in enumerate(problems)}
            if not problems:
                entries[f"stage {name}"] = None
            self.known |= {stage.path(array): made for array, made in content["arrays"].items()}

    def _missing_chunks(self, stage: Blocks, gone: Callable[[str], bool]) -> dict[str, str]:
        """The chunks that finished blocks have written and that are not there: Zarr reads them as zeros."""
        missing = dict[str, str]()
        for block in sorted(set(range(stage.n_blocks)).difference(stage.missing())):
            for array, part in stage.parts(block).items():
                if not gone(array):
                    missing |= self.missing(stage.path(array), part["first"], part["rows"])
        return missing

    def _look_at_chunks(self, arrays: Iterable[str]) -> None:
        """All chunks of arrays with which nothing else is wrong."""
        for array in arrays:
            missing = self.missing(array) if self.found.entries.get(array) is None else {}
            if missing:
                self.found.entries[array] = next(iter(missing.values()))

    def _look_at_groups(self) -> None:
        """Groups between the root and the arrays say nothing but that they are groups; and none of them is missing."""
        for name in self.names:
            place = name.removesuffix(f"/{ZARR_JSON}")
            if place == name or place in self.known or place.split("/")[0] in INNER:
                continue
            if not _is_plain(self.files.get(name) or b""):
                self.found.entries[name] = f"{name} of {self.address} is damaged"
        for parent in {str(parent) for array in self.known for parent in PurePosixPath(array).parents} - {"."}:
            if f"{parent}/{ZARR_JSON}" not in self._there:
                self.found.entries[f"{parent}/{ZARR_JSON}"] = f"{parent}/{ZARR_JSON} of {self.address} is missing"

    def _look_at_inner(self, inner: str) -> None:
        """The groups of a model or a comparison within a run; its arrays are looked at with the run."""
        place, form = f"{self.address.rstrip('/')}/{inner}", model_store.FORM if inner == "model" else comparison.FORM
        within = [name.removeprefix(f"{inner}/") for name in self.names if name.startswith(f"{inner}/")]
        if not within or files_at(place).get(ZARR_JSON) == group_json({}):  # not there, or not finished
            return
        below = _Look(place, within, Findings())
        try:
            below.known = open_sealed(place, form)[1].get("metadata", {})
        except StoreFileError as error:
            self.found.entries[inner] = str(error)
            return
        below._look_at_groups()
        if self.found.entries.get(inner) is None:
            below._look_at_chunks(below.known)
        self.found.entries |= {f"{inner}/{name}": problem for name, problem in below.found.entries.items()}

    def _look_at_the_rest(self) -> None:
        """Rows that the user gave, locks that were left, and the attempt of a run that was begun again."""
        entries = self.found.entries
        try:
            current_attempt(self.address, "scan")
        except DamagedBlock as error:
            entries[ATTEMPT] = str(error)
        for name in self.names:
            if name.startswith(f"{given_rows.FOLDER}/") and not _is_given(self.files.get(name) or b"", name):
                entries[name] = f"{name} of {self.address} is damaged"
        for number in lock.numbers(self.address):
            if lock.read_owner(self.address, number).process is None:
                name = lock.name_of(number)
                entries[name] = f"the lock {name} of {self.address} is damaged; if nobody uses the store, remove it"


def _is_plain(raw: bytes) -> bool:
    """Whether it is a group without attributes; or an array that no header or stage has a checksum of."""
    if raw == group_json({}):
        return True
    try:
        return json.loads(raw)["node_type"] == "array"
    except (ValueError, KeyError, TypeError):
        return False


def _is_given(content: bytes, name: str) -> bool:
    """Whether a file holds the rows that it is named for, byte for byte."""
    try:
        X = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return False
    again = io.BytesIO()
    np.save(again, X, allow_pickle=False)
    return again.getvalue() == content and given_rows.digest(X) == name.rpartition("/")[2].removesuffix(".npy")
