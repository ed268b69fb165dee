"""A job: the recordings, the settings and the store, in a form small enough to send to every worker."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, StorageError
from dlcca.settings import Settings
from dlcca.stores.blocks import Stage
from dlcca.stores.files import files_at, is_remote, trouble, zarr_store

#: Rows of a block: enough that a task is worth starting, few enough to fit a small worker.
BLOCK_BYTES = 32 << 20
MOST_ROWS, LEAST_ROWS, LEAST_BLOCKS = 65_536, 1024, 8


@dataclass(frozen=True)
class Source:
    """One view: a Zarr array (n, d) by its address and its path within it."""

    name: str
    address: str
    path: str = ""

    def open(self) -> Any:
        import zarr

        try:
            return zarr.open_array(zarr_store(self.address), path=self.path, mode="r")
        except Exception as error:
            if is_remote(self.address) and trouble(error) is None:
                files_at(self.address).get("zarr.json")  # says so if it is the bucket that is missing
            where = f"{self.address} {self.path}".rstrip()
            reason = trouble(error) or error
            raise StorageError(f"view {self.name!r}: no Zarr array can be opened at {where}: {reason}") from error

    def read(self, rows: Any) -> NDArray:
        """Some rows: a slice, or row numbers in rising order, each once."""
        array = self.open()
        try:
            return np.asarray(array[rows] if isinstance(rows, slice) else array.oindex[rows])
        except Exception as error:
            if (reason := trouble(error)) is not None:
                raise StorageError(f"view {self.name!r} cannot be read in rows {_told(rows)}: {reason}.") from error
            raise DataError(f"view {self.name!r} cannot be read in rows {_told(rows)}: {error}") from error


@dataclass(frozen=True)
class Job:
    """K views of n samples, to be embedded with these settings (no "auto" left in them) into a store."""

    address: str
    sources: tuple[Source, ...]
    settings: Settings
    seed: int
    n: int
    dims: tuple[int, ...]
    dtype: str
    rows: int  # of a block of samples
    inputs: str  # identity of the views

    @property
    def K(self) -> int:
        return len(self.sources)

    @property
    def n_blocks(self) -> int:
        return -(-self.n // self.rows)

    def bounds(self, block: int) -> tuple[int, int]:
        """First row of a block, and the row after its last."""
        return block * self.rows, min(self.n, (block + 1) * self.rows)

    def block(self, block: int) -> list[NDArray]:
        """The views of a block of samples."""
        first, last = self.bounds(block)
        return [self.read(v, slice(first, last)) for v in range(self.K)]

    def read(self, v: int, rows: Any) -> NDArray:
        """Some rows of a view: a slice, or row numbers in any order, each read once."""
        source = self.sources[v]
        if isinstance(rows, slice):
            X = source.read(rows)
        else:
            unique, where = np.unique(rows, return_inverse=True)
            X = source.read(unique)[where]
        return np.asarray(X, dtype=self.dtype)

    def stage(self, name: str, depends: Any, n_blocks: int) -> Stage:
        """A stage of this job, known by a fingerprint of the inputs and of all that it depends on."""
        return Stage(self.address, name, fingerprint(self.inputs, self.rows, depends), n_blocks)

    @cached_property
    def options(self) -> dict[str, Any]:
        return self.settings.options()


def _told(rows: Any) -> str:
    return f"{rows.start} to {rows.stop - 1}" if isinstance(rows, slice) else f"{rows.min()} to {rows.max()}"


def fingerprint(*content: Any) -> str:
    """SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def rows_of_block(n: int, dims: tuple[int, ...], itemsize: int, chunk_rows: int) -> int:
    """Rows of a block: about 32 MiB of all views, whole chunks if they are smaller, and at least 8 blocks of 1024."""
    rows = int(np.clip(BLOCK_BYTES // (sum(dims) * itemsize), LEAST_ROWS, MOST_ROWS))
    count = max(-(-n // rows), min(LEAST_BLOCKS, -(-n // LEAST_ROWS)))
    rows = -(-n // count)
    return -(-rows // chunk_rows) * chunk_rows if chunk_rows < rows else rows


def identity(sources: tuple[Source, ...]) -> str:
    """What tells these views from others: shapes, dtypes, and the bytes of rows spread over each."""
    known = []
    for source in sources:
        array = source.open()
        rows = np.unique(np.linspace(0, array.shape[0] - 1, 64).astype(int))
        content = hashlib.sha256(np.ascontiguousarray(source.read(rows)).tobytes()).hexdigest()
        known.append([source.name, list(array.shape), str(array.dtype), content])
    return fingerprint(known)


def _refuse_early(options: dict[str, Any], n: int) -> None:
    """What would be an error, or passed over in silence, after hours of work."""
    kind, landmarks = options["neighborhoods"], options["landmarks"]
    m = int(landmarks) if np.ndim(landmarks) == 0 else len(landmarks)
    sizes = {"landmarks": m}
    if isinstance(kind, str):
        width = "window" if kind == "time" else "n_neighbors"
        if options[width] == "auto":
            raise SettingsError("window='auto' is for arrays in memory; give a number of samples here.")
        sizes[width] = int(options[width])
    for option, asked in sizes.items():
        if asked > n:
            raise SettingsError(f"{option}={asked}, but the views have {n} samples; ask for at most {n}.")
    refuse_few_landmarks(m, options["n_components"])
    if options["bandwidth"] in ("neighbor", "slope"):
        raise SettingsError(
            f"bandwidth={options['bandwidth']!r} is for arrays in memory; use 'median', 'quantile' or a number here."
        )
    if options["normalization"] == "paper":
        raise SettingsError("normalization='paper' is for arrays in memory; use 'balanced' here.")


def refuse_few_landmarks(m: int, q: int) -> None:
    if q > m - 1:
        raise SettingsError(f"n_components={q} with {m} landmarks; at most {m - 1} are possible.")


def make_job(address: str, sources: tuple[Source, ...], settings: Settings, seed: int) -> Job:
    """A job, after the views have been looked at: equal lengths, real numbers, at least two samples."""
    if not sources:
        raise DataError("no views were given; name at least one Zarr array.")
    arrays = {source.name: source.open() for source in sources}
    for name, array in arrays.items():
        if array.ndim != 2 or array.shape[1] == 0:
            raise DataError(f"view {name!r} has shape {array.shape}; (samples, channels) is needed.")
        if array.dtype.kind not in "fiub":
            raise DataError(f"view {name!r} has dtype {array.dtype}; real numbers are needed.")
    lengths = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        raise DataError(f"the views differ in length: {found} samples. They must be samples of the same moments.")
    n = next(iter(lengths.values()))
    if n < 2:
        raise DataError(f"the views have {n} sample{'s' * (n != 1)}; at least 2 are needed.")
    _refuse_early(settings.options(), n)
    narrow = all(array.dtype.kind == "f" and array.dtype.itemsize <= 4 for array in arrays.values())
    dtype = "float32" if narrow else "float64"
    dims = tuple(array.shape[1] for array in arrays.values())
    chunk_rows = next(iter(arrays.values())).chunks[0]
    rows = rows_of_block(n, dims, np.dtype(dtype).itemsize, chunk_rows)
    return Job(address, sources, settings, seed, n, dims, dtype, rows, identity(sources))
