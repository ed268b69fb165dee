"""Fits of models: the first one, and refits to old and new rows, which are stored as views of their own."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError, Untrusted
from dlcca.pipelines import embed, recordings, versions
from dlcca.pipelines.catalog import Row
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.drift import probe
from dlcca.storage import run as run_store
from dlcca.storage import views as store
from dlcca.storage.formats import plain, seal, write_array
from dlcca.storage.places import replacing

#: Maximum number of probes of recordings that are stored with a model; the latest.
MOST_PROBES = 64
#: Approximate size, to decide whether a fit needs workers.
ROWS_OF_A_BLOCK = 65_536


def adopt(pipeline: Pipeline) -> None:
    """Make the model of [model] start the first version."""
    from dlcca.estimator import open_model

    start = pipeline.settings.address(pipeline.settings.model.start)
    fitted = open_model(start)
    if fitted.recordings_ is None:
        raise SettingsError(f"[model] start = {start}: it was fitted to arrays, without recordings.")
    known = set(fitted.recordings_.facts["views"])
    if known != set(pipeline.settings.recipes):
        raise SettingsError(
            f"[model] start = {start} has the views {', '.join(sorted(known))}, and the settings have "
            f"{', '.join(sorted(pipeline.settings.recipes))}; they must be the same."
        )
    embed.write_preprocessing(pipeline, fitted.recordings_)
    version = versions.begin(pipeline, f"it is [model] start = {pipeline.settings.model.start}", None)
    fitted.save(versions.places(pipeline, version)["address"])
    measures = {"quality": fitted.quality_, "warnings": fitted.warnings_}
    versions.settle(pipeline, version, {"n_rows": len(fitted.embedding_)}, measures, [])


# The first fit.


def first_fit(pipeline: Pipeline, because: str = "there was no model yet") -> dict[str, Any] | None:
    """Fit a model to recordings alone, and use it if it is trusted; the outcome, or None if there was no fit.

    Recordings that do not pass the gate are marked in the catalog. There is no fit if none passes, or if the last fit
    was to the same recordings and is not trusted.
    """
    last = versions.last_untrusted(pipeline)
    numbers = _good_recordings(pipeline, last is not None)
    if not numbers or (last is not None and _was_fitted_to(pipeline, last, numbers)):
        return None
    version, model, stored, measures = _fitted(pipeline, because, numbers)
    reasons = list(model.warnings_)
    if reasons:
        places = versions.places(pipeline, version)
        pipeline.remove(places["rows_store"], places["held_store"])  # no refit will need them
        stored = {"n_rows": stored["n_rows"]}
    outcome = versions.settle(pipeline, version, stored, measures, numbers, reasons)
    if not reasons:
        _repeat_untrusted(pipeline)
    return outcome


def _repeat_untrusted(pipeline: Pipeline) -> None:
    """Mark recordings that were embedded with an untrusted model to be embedded again."""
    untrusted = f"SELECT version FROM models WHERE {versions.UNTRUSTED}"
    found = pipeline.catalog.all(f"SELECT * FROM recordings WHERE status = 'done' AND model IN ({untrusted})")
    rows = [row for row in found if embed.can_be_repeated(pipeline, row)]
    if rows:
        with pipeline.catalog.change():
            for row in rows:
                pipeline.catalog.update("recordings", {"status": "new", "attempts": 0}, id=row["id"])
            many = f"{len(rows)} recordings are" if len(rows) > 1 else "1 recording is"
            pipeline.note("anew", f"{many} embedded again: the model used before is not trusted.")


def _was_fitted_to(pipeline: Pipeline, model: Mapping[str, Any], numbers: Sequence[int]) -> bool:
    """Whether a model was fitted to these recordings, with the present settings."""
    rows = pipeline.catalog.all("SELECT recording FROM training WHERE model = ?", [model["version"]])
    return model["settings"] == pipeline.settings.fingerprint() and {row["recording"] for row in rows} == set(numbers)


def _fitted(pipeline: Pipeline, because: str, numbers: Sequence[int]) -> tuple[int, Any, Row, dict[str, Any]]:
    """Fit a new version to recordings: its number, the estimator, and columns and measures for the catalog."""
    from dlcca.estimator import LocalCCA
    from dlcca.recordings.recorded_views import open_views

    version = versions.begin(pipeline, because, None)
    stores = [str(embed.views_place(pipeline, pipeline.recording(number))) for number in numbers]
    n_rows = _write_rows(pipeline, version, None, stores)
    places = versions.places(pipeline, version)
    model = LocalCCA.from_settings(pipeline.settings.fit, random_state=pipeline.settings.seed)
    model.client = pipeline.workers.client(n_rows // ROWS_OF_A_BLOCK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # it is in the summary and the exit code
        model.fit(open_views(places["rows_store"]))
    model.save(places["address"])
    probes = [probe(address, model.settings_, pipeline.settings.seed) for address in stores[-MOST_PROBES:]]
    measures = {"baseline": [found for found in probes if found is not None], "quality": model.quality_}
    stored = {"n_rows": n_rows, "rows_store": str(places["rows_store"]), "held_store": str(places["held_store"])}
    return version, model, stored, {**measures, "warnings": model.warnings_}


def candidates(pipeline: Pipeline) -> list[Row]:
    """Recordings that a first fit can use, in order of start: all whose files or views exist."""
    query = "SELECT * FROM recordings WHERE day IS NOT NULL AND status IN ('new', 'failed', 'done') "
    found = pipeline.catalog.all(query + "ORDER BY day, start IS NULL, start, path")
    return [row for row in found if row["status"] != "done" or embed.can_be_repeated(pipeline, row)]


def _good_recordings(pipeline: Pipeline, latest: bool) -> list[int]:
    """The earliest recordings that pass the gate, up to first_rows; the others are marked in the catalog.

    With ``latest``, the latest ones: an earlier fit was not trusted, and this one must not be to the same rows. If the
    settings match none of the recordings, the error is in the settings, and the recordings are not marked.
    """
    good: list[int] = []
    unfit: list[tuple[Row, SettingsError]] = []
    rows, found = 0, candidates(pipeline)
    for recording in found[::-1] if latest else found:
        if rows >= pipeline.settings.model.first_rows:
            break
        try:
            if not embed.has_preprocessing(pipeline):
                _determine_preprocessing(pipeline, recording["id"])
            header = embed.ingest(pipeline, recording["id"])
            embed.gate(pipeline, header)
        except SettingsError as error:
            unfit.append((recording, error))
        except Exception as error:
            recordings.failed(pipeline, recording, error)
        else:
            if set(header["views"]) == set(pipeline.settings.recipes):  # else it can only be embedded
                good.append(int(recording["id"]))
                rows += header["rows"]
    if unfit and not good:
        raise unfit[0][1]
    for refused, reason in unfit:
        recordings.failed(pipeline, refused, reason)
    return good[::-1] if latest else good


def _determine_preprocessing(pipeline: Pipeline, number: int) -> None:
    """Store the preprocessing of a recording for all others, if it passes the gate."""
    place = pipeline.state / "work" / f"first-{number}.zarr"
    pipeline.remove(place)
    try:
        embed.gate(pipeline, embed.first_views(pipeline, number, place))
        embed.write_preprocessing(pipeline, store.recordings_of(str(place)))
    finally:
        pipeline.remove(place)


# Refits.


def refit(pipeline: Pipeline, because: str) -> dict[str, Any] | None:
    """Fit old and new rows together, and use the result if it passes the comparison; the outcome.

    Old landmarks are kept and axes are aligned with the old ones (`dlcca.fitting.refit`), unless the old model is not
    trusted. None if there was nothing to fit.
    """
    parent = pipeline.current_model()
    assert parent is not None
    if versions.warnings_of(parent):
        return first_fit(pipeline, because)
    chosen, together = _chosen(pipeline, parent)
    version = versions.begin(pipeline, because, parent)
    try:
        if not chosen:
            raise DataError("no views of new recordings are kept ([retention] views_days)")
        return _refitted(pipeline, version, parent, chosen, together)
    except (DataError, SettingsError) as error:  # it would fail again: the version is rejected
        return versions.settle(pipeline, version, {}, {}, [], [str(error)])


def _chosen(pipeline: Pipeline, parent: Mapping[str, Any]) -> tuple[list[Row], bool]:
    """New recordings in order of time, up to most_rows; and whether the old rows fit in as well."""
    most, rows = pipeline.settings.refit.most_rows, 0
    taken: list[Row] = []
    for recording in versions.new_recordings(pipeline, parent["version"]):
        if taken and rows + recording["valid"] > most:
            break
        views = recording["views"]
        if store.is_views(views) and set(store.describe(views)["views"]) == set(pipeline.settings.recipes):
            taken.append(recording)
            rows += recording["valid"]
    together = bool(parent["rows_store"]) and rows + (parent["n_rows"] or 0) <= most
    return taken[::-1], together


def _refitted(
    pipeline: Pipeline, version: int, parent: Mapping[str, Any], chosen: Sequence[Row], together: bool
) -> dict[str, Any]:
    from dlcca.estimator import open_model
    from dlcca.recordings.recorded_views import open_views

    places = versions.places(pipeline, version)
    base = parent if together else {**parent, "rows_store": None}
    n_rows = _write_rows(pipeline, version, base, [recording["views"] for recording in chosen])
    old = open_model(parent["address"])
    old.client, old.random_state = pipeline.workers.client(n_rows // ROWS_OF_A_BLOCK), pipeline.settings.seed
    new_rows = places["rows_store"]
    if together:  # without the rows of the parent
        new_rows = pipeline.state / "work" / f"new-{version}.zarr"
        pipeline.remove(new_rows)
        join(new_rows, [split(row["views"], _share(pipeline))[0] for row in chosen], embed.read_preprocessing(pipeline))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        made = old.refit(open_views(new_rows), open_views(parent["rows_store"]) if together else None)
    made.save(places["address"])
    if not together:
        pipeline.remove(places["rows_store"])  # the landmarks replace the old rows from now on
    stored = {"n_rows": n_rows, "rows_store": str(places["rows_store"]) if together else None}
    return _compared(pipeline, version, parent, made, {**stored, "held_store": str(places["held_store"])}, chosen)


def _share(pipeline: Pipeline) -> float:
    return pipeline.settings.refit.held_out


def _compared(
    pipeline: Pipeline, version: int, parent: Mapping[str, Any], made: Any, stored: Row, chosen: Sequence[Row]
) -> dict[str, Any]:
    """Compare the new model with the old one on held-out rows, and promote or reject it."""
    from dlcca.estimator import open_model
    from dlcca.numerics.coordinates import change
    from dlcca.recordings.recorded_views import open_views

    old, new, address = open_model(parent["address"]).model_, made.model_, stored["held_store"]
    n_new = sum(split(row["views"], _share(pipeline))[1].rows > 0 for row in chosen)
    held = versions.held_out(open_views(address), rows_of_recordings(address), n_new, new.names)
    before, after = versions.standing(old, held), versions.standing(new, held)
    known, axes = held.part(new=False), made.change_["correlations"]
    if len(known.recording):
        axes = change(new.coordinates(known.views), old.coordinates(known.views)).correlations.tolist()
    against = versions.objections(after, before, axes, made.warnings_, pipeline.settings.refit)
    measures = {
        "baseline": _baseline(pipeline, parent, chosen),
        "quality": made.quality_,
        "warnings": made.warnings_,
        "change": made.change_,
        "comparison": {"old": asdict(before), "new": asdict(after), "axes": axes, "rows": len(held.recording)},
    }
    numbers = [recording["id"] for recording in chosen]
    outcome = versions.settle(pipeline, version, stored, measures, numbers, against, parent)
    return {**outcome, **measures["comparison"]}


def _baseline(pipeline: Pipeline, parent: Mapping[str, Any], chosen: Sequence[Row]) -> list[dict[str, Any]]:
    """Probes of the recordings that the new model was fitted to."""
    query = "SELECT probe FROM drift WHERE recording = ? ORDER BY id DESC LIMIT 1"
    found = [pipeline.catalog.value(query, [recording["id"]]) for recording in chosen]
    probes = [*parent["measures"].get("baseline", []), *(json.loads(text) for text in found if text)]
    return probes[-MOST_PROBES:]


# Rows of several recordings as one store of views: those of a fit, and those held out of it.

#: Bytes of a chunk.
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a store of views."""

    store: str
    first: int
    last: int  # not included

    @property
    def rows(self) -> int:
        return self.last - self.first


def split(address: str, held_out: float) -> tuple[Piece, Piece]:
    """The rows of a store for the fit, and those at its end that are held out."""
    n = store.describe(address)["rows"]
    cut = n - int(held_out * n)
    return Piece(address, 0, cut), Piece(address, cut, n)


def _write_rows(pipeline: Pipeline, version: int, parent: Mapping[str, Any] | None, stores: Sequence[str]) -> int:
    """Write the rows of a fit and those held out of it, after those of the parent; the number of rows to fit."""
    preprocessing, places = embed.read_preprocessing(pipeline), versions.places(pipeline, version)
    pairs = [split(address, _share(pipeline)) for address in stores]
    fit, held = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    for pieces, column in ((fit, "rows_store"), (held, "held_store")):
        if parent is not None and parent[column]:
            pieces.insert(0, split(parent[column], 0.0)[0])
    if not sum(piece.rows for piece in held):
        held = fit  # recordings too short to hold rows out
    join(places["rows_store"], fit, preprocessing)
    join(places["held_store"], held, preprocessing)
    return sum(piece.rows for piece in fit)


def join(place: Path, pieces: Sequence[Piece], preprocessing: Any) -> None:
    """Write the rows of all pieces, one after another, as a store of views with this preprocessing.

    Segments stay apart, so that no time window extends from one recording to the next.
    """
    import dask.array as da
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    from dlcca.recordings.recorded_views import open_views

    pieces = [piece for piece in pieces if piece.rows]
    opened = [open_views(piece.store) for piece in pieces]
    n = sum(piece.rows for piece in pieces)
    inputs = hashlib.sha256(repr(pieces).encode()).hexdigest()
    with replacing(place, store.FORM) as aside:
        group: Any = zarr.create_group(str(aside), zarr_format=3)
        widths = {}
        for name in preprocessing.facts["views"]:
            d, dtype = opened[0][name].shape[1], opened[0][name].dtype
            widths[name] = d
            chunks = max(1, min(n, CHUNK_BYTES // (d * dtype.itemsize))), d
            array = group.create_array(
                f"views/{name}",
                shape=(n, d),
                chunks=chunks,
                dtype=dtype,
                compressors=[ZstdCodec(), Crc32cCodec()],
                config={"write_empty_chunks": True},  # so that an absent chunk is known to be missing
                **store.array_of_view(inputs, dtype, finished=True),
            )
            parts = [
                da.from_array(views[name], chunks=chunks, name=False)[piece.first : piece.last]
                for views, piece in zip(opened, pieces, strict=True)
            ]
            # Synchronous: one chunk in memory at a time.
            da.store(da.concatenate(parts).rechunk(chunks), array, lock=False, scheduler="synchronous")
        small = {**_times(opened, pieces), **preprocessing.scaling}
        manifest = {name: write_array(group, name, X) for name, X in small.items()}
        seal(group, store.FORM, plain({**_header(preprocessing, widths, pieces, inputs), "manifest": manifest}))


def _times(opened: Sequence[Any], pieces: Sequence[Piece]) -> dict[str, np.ndarray]:
    """Times that increase and segments that are numbered through all pieces."""
    times, segments, end, count = [], [], 0.0, 0
    for views, piece in zip(opened, pieces, strict=True):
        rows = slice(piece.first, piece.last)
        time, segment = views.time[rows], views.segments[rows]
        times.append(time - time[0] + end)
        end = float(times[-1][-1]) + 1.0
        segments.append(segment - segment[0] + count)
        count = int(segments[-1][-1]) + 1
    n = sum(map(len, times))
    return {
        "time": np.concatenate(times),
        "reason": np.zeros(n, np.uint8),
        "segment": np.concatenate(segments).astype(np.int64),
        "rows": np.arange(n),
    }


def rows_of_recordings(address: str) -> list[int]:
    """The number of rows of each recording in a store, in their order."""
    header = store.describe(address)
    return list(header.get("recordings", [header["rows"]]))


def _header(preprocessing: Any, widths: dict[str, int], pieces: Sequence[Piece], inputs: str) -> dict[str, Any]:
    each: list[int] = []
    for piece in pieces:  # a piece may be a whole store of several recordings
        inner = rows_of_recordings(piece.store)
        each += inner if piece.rows == sum(inner) else [piece.rows]
    n = sum(each)
    views = {
        name: {
            **view,
            "width": widths[name],
            "features": view["recipe"]["features"],
            "scaling": view["recipe"]["scaling"],
            "finished": True,
        }
        for name, view in preprocessing.facts["views"].items()
    }
    return {
        "start": None,
        "time_unit": "s",
        "window_s": preprocessing.facts["window_s"],
        "step_s": preprocessing.facts["step_s"],
        "windows": n,
        "rows": n,
        "segments": len(pieces),
        "recordings": each,
        "reasons": {"valid": n},
        "views": views,
        "files": [],
        "annotations": [],
        "notes": ["rows of several recordings, one after another"],
        "fingerprint": inputs,
        "versions": run_store.versions(),
    }
