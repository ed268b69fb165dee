"""Where a pipeline stands, and what has happened: by the catalog alone, without a lock."""

from __future__ import annotations

import json
from typing import Any

from dlcca.pipelines import trust
from dlcca.pipelines.catalog import Catalog
from dlcca.pipelines.context import Pipeline


def status(flow: Pipeline) -> dict[str, Any]:
    """Counts, the model in use, the last run, the last drift."""
    catalog = flow.catalog
    counts = catalog.all("SELECT status, count(*) AS n FROM recordings GROUP BY status")
    states = catalog.all("SELECT state, count(*) AS n FROM files GROUP BY state")
    model = flow.current_model()
    last = catalog.one("SELECT * FROM runs WHERE ended IS NOT NULL ORDER BY id DESC LIMIT 1")
    begun = catalog.one("SELECT id, verb, started, host, pid FROM runs ORDER BY id DESC LIMIT 1")
    days = catalog.one(
        "SELECT count(*) AS days, min(day) AS first, max(day) AS last, sum(rows) AS rows FROM partitions"
    )
    return {
        "name": flow.settings.pipeline.name,
        "recordings": {row["status"]: row["n"] for row in counts},
        "files": {row["state"]: row["n"] for row in states},
        "model": None if model is None else _told_model(model),
        "doubt": trust.doubt(flow) or None,
        "models": catalog.all("SELECT version, status, created, because, reason FROM models ORDER BY version"),
        "published": days,
        "last_run": None if last is None else _told_run(last),
        "unfinished_run": begun if begun is not None and (last is None or begun["id"] > last["id"]) else None,
        "drift": catalog.all("SELECT day, alarm, text FROM drift JOIN recordings ON recordings.id = recording "
                             "ORDER BY drift.id DESC LIMIT 5"),
    }  # fmt: skip


def _told_model(model: dict[str, Any]) -> dict[str, Any]:
    told = {key: model[key] for key in ("version", "created", "because", "n_rows")}
    reasons = trust.reasons_of(model)
    return {**told, "trusted": not reasons, "reasons": reasons}


def _told_run(row: dict[str, Any]) -> dict[str, Any]:
    told = {key: row[key] for key in ("id", "verb", "started", "ended", "exit_code")}
    return {**told, "text": json.loads(row["summary"] or "{}").get("text", "")}


def status_lines(found: dict[str, Any]) -> list[str]:
    """The same in sentences."""
    counts = ", ".join(f"{n} {status}" for status, n in found["recordings"].items()) or "none yet"
    waiting = found["files"].get("waiting", 0)
    lines = [f"{found['name']}: recordings {counts}" + (f"; {waiting} files not complete yet." if waiting else ".")]
    model, days = found["model"], found["published"]
    if model is None:
        lines.append("No model is in use." if found["doubt"] else "There is no model yet.")
    else:
        told = f"{model['because']}; {model['n_rows']} rows"
        standing = "trusted" if model["trusted"] else "not trusted"
        lines.append(f"Model {model['version']} of {model['created'][:10]} is in use and {standing} ({told}).")
    if found["doubt"]:
        lines.append(found["doubt"])
    if days["days"]:
        many = "days are" if days["days"] != 1 else "day is"
        lines.append(f"{days['days']} {many} published, {days['first']} to {days['last']}, {days['rows']} rows.")
    last = found["last_run"]
    if last is not None:
        lines.append(f"The last run ({last['verb']}, {last['ended'][:19]}) ended with exit code {last['exit_code']}.")
    begun = found["unfinished_run"]
    if begun is not None:
        where = f"process {begun['pid']} of {begun['host']}"
        lines.append(f"A run began at {begun['started'][:19]} ({where}): it is at work, or was stopped.")
    return lines + [f"Drift: {row['text']}" for row in found["drift"] if row["alarm"]]


def history(catalog: Catalog, limit: int, day: str | None, file: str | None, kind: str | None) -> list[dict[str, Any]]:
    """The latest lines, the oldest of them first; of a day, a file (part of its path) or a kind only, if asked."""
    wanted = {"day = ?": day, "path LIKE '%' || ? || '%'": file, "kind = ?": kind}
    given = {clause: value for clause, value in wanted.items() if value is not None}
    which = f"WHERE {' AND '.join(given)}" if given else ""
    query = f"SELECT * FROM history {which} ORDER BY id DESC LIMIT ?"
    return catalog.all(query, [*given.values(), limit])[::-1]
