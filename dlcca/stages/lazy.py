"""Fitting arrays that are not in memory: Dask, Zarr and xarray arrays, by the stages, in a scratch store."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import dataclass
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
from dlcca.settings import Settings
from dlcca.stages import checking, finish, landmarks, metric, pipeline, spectrum
from dlcca.stages.job import Source, settled
from dlcca.stages.view_array import ViewArray, is_view, view_array
from dlcca.stages.window import chosen_job
from dlcca.stores.codecs import refuse_objects


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


def fit(views: dict[str, Any], settings: Settings, seed: int, client: Any, clock: str = "") -> LazyFit:
    """Fit without ever holding a view whole; the scratch store lives as long as the embedding is in use.

    ``clock`` is the address of the store of views that they are, if they were made of recordings.
    """
    import dask.array as da

    scratch = Path(tempfile.mkdtemp(prefix="dlcca-"))
    try:
        sources = tuple(_source(name, X, scratch) for name, X in views.items())
        choices = settled(settings, sources)
        job, choices = chosen_job(str(scratch / "run.zarr"), sources, choices, seed, clock)
        pipeline.run(job, client)
        quality = finish.quality_of(job)
        embedding = da.from_zarr(str(scratch / "run.zarr"), component="embedding")
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
    weakref.finalize(result.model, shutil.rmtree, scratch, ignore_errors=True)
    return result


def transform(model: Model, views: dict[str, Any]) -> Any:
    """Coordinates of lazy views as a Dask array (n, q), block by block."""
    arrays = [None if X is None else _dask(X) for X in views.values()]
    return extension.coordinates(model.coordinates, arrays, len(model.scale))


def distance(model: Model, views: dict[str, Any]) -> Any:
    """Distances of lazy views from what the fit has seen, as a Dask array (n,), block by block."""
    arrays = [None if X is None else _dask(X) for X in views.values()]
    return extension.coordinates(lambda parts: model.distance(parts)[:, None], arrays, 1)[:, 0]


def refit(
    known: Known, new: dict[str, Any], old: dict[str, Any], seed: int, client: Any
) -> tuple[LazyFit, NDArray[np.float64]]:
    """A fit to old and new rows, with the old landmarks; and the coordinates that the old rows had before."""
    import dask.array as da

    views = {name: (_dask(old[name]), _dask(X)) for name, X in new.items()}
    for part in range(2):
        known.model.check([pair[part] for pair in views.values()])
    check_old(known, [np.asarray(X[known.landmarks]) for X, _ in views.values()])
    before = np.asarray(extension.coordinates(known.model.coordinates, [X for X, _ in views.values()], _q(known.model)))
    away = np.asarray(distance(known.model, {name: X for name, (_, X) in views.items()}))
    added = new_landmarks(known, away, lambda rows: [np.asarray(X[rows]) for _, X in views.values()])
    n_old, n_new = (next(iter(views.values()))[part].shape[0] for part in range(2))
    settings = settings_for(known, n_old, n_old + n_new, np.concatenate([known.landmarks, n_old + added]))
    return fit({name: da.concatenate(pair) for name, pair in views.items()}, settings, seed, client), before


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
        return Source(name, str(X.store_path.store.root), X.store_path.path)
    array = _dask(X)
    rows = max(1, (8 << 20) // (array.dtype.itemsize * array.shape[1]))
    path = scratch / "views" / f"{len(list(scratch.glob('views/*')))}.zarr"
    array.rechunk((rows, -1)).to_zarr(str(path), compute=True)
    return Source(name, str(path))


def _dask(X: Any) -> Any:
    import dask.array as da

    X = getattr(X, "data", X) if hasattr(X, "dims") else X
    if type(X).__module__.split(".")[0] == "zarr" and is_view(X):
        X = view_array(X, str(X.store_path))
    elif hasattr(X, "store_path"):
        refuse_objects(X.metadata.to_dict(), f"the array {X.store_path}")
    return X if isinstance(X, da.Array) else da.from_array(X, chunks=getattr(X, "chunks", "auto"))
