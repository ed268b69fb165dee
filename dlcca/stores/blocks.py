"""The work of a stage on disk: arrays written block by block, and a manifest that says which blocks are finished.

::

    run.zarr/stages/NAME/stage.json      fingerprint of all that the stage depends on, number of blocks, checksums of
                                         the zarr.json of its arrays
    run.zarr/stages/NAME/done/00017.json a finished block: checksums of its part of every array, small facts, its cost
    run.zarr/stages/NAME/ARRAY           a Zarr array whose chunks each belong to one block

Zarr reads a missing chunk as zeros. So a block counts as finished only when its file is there, which is written last;
and what is read is held against the checksum in it. A zarr.json that has changed would have Zarr look for other chunks,
or take them for other numbers: it is held against its checksum before an array is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock, StaleStage, StorageError
from dlcca.stores import cost, groups, lock
from dlcca.stores.chunks import writer
from dlcca.stores.files import files_at, trouble, zarr_store
from dlcca.stores.records import RECORD, cost_in, is_same, known_stage, opened, remedy
from dlcca.stores.sealing import checksum, sealed

#: A block's part of each array, by the name of the array: its first row, and its rows.
Parts = Mapping[str, tuple[int, NDArray]] | Iterable[tuple[str, tuple[int, NDArray]]]


#: What `Stage._metadata` has read, by address, name and fingerprint of the stage.
_METADATA: dict[tuple[str, str, str], Mapping[str, str]] = {}


@dataclass(frozen=True)
class Stage:
    """One stage of a run. Small and picklable: a worker opens the arrays itself."""

    address: str  # of the run
    name: str
    fingerprint: str
    n_blocks: int

    @property
    def folder(self) -> str:
        return f"stages/{self.name}"

    @cached_property
    def _files(self) -> Any:
        return files_at(self.address)

    def array(self, name: str) -> Any:
        """The Zarr array itself; a name that begins with / is one of the run's own arrays, not the stage's."""
        import zarr

        self._check_metadata(name)
        return zarr.open_array(zarr_store(self.address), path=self._path(name), mode="r+", zarr_format=3)

    def _check_metadata(self, name: str) -> None:
        """An error if the zarr.json of an array is not the one that was written."""
        expected = self._metadata().get(name)
        if expected is None:
            return
        found = self._files.get(f"{self._path(name)}/{groups.FILE}")
        if found is None or checksum(found) != expected:
            raise DamagedBlock(
                f"{groups.FILE} of {name!r} in stage {self.name!r} of {self.address} is "
                f"{'missing' if found is None else 'damaged'}. {remedy(self.name)}."
            )

    def _metadata(self) -> Mapping[str, str]:
        """Checksums of the zarr.json of the arrays, read once in a process."""
        key = (self.address, self.name, self.fingerprint)
        found = _METADATA.get(key)
        if found is None:
            known = known_stage(self.address, self.name)
            if known is None:
                return {}
            found = _METADATA[key] = known.get("arrays", {})
        return found

    def _path(self, name: str) -> str:
        return name[1:] if name.startswith("/") else f"{self.folder}/{name}"

    def __getstate__(self) -> dict[str, Any]:
        """Without the opened files, which a worker opens anew."""
        return {key: getattr(self, key) for key in ("address", "name", "fingerprint", "n_blocks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def prepare(self, arrays: Mapping[str, tuple[Any, ...]], *, says: str) -> Stage:
        """Make the arrays (shape, dtype, rows of a block), or find them; refuse leftovers of other settings.

        A fourth entry of an array, if there is one, is what else Zarr is told of it. ``says`` names the settings
        that the stage depends on, for people.
        """
        known = known_stage(self.address, self.name)
        if known is not None:
            if known["fingerprint"] != self.fingerprint:
                raise StaleStage(
                    f"{self.name!r} in {self.address} was built from other inputs or settings ({known['says']} there, "
                    f"{says} now). Run with --from {self.name} to do it again, or give another store."
                )
            for array in known.get("arrays", {}):
                self._check_metadata(array)
            return self
        self._files.remove(self.folder)  # arrays without a stage.json: interrupted while they were made
        with storing(f"the arrays of stage {self.name!r} in {self.address}"):
            for array, (shape, dtype, rows, *more) in arrays.items():
                self._create(array, shape, np.dtype(dtype), rows, **(more[0] if more else {}))
        made = groups.checksums(self.address, [self._path(array) for array in arrays])
        metadata = dict(zip(arrays, made.values(), strict=True))
        content = {"fingerprint": self.fingerprint, "n_blocks": self.n_blocks, "says": says, "arrays": metadata}
        self._files.put(f"{self.folder}/stage.json", sealed(content))
        _METADATA.pop((self.address, self.name, self.fingerprint), None)
        return self

    def _create(self, array: str, shape: tuple[int, ...], dtype: np.dtype, rows: int, **more: Any) -> None:
        import zarr
        from zarr.codecs import Crc32cCodec

        if not groups.is_readable(self.address):  # a header that is damaged; it is written anew when all is done
            groups.put(self.address, {})
        root = zarr.open_group(zarr_store(self.address), mode="a", zarr_format=3)
        chunks = (max(1, min(rows, shape[0])), *(max(1, size) for size in shape[1:]))
        path = self._path(array)
        root.create_array(
            path,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            compressors=[Crc32cCodec()],
            overwrite=True,
            **more,
        )

    def missing(self) -> list[int]:
        """The blocks that are not finished."""
        records = map(RECORD.fullmatch, self._files.names(f"{self.folder}/done"))
        done = {int(found[1]) for found in records if found is not None}
        return [block for block in range(self.n_blocks) if block not in done]

    def is_finished(self, block: int) -> bool:
        return self._files.get(f"{self.folder}/done/{block:05d}.json") is not None

    def write(self, block: int, parts: Parts, facts: Mapping[str, Any]) -> None:
        """Write a block's part of each array (first row, rows), then mark the block finished.

        Parts may be made while they are written, so that only one of them is held at a time; so may the facts, which
        are looked at last.
        """
        checks = {}
        for array, (first, X) in parts.items() if isinstance(parts, Mapping) else parts:
            with storing(f"block {block} of {array!r} in stage {self.name!r} of {self.address}"):
                crc = self._opened(array).write(first, np.asarray(X))
            checks[array] = {"first": first, "rows": len(X), "crc32c": crc}
        content = {"parts": checks, "facts": dict(facts), "cost": cost.so_far(within="/" in self.name)}
        lock.confirm(self.address)
        self._files.put(f"{self.folder}/done/{block:05d}.json", sealed(content))

    def _opened(self, array: str) -> Any:
        """An array that is open, once in a process, after a look at its zarr.json."""
        return writer(self.address, self._path(array), self.fingerprint, lambda: self._check_metadata(array))

    def facts(self, block: int) -> dict[str, Any]:
        """The facts of a finished block."""
        return self._entry(block)["facts"]

    def parts(self, block: int) -> dict[str, dict[str, Any]]:
        """A finished block's part of each array: its first row, how many rows, and their checksum."""
        return self._entry(block)["parts"]

    def cost(self) -> dict[str, Any]:
        """What the finished blocks took: seconds and tasks in all, and the largest memory of a process."""
        return cost.total(self._costs())

    def task_seconds(self) -> list[float]:
        """Seconds of each task, in the order of the blocks; none if a block was not the work of one task."""
        each = self._costs()
        return [known["seconds"] for known in each] if all(known["tasks"] == 1 for known in each) else []

    def _costs(self) -> list[dict[str, Any]]:
        names = sorted(self._files.names(f"{self.folder}/done"))
        done = (self._files.get(f"{self.folder}/done/{name}") for name in names)
        return [noted for found in done if found is not None and (noted := cost_in(found)) is not None]

    def read(self, array: str, block: int) -> NDArray:
        """A block's part of an array, held against its checksum."""
        return self._read(array, block, self._entry(block)["parts"][array])

    def _read(self, array: str, block: int, part: Mapping[str, Any]) -> NDArray:
        """As `read`, of what the record says."""
        where = f"block {block} of {array!r} in stage {self.name!r} of {self.address}"
        try:
            self._check_metadata(array)
            X = self._opened(array).read(part["first"], part["rows"])
        except Exception as error:
            if (reason := trouble(error)) is not None:
                raise StorageError(f"{where} cannot be read: {reason}.") from error
            raise DamagedBlock(f"{where} cannot be read: {error}. {remedy(self.name)}.") from error
        if not is_same(X, part):
            raise DamagedBlock(f"{where} is damaged or missing. {remedy(self.name)} to compute it again.")
        return X

    def read_all(self, array: str) -> NDArray:
        """All blocks of an array together, each checked; for arrays that fit in memory."""
        return np.concatenate([self.read(array, block) for block in range(self.n_blocks)])

    def check(self, *, whole: bool = False, gone: Callable[[str], bool] = lambda array: False) -> list[str]:
        """What is wrong with the finished blocks, a line each; with ``whole``, also that some are missing.

        ``gone`` says of an array whether it was removed when the stage had been used.
        """
        missing = set(self.missing())
        problems = [f"{len(missing)} blocks of stage {self.name!r} in {self.address} are missing. Run again."]
        problems = problems if whole and missing else []
        _METADATA.pop((self.address, self.name, self.fingerprint), None)  # as it is now
        bad = set()
        for array in (array for array in self._metadata() if not gone(array)):
            try:
                self._check_metadata(array)
            except DamagedBlock as error:
                problems.append(str(error))
                bad.add(array)
        for block in (block for block in range(self.n_blocks) if block not in missing):
            problems += self._damages(block, lambda array: array in bad or gone(array))
        return problems

    def _damages(self, block: int, passed_over: Callable[[str], bool]) -> list[str]:
        """What is wrong with a block; what was found wrong with a whole array is not said again."""
        problems = []
        try:
            parts = self._entry(block)["parts"]
        except DamagedBlock as error:
            return [str(error)]
        for array, part in parts.items():
            try:
                if not passed_over(array):
                    self._read(array, block, part)
            except DamagedBlock as error:
                problems.append(str(error))
        return problems

    def _entry(self, block: int) -> dict[str, Any]:
        found = self._files.get(f"{self.folder}/done/{block:05d}.json")
        if found is None:
            raise DamagedBlock(f"block {block} of stage {self.name!r} in {self.address} is not finished; run again.")
        return opened(found, f"the record of block {block} of stage {self.name!r} in {self.address}", self.name)


@contextmanager
def storing(what: str) -> Iterator[None]:
    """Whatever the disk has against it, as an error that says what could not be written."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        reason = trouble(error) or (isinstance(error, OSError) and (error.strerror or error))
        if not reason:
            raise
        raise StorageError(f"{what} cannot be written: {reason}. What is finished is kept; run again.") from error
