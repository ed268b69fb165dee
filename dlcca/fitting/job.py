"""A job: the recordings, the settings and the store, in a form small enough to send to every worker.

A `MemoryJob` has arrays in memory instead: the same stages, on one block, with a store that is a dict.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.memory_store import MemoryBlocks, MemoryStore
from dlcca.engine.row_blocks import RowBlocks, rows_decoded, rows_of_block
from dlcca.engine.stage import Stage, fingerprint
from dlcca.errors import DataError, SettingsError, StorageError, StoreFileError
from dlcca.numerics import windows
from dlcca.numerics.coordinates import COORDINATES, Diffusion
from dlcca.numerics.fusion import FUSIONS, Fusion
from dlcca.numerics.landmarks import CANDIDATES, candidates, evenly
from dlcca.recordings import input_integrity as inputs
from dlcca.recordings.view_array import ViewArray, is_view
from dlcca.settings.auto import Choices, choose
from dlcca.settings.fit import Settings
from dlcca.storage import cache
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at, is_remote, zarr_store
from dlcca.storage.inputs import check_complete, refuse_objects, refuse_objects_at
from dlcca.storage.manifest import crc32c
from dlcca.storage.places import RECORDINGS
from dlcca.storage.retry import failure_reason
from dlcca.storage.views import Clock, describe, read_clock
from dlcca.views import differing, transposed

T = TypeVar("T")

#: Rows here and there on which a fit is checked, and which are halved: of wide views fewer, with so many entries.
CHECKED_ROWS, HALVED_ROWS, HALVED_ENTRIES = 1024, 2000, 1 << 22
#: Bytes of scattered rows that the first pass keeps, at most.
KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class Source:
    """One view: a Zarr array (n, d) by its address and its path within it."""

    name: str
    address: str
    path: str = ""
    missing_chunks: str = "refuse"  # or "fill"

    @property
    def place(self) -> str:
        """Where the array itself lies."""
        return f"{self.address}/{self.path}".rstrip("/")

    def check_complete(self) -> str:
        """Refuse an array that lacks chunks; if these are accepted, a note that counts them, else ""."""
        array = self.open()
        if isinstance(array, ViewArray):
            return ""  # views made of recordings have all their chunks, and report a lost one when it is read
        return check_complete(f"view {self.name!r}", self.place, array, self.missing_chunks)

    def open(self) -> Any:
        import zarr

        try:
            array = zarr.open_array(zarr_store(self.address), path=self.path, mode="r")
        except Exception as error:
            if is_remote(self.address) and failure_reason(error) is None:
                files_at(self.address).get("zarr.json")  # an error of its own if the bucket is missing
            if (reason := failure_reason(error)) is None:
                refuse_objects_at(self.address, self.path)
            where = f"{self.address} {self.path}".rstrip()
            raise StorageError(
                f"view {self.name!r}: no Zarr array can be opened at {where}: {reason or error}"
            ) from error
        refuse_objects(array.metadata.to_dict(), f"view {self.name!r} ({self.address})")
        return ViewArray(array, self.place) if is_view(array) else array

    def read(self, rows: Any) -> NDArray:
        """Some rows: a slice, or row numbers in rising order, each once."""
        array = self.open()
        try:
            return np.asarray(array[rows] if isinstance(rows, slice) else array.oindex[rows])
        except StoreFileError:
            raise
        except Exception as error:
            first, last = (rows.start, rows.stop - 1) if isinstance(rows, slice) else (rows.min(), rows.max())
            message = f"view {self.name!r} cannot be read in rows {first} to {last}:"
            if (reason := failure_reason(error)) is not None:
                raise StorageError(f"{message} {reason}.") from error
            raise DataError(f"{message} {error}") from error


def rows_with_window(rows: NDArray[np.int64], segments: NDArray, width: int) -> NDArray[np.int64]:
    """Those of some rows that lie in an unbroken stretch long enough for a window of time."""
    kept = rows[windows.has_full_window(segments, width)[rows]]
    if len(kept) < 2:
        longest = int(np.bincount(segments).max())
        raise DataError(
            f"window={width}, but the longest stretch without a gap has {longest} rows, and {len(kept)} landmarks "
            "lie in one that is long enough. Choose a shorter window, or neighborhoods='knn', which gaps do not "
            "concern."
        )
    return kept


def array_sources(views: Mapping[str, str], missing_chunks: Mapping[str, str]) -> dict[str, Source]:
    """Zarr arrays by the names of their views; ``missing_chunks`` has the same names."""
    return {name: Source(name, at, missing_chunks=missing_chunks.get(name, "refuse")) for name, at in views.items()}


#: Where the blocks of the first two stages are; `dlcca.fitting.scan`, which imports this module, has the whole stages.
SCAN = Stage("scan", n_blocks=lambda job: job.n_blocks)
MOMENTS = Stage("moments", after=[SCAN])


@dataclass(frozen=True)
class Job(RowBlocks):
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
    clock: str = ""  # the store of views made of recordings that these are; it knows times and gaps

    #: See `MemoryJob`.
    in_memory = False
    allow_degenerate = False

    @property
    def moments(self) -> Clock | None:
        """The time of each row, where the views were made of recordings."""
        return cached_clock(self.clock, self.inputs) if self.clock else None

    @property
    def n_moments(self) -> int:
        """Rows of the result: those of the views, and those that were left out of them because of gaps."""
        return self.n if self.moments is None else len(self.moments.time)

    @property
    def segments(self) -> NDArray[np.int64] | None:
        """The unbroken stretch that each row belongs to, (n,); None if there are no gaps."""
        return None if self.moments is None else self.moments.segments

    def rows_with_full_window(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some rows around which there is room for a neighborhood in time."""
        kind, segments = self.options["neighborhoods"], self.segments
        if segments is None or not isinstance(kind, str) or kind != "time":
            return rows
        return rows_with_window(rows, segments, int(self.options["window"]))

    @property
    def K(self) -> int:
        return len(self.sources)

    @property
    def q(self) -> int:
        """Requested coordinates."""
        return int(self.options["n_components"])

    @property
    def fusion(self) -> Fusion:
        return FUSIONS[self.options["fusion"]]

    @property
    def coordinates(self) -> Diffusion:
        """How coordinates are read."""
        return COORDINATES[self.options["coordinates"]]

    @property
    def kernels(self) -> list[int]:
        """Numbers of the kernels: one for each view, or one in all."""
        return self.fusion.kernels(self.K)

    @property
    def is_sparse(self) -> bool:
        """Whether a row of a kernel has entries at some landmarks only."""
        return self.fusion.per_view or self.options["kernel"] == "sparse"

    def block(self, block: int) -> list[NDArray]:
        """The views of a block of samples."""
        first, last = self.bounds(block)
        return [self.read(v, slice(first, last)) for v in range(self.K)]

    def read(self, v: int, rows: Any) -> NDArray:
        """Some rows of a view: a slice, or row numbers in any order, each read once."""
        source = self.sources[v]
        if isinstance(rows, slice):
            X = np.asarray(source.read(rows), dtype=self.dtype)
            self._compare(v, int(rows.start), X)
            return X
        unique, where = np.unique(rows, return_inverse=True)
        kept = self._kept(v, unique)
        return (np.asarray(source.read(unique), dtype=self.dtype) if kept is None else kept)[where]

    @property
    def checked_rows(self) -> NDArray[np.int64]:
        """Rows on which a fit is checked, evenly over all."""
        return evenly(self.n, min(self.n, CHECKED_ROWS))

    @property
    def kept_rows(self) -> NDArray[np.int64]:
        """Rows, rising, that later stages read here and there, for each of which storage would unpack a chunk.

        The first pass keeps their values: candidates for landmarks, and rows on which the fit is checked. None where
        they are most of the rows, or take too much memory.
        """

        def made() -> NDArray[np.int64]:
            if self.in_memory or 2 * CANDIDATES > self.n:
                return np.empty(0, np.int64)
            found = np.union1d(candidates(self.n, 0, np.random.default_rng(self.seed)), self.checked_rows)
            found = np.union1d(found, evenly(self.n, halved_rows(self.n, self.width)))
            return found if len(found) * self.width * self.itemsize <= KEPT_BYTES else found[:0]

        return self.cached("kept rows", self.seed, self.n, self.width, make=made, keep=1)

    def kept_of(self, block: int) -> NDArray[np.int64]:
        """The kept rows of a block."""
        first, last = self.bounds(block)
        return self.kept_rows[slice(*np.searchsorted(self.kept_rows, [first, last]))]

    def _kept(self, v: int, rows: NDArray[np.int64]) -> NDArray | None:
        """Some rows, rising, of a view, if all of them were kept by the first pass."""
        at = np.searchsorted(self.kept_rows, rows)
        if not len(self.kept_rows) or at[-1] == len(self.kept_rows) or (self.kept_rows[at] != rows).any():
            return None
        stage = MOMENTS.of(self)
        if not stage.is_finished(0) or stage.facts(0).get("kept") != self.seed:
            return None  # the first pass has not ended, or kept none, or those of another seed

        def read() -> NDArray:
            return np.concatenate(
                [SCAN.of(self).read(f"kept_{v}", b) for b in range(self.n_blocks) if len(self.kept_of(b))]
            )

        return self.cached("kept", MOMENTS.fingerprint(self), self.seed, v, make=read)[at]

    def _compare(self, v: int, start: int, X: NDArray) -> None:
        """An error if a whole block among rows that were read is not what it was for stage `scan`."""
        stop = start + len(X)
        for block in range(-(-start // self.rows), self.n_blocks if stop == self.n else stop // self.rows):
            first, last = self.bounds(block)
            part = X[first - start : last - start]
            # One that differs is read again: the views may have been scanned again since this process read it.
            known = (_checksums(MOMENTS.of(self), again=again) for again in (False, True))
            if all(expected is not None and crc32c(part) != expected[block][v] for expected in known):
                raise inputs.changed(self.first_read, self.sources[v].name, first, last)

    @property
    def first_read(self) -> Blocks:
        """Blocks of stage `scan`, which reads every block first and keeps its checksums."""
        return SCAN.of(self)

    @property
    def present(self) -> dict[str, Source]:
        return {source.name: source for source in self.sources}

    rows_read = RowBlocks.bounds  # of the views, that a block is made of

    def find(self, kind: str, *key: Hashable) -> Any:
        """The cached value of this job of a kind and a key; None if there is none."""
        return cache.find((kind, self.address, *key))

    def cached(self, kind: str, *key: Hashable, make: Callable[[], T], keep: int | None = None) -> T:
        """The cached value, computed if there is none; with ``keep``, only so many values of a kind are kept."""
        return cache.get((kind, self.address, *key), make, keep=keep)

    def blocks(self, name: str, known_by: str, n_blocks: int) -> Blocks:
        """The blocks of a stage in the store of this job; ``known_by`` is the fingerprint of the stage."""
        return Blocks(self.address, name, known_by, n_blocks)

    @cached_property
    def chunk_rows(self) -> int:
        """Rows of a chunk of the views in storage."""
        return int(self.sources[0].open().chunks[0])

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def width(self) -> int:
        """Channels of all views."""
        return sum(self.dims)

    @property
    def pass_bytes(self) -> float:
        """Bytes that storage unpacks when every block of the views is read once."""
        return float(rows_decoded(self.n, self.rows, self.chunk_rows)) * self.width * self.itemsize

    @property
    def block_bytes(self) -> float:
        return float(min(self.rows, self.n)) * self.width * self.itemsize

    @property
    def reading_bytes(self) -> float:
        """Memory of a task that reads a block of the views: the block, and a chunk, compressed and not."""
        return self.block_bytes + 2.0 * min(self.chunk_rows, self.n) * max(self.dims) * self.itemsize

    def touched_bytes(self, some: int) -> float:
        """Bytes that storage unpacks to read some scattered rows: a chunk for each, or all of them."""
        chunks = min(some, -(-self.n // self.chunk_rows))
        return float(chunks) * min(self.chunk_rows, self.n) * self.width * self.itemsize

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of stages that have been computed: see `dlcca.engine.stage`."""
        return {}

    def described(self, stage: Stage) -> str:
        """What a stage depends on, for the message on a stale stage."""
        values = {name: value if np.ndim(value) == 0 else "given" for name, value in self._options_of(stage).items()}
        known = ", ".join(f"{name} {value}" for name, value in values.items())
        return stage.says(self) or known or f"{self.n} samples of {self.K} views"

    def _options_of(self, stage: Stage) -> dict[str, Any]:
        """The options of a stage; if it has none, those of the stages before it."""
        options = {"seed": self.seed, **self.options}
        of_earlier = (self._options_of(earlier) for earlier in stage.after)
        return {name: options[name] for name in stage.options} or reduce(or_, of_earlier, {})

    @cached_property
    def options(self) -> dict[str, Any]:
        return self.settings.options()


def _checksums(stage: Blocks, *, again: bool) -> list[list[int]] | None:
    """Checksums of the views, by block and view, as they were scanned; None if they were not yet."""
    key = ("checksums", stage.address, stage.fingerprint)
    if again:
        cache.discard(key)
    if cache.find(key) is None and not stage.is_finished(0):
        return None
    return cache.get(key, lambda: stage.facts(0)[inputs.CHECKSUMS])


def cached_clock(address: str, inputs: str) -> Clock:
    """Read once in a process; ``inputs`` distinguishes different views at one address."""
    return cache.get(("clock", address, inputs), lambda: read_clock(address))


def identity(sources: tuple[Source, ...]) -> str:
    """Identity of these views: shapes, dtypes, and the bytes of rows spread over each."""
    known = []
    for source in sources:
        array = source.open()
        rows = np.unique(np.linspace(0, array.shape[0] - 1, 64).astype(int))
        content = hashlib.sha256(np.ascontiguousarray(source.read(rows)).tobytes()).hexdigest()
        known.append([source.name, list(array.shape), str(array.dtype), content])
    return fingerprint(known)


def settled(settings: Settings, sources: tuple[Source, ...]) -> Choices:
    """The settings for these views without any "auto"; only headers are read.

    Views that lack chunks are refused before, unless these are accepted, which is then noted.
    """
    shapes = [array.shape for array in opened(sources).values()]
    notes = tuple(note for source in sources if (note := source.check_complete()))
    return replace(choose(settings, shapes[0][0], len(sources), [d for _, d in shapes]), notes=notes)


def refuse_early(options: dict[str, Any], n: int, dims: Sequence[int] = ()) -> None:
    """An error for settings that would fail after hours of work."""
    refuse_sizes(options, n, dims)
    rows, k = options["neighbor_rows"], options["n_neighbors"]
    if not isinstance(rows, str) and rows < k:
        raise SettingsError(f"neighbor_rows={rows} with n_neighbors={k}; at least {k} rows are needed, or 'all'.")
    if np.ndim(options["landmarks"]):
        given_landmarks(options["landmarks"], n)
    refuse_few_landmarks(requested_landmarks(options), options["n_components"])


def halved_rows(n: int, width: int) -> int:
    """How many of n rows of so many channels are halved, where they may lie anywhere."""
    return min(n, HALVED_ROWS, HALVED_ENTRIES // width)


def requested_landmarks(options: dict[str, Any]) -> int:
    """How many landmarks were requested, by their number or by their rows."""
    landmarks = options["landmarks"]
    return len(landmarks) if np.ndim(landmarks) else int(landmarks)


def refuse_sizes(options: dict[str, Any], n: int, dims: Sequence[int] = ()) -> None:
    """An error for more landmarks or larger neighborhoods than there are samples."""
    kind, sizes = options["neighborhoods"], {"landmarks": requested_landmarks(options)}
    if isinstance(kind, str):
        width = "window" if kind == "time" else "n_neighbors"
        if options[width] == "auto":
            raise SettingsError(
                "window='auto' is chosen by rows of the views, which were not read. Are they not made yet? "
                "Then dlcca ingest run.toml first, or give a number of samples."
            )
        sizes[width] = int(options[width])
    for option, asked in sizes.items():
        if asked > n:
            message = f"{option}={asked}, but the views have {n} samples; ask for at most {n}."
            raise SettingsError(f"{message} {transposed(n, dims)}".rstrip())


def refuse_few_landmarks(m: int, q: int) -> None:
    if q > m - 1:
        raise SettingsError(f"n_components={q} with {m} landmarks; at most {m - 1} are possible.")


def given_landmarks(wanted: Any, n: int) -> NDArray[np.int64]:
    """Row numbers that the user gave, checked; the settings have checked that they are whole numbers (L,)."""
    rows = np.asarray(wanted)
    if len(rows) < 2:
        raise SettingsError(f"{len(rows)} landmark was given; at least 2 are needed.")
    check_rows("landmarks", rows, n)
    values, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        twice = values[counts > 1]
        raise SettingsError(f"landmarks names row {twice[0]} twice ({len(twice)} rows repeated); name each once.")
    return rows.astype(np.int64)


def check_rows(option: str, rows: NDArray, n: int) -> None:
    outside = rows[(rows < 0) | (rows >= n)]
    if outside.size:
        raise SettingsError(f"{option} names row {outside.flat[0]}; the views have rows 0 to {n - 1}.")


def opened(sources: tuple[Source, ...], fewest: int = 2) -> dict[str, Any]:
    """The views by name, checked: arrays of real numbers, of equal lengths, with enough samples."""
    if not sources:
        raise DataError("no views were given; name at least one Zarr array.")
    arrays = {source.name: source.open() for source in sources}
    for name, array in arrays.items():
        if array.ndim != 2 or array.shape[1] == 0:
            raise DataError(f"view {name!r} has shape {array.shape}; (samples, channels) is needed.")
        if array.dtype.kind not in "fiub":
            raise DataError(f"view {name!r} has dtype {array.dtype}; real numbers are needed.")
    shapes = {name: array.shape for name, array in arrays.items()}
    n, *others = {shape[0] for shape in shapes.values()}
    if others:
        raise DataError(differing(shapes))
    if n < fewest:
        raise DataError(f"the views have {n} sample{'s' * (n != 1)}; at least {fewest} are needed.")
    return arrays


def dtype_and_rows(arrays: Sequence[Any], n: int) -> tuple[str, int]:
    """The dtype in which the views of n samples are read, and the rows of a block."""
    narrow = all(array.dtype.kind == "f" and array.dtype.itemsize <= 4 for array in arrays)
    rows = rows_of_block(n, [array.shape[1] for array in arrays], 4 if narrow else 8, arrays[0].chunks[0])
    return "float32" if narrow else "float64", rows


def places_read(address: str, clock: str, sources: Iterable[Source]) -> list[str]:
    """Where the views lie that were not made for the store at an address."""
    made_here = clock.rstrip("/") == f"{address.rstrip('/')}/{RECORDINGS}"
    return [] if made_here else [source.place for source in sources]


def make_job(address: str, sources: tuple[Source, ...], settings: Settings, seed: int, clock: str = "") -> Job:
    """A job, after a check of the views: equal lengths, real numbers, at least two samples.

    ``clock`` is the address of the store of views that they are, if they were made of recordings.
    """
    arrays = list(opened(sources).values())
    n, dims = arrays[0].shape[0], tuple(array.shape[1] for array in arrays)
    refuse_early(settings.options(), n, dims)
    if settings.neighborhoods.lags is not None:
        raise SettingsError(
            "lags is for arrays in memory; find them with dlcca.lags(views), and shift the rows of the views before."
        )
    dtype, rows = dtype_and_rows(arrays, n)
    inputs = identity(sources)
    if clock:
        inputs = fingerprint(inputs, describe(clock)["fingerprint"])
    return Job(address, sources, settings, seed, n, dims, dtype, rows, inputs, clock)


@dataclass(frozen=True, eq=False)
class MemoryJob(Job):
    """K arrays (n, d_v). A job with other settings that has the same store shares the stages that do not differ."""

    arrays: Sequence[NDArray] = ()
    segments: NDArray[np.int64] | None = None  # (n,) numbers of the unbroken stretches
    store: MemoryStore = field(default_factory=MemoryStore)
    allow_degenerate: bool = False

    in_memory = True

    def read(self, v: int, rows: Any) -> NDArray:
        return self.arrays[v][rows]

    def find(self, kind: str, *key: Hashable) -> Any:
        return self.store.find(kind, key)

    def cached(self, kind: str, *key: Hashable, make: Callable[[], T], keep: int | None = None) -> T:
        return self.store.cached(kind, key, make, keep=keep)

    def blocks(self, name: str, known_by: str, n_blocks: int) -> MemoryBlocks:  # type: ignore[override]
        return self.store.blocks(name, known_by, n_blocks)


def memory_job(
    arrays: Sequence[NDArray],
    names: Sequence[str],
    settings: Settings,
    seed: int = 0,
    segments: NDArray[np.int64] | None = None,
    *,
    allow_degenerate: bool = False,
) -> MemoryJob:
    """The job of arrays (n, d_v) that have been checked, with settings that hold no "auto"."""
    n, sources = len(arrays[0]), tuple(Source(name, "") for name in names)
    dims, dtype = tuple(X.shape[1] for X in arrays), str(np.result_type(*arrays))
    kept: dict[str, Any] = {"arrays": tuple(arrays), "segments": segments, "allow_degenerate": allow_degenerate}
    return MemoryJob("", sources, settings, seed, n, dims, dtype, rows=n, inputs="", **kept)
