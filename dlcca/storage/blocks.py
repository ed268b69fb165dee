"""The work of a stage on disk: arrays written block by block, and a manifest that says which blocks are finished.

::

    run.zarr/stages/NAME/stage.json      fingerprint of all that the stage depends on, number of blocks, checksums of
                                         the zarr.json of its arrays, attempt, generations of the lock
    run.zarr/stages/NAME/done/00017.json a finished block: checksums of its part of every array, small facts, its cost
    run.zarr/stages/NAME/ARRAY           a Zarr array whose chunks each belong to one block

A worker may outlive its client: suspended in the middle of a block, it can write hours later, when the stage has been
started again with other settings. So a stage that is started again after ``--from`` has its records and arrays in a
folder of that attempt (``stages/NAME/ATTEMPT/...``), which workers of earlier attempts do not write to. And a block
carries the fingerprint of its stage and the generation of the lock (`lock.generation`): stage.json must have both when
a chunk or a record is moved to its place, and a record with others counts as missing.

Zarr reads a missing chunk as zeros. So a block is finished only when its record exists, which is written last, and rows
that are read are compared with the checksum in it. With a changed zarr.json, Zarr would read other chunks, or decode
them as other numbers: it is compared with its checksum before an array is opened.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock, StaleStage, StorageError, StoreInUse
from dlcca.storage import cache, cost, lock, manifest
from dlcca.storage.chunks import Writer, writer
from dlcca.storage.files import Files, files_at, storage_errors, zarr_store
from dlcca.storage.retry import failure_reason

#: A block's part of each array, by the name of the array: its first row, and its rows.
Parts = Mapping[str, tuple[int, NDArray]] | Iterable[tuple[str, tuple[int, NDArray]]]
#: A worker that finds an older stage.json than its own reads it again for this long: a network file system may show a
#: replaced file for some seconds.
SETTLE_S = 30.0


@dataclass(frozen=True)
class Blocks:
    """One stage of a run. Small and picklable: a worker opens the arrays itself."""

    address: str  # of the run
    name: str
    fingerprint: str
    n_blocks: int
    #: Set by `prepare`, on the client: what is written later is written for this lock and this attempt.
    generation: str | None = field(default=None, compare=False)
    attempt: str | None = field(default=None, compare=False)

    @property
    def folder(self) -> str:
        return f"stages/{self.name}"

    @property
    def _home(self) -> str:
        """The folder of the records and arrays: that of the stage, or of its attempt if it was begun again."""
        attempt = self.attempt if self.attempt is not None else self._known().get("attempt", "")
        return f"{self.folder}/{attempt}" if attempt else self.folder

    @property
    def _files(self) -> Files:
        return files_at(self.address)

    def array(self, name: str) -> Any:
        """The Zarr array itself; a name that begins with / is one of the run's own arrays, not the stage's."""
        return self._opened(name).array

    def _check_metadata(self, name: str) -> None:
        """An error if the zarr.json of an array is not the one that was written."""
        expected = self._known().get("arrays", {}).get(name)
        if expected is not None:
            for problem in manifest.metadata_damages(self.address, {self.path(name): expected}).values():
                raise DamagedBlock(f"{problem}. {manifest.remedy(self.name)}.")

    @property
    def _key(self) -> tuple[str, ...]:
        """Of the content of stage.json in the cache of this process."""
        return ("stage.json", self.address, self.name, self.fingerprint)

    def _known(self, *, fresh: bool = False) -> Mapping[str, Any]:
        """The content of stage.json, read once in a process; empty if there is none of this fingerprint."""
        found = None if fresh else cache.find(self._key)
        if found is None or self.attempt not in (None, found.get("attempt", "")):
            found = manifest.known_stage(self.address, self.name)
            if found is None or found["fingerprint"] != self.fingerprint:
                cache.discard(self._key)
                return {}
            cache.put(self._key, found)
        return found

    def path(self, array: str) -> str:
        """Where an array of the stage is, below the address of the run."""
        return array[1:] if array.startswith("/") else f"{self._home}/{array}"

    def _record(self, block: int) -> str:
        return f"{self._home}/done/{block:05d}.json"

    def prepare(self, arrays: Mapping[str, tuple[Any, ...]], *, says: str) -> Self:
        """Make the arrays (shape, dtype, rows of a block), or find them; refuse leftovers of other settings.

        A fourth entry of an array, if there is one, holds further options of Zarr. ``says`` names the settings that
        the stage depends on, for messages. Use the stage that is returned: it carries the lock of the caller.
        """
        known, generation = manifest.known_stage(self.address, self.name), lock.generation(self.address)
        if known is not None:
            if known["fingerprint"] != self.fingerprint:
                raise StaleStage(
                    f"{self.name!r} in {self.address} was built from other inputs or settings ({known['says']} there, "
                    f"{says} now). Run with --from {self.name} to do it again, or give another store."
                )
            cache.put(self._key, known)
            mine = replace(self, generation=generation, attempt=known["attempt"])
            for array in known["arrays"]:
                mine._check_metadata(array)
            if known["generations"][-1] != generation and mine.missing():  # workers of earlier runs must not write now
                mine._put({**known, "generations": [*known["generations"], generation]})
            return mine
        mine = replace(self, generation=generation, attempt=manifest.current_attempt(self.address, self.name))
        self._files.remove(self.folder)  # arrays without a stage.json: interrupted while they were made
        with storing(f"the arrays of stage {self.name!r} in {self.address}"):
            for array, (shape, dtype, rows, *more) in arrays.items():
                mine._create(array, shape, np.dtype(dtype), rows, **(more[0] if more else {}))
        made = manifest.metadata_checksums(self.address, [mine.path(array) for array in arrays])
        metadata = dict(zip(arrays, made.values(), strict=True))
        content = {"fingerprint": self.fingerprint, "n_blocks": self.n_blocks, "says": says, "arrays": metadata}
        mine._put({**content, "attempt": mine.attempt, "generations": [generation]})
        return mine

    def _put(self, known: dict[str, Any]) -> None:
        """Write stage.json."""
        self._files.put(f"{self.folder}/stage.json", manifest.sealed(known))
        cache.put(self._key, known)

    def _create(self, array: str, shape: tuple[int, ...], dtype: np.dtype, rows: int, **more: Any) -> None:
        import zarr
        from zarr.codecs import Crc32cCodec

        header = self._files.get(manifest.ZARR_JSON)
        node = manifest.node_in(header)
        if header is not None and (node.get("zarr_format"), node.get("node_type")) != (3, "group"):
            manifest.put_group(self.address, {})  # it is damaged, and replaced at the end of the run
        root = zarr.open_group(zarr_store(self.address), mode="a", zarr_format=3)
        chunks = (max(1, min(rows, shape[0])), *(max(1, size) for size in shape[1:]))
        options = {"chunks": chunks, "compressors": [Crc32cCodec()], "overwrite": True, **more}
        root.create_array(self.path(array), shape=shape, dtype=dtype, **options)

    def missing(self) -> list[int]:
        """The blocks that are not finished: that have no record, or one of another run."""
        return sorted({*range(self.n_blocks)} - {block for block, found in self._records() if self._is_of_this(found)})

    def is_finished(self, block: int) -> bool:
        found = self._files.get(self._record(block))
        return found is not None and self._is_of_this(found)

    def _records(self) -> list[tuple[int, bytes]]:
        """The blocks that have a record, rising, and the records as they are on disk."""
        names = [name for name in self._files.names(f"{self._home}/done") if manifest.RECORD.fullmatch(name)]
        found = self._files.get_all([f"{self._home}/done/{name}" for name in names])
        return sorted((int(name.rpartition("/")[2].removesuffix(".json")), record) for name, record in found.items())

    def _is_of_this(self, found: bytes) -> bool:
        """Whether a record has the fingerprint of this stage and a generation that stage.json knows.

        A damaged record counts as its own: it is reported when it is read.
        """
        for fresh in (False, True):  # a generation may have been added since stage.json was read in this process
            generations = self._known(fresh=fresh).get("generations", [])
            if any(found.startswith(manifest.record_start(self.fingerprint, known)) for known in generations):
                return True
        return not manifest.readable(found)

    def write(self, block: int, parts: Parts, facts: Mapping[str, Any]) -> None:
        """Write a block's part of each array (first row, rows), then mark the block finished.

        Parts may be generated while they are written, so that only one of them is in memory; so may the facts, which
        are read last.
        """
        # A process that has only seen an earlier stage of this name does not know the chunks of this one.
        self._known(fresh=self._generation not in self._known().get("generations", ()))
        checks = {}
        for array, (first, X) in parts.items() if isinstance(parts, Mapping) else parts:
            with storing(f"block {block} of {array!r} in stage {self.name!r} of {self.address}"):
                confirmed = replace(self._opened(array), confirm=lambda: self._confirm(block))
                checks[array] = {"first": first, "rows": len(X), "crc32c": confirmed.write(first, np.asarray(X))}
        origin = {"fingerprint": self.fingerprint, "generation": self._generation}  # first: see `record_start`
        content = {"parts": checks, "facts": dict(facts), "cost": cost.so_far(within="/" in self.name)}
        lock.confirm(self.address)
        self._confirm(block)
        self._files.put(self._record(block), manifest.sealed({**origin, **content}))

    def remove(self) -> None:
        """Remove all of the stage."""
        self._files.remove(self.folder)

    def without(self, block: int) -> Self:
        """The stage after the record of a block was removed, so that the caller may write the block again."""
        self._files.delete(self._record(block))
        return self.prepare({}, says="")

    @property
    def _generation(self) -> str:
        return lock.generation(self.address) if self.generation is None else self.generation

    def _confirm(self, block: int) -> None:
        """An error if the stage on disk is no longer the one that a block was computed for."""
        end = time.monotonic() + SETTLE_S
        while True:
            known = manifest.known_stage(self.address, self.name) or {}
            attempt, now = known.get("attempt", ""), known.get("generations", [""])[-1]
            is_same_run = self.attempt in (None, attempt) and now == self._generation
            if is_same_run and known.get("fingerprint") == self.fingerprint:
                return
            if now > self._generation or time.monotonic() > end:  # generations begin with their time
                break
            time.sleep(0.2)
        raise StoreInUse(
            f"block {block} of stage {self.name!r} in {self.address} was computed for a run that has been replaced by "
            "another one since. It is not written. Was this worker suspended?"
        )

    def _opened(self, array: str) -> Writer:
        """An array that is opened once in a process, after a check of its zarr.json."""

        def opened() -> Writer:
            self._check_metadata(array)
            return writer(self.address, self.path(array))

        metadata = self._known().get("arrays", {}).get(array)
        return cache.get(("array", self.address, self.path(array), self.fingerprint, metadata), opened)

    def facts(self, block: int) -> dict[str, Any]:
        """The facts of a finished block."""
        return self._entry(block)["facts"]

    def parts(self, block: int) -> dict[str, dict[str, Any]]:
        """A finished block's part of each array: its first row, how many rows, and their checksum."""
        return self._entry(block)["parts"]

    def cost(self) -> dict[str, Any]:
        """The cost of the finished blocks: total seconds and tasks, and the largest memory of a process."""
        return cost.total(self._costs())

    def task_seconds(self) -> list[float]:
        """Seconds of each task, in the order of the blocks; none if a block was not the work of one task."""
        each = self._costs()
        return [known["seconds"] for known in each] if all(known["tasks"] == 1 for known in each) else []

    def _costs(self) -> list[dict[str, Any]]:
        return [record["cost"] for _block, found in self._records() if (record := manifest.readable(found))]

    def read(self, array: str, block: int, part: Mapping[str, Any] | None = None) -> NDArray:
        """A block's part of an array, compared with its checksum in the record, or in ``part`` of it."""
        part = self.parts(block)[array] if part is None else part
        where = f"block {block} of {array!r} in stage {self.name!r} of {self.address}"
        try:
            self._check_metadata(array)
            X = self._opened(array).read(part["first"], part["rows"])
        except Exception as error:
            if (reason := failure_reason(error)) is not None:
                raise StorageError(f"{where} cannot be read: {reason}.") from error
            raise DamagedBlock(f"{where} cannot be read: {error}. {manifest.remedy(self.name)}.") from error
        if manifest.crc32c(X) != part["crc32c"]:
            raise DamagedBlock(f"{where} is damaged or missing. {manifest.remedy(self.name)} to compute it again.")
        return X

    def read_all(self, array: str) -> NDArray:
        """All blocks of an array together, each checked; for arrays that fit in memory."""
        return np.concatenate([self.read(array, block) for block in range(self.n_blocks)])

    def check(self, *, whole: bool = False, gone: Callable[[str], bool] = lambda array: False) -> list[str]:
        """What is wrong with the finished blocks, a line each; with ``whole``, also that some are missing.

        ``gone`` says of an array whether it was removed when the stage had been used.
        """
        missing, problems = set(self.missing()), []

        def passes(check: Callable[..., Any], *arguments: Any) -> bool:
            try:
                check(*arguments)
            except DamagedBlock as error:
                problems.append(str(error))
                return False
            return True

        if whole and missing:
            problems.append(f"{len(missing)} blocks of stage {self.name!r} in {self.address} are missing. Run again.")
        known = self._known(fresh=True).get("arrays", {})
        skipped = {array for array in known if not gone(array) and not passes(self._check_metadata, array)}
        for block in (block for block in range(self.n_blocks) if block not in missing):
            for array, part in self.parts(block).items() if passes(self._entry, block) else ():
                if array not in skipped and not gone(array):
                    passes(self.read, array, block, part)
        return problems

    def _entry(self, block: int) -> dict[str, Any]:
        found = self._files.get(self._record(block))
        if found is None and self.attempt is None:  # or it was started again since stage.json was read in this process
            self._known(fresh=True)
            found = self._files.get(self._record(block))
        what = f"block {block} of stage {self.name!r} in {self.address}"
        if found is None or not self._is_of_this(found):
            raise DamagedBlock(f"{what} is not finished; run again.")
        return manifest.open_record(found, f"the record of {what}", self.name)


def storing(what: str) -> AbstractContextManager[None]:
    """Turn errors of the storage into a `StorageError` that says what could not be written."""
    return storage_errors(what, "written", " What is finished is kept; run again.")
