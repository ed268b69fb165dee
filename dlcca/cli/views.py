"""Views for a verb to work on: made of recordings first, where need be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlcca.cli.console import Voice
from dlcca.cli.workers import client_if_worthwhile


def ingested(
    voice: Voice,
    place: str,
    recipes: Mapping[str, Any],
    cluster: str | None,
    workers: int | None,
    memory_gib: float | None,
    lenient: bool = False,
) -> dict[str, Any]:
    """The header of a store of views, after doing what was missing of it; a small one without a cluster."""
    from dlcca.recordings import ingest as ingesting

    job, line = ingesting.prepared(place, recipes, lenient=lenient)
    wanted = client_if_worthwhile(voice, cluster, workers, job.n_blocks, memory_gib)
    with voice.bars(job.rows * job.step_s) as tell, wanted as client:
        return ingesting.run(job, line, client, tell)


def inputs_of(files: list[str]) -> list[str]:
    """The addresses among what a verb is given as FILE: those of NAME=array too."""
    return [*files, *(file.partition("=")[2] for file in files if "=" in file)]


def new_views(
    voice: Voice,
    model: str,
    files: list[str],
    place: str,
    cluster: str | None,
    workers: int,
    missing_chunks: str = "refuse",
) -> tuple[dict[str, Any], str]:
    """The views of new recordings by name, and the store of views that they are, if any: ``place``, if made here."""
    from dlcca.errors import SettingsError
    from dlcca.estimator import open_model
    from dlcca.fitting import transform as transforming
    from dlcca.recordings import ingest as ingesting
    from dlcca.recordings import new_recordings
    from dlcca.storage import views

    fitted = open_model(model)
    if len(files) == 1 and views.is_views(files[0]):
        new_recordings.refuse_other_views(files[0], fitted.recordings_)
        return transforming.views_of_store(files[0]), files[0]
    if fitted.recordings_ is None:
        return transforming.named_arrays(files, fitted.model_.names, missing_chunks), ""
    if any("=" in file and not Path(file).exists() for file in files):
        raise SettingsError(f"{model} was fitted to recordings: give files of recordings, not NAME=array.")
    job, line = new_recordings.prepared(place, transforming.model_address(model), fitted.recordings_, files)
    fitted.model_.check_present([view.name for view in job.views])
    with voice.bars() as tell, client_if_worthwhile(voice, cluster, workers, job.n_blocks) as client:
        header = ingesting.run(job, line, client, tell)
    for sentence in ingesting.summary(header):
        voice.say(sentence)
    return transforming.views_of_store(place), place
