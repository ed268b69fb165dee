"""Fitting arrays that are not in memory: Dask, Zarr and xarray arrays, by the stages, in a scratch store."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.choices import Choices
from dlcca.chunked import extension
from dlcca.errors import DataError
from dlcca.model import Model
from dlcca.quality import Quality
from dlcca.refitting import Known, check_old, new_landmarks, settings_for
from dlcca.settings import Settings, check_missing_chunks
from dlcca.stages import checking, finish, landmarks, metric, pipeline, spectrum
from dlcca.stages.job import Source, settled
from dlcca.stages.view_array import ViewArray, is_view, view_array
from dlcca.stages.window import chosen_job
from dlcca.stores.inputs import address_of, check_complete
from dlcca.views import refuse_masked


@dataclass(frozen=True)
class LazyFit:
    """The result of a fit whose embedding stays on disk."""

    model: Model
    embedding: Any  # a Dask array (n, q)
    eigenvalues: Any
    landmarks: Any
    correlations: Any
    bandwidth: Any
    quality: Quality
    choices: Choices


def is_lazy(X: Any) -> bool:
    """Whether an array is one that is read in parts."""
    X = getattr(X, "data", X) if hasattr(X, "dims") else X
    return isinstance(X, ViewArray) or type(X).__module__.split(".")[0] in ("dask", "zarr")


def fit(
    views: dict[str, Any],
    settings: Settings,
    seed: int,
    client: Any,
    clock: str = "",
    missing_chunks: str = "refuse",
) -> LazyFit:
    """Fit without ever holding a view whole; the scratch store lives as long as the embedding is in use.

    ``clock`` is the address of the store of views that they are, if they were made of recordings; ``missing_chunks``
    says what to do about chunks that a Zarr array lacks, "refuse" or "fill".
    """
    import dask.array as da
    import zarr

    scratch = Path(tempfile.mkdtemp(prefix="dlcca-"))
    try:
        notes = _check_complete(views, missing_chunks)
        sources = tuple(_source(name, X, scratch) for name, X in views.items())
        choices = replace(settled(settings, sources), notes=notes)
        job, choices = chosen_job(str(scratch / "run.zarr"), sources, choices, seed, clock)
        pipeline.run(job, client)
        quality = finish.quality_of(job, choices)
        on_disk = zarr.open_array(str(scratch / "run.zarr"), path="embedding", mode="r")
        embedding = da.from_zarr(on_disk)
        embedding = embedding if job.moments is None else embedding[job.moments.rows]
        sigma = spectrum.sigmas(job)
        result = LazyFit(
            model=checking.model_of(job),
            embedding=embedding,
            eigenvalues=spectrum.eigenvalues(job),
            landmarks=landmarks.rows(job),
            correlations=metric.result(job).correlations,
            bandwidth=sigma[0] if len(sigma) == 1 else sigma,
            quality=quality,
            choices=choices,
        )
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    # The graph of the embedding, and of whatever is computed from it, holds this array: without its files, Zarr would
    # read zeros.
    weakref.finalize(on_disk, shutil.rmtree, scratch, ignore_errors=True)
    return result


def transform(model: Model, views: dict[str, Any], missing_chunks: str = "refuse") -> Any:
    """Coordinates of lazy views as a Dask array (n, q), block by block."""
    _check_complete(views, missing_chunks)
    arrays = [None if X is None else _dask(X, name) for name, X in views.items()]
    return extension.coordinates(model.coordinates, arrays, len(model.scale))


def distance(model: Model, views: dict[str, Any], missing_chunks: str = "refuse") -> Any:
    """Distances of lazy views from what the fit has seen, as a Dask array (n,), block by block."""
    _check_complete(views, missing_chunks)
    arrays = [None if X is None else _dask(X, name) for name, X in views.items()]
    return extension.coordinates(lambda parts: model.distance(parts)[:, None], arrays, 1)[:, 0]


def refit(
    known: Known,
    new: dict[str, Any],
    old: dict[str, Any],
    seed: int,
    client: Any,
    missing_chunks: str = "refuse",
) -> tuple[LazyFit, NDArray[np.float64]]:
    """A fit to old and new rows, with the old landmarks; and the coordinates that the old rows had before."""
    import dask.array as da

    for some in (old, new):
        _check_complete(some, missing_chunks)
    views = {name: (_dask(old[name], name), _dask(X, name)) for name, X in new.items()}
    for part in range(2):
        known.model.check([pair[part] for pair in views.values()])
    check_old(known, [np.asarray(X[known.landmarks]) for X, _ in views.values()])
    before = np.asarray(extension.coordinates(known.model.coordinates, [X for X, _ in views.values()], _q(known.model)))
    away = np.asarray(distance(known.model, {name: X for name, (_, X) in views.items()}))
    added = new_landmarks(known, away, lambda rows: [np.asarray(X[rows]) for _, X in views.values()])
    n_old, n_new = (next(iter(views.values()))[part].shape[0] for part in range(2))
    settings = settings_for(known, n_old, n_old + n_new, np.concatenate([known.landmarks, n_old + added]))
    return fit({name: da.concatenate(pair) for name, pair in views.items()}, settings, seed, client), before


def _check_complete(views: dict[str, Any], missing_chunks: str) -> tuple[str, ...]:
    """Refuse Zarr arrays that lack chunks; if these are accepted, a note on each array that does.

    Chunks that a Dask array reads from Zarr cannot be seen here.
    """
    import zarr

    check_missing_chunks(missing_chunks)
    notes = [
        check_complete(f"view {name!r}", address_of(X), X, missing_chunks)
        for name, X in views.items()
        if isinstance(X, zarr.Array) and not is_view(X)
    ]
    return tuple(note for note in notes if note)


def _q(model: Model) -> int:
    return len(model.scale)


def _source(name: str, X: Any, scratch: Path) -> Source:
    """A view as a Zarr array on disk: where it is, or a copy made chunk by chunk."""
    import zarr

    X = getattr(X, "data", X) if hasattr(X, "dims") else X
    if X.ndim != 2:
        raise DataError(f"view {name!r} has shape {X.shape}; (samples, channels) is needed.")
    if isinstance(X, ViewArray):
        return Source(name, X.address)
    if isinstance(X, zarr.Array) and isinstance(X.store_path.store, zarr.storage.LocalStore):
        root = str(X.store_path.store.root)
        return Source(name, root, X.store_path.path, missing_chunks="fill")  # `fit` has decided about these
    array = _dask(X, name)
    rows = max(1, (8 << 20) // (array.dtype.itemsize * array.shape[1]))
    path = scratch / "views" / f"{len(list(scratch.glob('views/*')))}.zarr"
    array.rechunk((rows, -1)).to_zarr(str(path), compute=True)
    return Source(name, str(path), missing_chunks="fill")  # of zeros none are written


def _dask(X: Any, name: str) -> Any:
    import dask.array as da

    X = getattr(X, "data", X) if hasattr(X, "dims") else X
    if type(X).__module__.split(".")[0] == "zarr" and is_view(X):
        X = view_array(X, str(X.store_path))
    if not isinstance(X, da.Array):
        return da.from_array(X, chunks=getattr(X, "chunks", "auto"))
    return da.map_blocks(_unmasked, X, view=name, dtype=X.dtype, meta=np.empty((0,) * X.ndim, X.dtype))


def _unmasked(X: Any, view: str, block_info: Any = None) -> NDArray:
    """A chunk as a plain array; an error if values in it are masked, which Dask knows of some arrays only."""
    if np.ma.isMaskedArray(X):
        first = block_info[0]["array-location"][0][0] if block_info else 0
        refuse_masked(X, view, first=0 if np.isnan(first) else int(first))
    return np.asarray(X)
