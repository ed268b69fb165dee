"""Fitting arrays that are not in memory: Dask, Zarr and xarray arrays, by the stages.

A fit keeps its files in a temporary folder, or in a store that the user gave::

    STORE
    ├── fit.json    what is fitted here: options, seed and views; leftovers of another fit are refused by it
    ├── views       copies of those views that workers cannot read where they are
    └── run.zarr    the stages and the result, as `dlcca run` leaves them
"""

import json
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.clusters.check import access_problems
from dlcca.engine.stage import fingerprint, plain
from dlcca.errors import ClusterError, DataError, DlccaError, SettingsError, StaleStage
from dlcca.fitting import pipeline, runner
from dlcca.fitting.auto_window import chosen_job
from dlcca.fitting.in_memory import Fit, fit_of
from dlcca.fitting.job import Job, Source, settled
from dlcca.fitting.refit import Known, settings_together
from dlcca.model import Model
from dlcca.recordings.view_array import ViewArray, is_view
from dlcca.settings.auto import Choices
from dlcca.settings.fit import Settings
from dlcca.settings.recipe import MISSING_CHUNKS
from dlcca.storage import lock
from dlcca.storage import run as run_store
from dlcca.storage.blocks import storing
from dlcca.storage.files import files_at, is_remote, zarr_store
from dlcca.storage.inputs import address_of, check_complete, refuse_objects
from dlcca.trust.quality import Quality
from dlcca.views import refuse_masked

FILE = "fit.json"
#: Of a chunk of a copy.
CHUNK_BYTES = 8 << 20


def is_lazy(X: Any) -> bool:
    """Whether an array is one that is read in parts."""
    X = _bare(X)
    return isinstance(X, ViewArray) or _package(X) in ("dask", "zarr")


def fit(
    views: dict[str, Any],
    settings: Settings,
    seed: int | None,
    client: Any,
    clock: str = "",
    store: str | Path | None = None,
    missing_chunks: str = "refuse",
) -> Fit:
    """Fit without ever holding a view whole, in ``store`` or in a temporary one that lives as long as the embedding.

    ``clock`` is the address of the store of views that they are, if they were made of recordings; ``missing_chunks``
    says what to do about chunks that a Zarr array lacks, "refuse" or "fill".
    """
    place = FitStore(store)
    try:
        views = {name: _bare(X) for name, X in views.items()}
        notes = _check_complete(views, missing_chunks)
        mover = client or (_default_client() if any(_package(X) == "dask" for X in views.values()) else None)
        if mover is not None:
            place.refuse_unreachable(mover)
        seed = place.claim(settings, seed, {name: _identity(X) for name, X in views.items()})
        with lock.held(place.run, "a fit") if place.kept else nullcontext():
            sources = tuple(_source(name, X, place, number, mover) for number, (name, X) in enumerate(views.items()))
            choices = replace(settled(settings, sources), notes=notes)
            job, choices = chosen_job(place.run, sources, choices, seed, clock)
            embedding, quality = _computed(job, choices, client, place)
        return fit_of(job, embedding if job.moments is None else embedding[job.moments.rows], quality, choices)
    except BaseException:
        place.remove_if_temporary()
        raise


def _computed(job: Job, choices: Choices, client: Any, place: "FitStore") -> tuple[Any, Quality]:
    """The embedding as a Dask array, and how far to trust it; a store that is kept becomes a finished run."""
    import dask.array as da
    import zarr

    if place.kept:
        quality = runner.run(job, choices, client)
        return run_store.lazy_embedding(job.address), quality
    pipeline.run(job, client)
    on_disk = zarr.open_array(job.address, path="embedding", mode="r")
    # The graph of the embedding, and of whatever is computed from it, holds this array: without its files, Zarr would
    # read zeros.
    weakref.finalize(on_disk, place.remove_if_temporary)
    return da.from_zarr(on_disk), runner.quality_of(job, choices)


def transform(model: Model, views: dict[str, Any], missing_chunks: str = "refuse") -> Any:
    """Coordinates of lazy views as a Dask array (n, q), block by block."""
    return mapped(model.coordinates, _whole(views, missing_chunks), len(model.scale))


def distance(model: Model, views: dict[str, Any], missing_chunks: str = "refuse") -> Any:
    """Distances of lazy views from what the fit has seen, as a Dask array (n,), block by block."""
    return mapped(lambda parts: model.distance(parts)[:, None], _whole(views, missing_chunks), 1)[:, 0]


def _whole(views: dict[str, Any], missing_chunks: str) -> list[Any]:
    """Views as Dask arrays, after a look for missing chunks; None for one that is missing."""
    _check_complete(views, missing_chunks)
    return [None if X is None else _dask(X, name) for name, X in views.items()]


def mapped(coordinates_of: Callable[[list[NDArray | None]], NDArray], views: Sequence[Any], q: int) -> Any:
    """Coordinates (n, q) of Dask arrays (n, d_v), a task for each chunk of rows; a missing view is None.

    ``coordinates_of`` gives those (b, q) of some rows of every view. The chunks of rows and the dtype are those of the
    first view that is there.
    """
    import dask.array as da
    from dask.delayed import delayed

    given = [v for v, X in enumerate(views) if X is not None]
    rows = views[given[0]].chunks[0]
    aligned = [views[v].rechunk((rows, -1)) for v in given]
    made_of = delayed(coordinates_of, traverse=False)  # one node in the graph, not a copy in every task
    known = {"coordinates_of": made_of, "given": given, "K": len(views), "chunks": (rows, (q,))}
    return da.map_blocks(_mapped_block, *aligned, **known, dtype=aligned[0].dtype, meta=aligned[0]._meta)


def _mapped_block(*parts: NDArray, coordinates_of: Callable[..., NDArray], given: list[int], K: int) -> NDArray:
    """The coordinates of one chunk of rows."""
    there = dict(zip(given, parts, strict=True))
    return coordinates_of([there.get(v) for v in range(K)]).astype(parts[0].dtype)


def refit(
    known: Known,
    new: dict[str, Any],
    old: dict[str, Any],
    seed: int | None,
    client: Any,
    store: str | Path | None = None,
    missing_chunks: str = "refuse",
) -> tuple[Fit, NDArray[np.float64]]:
    """A fit to old and new rows, with the old landmarks; and the coordinates that the old rows had before.

    In ``store`` it gets a folder of its own, named for its rows and landmarks, beside the fit that is there.
    """
    import dask.array as da

    model, names = known.model, list(new)
    first, then = _whole({name: old[name] for name in names}, missing_chunks), _whole(new, missing_chunks)
    for views in (first, then):
        model.check(views)
    seen = dict(zip(names, then, strict=True))
    settings = settings_together(known, first, then, lambda: np.asarray(distance(model, seen)))
    before = np.asarray(mapped(model.coordinates, first, len(model.scale)))
    together = {name: da.concatenate(pair) for name, *pair in zip(names, first, then, strict=True)}
    if store is not None:
        about = [settings.options(), {name: _identity(X) for name, X in together.items()}]
        store = f"{FitStore(store).address}/refit-{fingerprint(about)[:16]}"
    return fit(together, settings, seed, client, store=store), before


def _check_complete(views: dict[str, Any], missing_chunks: str) -> tuple[str, ...]:
    """Refuse Zarr arrays that lack chunks; if these are accepted, a note on each array that does.

    Chunks that a Dask array reads from Zarr cannot be seen here.
    """
    import zarr

    MISSING_CHUNKS.check("missing_chunks", missing_chunks)
    arrays = {name: X for name, X in views.items() if isinstance(X, zarr.Array) and not is_view(X)}
    notes = (check_complete(f"view {name!r}", address_of(X), X, missing_chunks) for name, X in arrays.items())
    return tuple(filter(None, notes))


def _source(name: str, X: Any, place: "FitStore", number: int, client: Any) -> Source:
    """A view as a Zarr array that all workers read: where it is, or a copy made chunk by chunk."""
    if X.ndim != 2:
        raise DataError(f"view {name!r} has shape {X.shape}; (samples, channels) is needed.")
    if isinstance(X, ViewArray):
        source = Source(name, X.address)
        if client is not None and (problem := unreadable(client, source)):
            raise ClusterError(
                f"view {name!r} cannot be read by all workers ({problem}). Put it where all of them see it."
            )
        return source
    if _is_in(X, "LocalStore"):
        source = _on_disk(name, X)
        if client is None or unreadable(client, source) is None:
            return source
    # Workers see neither the memory nor the disk of this process.
    return place.copy(name, number, _dask(X, name), None if _is_in(X, "LocalStore", "MemoryStore") else client)


def _bare(X: Any) -> Any:
    """The array of an xarray."""
    return getattr(X, "data", X) if hasattr(X, "dims") else X


def _package(X: Any) -> str:
    """The name of the package that an array is of."""
    return type(X).__module__.split(".")[0]


def _is_in(X: Any, *kinds: str) -> bool:
    """Whether it is a Zarr array in a store of one of these classes."""
    import zarr

    return isinstance(X, zarr.Array) and isinstance(X.store_path.store, tuple(getattr(zarr.storage, k) for k in kinds))


def _on_disk(name: str, X: Any) -> Source:
    """The Zarr array of a folder, by an address that does not depend on where a worker was started."""
    root = str(X.store_path.store.root.absolute())
    return Source(name, root, X.store_path.path, missing_chunks="fill")  # they were checked before


def _identity(X: Any) -> list[Any]:
    """Identity of a view before it is read: its name in Dask or its address, its shape and dtype."""
    on_disk = X.store_path if _is_in(X, "LocalStore") else ""
    where = X.name if _package(X) == "dask" else getattr(X, "address", "") or on_disk
    return [str(where), list(X.shape), str(X.dtype)]


def _default_client() -> Any:
    """The client that Dask would compute with; None if there is none."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    with suppress(ValueError):
        return default_client()
    return None


def _dask(X: Any, name: str) -> Any:
    """A lazy view as a Dask array."""
    import dask.array as da

    X = _bare(X)
    if _package(X) == "dask":
        return da.map_blocks(_unmasked, X, view=name, dtype=X.dtype, meta=np.empty((0,) * X.ndim, X.dtype))
    if _package(X) == "zarr" and is_view(X):
        X = ViewArray(X, str(X.store_path))
    elif hasattr(X, "store_path"):
        refuse_objects(X.metadata.to_dict(), f"the array {X.store_path}")
    rows = _Rows(_on_disk(name, X), X.shape, X.dtype, X.ndim) if _is_in(X, "LocalStore") else X
    return da.from_array(rows, chunks=getattr(X, "chunks", "auto"))


def _unmasked(X: Any, view: str, block_info: Any = None) -> NDArray:
    """A chunk as a plain array; an error if values in it are masked, which Dask knows of some arrays only."""
    if np.ma.isMaskedArray(X):
        first = block_info[0]["array-location"][0][0] if block_info else 0
        refuse_masked(X, view, first=0 if np.isnan(first) else int(first))
    return np.asarray(X)


@dataclass(frozen=True)
class _Rows:
    """A Zarr array on disk, opened wherever it is read: one that a worker does not see would else read as zeros."""

    source: Source
    shape: tuple[int, ...]
    dtype: np.dtype
    ndim: int

    def __getitem__(self, key: Any) -> NDArray:
        rows, *rest = key if isinstance(key, tuple) else (key,)
        return self.source.read(rows)[(slice(None), *rest)]


class FitStore:
    """A place for one fit, which this process and all workers read and write."""

    def __init__(self, store: str | Path | None) -> None:
        self.kept = store is not None  # given by the user; else temporary, and removed with the fitted model
        address = tempfile.mkdtemp(prefix="dlcca-") if store is None else str(store).removeprefix("file://").rstrip("/")
        self.address = address if is_remote(address) else str(Path(address).absolute())
        self.run = f"{self.address}/run.zarr"

    def remove_if_temporary(self) -> None:
        if not self.kept:
            shutil.rmtree(self.address, ignore_errors=True)

    def refuse_unreachable(self, client: Any) -> None:
        """End here if a worker does not see what is written here, or the other way round."""
        client.submit(os.getpid, pure=False).result()  # an adaptive cluster has workers from the first task on
        if problems := access_problems(client, self.address):
            remedy = "Choose another store:" if self.kept else "Give LocalCCA(store=...)"
            needed = "a folder on a file system that this machine and all workers share, or object storage (s3://...)"
            raise ClusterError(f"{problems[0]}. {remedy} {needed}.")

    def claim(self, settings: Settings, seed: int | None, views: Mapping[str, Any]) -> int:
        """Record what is fitted here, and return the seed; refuse a place that holds something else.

        Without a seed, the one of the fit that is there already is used, so that it is resumed.
        """
        fresh = int(np.random.default_rng().integers(np.iinfo(np.int64).max)) if seed is None else seed
        if not self.kept:
            return fresh
        files = files_at(self.address)
        wanted = json.loads(json.dumps({"options": settings.options(), "seed": fresh, "views": views}, default=plain))
        if (content := files.get(FILE)) is not None:
            known = json.loads(content)
            wanted["seed"] = known["seed"] if seed is None else seed
            there, now = ({**about["options"], "random_state": about["seed"]} for about in (known, wanted))
            differ = [name for name in now if there.get(name) != now[name]]
            changed = [f"{name}={there.get(name)!r} there, {now[name]!r} now" for name in differ]
            changed += ["other views"] * (known["views"] != wanted["views"])
            if changed:
                holds = f"store={self.address} holds another fit ({'; '.join(changed)})"
                raise StaleStage(f"{holds}. Give another store, or remove this one.")
            return int(wanted["seed"])
        if found := files.names(""):
            raise SettingsError(
                f"store={self.address} holds something that is not a fit of LocalCCA ({', '.join(found[:3])}); "
                "give the address of a new or empty folder."
            )
        files.put(FILE, json.dumps(wanted, indent=1).encode())
        return fresh

    def copy(self, view: str, number: int, array: Any, client: Any) -> Source:
        """A Dask array as a Zarr array in this place, written by the workers of ``client`` or by this process."""
        import zarr

        address = f"{self.address}/views/{number}.zarr"
        rows = max(1, CHUNK_BYTES // (array.dtype.itemsize * array.shape[1]))
        chunks = (min(rows, array.shape[0]) or 1, array.shape[1])
        with storing(f"the copy of view {view!r} in {address}"):
            zarr.create_array(zarr_store(address), shape=array.shape, chunks=chunks, dtype=array.dtype, overwrite=True)
        blocks = array.rechunk(chunks)
        written = blocks.map_blocks(_write, address, dtype=bool, chunks=((1,) * blocks.numblocks[0], (1,)))
        if client is None:
            written.all().compute(scheduler="threads")
        else:
            client.compute(written.all(), retries=2).result()
        return Source(view, address)


def _write(block: NDArray, address: str, block_info: Any = None) -> NDArray[np.bool_]:
    """Write the rows of one chunk, also if they are all zeros: a chunk that is not there is known to be missing."""
    import zarr

    if block_info is not None:  # else Dask infers the type
        first, last = block_info[0]["array-location"][0]
        with storing(f"rows {first} to {last - 1} of {address}"):
            array = zarr.open_array(zarr_store(address), mode="r+").with_config({"write_empty_chunks": True})
            array[first:last] = np.asarray(block)
    return np.ones((1, 1), bool)


def unreadable(client: Any, source: Source) -> str | None:
    """Why a worker cannot read a view where it is; None if all can."""
    array = source.open()
    answers = client.run(_problem, source, (array.shape, str(array.dtype)), on_error="return")
    return next((f"the worker at {address}: {said}" for address, said in answers.items() if said is not None), None)


def _problem(source: Source, expected: tuple[tuple[int, ...], str]) -> str | None:
    """On a worker: open the view; what went wrong."""
    try:
        array = source.open()
    except (DlccaError, OSError) as error:
        return str(error)
    found = (tuple(array.shape), str(array.dtype))
    return None if found == expected else f"{source.address} is another array there, {found} and not {expected}"
