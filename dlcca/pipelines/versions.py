"""Versions of the model in the catalog: whether each is trusted, compared, promoted, rejected or rolled back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError
from dlcca.pipelines.catalog import Row, iso
from dlcca.pipelines.context import Pipeline, recorded
from dlcca.pipelines.publish import point
from dlcca.pipelines.settings import RefitSection
from dlcca.storage.formats import plain


def remove_unfinished(pipeline: Pipeline) -> None:
    """Remove what a stopped fit has left, and point the link to the model in use."""
    for row in pipeline.catalog.all("SELECT version FROM models WHERE status = 'fitting'"):
        pipeline.remove(*places(pipeline, row["version"]).values())
        with pipeline.catalog.change():
            pipeline.catalog.do("DELETE FROM models WHERE version = ?", [row["version"]])
            pipeline.catalog.do("DELETE FROM training WHERE model = ?", [row["version"]])
            pipeline.note("fit", f"The fit of model {row['version']} was stopped; what it had written was removed.")
    current = pipeline.current_model()
    if current is not None:
        point(pipeline, pipeline.settings.models / "current.zarr", Path(Path(current["address"]).name))


def places(pipeline: Pipeline, version: int) -> dict[str, Path]:
    """The stores of a version, by column of the catalog."""
    folder = pipeline.settings.models
    names = {"address": "", "rows_store": "-rows", "held_store": "-held"}
    return {key: folder / f"v{version:04d}{ending}.zarr" for key, ending in names.items()}


def begin(pipeline: Pipeline, because: str, parent: int | None = None) -> int:
    """Insert a new version, which is being fitted; its number. ``parent`` is the version that it refits."""
    alarms = pipeline.catalog.value("SELECT max(id) FROM drift") or 0
    row = {"generation": pipeline.generation, "status": "fitting", "because": because, "parent": parent}
    row |= {"created": iso(pipeline.now), "last_drift": alarms, "settings": pipeline.settings.fingerprint()}
    return pipeline.catalog.insert("models", row)


def settle(
    pipeline: Pipeline, version: int, stored: Row, measures: Row, numbers: Sequence[int], objections: Sequence[str] = ()
) -> dict[str, Any]:
    """Use a new model, or keep it without using it if there are ``objections``, in one transaction; the outcome."""
    catalog, why, address = pipeline.catalog, "; ".join(objections), places(pipeline, version)["address"]
    row = {**stored, "status": "rejected" if why else "current", "address": address, "reason": why or None}
    row["measures"] = json.dumps(plain(measures), default=str)
    with catalog.change():
        if not why:
            catalog.update("models", {"status": "kept"}, status="current")
        catalog.update("models", pipeline.with_paths(recorded, row), version=version)
        catalog.do_many("INSERT OR IGNORE INTO training VALUES (?, ?)", [[version, number] for number in numbers])
        if why:
            pipeline.note("rejected", f"Model {version} was fitted, and is not used: {why.rstrip('.')}.")
        else:
            of_parent = "SELECT ?, recording FROM training WHERE model = (SELECT parent FROM models WHERE version = ?)"
            catalog.do(f"INSERT OR IGNORE INTO training {of_parent}", [version, version])
            text = f"Model {version} is in use, fitted to {stored['n_rows']} rows."
            if compared := measures.get("comparison"):
                new, old = compared["new"]["outside"], compared["old"]["outside"]
                axes = ", ".join(f"{r:.2f}" for r in compared["axes"])
                text += f" Of the held-out rows {new:.1%} are outside ({old:.1%} before); "
                text += f"correlations of its axes with those before: {axes}."
            pipeline.note("promoted", text)
    if not why:
        point(pipeline, pipeline.settings.models / "current.zarr", Path(address.name))
    because = catalog.value("SELECT because FROM models WHERE version = ?", [version])
    return {"version": version, "promoted": not why, "objections": list(objections), "because": because}


def due(pipeline: Pipeline) -> str:
    """Why a refit is due; "" if it is not."""
    model, rules, catalog = pipeline.current_model(), pipeline.settings.refit, pipeline.catalog
    if model is None:
        return ""
    answered = catalog.value("SELECT max(last_drift) FROM models") or 0
    query = "SELECT count(*) FROM drift WHERE alarm AND id > ? AND model = ?"
    alarms = catalog.value(query, [answered, model["version"]])
    if rules.drift_alarms and alarms >= rules.drift_alarms:
        recordings = "1 recording differs" if alarms == 1 else f"{alarms} recordings differ"
        return f"{recordings} from the data of model {model['version']}"
    last = pipeline.models("generation = ? ORDER BY version DESC", model["generation"])[0]
    fresh = new_recordings(pipeline, model["version"], last["version"])
    age = pipeline.since(last["created"]).total_seconds() / 86400
    if rules.age_days and fresh and age > rules.age_days:
        return f"model {last['version']} is {age:.0f} days old ([refit] age_days = {rules.age_days:g})"
    rows = sum(recording["valid"] for recording in fresh)
    if rules.new_rows and fresh and rows > rules.new_rows * (model["n_rows"] or 0):
        return f"there are {rows} new rows, the model was fitted to {model['n_rows']} ([refit] new_rows)"
    return ""


def new_recordings(pipeline: Pipeline, *versions: int) -> list[Row]:
    """Finished recordings with views that none of these versions was fitted to, in order of time."""
    return pipeline.recordings(
        "status = 'done' AND views IS NOT NULL AND valid > 0 "
        "AND model IN (SELECT version FROM models WHERE generation = ?) AND id NOT IN "
        f"(SELECT recording FROM training WHERE model IN ({', '.join('?' * len(versions))}))",
        *(pipeline.generation, *versions),
    )


def rollback(pipeline: Pipeline, to: int | None = None) -> dict[str, Any]:
    """Use an earlier version, by default the last trusted one before; both versions."""
    current = pipeline.current_model() or {"version": None, "parent": None}
    before = current["version"]
    found = pipeline.models("status IN ('kept', 'rejected') ORDER BY version DESC")
    untrusted = [row["version"] for row in found if warnings_of(row)]
    versions = [row["version"] for row in found if row["status"] == "kept" and row["version"] not in untrusted]
    if to is None:
        to = current["parent"] if current["parent"] in versions else next(iter(versions), None)
    if to is None:
        why = "there is no model yet" if before is None else f"model {before} is the only one that is kept"
        raise SettingsError(f"{why}; there is none to roll back to.")
    if to not in versions + untrusted:
        kept = ", ".join(map(str, versions)) or "none"
        kept += f"; not trusted: {', '.join(map(str, untrusted))}" if untrusted else ""
        name = "no model" if before is None else f"model {before}"
        raise SettingsError(f"model {to} cannot be used in place of {name}; kept versions: {kept}.")
    with pipeline.catalog.change():
        pipeline.catalog.update("models", {"status": "kept"}, status="current")
        pipeline.catalog.update("models", {"status": "current", "reason": None}, version=to)
        place = "" if before is None else f", in place of model {before}"
        pipeline.note("rollback", f"Model {to} is in use{place}. Published days stay as they are.")
    remove_unfinished(pipeline)
    return {"from": before, "to": to}


# Trust. A model is not trusted if its own fit gives warnings (`dlcca.trust.quality.Quality.reasons`). It is never
# promoted, except by `dlcca pipeline rollback --to` or by [model] start.

#: SQL: models that are not trusted.
UNTRUSTED = "json_array_length(measures, '$.warnings') > 0"


def warnings_of(model: Mapping[str, Any]) -> list[str]:
    """Why a model is not trusted; empty if it is."""
    return list(model["measures"].get("warnings") or [])


def last_untrusted(pipeline: Pipeline) -> Row | None:
    """The last model of this generation that is not trusted."""
    return pipeline.model(f"{UNTRUSTED} AND generation = ? ORDER BY version DESC", pipeline.generation)


def doubt(pipeline: Pipeline) -> str:
    """Why the model in use is not trusted, or why there is none, and the command that helps; "" if all is well."""
    file, current = pipeline.settings.path.name, pipeline.current_model()
    model = current or last_untrusted(pipeline)
    if model is None or not warnings_of(model):
        return ""
    reasons = " ".join(f"{warning.rstrip('.')}." for warning in warnings_of(model))
    if current is not None:
        return (
            f"Model {model['version']} is in use and not trusted: {reasons} To fit another model to all recordings and "
            f"use it if it is trusted: dlcca pipeline backfill {file} --anew."
        )
    n = pipeline.catalog.value("SELECT count(*) FROM recordings WHERE status IN ('new', 'failed')")
    waiting = f"{n} recording{'s wait' if n != 1 else ' waits'} for a model. " if n else ""
    return (
        f"Model {model['version']} is not trusted and not used: {reasons} {waiting}To fit again, when there are more "
        f"recordings or after a change of the settings: dlcca pipeline run {file}."
    )


# Comparison of a new model with the old one, on rows that neither was fitted to.


@dataclass(frozen=True)
class Standing:
    """How well a model does on held-out rows."""

    outside: float  # share of them
    agreement: float | None  # of the views, see `models.agreement`
    fresh: float | None = None  # the same in the new recordings alone


def objections(new: Standing, old: Standing, axes: list[float], warnings: list[str], rules: RefitSection) -> list[str]:
    """Why a new model must not be used; empty if it may. ``axes``: correlation of each axis with the old one."""
    against = {}
    if new.outside > old.outside + rules.outside_gain:
        shares = f"{new.outside:.1%} of the held-out rows are outside, {old.outside:.1%} by the old model"
        against["outside_gain"] = shares
    if new.agreement is not None and old.agreement is not None and new.agreement < old.agreement - rules.agreement_loss:
        by = f"{new.agreement:.2f}, {old.agreement:.2f} by the old model"
        against["agreement_loss"] = f"the agreement of the views on held-out rows is {by}"
    if new.fresh is not None and new.fresh < rules.least_agreement:
        against["least_agreement"] = f"in the new recordings the agreement of the views is {new.fresh:.2f}"
    worst = min((value for value in axes if value == value), default=1.0)
    if worst < rules.least_axis_correlation:
        against["least_axis_correlation"] = f"an axis has the correlation {worst:.2f} with that of the old model"
    found = [f"{text} ([refit] {rule} = {getattr(rules, rule):g})" for rule, text in against.items()]
    return [*(f"its own fit warns: {warning}" for warning in warnings), *found]
