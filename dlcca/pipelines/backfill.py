"""Days that are to be done again: with the model of today, after something was mended, or with other settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

from dlcca.errors import SettingsError
from dlcca.pipelines import trust
from dlcca.pipelines.context import Pipeline, Say
from dlcca.pipelines.discover import discover
from dlcca.pipelines.nightly_run import begun, work_off
from dlcca.pipelines.summary import Summary


def _silent(text: str) -> None:
    """Nobody listens."""


def run(
    path: str | Path,
    first: str | None = None,
    last: str | None = None,
    *,
    again: bool = False,
    anew: bool = False,
    cluster: str | None = None,
    say: Say = _silent,
    clock: Callable[[], datetime] | None = None,
) -> Summary:
    """Embed days first to last (all if not said) with the model in use, as far as another made them.

    ``again``: also what was refused or held back. ``anew``: all of it, with a model that is fitted anew.
    """
    bounds = _day(first, "0000-01-01"), _day(last, "9999-12-31")
    if anew and (first or last):
        raise SettingsError("--anew is for all days: coordinates of two models that were not fitted together differ.")
    with begun(path, "backfill", cluster, say, clock) as (flow, summary):
        summary.found = discover(flow)
        if anew:
            _begin_anew(flow)
        else:
            _ask_again(flow, *bounds, again)
        work_off(flow, summary)
    return summary


def _day(said: str | None, otherwise: str) -> str:
    if said is None:
        return otherwise
    try:
        return date.fromisoformat(said).isoformat()
    except ValueError as error:
        raise SettingsError(f"{said!r} is no day; give one as 2026-01-31.") from error


def _ask_again(flow: Pipeline, first: str, last: str, again: bool) -> None:
    """Mark what is to be done again; its published result stands until then."""
    model = flow.current_model()
    with flow.catalog.change():
        if model is not None:
            flow.catalog.do(
                "UPDATE recordings SET status = 'new', attempts = 0 WHERE status = 'done' AND model != ? "
                "AND day BETWEEN ? AND ?",
                [model["version"], first, last],
            )
        if again:
            flow.catalog.do(
                "UPDATE recordings SET status = 'new', attempts = 0, reason = NULL, day = NULL "
                "WHERE status IN ('refused', 'held') AND coalesce(day, ?) BETWEEN ? AND ?",
                [first, first, last],
            )


def _begin_anew(flow: Pipeline) -> None:
    """Take the model out of use, and mark every recording whose file is still there."""
    with flow.catalog.change():
        flow.catalog.update("models", {"status": "kept"}, status="current")
        # As if they had been in use: then this is another generation, and the same recordings are fitted again.
        flow.catalog.do(f"UPDATE models SET reason = NULL {trust.WHERE}")
        flow.catalog.do(
            "UPDATE recordings SET status = 'new', attempts = 0, reason = NULL, result = NULL WHERE status IN "
            "('done', 'refused', 'held', 'failed') AND content IN (SELECT content FROM files WHERE state = 'known')"
        )
        flow.note("anew", "Everything is begun anew: a model is fitted, and all recordings are embedded with it.")
