"""Every file of a store compared with what was written: results, blocks, metadata of Zarr and of stages, the log.

What is read is checked where it is read. This also finds what reading would overlook, or never look at: a missing file,
an array that was not read yet, a zarr.json with the same values written differently.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

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
    rf"|{ATTEMPT}|{lock.FOLDER}/\d{{5,}}\.json|{event_log.FILE}|{event_log.REPORT}"
)


#: Kinds of finished stores: the format, what is wrong with the results, and the stages that they were made by.
_Kind = tuple[Format, Callable[[str], Mapping[str, str | None]], Callable[[Mapping[str, Any]], list[str]]]
_KINDS: dict[str, _Kind] = {
    run_store.FORM.name: (run_store.FORM, run_store.damages, lambda header: header.get("stages", [])),
    transformed.FORM.name: (transformed.FORM, transformed.damages, lambda header: header.get("stages", ["transform"])),
    views.FORM.name: (views.FORM, lambda address: {}, ingest.needed),
    model_store.FORM.name: (model_store.FORM, model_store.damages, lambda header: []),
}


def look(address: str) -> "Findings":
    """Look at every file of a store; an error if there is none."""
    names = sorted(files_at(address).signatures())
    found = Findings(address, names)
    if len(found.strangers) == len(names):
        raise StoreFileError(f"there is no run at {address}.")
    found.look_at_store()
    if any(name.startswith("recordings/") for name in names):
        below = look(f"{address.rstrip('/')}/recordings")
        found.entries |= {f"recordings: {name}": problem for name, problem in below.entries.items()}
    return found


class Findings:
    """What a look at a store has found, or at a group in it that is a store of its own."""

    def __init__(self, address: str, names: Iterable[str]) -> None:
        self.address, self.names, self.files = address, dict.fromkeys(names), files_at(address)
        self.entries: dict[str, str | None] = {}  # by part, what is wrong with it; None if nothing is
        self.strangers = [name for name in names if OURS.fullmatch(name) is None]  # not ours, which do no harm
        self.finished = False
        self._known: dict[str, str | None] = {}  # arrays that a header or a stage knows, with their checksums
        self._grids: dict[str, tuple[list[int], list[int]]] = {}  # shape of an array, and of a chunk

    @property
    def damages(self) -> dict[str, str]:
        return {name: problem for name, problem in self.entries.items() if problem is not None}

    def look_at_store(self) -> None:
        kind = self._kind()
        self.finished = kind is not None
        header = self._header(kind) if kind is not None else {}
        self._look_at_chunks(header.get("metadata", {}))
        self._look_at_stages(kind, header)
        self._look_at_groups()
        for inner, form in (("model", model_store.FORM), (comparison.GROUP, comparison.FORM)):
            self._look_at_inner(inner, form)
        self.entries |= event_log.damages(self.address, expected=bool(header.get("log")))
        self._look_at_the_rest()

    def _kind(self) -> _Kind | None:
        """What the store is by its header; None if it is not finished, or damaged, which is then noted."""
        raw = self.files.get(ZARR_JSON)
        if raw is None:
            if any(n.endswith(f"/{ZARR_JSON}") for n in self.names if not n.startswith(("recordings/", "log/"))):
                self.entries["header"] = f"{ZARR_JSON} of {self.address} is missing. Restore it, or run again"
            return None
        try:
            attributes = group_attributes(raw)
            return _KINDS[attributes["format"]] if attributes else None
        except (ValueError, KeyError, TypeError):
            problem = "is no store of dlcca, or its header is damaged: restore it, or run again"
            self.entries["header"] = f"{self.address} {problem}"
            return None

    def _header(self, kind: _Kind) -> dict[str, Any]:
        """The header of a finished store, after a look at its results; empty if it cannot be read."""
        form, damages, _stages = kind
        try:
            header = open_sealed(self.address, form)[1]
            self.entries |= damages(self.address)
        except StoreFileError as error:
            self.entries["header"] = str(error)
            return {}
        self._known |= dict.fromkeys(header.get("manifest", {})) | header["metadata"]
        return header

    def _look_at_stages(self, kind: _Kind | None, header: Mapping[str, Any]) -> None:
        """Every stage that was begun; of a finished store, all its stages must be there and whole."""
        is_views = "stages/drafts/stage.json" in self.names or (kind is not None and kind[0] is views.FORM)
        expected, whole = kind[2](header) if kind and header else [], kind is not None
        gone = ingest.gone(whole)
        for name in (*pipeline.on_disk(), *(ingest.ON_DISK if is_views else ()), "transform"):
            try:
                content = known_stage(self.address, name)
            except DamagedBlock as error:
                self.entries[f"stage {name}"] = str(error)
                continue
            if content is None:
                if name in expected:
                    self.entries[f"stage {name}"] = f"stage.json of stage {name!r} in {self.address} is missing"
                continue
            stage = Blocks(self.address, name, content["fingerprint"], content["n_blocks"])
            problems = stage.check(whole=whole, gone=gone) or list(self._missing_of_blocks(stage, gone))
            problems += input_integrity.damages(stage, whole=whole)
            self.entries |= {f"stage {name}, {i}": problem for i, problem in enumerate(problems)}
            if not problems:
                self.entries[f"stage {name}"] = None
            self._known |= {stage.path(array): made for array, made in content["arrays"].items()}

    def _missing_of_blocks(self, stage: Blocks, gone: Callable[[str], bool]) -> dict[str, None]:
        """The chunks that finished blocks have written and that are not there: Zarr reads them as zeros."""
        finished = sorted(set(range(stage.n_blocks)).difference(stage.missing()))
        parts = (part for block in finished for part in stage.parts(block).items())
        found = (self._missing(stage.path(array), p["first"], p["rows"]) for array, p in parts if not gone(array))
        return dict.fromkeys(itertools.chain.from_iterable(found))  # blocks may share a chunk

    def _look_at_chunks(self, arrays: Iterable[str]) -> None:
        """All chunks of arrays with which nothing else is wrong."""
        for array in arrays:
            if self.entries.get(array) is None and (missing := self._missing(array)):
                self.entries[array] = missing[0]

    def _missing(self, array: str, first: int = 0, rows: int | None = None) -> list[str]:
        """The missing chunks of some rows of an array; an array whose zarr.json is damaged is passed over.

        All chunks were written, those of zeros too, so that none may be missing.
        """
        try:
            if array not in self._grids:
                node = json.loads(self.files.get(f"{array}/{ZARR_JSON}") or b"")
                self._grids[array] = node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"]
            shape, chunk = self._grids[array]
        except (ValueError, KeyError, TypeError):
            return []
        rows = (shape[0] if shape else 1) if rows is None else rows
        if not rows or 0 in shape:
            return []
        counts = [range(-(-n // c)) for n, c in zip(shape, chunk, strict=True)]
        if shape:
            counts[0] = range(first // chunk[0], -(-(first + rows) // chunk[0]))
        places = ("/".join((array, "c", *map(str, at))) for at in itertools.product(*counts))
        return [f"{place} of {self.address} is missing" for place in places if place not in self.names]

    def _look_at_groups(self) -> None:
        """Groups between the root and the arrays say nothing but that they are groups; and none of them is missing."""
        for name in self.names:
            place = name.removesuffix(f"/{ZARR_JSON}")
            if place == name or place in self._known or place.split("/")[0] in INNER:
                continue
            if not _is_plain(self.files.get(name) or b""):
                self.entries[name] = f"{name} of {self.address} is damaged"
        for parent in {str(parent) for array in self._known for parent in PurePosixPath(array).parents} - {"."}:
            if (name := f"{parent}/{ZARR_JSON}") not in self.names:
                self.entries[name] = f"{name} of {self.address} is missing"

    def _look_at_inner(self, inner: str, form: Format) -> None:
        """The groups of a model or a comparison within a run; its arrays are looked at with the run."""
        place = f"{self.address.rstrip('/')}/{inner}"
        within = [name.removeprefix(f"{inner}/") for name in self.names if name.startswith(f"{inner}/")]
        if not within or files_at(place).get(ZARR_JSON) == group_json({}):  # not there, or not finished
            return
        below = Findings(place, within)
        try:
            below._known = open_sealed(place, form)[1].get("metadata", {})
        except StoreFileError as error:
            self.entries[inner] = str(error)
            return
        below._look_at_groups()
        if self.entries.get(inner) is None:
            below._look_at_chunks(below._known)
        self.entries |= {f"{inner}/{name}": problem for name, problem in below.entries.items()}

    def _look_at_the_rest(self) -> None:
        """Locks that were left, and the attempt of a run that was begun again."""
        try:
            current_attempt(self.address, "scan")
        except DamagedBlock as error:
            self.entries[ATTEMPT] = str(error)
        for number in lock.numbers(self.address):
            if lock.read_owner(self.address, number).process is None:
                name = lock.name_of(number)
                self.entries[name] = (
                    f"the lock {name} of {self.address} is damaged; if nobody uses the store, remove it"
                )


def _is_plain(raw: bytes) -> bool:
    """Whether it is a group without attributes; or an array that no header or stage has a checksum of."""
    if raw == group_json({}):
        return True
    try:
        return json.loads(raw)["node_type"] == "array"
    except (ValueError, KeyError, TypeError):
        return False
