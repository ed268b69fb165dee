"""The work of a stage on disk: arrays written block by block, and a manifest that says which blocks are finished.

::

    run.zarr/stages/NAME/stage.json      fingerprint of all that the stage depends on, number of blocks
    run.zarr/stages/NAME/done/00017.json a finished block: checksums of its part of every array, small facts, its cost
    run.zarr/stages/NAME/ARRAY           a Zarr array whose chunks each belong to one block

Zarr reads a missing chunk as zeros. So a block counts as finished only when its file is there, which is written last;
and what is read is held against the checksum in it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock, StaleStage, StorageError
from dlcca.stores import cost
from dlcca.stores.chunks import crc32c, writer
from dlcca.stores.files import files_at, trouble, zarr_store

#: A block's part of each array, by the name of the array: its first row, and its rows.
Parts = Mapping[str, tuple[int, NDArray]] | Iterable[tuple[str, tuple[int, NDArray]]]


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

    @cached_property
    def _root(self) -> Any:
        import zarr

        return zarr.open_group(zarr_store(self.address), mode="a", zarr_format=3)

    def array(self, name: str) -> Any:
        """The Zarr array itself; a name that begins with / is one of the run's own arrays, not the stage's."""
        return self._root[self._path(name)]

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
        found = self._files.get(f"{self.folder}/stage.json")
        if found is not None:
            known = _opened(found, f"stage.json of stage {self.name!r} in {self.address}", self.name)
            if known["fingerprint"] != self.fingerprint:
                raise StaleStage(
                    f"{self.name!r} in {self.address} was built from other inputs or settings ({known['says']} there, "
                    f"{says} now). Run with --from {self.name} to do it again, or give another store."
                )
            return self
        self._files.remove(self.folder)  # arrays without a stage.json: interrupted while they were made
        with storing(f"the arrays of stage {self.name!r} in {self.address}"):
            for array, (shape, dtype, rows, *more) in arrays.items():
                self._create(array, shape, np.dtype(dtype), rows, **(more[0] if more else {}))
        content = {"fingerprint": self.fingerprint, "n_blocks": self.n_blocks, "says": says}
        self._files.put(f"{self.folder}/stage.json", _sealed(content))
        return self

    def _create(self, array: str, shape: tuple[int, ...], dtype: np.dtype, rows: int, **more: Any) -> None:
        from zarr.codecs import Crc32cCodec

        chunks = (max(1, min(rows, shape[0])), *(max(1, size) for size in shape[1:]))
        path = self._path(array)
        self._root.create_array(
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
        done = {int(name.removesuffix(".json")) for name in self._files.names(f"{self.folder}/done")}
        return [block for block in range(self.n_blocks) if block not in done]

    def write(self, block: int, parts: Parts, facts: Mapping[str, Any]) -> None:
        """Write a block's part of each array (first row, rows), then mark the block finished.

        Parts may be made while they are written, so that only one of them is held at a time; so may the facts, which
        are looked at last.
        """
        checks = {}
        for array, (first, X) in parts.items() if isinstance(parts, Mapping) else parts:
            with storing(f"block {block} of {array!r} in stage {self.name!r} of {self.address}"):
                checksum = writer(self.address, self._path(array), self.fingerprint).write(first, np.asarray(X))
            checks[array] = {"first": first, "rows": len(X), "crc32c": checksum}
        content = {"parts": checks, "facts": dict(facts)}
        took = cost.so_far(within="/" in self.name)
        self._files.put(f"{self.folder}/done/{block:05d}.json", _sealed(content, took))

    def facts(self, block: int) -> dict[str, Any]:
        """The facts of a finished block."""
        return self._entry(block)["facts"]

    def parts(self, block: int) -> list[str]:
        """The arrays that a finished block has a part of."""
        return list(self._entry(block)["parts"])

    def cost(self) -> dict[str, Any]:
        """What the finished blocks took: seconds and tasks in all, and the largest memory of a process."""
        done = (self._files.get(f"{self.folder}/done/{name}") for name in self._files.names(f"{self.folder}/done"))
        return cost.total([noted for found in done if found is not None and (noted := _cost_in(found)) is not None])

    def read(self, array: str, block: int) -> NDArray:
        """A block's part of an array, held against its checksum."""
        part = self._entry(block)["parts"][array]
        where = f"block {block} of {array!r} in stage {self.name!r} of {self.address}"
        try:
            X = np.asarray(self.array(array)[part["first"] : part["first"] + part["rows"]])
        except Exception as error:
            if (reason := trouble(error)) is not None:
                raise StorageError(f"{where} cannot be read: {reason}.") from error
            raise DamagedBlock(f"{where} cannot be read: {error}. Run with --from {self.name}.") from error
        if not _is_same(X, part):
            raise DamagedBlock(f"{where} is damaged or missing. Run with --from {self.name} to compute it again.")
        return X

    def read_all(self, array: str) -> NDArray:
        """All blocks of an array together, each checked; for arrays that fit in memory."""
        return np.concatenate([self.read(array, block) for block in range(self.n_blocks)])

    def check(self) -> list[str]:
        """What is wrong with the finished blocks, a line each."""
        problems = []
        missing = set(self.missing())
        for block in (block for block in range(self.n_blocks) if block not in missing):
            for array in self._entry(block)["parts"]:
                try:
                    self.read(array, block)
                except DamagedBlock as error:
                    problems.append(str(error))
        return problems

    def _entry(self, block: int) -> dict[str, Any]:
        found = self._files.get(f"{self.folder}/done/{block:05d}.json")
        if found is None:
            raise DamagedBlock(f"block {block} of stage {self.name!r} in {self.address} is not finished; run again.")
        return _opened(found, f"the record of block {block} of stage {self.name!r} in {self.address}", self.name)


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


def _sealed(content: dict[str, Any], took: dict[str, Any] | None = None) -> bytes:
    """JSON with a checksum in it, and beside it what the content took, which the checksum leaves out."""
    noted = {} if took is None else {"cost": took}
    return json.dumps({**content, "crc": _crc_of(content), **noted}).encode()


def _cost_in(found: bytes) -> dict[str, Any] | None:
    """The cost in a record; None if there is none that can be read, which is no harm."""
    try:
        noted = json.loads(found)["cost"]
        return {"seconds": float(noted["seconds"]), **{key: int(noted[key]) for key in ("peak_bytes", "tasks")}}
    except (ValueError, KeyError, TypeError):
        return None


def _opened(found: bytes, what: str, stage: str) -> dict[str, Any]:
    """What `_sealed` was given, if nothing has changed."""
    try:
        content = json.loads(found)
        content.pop("cost", None)
        if content.pop("crc") == _crc_of(content):
            return content
    except (ValueError, KeyError, AttributeError, TypeError):
        pass
    raise DamagedBlock(f"{what} is damaged. Run with --from {stage} to compute it again.")


def _crc_of(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _is_same(X: NDArray, part: Mapping[str, Any]) -> bool:
    """Whether these are the rows that were written."""
    return part["crc32c"] == crc32c(X) if "crc32c" in part else part["crc"] == _crc(X)


def _crc(X: NDArray) -> int:
    """That of blocks which an earlier dlcca wrote."""
    return zlib.crc32(np.ascontiguousarray(X).view(np.uint8).data) if X.size else 0
