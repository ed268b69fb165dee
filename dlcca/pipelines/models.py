"""Fits of models: the first one, and refits to old and new rows, which are stored as views of their own."""

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, StoreFileError, Untrusted
from dlcca.estimator import LocalCCA, open_model
from dlcca.model import Recordings
from dlcca.numerics.coordinates import change
from dlcca.pipelines import embed, recordings, versions
from dlcca.pipelines.catalog import Row
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.drift import probe
from dlcca.recordings.recorded_views import open_views
from dlcca.storage import run as run_store
from dlcca.storage import views as store
from dlcca.storage.formats import new_array, plain, seal, write_array
from dlcca.storage.places import replacing

#: Maximum number of probes of recordings that are stored with a model; the latest.
MOST_PROBES = 64
#: Maximum number of held-out rows on which models are compared.
COMPARED_ROWS = 20_000
#: Approximate size, to decide whether a fit needs workers.
ROWS_OF_A_BLOCK = 65_536


def adopt(pipeline: Pipeline) -> None:
    """Make the model of [model] start the first version."""
    start = pipeline.settings.address(pipeline.settings.model.start)
    fitted = open_model(start)
    if fitted.recordings_ is None:
        raise SettingsError(f"[model] start = {start}: it was fitted to arrays, without recordings.")
    known = set(fitted.recordings_.facts["views"])
    if known != set(pipeline.settings.recipes):
        found, needed = (", ".join(sorted(names)) for names in (known, pipeline.settings.recipes))
        both = f"the views {found}, and the settings have {needed}; they must be the same."
        raise SettingsError(f"[model] start = {start} has {both}")
    embed.write_preprocessing(pipeline, fitted.recordings_)
    version = versions.begin(pipeline, f"it is [model] start = {pipeline.settings.model.start}")
    fitted.save(versions.places(pipeline, version)["address"])
    measures = {"quality": fitted.quality_, "warnings": fitted.warnings_}
    versions.settle(pipeline, version, {"n_rows": len(fitted.embedding_)}, measures, [])


def unusable(pipeline: Pipeline) -> str:
    """Why the model in use, or its preprocessing, cannot be read; "" if both can."""
    if model := pipeline.current_model():
        try:
            embed.read_preprocessing(pipeline)
            open_model(model["address"])
        except StoreFileError as error:
            command = f"dlcca pipeline rollback {pipeline.settings.path.name}"
            wait = f"New recordings wait for it. Restore it, or use another one: {command}."
            return f"model {model['version']} cannot be used: {error} {wait}"
    return ""


def first_fit(pipeline: Pipeline, because: str = "there was no model yet") -> dict[str, Any] | None:
    """Fit a model to recordings alone, and use it if it is trusted; the outcome, or None if there was no fit.

    Recordings that do not pass the gate are marked in the catalog. There is no fit if none passes, or if the last fit
    was to the same recordings with the same settings and is not trusted.
    """
    settings, last = pipeline.settings, versions.last_untrusted(pipeline)
    good = _good_recordings(pipeline, last is not None)
    numbers, stores = list(good), list(good.values())
    if not good:
        return None
    if last is not None and last["settings"] == settings.fingerprint():
        before = pipeline.catalog.all("SELECT recording FROM training WHERE model = ?", [last["version"]])
        if {row["recording"] for row in before} == set(numbers):
            return None
    version = versions.begin(pipeline, because)
    places = versions.places(pipeline, version)
    stored: Row = {"n_rows": _write_rows(pipeline, version, {}, stores)}
    model = LocalCCA.from_settings(settings.fit, random_state=settings.seed)
    model.client = pipeline.workers.client(stored["n_rows"] // ROWS_OF_A_BLOCK)
    with warnings.catch_warnings(action="ignore", category=Untrusted):  # it is in the summary and the exit code
        model.fit(open_views(places["rows_store"]))
    model.save(places["address"])
    probes = [probe(address, model.settings_, settings.seed) for address in stores[-MOST_PROBES:]]
    baseline = [found for found in probes if found is not None]
    measures = {"baseline": baseline, "quality": model.quality_, "warnings": model.warnings_}
    if model.warnings_:
        pipeline.remove(places["rows_store"], places["held_store"])  # no refit will need them
        return versions.settle(pipeline, version, stored, measures, numbers, model.warnings_)
    stored |= {column: places[column] for column in ("rows_store", "held_store")}
    outcome = versions.settle(pipeline, version, stored, measures, numbers)
    # Recordings that were embedded with an untrusted model are embedded again.
    untrusted = f"SELECT version FROM models WHERE {versions.UNTRUSTED}"
    found = pipeline.recordings(f"status = 'done' AND model IN ({untrusted})")
    if again := [row for row in found if embed.can_be_repeated(pipeline, row)]:
        with pipeline.catalog.change():
            for row in again:
                pipeline.catalog.update("recordings", {"status": "new", "attempts": 0}, id=row["id"])
            many = f"{len(again)} recordings are" if len(again) > 1 else "1 recording is"
            pipeline.note("anew", f"{many} embedded again: the model used before is not trusted.")
    return outcome


def _good_recordings(pipeline: Pipeline, latest: bool) -> dict[int, str]:
    """The earliest recordings that pass the gate, up to first_rows, with their views; others are marked in the catalog.

    With ``latest``, the latest ones: an earlier fit was not trusted, and this one must not be to the same rows. If the
    settings match none of the recordings, the error is in the settings, and the recordings are not marked.
    """
    good: dict[int, str] = {}
    unfit: list[tuple[Row, SettingsError]] = []
    rows, found = 0, pipeline.recordings("day IS NOT NULL AND status IN ('new', 'failed', 'done')")
    for recording in found[::-1] if latest else found:
        if rows >= pipeline.settings.model.first_rows:
            break
        if recording["status"] == "done" and not embed.can_be_repeated(pipeline, recording):
            continue
        try:
            if not embed.has_preprocessing(pipeline):
                with pipeline.scratch(f"first-{recording['id']}.zarr") as place:
                    embed.ingest(pipeline, recording, place)
                    embed.write_preprocessing(pipeline, store.recordings_of(str(place)))
            header = embed.ingest(pipeline, recording)
        except SettingsError as error:
            unfit.append((recording, error))
        except Exception as error:
            recordings.failed(pipeline, recording, error)
        else:
            if set(header["views"]) == set(pipeline.settings.recipes):  # else it can only be embedded
                good[recording["id"]] = header["store"]
                rows += header["rows"]
    if unfit and not good:
        raise unfit[0][1]
    for refused, reason in unfit:
        recordings.failed(pipeline, refused, reason)
    return dict(reversed(good.items())) if latest else good


def refit_if_due(pipeline: Pipeline) -> dict[str, Any] | None:
    """Fit old and new rows together if that is due, and use the result if it passes the comparison; the outcome.

    Old landmarks are kept and axes are aligned with the old ones (`dlcca.fitting.refit`), unless the old model is not
    trusted. None if there was nothing to fit.
    """
    because, parent = versions.due(pipeline), pipeline.current_model()
    if not because or parent is None:
        return None
    if versions.warnings_of(parent):
        return first_fit(pipeline, because)
    chosen, together = _chosen(pipeline, parent)
    version = versions.begin(pipeline, because, parent["version"])
    try:
        if not chosen:
            raise DataError("no views of new recordings are kept ([retention] views_days)")
        return _refitted(pipeline, version, parent, chosen, together)
    except (DataError, SettingsError) as error:  # it would fail again: the version is rejected
        return versions.settle(pipeline, version, {}, {}, [], [str(error)])


def _chosen(pipeline: Pipeline, parent: Row) -> tuple[list[Row], bool]:
    """New recordings in order of time, up to most_rows; and whether the old rows fit in as well."""
    most, rows = pipeline.settings.refit.most_rows, 0
    taken: list[Row] = []
    for recording in versions.new_recordings(pipeline, parent["version"])[::-1]:
        if taken and rows + recording["valid"] > most:
            break
        views = recording["views"]
        if store.is_views(views) and set(store.describe(views)["views"]) == set(pipeline.settings.recipes):
            taken.append(recording)
            rows += recording["valid"]
    together = bool(parent["rows_store"]) and rows + (parent["n_rows"] or 0) <= most
    return taken[::-1], together


def _refitted(pipeline: Pipeline, version: int, parent: Row, chosen: Sequence[Row], together: bool) -> dict[str, Any]:
    places, stores = versions.places(pipeline, version), [recording["views"] for recording in chosen]
    base = parent if together else {**parent, "rows_store": None}
    n_rows = _write_rows(pipeline, version, base, stores)
    old = open_model(parent["address"])
    old.client, old.random_state = pipeline.workers.client(n_rows // ROWS_OF_A_BLOCK), pipeline.settings.seed
    new_rows = places["rows_store"]
    if together:  # without the rows of the parent
        new_rows = pipeline.state / "work" / f"new-{version}.zarr"
        share = pipeline.settings.refit.held_out
        join(new_rows, [split(address, share)[0] for address in stores], embed.read_preprocessing(pipeline))
    with warnings.catch_warnings(action="ignore", category=Untrusted):
        made = old.refit(open_views(new_rows), open_views(parent["rows_store"]) if together else None)
    made.save(places["address"])
    if not together:
        pipeline.remove(places["rows_store"])  # the landmarks replace the old rows from now on
    rows_store = places["rows_store"] if together else None
    stored = {"n_rows": n_rows, "rows_store": rows_store, "held_store": places["held_store"]}
    return _compared(pipeline, version, parent, made, stored, chosen)


def _compared(pipeline: Pipeline, version: int, parent: Row, made: Any, stored: Row, chosen: Sequence[Row]) -> Row:
    """Compare the new model with the old one on rows that neither was fitted to, and promote or reject it."""
    old, new, address = open_model(parent["address"]).model_, made.model_, stored["held_store"]
    rules, numbers = pipeline.settings.refit, [recording["id"] for recording in chosen]
    # At most COMPARED_ROWS rows, evenly spaced, and the index of the recording of each.
    views, lengths = open_views(address), rows_of_recordings(address)
    rows = np.unique(np.linspace(0, sum(lengths) - 1, min(sum(lengths), COMPARED_ROWS)).astype(np.int64))
    held = [np.asarray(views[name][rows]) for name in new.names]
    recording = np.repeat(np.arange(len(lengths)), lengths)[rows]
    n_new = sum(split(row["views"], rules.held_out)[1].rows > 0 for row in chosen)
    is_new = recording >= len(lengths) - n_new  # of recordings that the old model was not fitted to
    before, after = (standing(model, held, recording, is_new) for model in (old, new))
    axes = made.change_["correlations"]
    if not is_new.all():
        known = [X[~is_new] for X in held]
        axes = change(new.coordinates(known), old.coordinates(known)).correlations.tolist()
    against = versions.objections(after, before, axes, made.warnings_, rules)
    # Probes of the recordings that the new model was fitted to.
    query = "SELECT probe FROM drift WHERE recording = ? ORDER BY id DESC LIMIT 1"
    probes = filter(None, (pipeline.catalog.value(query, [number]) for number in numbers))
    baseline = [*parent["measures"].get("baseline", []), *map(json.loads, probes)][-MOST_PROBES:]
    measures = {"baseline": baseline, "quality": made.quality_, "warnings": made.warnings_, "change": made.change_}
    compared = {"old": asdict(before), "new": asdict(after), "axes": axes, "rows": len(rows)}
    measures["comparison"] = compared
    return {**versions.settle(pipeline, version, stored, measures, numbers, against), **compared}


def standing(model: Any, held: list[NDArray], recording: NDArray, is_new: NDArray[np.bool_]) -> versions.Standing:
    """The standing of a fitted model (`dlcca.model.Model`) on held-out rows."""
    outside = float((model.distance(held) > 1).mean())
    fresh = agreement(model, [X[is_new] for X in held], recording[is_new])
    return versions.Standing(outside, agreement(model, held, recording), fresh)


def agreement(model: Any, held: list[NDArray], recording: NDArray) -> float | None:
    """Correlation of the coordinates predicted from one view with those from another, averaged over axes and pairs.

    Coordinates that are common to all views can be predicted from each of them. The correlation is within recordings,
    because every view sees differences between recordings. None if the model reads only one view.
    """
    if len(model.needed) < 2 or not len(recording):
        return None
    _, groups = np.unique(recording, return_inverse=True)
    centered = []
    for one in model.needed:
        E = model.coordinates([X if v == one else None for v, X in enumerate(held)])
        sums = np.zeros((groups.max() + 1, E.shape[1]))
        np.add.at(sums, groups, E)
        centered.append(E - (sums / np.bincount(groups)[:, None])[groups])
    return float(np.mean([np.nan_to_num(change(a, b).correlations) for a, b in combinations(centered, 2)]))


# Rows of several recordings as one store of views: those of a fit, and those held out of it.

#: Bytes of a chunk.
CHUNK_BYTES = 4 << 20


class Piece(NamedTuple):
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


def _write_rows(pipeline: Pipeline, version: int, parent: Mapping[str, Any], stores: Sequence[str]) -> int:
    """Write the rows of a fit and those held out of it, after those of a parent; the number of rows to fit."""
    preprocessing, places = embed.read_preprocessing(pipeline), versions.places(pipeline, version)
    pairs = [split(address, pipeline.settings.refit.held_out) for address in stores]
    before = [[split(parent[c], 0.0)[0]] if parent.get(c) else [] for c in ("rows_store", "held_store")]
    fit, held = (old + [pair[i] for pair in pairs] for i, old in enumerate(before))
    if not sum(piece.rows for piece in held):
        held = fit  # recordings too short to hold rows out
    join(places["rows_store"], fit, preprocessing)
    join(places["held_store"], held, preprocessing)
    return sum(piece.rows for piece in fit)


def join(place: Path, pieces: Sequence[Piece], preprocessing: Recordings) -> None:
    """Write the rows of all pieces, one after another, as a store of views with this preprocessing."""
    pieces = [piece for piece in pieces if piece.rows]
    opened = [open_views(piece.store) for piece in pieces]
    n = sum(piece.rows for piece in pieces)
    inputs = hashlib.sha256(repr(pieces).encode()).hexdigest()
    with replacing(place, store.FORM) as group:
        for name, like in opened[0].items():
            rows = CHUNK_BYTES // (like.shape[1] * like.dtype.itemsize)
            more = store.array_of_view(inputs, like.dtype, finished=True)
            array = new_array(group, f"views/{name}", (n, like.shape[1]), like.dtype, rows, **more)
            parts = [
                da.from_array(views[name], chunks=array.chunks, name=False)[piece.first : piece.last]
                for views, piece in zip(opened, pieces, strict=True)
            ]
            # Synchronous: one chunk in memory at a time.
            da.store(da.concatenate(parts).rechunk(array.chunks), array, lock=False, scheduler="synchronous")
        # Times increase, and segments stay apart: no time window extends from one recording to the next.
        times, segments, end, count = [], [], 0.0, 0
        for views, piece in zip(opened, pieces, strict=True):
            time, segment = (array[piece.first : piece.last] for array in (views.time, views.segments))
            times.append(time - time[0] + end)
            segments.append(segment - segment[0] + count)
            end, count = float(times[-1][-1]) + 1.0, int(segments[-1][-1]) + 1
        small = {"time": np.concatenate(times), "segment": np.concatenate(segments).astype(np.int64)}
        small |= {"reason": np.zeros(n, np.uint8), "rows": np.arange(n), **preprocessing.scaling}
        manifest = {name: write_array(group, name, X) for name, X in small.items()}
        seal(group, store.FORM, plain({**_header(preprocessing, pieces, inputs), "manifest": manifest}))


def rows_of_recordings(address: str) -> list[int]:
    """The number of rows of each recording in a store, in their order."""
    header = store.describe(address)
    return list(header.get("recordings", [header["rows"]]))


def _header(preprocessing: Recordings, pieces: Sequence[Piece], inputs: str) -> dict[str, Any]:
    """The header of the first store, but for what differs."""
    like, each = store.describe(pieces[0].store), []
    for piece in pieces:  # a piece may be a whole store of several recordings
        inner = rows_of_recordings(piece.store)
        each += inner if piece.rows == sum(inner) else [piece.rows]
    n, known = sum(each), preprocessing.facts["views"]
    views = {name: {**view, **known[name], "finished": True} for name, view in like["views"].items()}
    sizes = {"windows": n, "rows": n, "segments": len(pieces), "recordings": each, "reasons": {"valid": n}}
    notes = {"notes": ["rows of several recordings, one after another"], "files": [], "annotations": [], "start": None}
    return {**like, **sizes, **notes, "views": views, "fingerprint": inputs, "versions": run_store.versions()}
