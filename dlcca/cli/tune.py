"""`dlcca tune`: settings for a run, chosen without any truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.options import AsJson, Debug, Quiet, RunToml
from dlcca.cli.views import ingested
from dlcca.cli.voice import speaking

EXAMPLE = "Example: dlcca tune run.toml --out tuned.toml"


def tune(
    runfile: RunToml,
    out: Annotated[
        Path | None, typer.Option(help="The run file with the chosen settings; tuned.toml beside run.toml if not said.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Choose window or n_neighbors, ridge, bandwidth, n_links and fusion; no truth is needed.

    Options are tried by small fits to halves of some rows: coordinates have to come again, and have more in common with
    all views than views have that share nothing. Prints what each option was worth, and writes the run file anew with
    those that were chosen. The kind of neighborhoods is kept: it says what "common" means.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import runfile as files
        from dlcca.tuning import runs

        asked = files.read(runfile)
        place = runfile.with_name("tuned.toml") if out is None else out
        _refuse_elsewhere(place, runfile)
        if asked.recordings:
            limits = asked.cluster.workers, asked.cluster.memory_gib
            ingested(voice, asked.ingested, asked.recordings, None, *limits)
        with voice.progress() as step:
            step("trying options")
            made = runs.tune_run(asked)
        chosen = {name: curve.chosen for name, curve in made.curves.items()}
        text = runs.with_options(runfile.read_text(encoding="utf-8"), chosen)
        _write(place, text)
        voice.say(str(made))
        voice.say(f"The run file with these settings is {place}.")
        voice.next_steps({"run it": f"dlcca run {place}", "what it will take": f"dlcca plan {place}"})
        voice.finish({"out": str(place), **_document(made), "options": chosen})


def _refuse_elsewhere(place: Path, runfile: Path) -> None:
    """Paths in a run file are relative to it: in another folder they would mean others."""
    from dlcca.errors import SettingsError

    if place.resolve().parent != runfile.resolve().parent:
        raise SettingsError(f"--out {place} is not in the folder of {runfile}, to which the paths in it are relative.")


def _write(place: Path, text: str) -> None:
    from dlcca.errors import StorageError

    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error


def _document(made: Any) -> dict[str, Any]:
    """What was found, for machines."""
    curves = {
        name: {"candidates": curve.candidates, "criterion": curve.criterion, "reason": curve.reason}
        for name, curve in made.curves.items()
    }
    told = ("rule", "by_chance", "rows", "of_rows", "trials", "cost")
    return {**{name: getattr(made, name) for name in told}, "curves": curves}
