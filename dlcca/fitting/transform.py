"""Coordinates of new rows in a fitted model, block by block, with how far each lies from what the fit has seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlcca.engine.row_blocks import RowBlocks
from dlcca.engine.stage import Arrays, fingerprint, progress_of, stages_on_disk
from dlcca.engine.work import OnProgress, digest_of_blocks, do_missing
from dlcca.errors import SettingsError, StaleStage, suggest
from dlcca.fitting.job import Source, array_sources, cached_clock, dtype_and_rows, identity, opened, places_read
from dlcca.model import Model
from dlcca.recordings import input_integrity as inputs
from dlcca.storage import cache, lock, places, transformed, views
from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.storage.blocks import Blocks, storing
from dlcca.storage.files import zarr_store
from dlcca.storage.formats import open_sealed, plain, seal
from dlcca.storage.manifest import put_group
from dlcca.storage.views import Clock, Reason


@dataclass(frozen=True)
class TransformJob(RowBlocks):
    """Views of n moments, to be given the coordinates of a model; small enough to send to every worker."""

    address: str  # of the result
    model: str  # address
    seal: str  # checksum of the model
    sources: tuple[Source | None, ...]  # in the order of the model's views; None for one that is missing
    n: int  # moments
    q: int
    dtype: str
    rows: int  # moments of a block
    inputs: str  # identity of model and views
    clock: str = ""  # the store of views that they are, if they were made of recordings
    notes: tuple[str, ...] = ()  # on the input

    @property
    def moments(self) -> Clock | None:
        return cached_clock(self.clock, self.inputs) if self.clock else None

    @property
    def stage(self) -> Blocks:
        return Blocks(self.address, "transform", self.inputs, self.n_blocks)

    first_read = stage

    def rows_read(self, block: int) -> tuple[int, int]:
        """The rows of the views that a block of moments is made of."""
        first, last = self.bounds(block)
        if self.moments is None:
            return first, last
        low, high = np.searchsorted(self.moments.rows, [first, last])
        return int(low), int(high)

    @property
    def present(self) -> dict[str, Source]:
        return {source.name: source for source in self.sources if source is not None}


def prepared(address: str, model: str, sources: Mapping[str, Source], clock: str = "") -> TransformJob:
    """The job, after a check of the headers of model and views; a view that is missing is not among the sources.

    ``model`` is the address of a saved model or of a finished run; ``clock`` that of the store of views that they are,
    if they were made of recordings.
    """
    place = run_store.model_of(model) if run_store.is_finished(model) else model
    checksum = _checksum(place)
    fitted = _opened(place, checksum)
    for name in sources:
        if name not in fitted.names:
            raise SettingsError(f"the model has no view {name!r}; {suggest(name, fitted.names)}")
    given = tuple(sources.get(name) for name in fitted.names)
    present = tuple(source for source in given if source is not None)
    arrays = opened(present, fewest=1) if present else {}
    fitted.check([arrays.get(name) for name in fitted.names])
    notes = tuple(note for source in present if (note := source.check_complete()))
    inputs = fingerprint(identity(present), checksum, views.describe(clock)["fingerprint"] if clock else "")
    n = len(cached_clock(clock, inputs).time) if clock else arrays[present[0].name].shape[0]
    dtype, rows = dtype_and_rows(list(arrays.values()), n)
    return TransformJob(address, place, checksum, given, n, len(fitted.scale), dtype, rows, inputs, clock, notes)


def views_of_store(address: str) -> dict[str, Source]:
    """The views of a store that was made of recordings."""
    return {name: Source(name, f"{address.rstrip('/')}/views/{name}") for name in views.describe(address)["views"]}


def named_arrays(files: Sequence[str], names: tuple[str, ...], missing_chunks: str = "refuse") -> dict[str, Source]:
    """Zarr arrays as ``NAME=array.zarr``, or one for each view in the order of the model's.

    ``missing_chunks`` says what to do about chunks that they lack: "refuse" or "fill".
    """
    split = [text.partition("=") for text in files]
    places = {name: place for name, _, place in split if name in names}
    n_named = sum(name in names for name, _, _ in split)
    if len(places) < n_named == len(files):
        raise SettingsError(f"a view is named twice in {' '.join(files)}.")
    if n_named < len(files):
        if n_named or len(files) != len(names):
            wanted = " ".join(f"{name}=..." for name in names)
            raise SettingsError(
                f"{len(files)} FILEs for a model of {len(names)} arrays ({', '.join(names)}); give {wanted}, or one "
                "Zarr array for each, in this order. Only a model of recordings takes recordings."
            )
        places = dict(zip(names, files, strict=True))
    return array_sources(places, dict.fromkeys(names, missing_chunks))


def run(job: TransformJob, client: Any = None, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Do what is missing, and seal the result; its header. A place that holds something else is refused."""
    sources = places_read(job.address, job.clock, job.present.values())
    places.refuse_store(job.address, transformed.FORM, inputs=[job.model, *sources], setting="store")
    if transformed.is_transformed(job.address) and transformed.describe(job.address)["fingerprint"] != job.inputs:
        raise StaleStage(f"{job.address} holds other recordings, or those of another model; give another store.")
    with lock.held(job.address, "a transform"):
        if not transformed.is_transformed(job.address):
            stage = job.stage.prepare(_arrays(job), says=f"the model {job.model}, views {', '.join(job.present)}")
            inputs.confirm(job, client, on_progress)
            do_missing(compute, job, stage, client, on_progress)
            inputs.confirm(job, client, on_progress)  # it may have changed on the way
            with storing(f"the header of {job.address}"):
                _seal(job)
        elif inputs.recorded(job.stage) is not None:  # else it was made by an earlier dlcca
            inputs.confirm(job, client, on_progress)
        return transformed.describe(job.address)


def _arrays(job: TransformJob) -> Arrays:
    dtypes = {"time": "float64" if job.clock else "int64", "reason": "uint8", "distance": "float64", "outside": "bool"}
    arrays = {f"/{name}": ((job.n,), dtype, job.rows) for name, dtype in dtypes.items()}
    return {"/embedding": ((job.n, job.q), job.dtype, job.rows), **arrays}


def compute(job: TransformJob, stage: Blocks, block: int) -> None:
    """Coordinates, distances and reasons of a block of moments."""
    model, clock = _opened(job.model, job.seal), job.moments
    (first, last), (low, high) = job.bounds(block), job.rows_read(block)
    sources, dtype = job.sources, job.dtype
    arrays = [None if s is None else s.read(slice(low, high)).astype(dtype, copy=False) for s in sources]
    known = inputs.checksums([X for X in arrays if X is not None])
    if clock is None:
        finite = np.logical_and.reduce([np.isfinite(X).all(axis=1) for X in arrays if X is not None])
        at = np.flatnonzero(finite)
        reason = np.where(finite, Reason.VALID, Reason.MISSING).astype(np.uint8)
        arrays = [None if X is None else X[at] for X in arrays]
    else:
        at, reason = clock.rows[low:high] - first, clock.reason[first:last]
    E, distance = np.full((last - first, job.q), np.nan), np.full(last - first, np.nan)
    if len(at):
        E[at], distance[at] = model.coordinates(arrays), model.distance(arrays)
    outside, time = distance > 1, np.arange(first, last) if clock is None else clock.time[first:last]
    made = {"embedding": E.astype(job.dtype), "time": time, "reason": reason, "distance": distance, "outside": outside}
    parts = {f"/{name}": (first, X) for name, X in made.items()}
    stage.write(block, parts, {"valid": len(at), "outside": int(outside.sum()), **known})


def _checksum(address: str) -> str:
    """That of the header of a model, as it is now."""
    return str(open_sealed(address, model_store.FORM)[0].attrs["checksum"])


def _opened(address: str, checksum: str) -> Model:
    """The model, read once in a process; ``checksum`` distinguishes models at one address."""

    def load() -> Model:
        if _checksum(address) != checksum:
            raise StaleStage(
                f"the model {address} was replaced while it was in use; give another store, and begin again."
            )
        model, _, facts = model_store.load(address)
        if any(facts.get("lags", ())):
            raise SettingsError(
                f"the model {address} has lags, and dlcca transform puts rows together as they are: use "
                "open_model(...).transform(views) with arrays in memory."
            )
        return model

    return cache.get(("model", address, checksum), load, keep=2)


def _seal(job: TransformJob) -> None:
    import zarr

    put_group(job.address, {})
    group = zarr.open_group(zarr_store(job.address), mode="a", zarr_format=3)
    facts = [job.stage.facts(block) for block in range(job.stage.n_blocks)]
    valid, outside = (sum(fact[key] for fact in facts) for key in ("valid", "outside"))
    clock, present = job.moments, job.present
    content = {
        "model": job.model,
        "model_checksum": job.seal,
        "views": list(present),
        "missing_views": [name for name in _opened(job.model, job.seal).names if name not in present],
        "time_unit": "sample" if clock is None else "s",
        "start": None if clock is None else clock.start,
        "step_s": views.describe(job.clock)["step_s"] if job.clock else None,
        "samples": job.n,
        "valid": valid,
        "outside": outside,
        "notes": list(job.notes),
        "fingerprint": job.inputs,
        "versions": run_store.versions(),
        "manifest": {name: digest_of_blocks(compute, job, job.stage, f"/{name}") for name in transformed.ARRAYS},
    }
    seal(group, transformed.FORM, plain(content))


def progress(address: str) -> tuple[int, int] | None:
    """Blocks done and blocks in all of a store that was begun; None if there is none."""
    return next(((stage.done, stage.blocks) for stage in progress_of(stages_on_disk(address, ["transform"]))), None)
