"""Fitting models: the first one, and refits to old and new rows, which take over if they do well on held-out rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dlcca.errors import DataError, SettingsError, Untrusted
from dlcca.pipelines import embed, preprocessing, status, trust, versions
from dlcca.pipelines.context import Pipeline

#: Probes of recordings that a model is remembered by, at most; the latest.
MOST_PROBES = 64
#: About; to tell whether a fit is worth workers.
ROWS_OF_A_BLOCK = 65_536


def adopt(flow: Pipeline) -> None:
    """Make the model that [model] start names the first version."""
    from dlcca.estimator import open_model

    start = flow.settings.address(flow.settings.model.start)
    fitted = open_model(start)
    if fitted.recordings_ is None:
        raise SettingsError(f"[model] start = {start}: it was fitted to arrays, and does not know recordings.")
    known = set(fitted.recordings_.facts["views"])
    if known != set(flow.settings.recipes):
        raise SettingsError(
            f"[model] start = {start} has the views {', '.join(sorted(known))}, and the settings "
            f"{', '.join(sorted(flow.settings.recipes))}; they must be the same."
        )
    preprocessing.settle(flow, fitted.recordings_)
    version = versions.begin(flow, f"it was given ([model] start = {flow.settings.model.start})", None)
    fitted.save(versions.places(flow, version)["address"])
    measures = {"quality": fitted.quality_, "warnings": fitted.warnings_}
    versions.promote(flow, version, {"n_rows": len(fitted.embedding_)}, measures, [], None)


def first_fit(flow: Pipeline, because: str = "there was no model yet") -> dict[str, Any] | None:
    """Fit a model to recordings alone, and use it if it is trusted; what came of it, None if there was no fit.

    Recordings that are not good come out as such in the catalog. If none is good there is no model, and no error. Nor
    is there a fit to the same recordings as the last one, if that was not trusted.
    """
    last = trust.last_untrusted(flow)
    numbers = _good_ones(flow, last is not None)
    if not numbers or (last is not None and _is_the_same(flow, last, numbers)):
        return None
    version, model, stored, measures = _fitted(flow, because, numbers)
    reasons = list(model.warnings_)
    if reasons:  # a later fit has nothing to do with it
        places = versions.places(flow, version)
        flow.remove(places["rows_store"], places["held_store"])
        stored = {"n_rows": stored["n_rows"]}
        versions.reject(flow, version, stored, measures, numbers, "; ".join(reasons))
    else:
        versions.promote(flow, version, stored, measures, numbers, None)
        _embed_again(flow)
    return {"version": version, "promoted": not reasons, "objections": reasons}


def _embed_again(flow: Pipeline) -> None:
    """Have recordings done again that were embedded with a model that is not trusted; their results stand till then."""
    query = f"SELECT * FROM recordings WHERE status = 'done' AND model IN (SELECT version FROM models {trust.WHERE})"
    rows = [row for row in flow.catalog.all(query) if embed.can_be_repeated(flow, row)]
    if rows:
        with flow.catalog.change():
            for row in rows:
                flow.catalog.update("recordings", {"status": "new", "attempts": 0}, id=row["id"])
            many = f"{len(rows)} recordings were" if len(rows) > 1 else "1 recording was"
            flow.note("anew", f"{many} embedded with a model that is not trusted, and done again.")


def _is_the_same(flow: Pipeline, model: Mapping[str, Any], numbers: Sequence[int]) -> bool:
    """Whether a model was fitted to these recordings, with the settings of now."""
    rows = flow.catalog.all("SELECT recording FROM training WHERE model = ?", [model["version"]])
    return model["settings"] == flow.settings.fingerprint() and {row["recording"] for row in rows} == set(numbers)


def _fitted(flow: Pipeline, because: str, numbers: Sequence[int]) -> tuple[int, Any, dict[str, Any], dict[str, Any]]:
    """A new version, fitted to recordings: its number, the estimator, and what the catalog keeps of both."""
    from dlcca.estimator import LocalCCA
    from dlcca.pipelines.probe import probe
    from dlcca.recordings.recorded_views import open_views

    version = versions.begin(flow, because, None)
    stores = [str(embed.views_place(flow, flow.recording(number))) for number in numbers]
    n_rows = _write_rows(flow, version, None, stores)
    places = versions.places(flow, version)
    model = LocalCCA.from_settings(flow.settings.fit, random_state=flow.settings.seed)
    model.client = flow.workers.client(n_rows // ROWS_OF_A_BLOCK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # the summary and the exit code say so
        model.fit(open_views(places["rows_store"]))
    model.save(places["address"])
    probes = [probe(store, model.settings_, flow.settings.seed) for store in stores[-MOST_PROBES:]]
    measures = {"baseline": [found for found in probes if found is not None], "quality": model.quality_}
    stored = {"n_rows": n_rows, "rows_store": str(places["rows_store"]), "held_store": str(places["held_store"])}
    return version, model, stored, {**measures, "warnings": model.warnings_}


def candidates(flow: Pipeline) -> list[dict[str, Any]]:
    """Recordings that a first fit may use, in the order of their starts: all whose files or views are there."""
    query = "SELECT * FROM recordings WHERE day IS NOT NULL AND status IN ('new', 'failed', 'done') "
    found = flow.catalog.all(query + "ORDER BY day, start IS NULL, start, path")
    return [row for row in found if row["status"] != "done" or embed.can_be_repeated(flow, row)]


def _good_ones(flow: Pipeline, latest: bool) -> list[int]:
    """Recordings for the first fit: the earliest that pass the gate, up to first_rows; the others come out as bad.

    With ``latest`` they are the latest ones: an earlier fit was not trusted, and this one must not be to the same rows.
    If the settings fit none of them, it is the settings that are wrong, and the recordings are left as they are.
    """
    good: list[int] = []
    unfit: list[tuple[Mapping[str, Any], SettingsError]] = []
    rows, found = 0, candidates(flow)
    for recording in found[::-1] if latest else found:
        if rows >= flow.settings.model.first_rows:
            break
        try:
            if not preprocessing.is_settled(flow):
                _settle_by(flow, recording["id"])
            header = embed.ingest(flow, recording["id"])
            embed.gate(flow, header)
        except SettingsError as error:
            unfit.append((recording, error))
        except Exception as error:
            status.failed(flow, dict(recording), error)
        else:
            if set(header["views"]) == set(flow.settings.recipes):  # one that lacks a view can only be embedded
                good.append(int(recording["id"]))
                rows += header["rows"]
    if unfit and not good:
        raise unfit[0][1]
    for refused, trouble in unfit:
        status.failed(flow, dict(refused), trouble)
    return good[::-1] if latest else good


def _settle_by(flow: Pipeline, number: int) -> None:
    """Let a recording, if it is good, decide how all are treated."""
    from dlcca.storage import views

    place = flow.state / "work" / f"first-{number}.zarr"
    flow.remove(place)
    try:
        embed.gate(flow, embed.first_views(flow, number, place))
        preprocessing.settle(flow, views.recordings_of(str(place)))
    finally:
        flow.remove(place)


def _write_rows(flow: Pipeline, version: int, parent: Mapping[str, Any] | None, stores: Sequence[str]) -> int:
    """The rows of a fit and those held out of it, after those of the parent; how many there are to fit."""
    from dlcca.pipelines import training

    made, places = preprocessing.read(flow), versions.places(flow, version)
    pairs = [training.split(store, flow.settings.refit.held_out) for store in stores]
    fit, held = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if parent is not None:
        fit = ([training.whole(parent["rows_store"])] if parent["rows_store"] else []) + fit
        held = ([training.whole(parent["held_store"])] if parent["held_store"] else []) + held
    if not sum(piece.rows for piece in held):
        held = fit  # recordings of so few rows that nothing could be held out
    training.join(places["rows_store"], fit, made)
    training.join(places["held_store"], held, made)
    return sum(piece.rows for piece in fit)


def refit(flow: Pipeline, because: str) -> dict[str, Any] | None:
    """Fit old and new rows together, and let the result take over if it may; what came of it.

    Old landmarks are kept and axes are aligned with the old ones (`dlcca.fitting.refit`), unless the old model is not
    trusted. None if there was nothing to fit.
    """
    parent = flow.current_model()
    assert parent is not None
    if trust.reasons_of(parent):
        return first_fit(flow, because)
    chosen, together = _chosen(flow, parent)
    version = versions.begin(flow, because, parent)
    try:
        if not chosen:
            raise DataError("no views of new recordings are kept ([retention] views_days)")
        return _refitted(flow, version, parent, chosen, together)
    except (DataError, SettingsError) as error:  # it would be the same tomorrow: an answer, and not tried again
        versions.reject(flow, version, {}, {}, [], str(error))
        return {"version": version, "promoted": False, "objections": [str(error)]}


def _refitted(
    flow: Pipeline, version: int, parent: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], together: bool
) -> dict[str, Any]:
    from dlcca.estimator import open_model
    from dlcca.recordings.recorded_views import open_views

    places = versions.places(flow, version)
    base = parent if together else {**parent, "rows_store": None}
    n_rows = _write_rows(flow, version, base, [recording["views"] for recording in chosen])
    old = open_model(parent["address"])
    old.client, old.random_state = flow.workers.client(n_rows // ROWS_OF_A_BLOCK), flow.settings.seed
    new_rows = open_views(places["rows_store"]) if not together else _only_new(flow, version, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        made = old.refit(new_rows, open_views(parent["rows_store"]) if together else None)
    made.save(places["address"])
    kept_rows = str(places["rows_store"]) if together else None
    if not together:
        flow.remove(places["rows_store"])  # the landmarks stand for old rows from now on
    stored = {"n_rows": n_rows, "rows_store": kept_rows, "held_store": str(places["held_store"])}
    return _judge(flow, version, parent, made, stored, chosen)


def _chosen(flow: Pipeline, parent: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """New recordings in the order of time, as many as may be; and whether the old rows fit in besides."""
    most, rows = flow.settings.refit.most_rows, 0
    taken: list[dict[str, Any]] = []
    for recording in versions.new_recordings(flow, parent["version"]):
        if taken and rows + recording["valid"] > most:
            break
        if not _has_all_views(flow, recording["views"]):
            continue
        taken.append(recording)
        rows += recording["valid"]
    together = bool(parent["rows_store"]) and rows + (parent["n_rows"] or 0) <= most
    return taken[::-1], together


def _has_all_views(flow: Pipeline, store: str) -> bool:
    """Whether a recording can be fitted to; one that lacks a view can only be embedded."""
    from dlcca.storage import views

    return views.is_views(store) and set(views.describe(store)["views"]) == set(flow.settings.recipes)


def _only_new(flow: Pipeline, version: int, chosen: Sequence[Mapping[str, Any]]) -> Any:
    """The new rows of a fit, without those of the parent."""
    from dlcca.pipelines import training
    from dlcca.recordings.recorded_views import open_views

    place = flow.state / "work" / f"new-{version}.zarr"
    flow.remove(place)
    pieces = [training.split(recording["views"], flow.settings.refit.held_out)[0] for recording in chosen]
    training.join(place, pieces, preprocessing.read(flow))
    return open_views(place)


def _judge(
    flow: Pipeline,
    version: int,
    parent: Mapping[str, Any],
    made: Any,
    stored: dict[str, Any],
    chosen: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Compare the new model with the old one on held-out rows, and promote or reject it."""
    from dlcca.estimator import open_model
    from dlcca.pipelines import comparison, training
    from dlcca.recordings.recorded_views import open_views

    old, new, place = open_model(parent["address"]).model_, made.model_, stored["held_store"]
    n_new = sum(training.split(row["views"], flow.settings.refit.held_out)[1].rows > 0 for row in chosen)
    held = comparison.held_out(open_views(place), training.rows_of_recordings(place), n_new, new.names)
    before, after = comparison.standing(old, held), comparison.standing(new, held)
    kept = comparison.axes(new, old, held.old.views) if len(held.old.recording) else made.change_["correlations"]
    against = comparison.objections(after, before, kept, made.warnings_, flow.settings.refit)
    measures = {
        "baseline": _baseline(flow, parent, chosen),
        "quality": made.quality_,
        "warnings": made.warnings_,
        "change": made.change_,
        "comparison": {"old": asdict(before), "new": asdict(after), "axes": kept, "rows": len(held.recording)},
    }
    numbers = [recording["id"] for recording in chosen]
    if against:
        versions.reject(flow, version, stored, measures, numbers, "; ".join(against))
    else:
        versions.promote(flow, version, stored, measures, numbers, parent)
    return {"version": version, "promoted": not against, "objections": against, **measures["comparison"]}


def _baseline(flow: Pipeline, parent: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Probes of the recordings that the new model knows."""
    probes = list(parent["measures"].get("baseline", []))
    for recording in chosen:
        found = flow.catalog.value(
            "SELECT probe FROM drift WHERE recording = ? ORDER BY id DESC LIMIT 1", [recording["id"]]
        )
        if found:
            probes.append(json.loads(found))
    return probes[-MOST_PROBES:]
