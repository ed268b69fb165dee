"""A pipeline file that cannot be used as it is: its history is told of it, and can still be read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from dlcca.errors import DlccaError, SettingsError
from dlcca.pipelines import settings
from dlcca.pipelines.catalog import Catalog, iso, refuse_other_state


def refuse(path: str | Path, verb: str, clock: Callable[[], datetime] | None = None) -> None:
    """An error if the settings are wrong, with a line in the history: nobody may be looking at what cron prints."""
    try:
        settings.read(path)
    except SettingsError as error:
        with suppress(DlccaError):  # the catalog is out of reach as well
            _note(path, verb, str(error), (clock or (lambda: datetime.now(UTC)))())
        raise


def _note(path: str | Path, verb: str, reason: str, now: datetime) -> None:
    state = settings.state_of(path)
    if state is None:
        return
    refuse_other_state(state)
    with Catalog(state / "catalog.sqlite") as catalog, catalog.change():
        run = catalog.begin_run(verb, now)
        catalog.insert("history", {"run": run, "at": iso(now), "kind": "error", "text": reason})
        code = SettingsError.exit_code
        document = {"exit_code": code, "news": True, "error": reason, "text": reason, "run": run}
        catalog.end_run(run, now, document, told=False)


def catalog_of(path: str | Path) -> tuple[Catalog, str]:
    """The catalog of a pipeline, and what is wrong with its file ("" if nothing is)."""
    try:
        return Catalog(settings.read(path).state / "catalog.sqlite"), ""
    except SettingsError as error:
        state = settings.state_of(path)
        if state is None or not (state / "catalog.sqlite").is_file():
            raise
        return Catalog(state / "catalog.sqlite"), str(error)
