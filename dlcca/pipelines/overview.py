"""What the page of a pipeline tells, by the catalog alone: nights, troubles, drift, models, days."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dlcca.pipelines import trust
from dlcca.pipelines.context import Pipeline

#: So many of each are shown, the latest; all of them are in `dlcca pipeline history`.
MOST_NIGHTS, MOST_TROUBLES, MOST_DAYS, MOST_DRIFT = 60, 200, 60, 400
#: Runs that did something, or did not end well. Years of runs may have found nothing new: they are not read.
TELLING = "ended IS NULL OR exit_code != 0 OR verb = 'rollback' OR coalesce(json_extract(summary, '$.news'), 0)"

Row = dict[str, Any]


@dataclass(frozen=True)
class Overview:
    """Rows of the catalog, the latest first, except for drift, which goes on with time."""

    counts: dict[str, int]  # recordings by status
    waiting: int  # files that are not complete yet
    days: Row  # how many are published, the first, the last, their rows
    current: Row | None  # the model in use
    untrusted: Row | None  # the last model that is not trusted, if there is none in use
    nights: list[Row]  # runs that did something, or should have
    quiet: int  # runs that found nothing new
    last: Row | None  # the last run that ended
    troubles: list[Row]
    drift: list[Row]
    models: list[Row]
    published: list[Row]


def overview(flow: Pipeline) -> Overview:
    """Everything, at this moment."""
    catalog = flow.catalog
    statuses = catalog.all("SELECT status, count(*) AS n FROM recordings GROUP BY status")
    last = catalog.one("SELECT * FROM runs WHERE ended IS NOT NULL ORDER BY id DESC LIMIT 1")
    nights = catalog.all(f"SELECT * FROM runs WHERE {TELLING} ORDER BY id DESC LIMIT ?", [MOST_NIGHTS])
    days = catalog.one("SELECT count(*) AS n, min(day) AS first, max(day) AS last, sum(rows) AS rows FROM partitions")
    assert days is not None
    return Overview(
        counts={row["status"]: row["n"] for row in statuses},
        waiting=catalog.value("SELECT count(*) FROM files WHERE state = 'waiting'"),
        days=days,
        current=(current := flow.current_model()),
        untrusted=trust.last_untrusted(flow) if current is None else None,
        nights=[_night(row) for row in nights],
        quiet=catalog.value(f"SELECT count(*) FROM runs WHERE NOT ({TELLING})"),
        last=None if last is None else _night(last),
        troubles=_troubles(flow),
        drift=_drift(flow),
        models=catalog.all("SELECT * FROM models WHERE status != 'fitting' ORDER BY version DESC"),
        published=catalog.all("SELECT * FROM partitions ORDER BY day DESC LIMIT ?", [MOST_DAYS]),
    )


def _night(row: Row) -> Row:
    """A run with what it said; one that has no end was stopped, or is at work."""
    told = json.loads(row.pop("summary") or "{}")
    done, published = told.get("done", []), told.get("published", [])
    return {**row, "text": told.get("text", ""), "done": len(done), "published": published}


def _troubles(flow: Pipeline) -> list[Row]:
    """Recordings and files that did not come through, and days that could not be published, each with its reason."""
    recordings = flow.catalog.all(
        "SELECT path, day, status AS what, reason, finished AS at FROM recordings WHERE status IN "
        "('refused', 'held', 'failed') ORDER BY finished DESC LIMIT ?", [MOST_TROUBLES],
    )  # fmt: skip
    files = flow.catalog.all(
        "SELECT path, NULL AS day, 'unreadable' AS what, reason, first_seen AS at FROM files WHERE state IN "
        "('unreadable', 'closed') "
        "ORDER BY first_seen DESC LIMIT ?", [MOST_TROUBLES],
    )  # fmt: skip
    return sorted(recordings + files, key=lambda row: row["at"] or "", reverse=True)[:MOST_TROUBLES]


def _drift(flow: Pipeline) -> list[Row]:
    """How far recordings were from what their model had seen, in the order of their days."""
    found = flow.catalog.all(
        "SELECT drift.*, recordings.day, recordings.start, recordings.path FROM drift JOIN recordings "
        "ON recordings.id = drift.recording ORDER BY drift.id DESC LIMIT ?", [MOST_DRIFT],
    )  # fmt: skip
    return sorted(found, key=lambda row: (row["day"] or "", row["start"] or "", row["id"]))
