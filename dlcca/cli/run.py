"""`dlcca run`: all stages; a second run does only what is missing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dlcca.cli.console import Voice, speaking
from dlcca.cli.estimate import foreseen, workers_of
from dlcca.cli.options import AsJson, Cluster, Debug, Quiet, RunToml
from dlcca.cli.views import ingested

EXAMPLE = "Example: dlcca run run.toml"


def run(
    runfile: RunToml,
    cluster: Cluster = None,
    again_from: Annotated[
        str | None, typer.Option("--from", metavar="STAGE", help="Do this stage and all later ones again.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run all stages; a second run does only what is missing.

    Killed at any moment, it goes on where it was: finished blocks are kept in the store and not computed again.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.settings import runfile as files
        from dlcca.storage import event_log, lock, places
        from dlcca.storage.run import FORM

        asked = files.read(runfile)
        places.refuse_store(asked.store, FORM, inputs=[runfile, *asked.inputs], setting="[store] path")
        doing = "dlcca run"
        with lock.held(asked.store, doing), event_log.recording(asked.store, doing) as log:
            job, choices, quality = _done(voice, asked, cluster, again_from, log)
        voice.say(_found(job, quality))
        for line in choices.lines():
            voice.say(f"  {line}")
        begun_again, lost = log.counts["retry"], log.counts["worker lost"]
        if begun_again or lost:
            voice.say(f"Work was begun again {begun_again} times, and {lost} workers were lost; all is done.")
            voice.say(f"  see what happened when: {asked.store.rstrip('/')}/{event_log.FILE}")
        voice.next_steps(
            {
                "look at the report": f"dlcca report {asked.store}",
                "hold it against other methods": f"dlcca compare {runfile}",
                "use it in Python": f"zarr.open_group({asked.store!r})['embedding']",
            }
        )
        voice.finish(
            {
                "store": asked.store,
                "samples": job.n,
                "n_common": quality.n_common,
                "quality": quality.measures,
                "warnings": quality.reasons,
                "choices": choices.lines(),
                "retries": begun_again,
                "workers_lost": lost,
                "events": f"{asked.store.rstrip('/')}/{event_log.FILE}",
            },
            quality.reasons,
        )


def _found(job: Any, quality: Any) -> str:
    """What was found, in a sentence."""
    if job.K == 1:
        from dlcca.trust.quality import ONE_VIEW

        return f"{job.n} samples of one view: {ONE_VIEW}."
    count = quality.n_common
    shared = "nothing" if count == 0 else f"{count} variable{'s' * (count != 1)}"
    return f"{job.n} samples: at the typical landmark the {job.K} views share {shared}."


def _done(voice: Voice, asked: Any, cluster: str | None, again_from: str | None, log: Any) -> tuple[Any, Any, Any]:
    """The job, its choices and its quality, after everything that was missing has been done."""
    from dlcca.clusters import check, client_of, performance, profile_for
    from dlcca.fitting import runner

    profile = profile_for(cluster, asked.cluster.workers, asked.cluster.memory_gib)
    if asked.recordings:
        if again_from == "ingest":
            again_from = runner.forget_recordings(asked.store)
        limits = asked.cluster.workers, asked.cluster.memory_gib
        ingested(voice, asked.ingested, asked.recordings, cluster, *limits)
    clock = asked.ingested if asked.recordings else ""
    job, choices = runner.prepared(asked.store, asked.views, asked.settings, asked.seed, clock, asked.missing_chunks)
    expected = foreseen(job)
    memory_gib = getattr(profile, "memory_gib", asked.cluster.memory_gib)
    if memory_gib is not None:
        expected.refuse_too_large(memory_gib * 2**30)
    if again_from is not None:
        runner.forget(asked.store, again_from)
    shown = voice.bars(expected=expected.stage_seconds())
    with shown as tell, client_of(profile, log.warned(voice.warn)) as client:
        if cluster is not None:
            check.refuse_unfit(client, asked.store)
        expected.note(log, workers_of(profile, client))
        with performance.reported(client, log.keep_report, lambda text: log.note("warning", text=text)):
            quality = runner.run(job, choices, client, tell, voice.warn)
    for doubt in quality.reasons:
        log.note("warning", text=doubt)
    return job, choices, quality
