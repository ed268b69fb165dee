"""Versions of the model in the catalog: begun, promoted or rejected, due for another, and the way back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, StoreFileError
from dlcca.pipelines import folders, trust
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.publish import point


def tidy(flow: Pipeline) -> None:
    """Remove what a stopped fit has left, and have the link point to the model in use."""
    for row in flow.catalog.all("SELECT version FROM models WHERE status = 'fitting'"):
        flow.remove(*places(flow, row["version"]).values())
        with flow.catalog.change():
            flow.catalog.do("DELETE FROM models WHERE version = ?", [row["version"]])
            flow.catalog.do("DELETE FROM training WHERE model = ?", [row["version"]])
            flow.note("fit", f"Model {row['version']} was being fitted when a run was stopped; it was removed.")
    current, link = flow.current_model(), flow.settings.models / "current.zarr"
    if current is not None:
        point(flow, link, Path(Path(current["address"]).name))
    elif link.is_symlink() and _is_rejected(flow, os.readlink(link)):  # it was in use before models had to be trusted
        flow.remove(link)


def _is_rejected(flow: Pipeline, name: str) -> bool:
    """Whether a model of this name was rejected."""
    return bool(flow.catalog.value("SELECT 1 FROM models WHERE status = 'rejected' AND address = ?", [name]))


def unusable(flow: Pipeline) -> str:
    """Why the model in use cannot be read, or the treatment that goes with it; "" if both can."""
    from dlcca.estimator import open_model
    from dlcca.pipelines import preprocessing

    model = flow.current_model()
    if model is None:
        return ""
    try:
        preprocessing.read(flow)
        open_model(model["address"])
    except StoreFileError as error:
        return (
            f"model {model['version']} cannot be used: {error} New recordings wait for it. Restore it, or go back to "
            f"another: dlcca pipeline rollback {flow.settings.path.name}."
        )
    return ""


def places(flow: Pipeline, version: int) -> dict[str, Path]:
    folder = flow.settings.models
    names = {"address": "", "rows_store": "-rows", "held_store": "-held"}
    return {key: folder / f"v{version:04d}{ending}.zarr" for key, ending in names.items()}


def begin(flow: Pipeline, because: str, parent: Mapping[str, Any] | None) -> int:
    """A new version, which is being fitted; its number."""
    version = int(flow.catalog.value("SELECT max(version) FROM models") or 0) + 1
    alarms = flow.catalog.value("SELECT max(id) FROM drift") or 0
    with flow.catalog.change():
        row = {"version": version, "generation": flow.generation, "status": "fitting", "because": because}
        row |= {"parent": None if parent is None else parent["version"], "created": iso(flow.now)}
        flow.catalog.insert("models", {**row, "settings": flow.settings.fingerprint(), "last_drift": alarms})
    return version


def _keep(flow: Pipeline, version: int, row: dict[str, Any], measures: Any, numbers: Sequence[int]) -> None:
    from dlcca.storage.arrays import plain

    row = folders.row_recorded(flow.settings, {**row, "address": places(flow, version)["address"]})
    told = json.dumps(plain(measures), default=str)
    flow.catalog.update("models", {**row, "measures": told}, version=version)
    flow.catalog.do_many("INSERT OR IGNORE INTO training VALUES (?, ?)", [[version, number] for number in numbers])


def promote(
    flow: Pipeline,
    version: int,
    stored: dict[str, Any],
    measures: dict[str, Any],
    numbers: Sequence[int],
    parent: Mapping[str, Any] | None,
) -> None:
    """The new model takes over, in one change of the catalog."""
    with flow.catalog.change():
        flow.catalog.update("models", {"status": "kept"}, status="current")
        _keep(flow, version, {**stored, "status": "current"}, measures, numbers)
        if parent is not None:
            query = "INSERT OR IGNORE INTO training SELECT ?, recording FROM training WHERE model = ?"
            flow.catalog.do(query, [version, parent["version"]])
        flow.note("promoted", f"Model {version} is in use, fitted to {stored['n_rows']} rows.{_told(measures)}")
    point(flow, flow.settings.models / "current.zarr", Path(places(flow, version)["address"].name))


def _told(measures: Mapping[str, Any]) -> str:
    """How the new model compares, for people."""
    found = measures.get("comparison")
    if found is None:
        return ""
    axes = ", ".join(f"{value:.2f}" for value in found["axes"])
    return (
        f" Of the held-out rows {found['new']['outside']:.1%} are outside ({found['old']['outside']:.1%} before); its "
        f"axes correlate by {axes} with what they were."
    )


def reject(
    flow: Pipeline, version: int, stored: dict[str, Any], measures: dict[str, Any], numbers: Sequence[int], why: str
) -> None:
    with flow.catalog.change():
        _keep(flow, version, {**stored, "status": "rejected", "reason": why}, measures, numbers)
        flow.note("rejected", f"Model {version} was fitted, and is not used: {why.rstrip('.')}.")


def due(flow: Pipeline) -> str:
    """Why a refit is due, in words; "" if it is not."""
    model, asked, catalog = flow.current_model(), flow.settings.refit, flow.catalog
    if model is None:
        return ""
    answered = catalog.value("SELECT max(last_drift) FROM models") or 0
    query = "SELECT count(*) FROM drift WHERE alarm AND id > ? AND model = ?"
    alarms = catalog.value(query, [answered, model["version"]])
    if asked.drift_alarms and alarms >= asked.drift_alarms:
        return f"{alarms} recording{'s were' if alarms > 1 else ' was'} unlike what model {model['version']} has seen"
    last = catalog.one("SELECT * FROM models WHERE generation = ? ORDER BY version DESC LIMIT 1", [model["generation"]])
    assert last is not None
    fresh = new_recordings(flow, model["version"], last["version"])
    age = flow.since(last["created"]).total_seconds() / 86400
    if asked.age_days and fresh and age > asked.age_days:
        return f"model {last['version']} is {age:.0f} days old ([refit] age_days = {asked.age_days:g})"
    rows = sum(recording["valid"] for recording in fresh)
    if asked.new_rows and fresh and rows > asked.new_rows * (model["n_rows"] or 0):
        return f"there are {rows} new rows, the model was fitted to {model['n_rows']} ([refit] new_rows)"
    return ""


def new_recordings(flow: Pipeline, *versions: int) -> list[dict[str, Any]]:
    """Finished recordings with views that none of these versions was fitted to, the latest first."""
    marks = ", ".join("?" * len(versions))
    query = (
        "SELECT * FROM recordings WHERE status = 'done' AND views IS NOT NULL AND valid > 0 "
        "AND model IN (SELECT version FROM models WHERE generation = ?) AND id NOT IN "
        f"(SELECT recording FROM training WHERE model IN ({marks})) ORDER BY day DESC, start DESC, path DESC"
    )
    found = flow.catalog.all(query, [flow.generation, *versions])
    return [folders.row_located(flow.settings, row) for row in found]


def rollback(flow: Pipeline, to: int | None = None) -> dict[str, Any]:
    """Put an earlier version in the place of the current one, by default the one before; both versions.

    One that is not trusted has to be named.
    """
    current = flow.current_model()
    query = "SELECT version, status, measures FROM models WHERE status IN ('kept', 'rejected') ORDER BY version DESC"
    found = flow.catalog.all(query)
    doubtful = [row["version"] for row in found if trust.reasons_of(row)]
    versions = [row["version"] for row in found if row["status"] == "kept" and row["version"] not in doubtful]
    if to is None:
        parent = None if current is None else current["parent"]
        to = parent if parent in versions else next(iter(versions), None)
    if to is None and current is None:
        raise SettingsError("there is no model yet, so none to go back from.")
    if to is None:
        raise SettingsError(f"{_called(current)} is the only one that is kept; there is none to go back to.")
    if to not in versions + doubtful:
        told = ", ".join(map(str, versions)) or "none"
        told += f"; not trusted: {', '.join(map(str, doubtful))}" if doubtful else ""
        raise SettingsError(f"model {to} cannot be used in place of {_called(current)}; kept are: {told}.")
    with flow.catalog.change():
        flow.catalog.update("models", {"status": "kept"}, status="current")
        flow.catalog.update("models", {"status": "current", "reason": None}, version=to)
        place = "" if current is None else f" again, in place of {_called(current)}"
        flow.note("rollback", f"Model {to} is in use{place}. Published days stay as they are.")
    tidy(flow)
    return {"from": None if current is None else current["version"], "to": to}


def _called(model: Mapping[str, Any] | None) -> str:
    return "none" if model is None else f"model {model['version']}"
