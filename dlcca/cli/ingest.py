"""`dlcca ingest`: recordings into aligned, windowed views."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Cluster, Debug, MissingChunks, Quiet
from dlcca.cli.views import ingested

#: Longer than a line of a narrow terminal: without the mark help would break it in two.
EXAMPLE = "\b\nExample: dlcca ingest night*.edf --out views.zarr --view eeg='EEG*' --view ecg=type:ecg"


def ingest(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Recordings, or one run.toml.")],
    out: Annotated[str | None, typer.Option(help="The store that is written; in run.toml, the run has it.")] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=CHANNELS", help="A view: names, patterns or types of channels, with commas."),
    ] = None,
    features: Annotated[str, typer.Option(help="raw, delay, bandpower, spectrogram or covariance.")] = "raw",
    window_s: Annotated[float | None, typer.Option(help="Seconds of a window; about a second if not said.")] = None,
    step_s: Annotated[float | None, typer.Option(help="Seconds between windows; a window if not said.")] = None,
    scaling: Annotated[str, typer.Option(help="Of each channel: robust, standard or none.")] = "robust",
    resample: Annotated[str | None, typer.Option(help="Rates that do not fit: exact, nearest or linear.")] = None,
    cluster: Cluster = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes of a local cluster, one for each core if not said; 1 does without.")
    ] = None,
    missing_chunks: MissingChunks = "refuse",
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Turn recordings into aligned, windowed views in Zarr.

    Several files make one recording, in the order of their starts, with the breaks kept. Windows that touch a gap, a
    missing value, a BAD annotation or a flat or saturated channel are marked and left out. A second call does only what
    is missing.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.errors import SettingsError
        from dlcca.recordings import ingest as ingesting
        from dlcca.recordings.default_views import said_views, usual_views
        from dlcca.settings.recipe import ViewRecipe
        from dlcca.storage import lock, places, views
        from dlcca.storage.run import FORM

        if len(files) == 1 and files[0].endswith(".toml"):
            from dlcca.settings import runfile

            asked = runfile.read(files[0])
            if not asked.recordings:
                raise SettingsError(f"{files[0]} names no recordings: its views are arrays, which need no ingesting.")
            place, recipes, lenient = out or asked.ingested, asked.recordings, False
            whole = out or asked.store  # a run and an ingestion for it are not to write at the same time
            inputs = [*files, *asked.inputs]
        else:
            if out is None:
                raise SettingsError("--out is missing: the store to write, for instance --out views.zarr.")
            fit = resample or ("exact" if view or window_s or step_s else "nearest")  # what is not said must not fail
            said = {"features": features, "window_s": window_s, "step_s": step_s, "scaling": scaling, "resample": fit}
            given = {key: value for key, value in said.items() if value is not None}
            given["missing_chunks"] = missing_chunks
            recipe = ViewRecipe.of(given, "the command line:")
            place, whole, lenient, inputs = out, out, not view, files
            recipes = said_views(view, files, recipe) if view else usual_views(files, recipe, ingesting.opener())
        form, setting = (views.FORM, "--out") if whole == place else (FORM, "[store] path")
        places.refuse_store(whole, form, inputs=inputs, setting=setting)
        if recipes:
            # Of a place of its own the ingestion first sees whether it is one of ours, and then locks it itself.
            with nullcontext() if whole == place else lock.held(whole, "dlcca ingest"):
                header = ingested(voice, place, recipes, cluster, workers, None, lenient=lenient)
        else:
            header = ingesting.only_annotations(place, files)
        for line in ingesting.summary(header):
            voice.say(line)
        if recipes:
            voice.next_steps(_next(files, place, next(iter(recipes))))
        voice.finish({"store": place, **header})


def _next(files: list[str], place: str, view: str) -> dict[str, str]:
    """What is done with views: for a run they go on to it, of their own they are for a model that is there."""
    in_python = {"use it in Python": f"dlcca.open_views({place!r})[{view!r}]"}
    if files[0].endswith(".toml"):
        return {"what a run will take": f"dlcca plan {files[0]}", "run it": f"dlcca run {files[0]}", **in_python}
    stem = place.rstrip("/").removesuffix(".zarr")
    return {
        "what is in it": f"dlcca status {place}",
        "coordinates of a model": f"dlcca transform run.zarr {place} --out {stem}-coordinates.zarr",
        **in_python,
    }
