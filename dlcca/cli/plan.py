"""`dlcca plan`: what a run will take, before anything of it is computed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import Voice, speaking
from dlcca.cli.estimate import kept_rates
from dlcca.cli.options import AsJson, Debug, Quiet, RunToml
from dlcca.cli.units import duration, size

EXAMPLE = "Example: dlcca plan run.toml --workers 100 --rows 100000000"
#: What every plan tells of besides: a recording of months, on a cluster.
LARGE_ROWS, LARGE_WORKERS = 10**8, 100


def plan(
    runfile: RunToml,
    workers: Annotated[int | None, typer.Option(min=1, help="Plan for this many workers.")] = None,
    rows: Annotated[int | None, typer.Option(min=2, help="Plan for this many samples.")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="First measure this machine on up to 10 000 rows, and keep the rates.")
    ] = False,
    rates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the rates are kept; in your cache folder if not said.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what a run will take; nothing of it is computed.

    Tasks, bytes read and written, memory of a worker, operations and the time, stage by stage. The time is a guess
    until --calibrate has measured this machine. What will not fit the memory of the workers is refused here, with the
    setting to change.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.fitting import planning, rate_file
        from dlcca.settings import runfile as files

        asked = files.read(runfile)
        job, choices, before = _planned_job(asked, calibrate)
        count = workers or asked.cluster.workers or os.cpu_count() or 1
        if calibrate and rates is not None:
            rate_file.refuse_occupied(rates, [runfile, asked.store, *asked.inputs])
        known, said = _rates(voice, job, asked.cluster, calibrate, rates)
        made = planning.at_scale(job, rows or job.n, count, known, asked=asked.settings)
        large = planning.at_scale(job, LARGE_ROWS, LARGE_WORKERS, known, asked=asked.settings)
        voice.say(f"{made.sizes.n} samples, {', '.join(f'{s.name} ({d} channels)' for s, d in _views(job))}")
        for line in choices.lines():
            voice.say(f"  {line}")
        if before is not None:
            voice.say(before.sentence())
        _say_plan(voice, made)
        voice.say(f"The time is {said}.")
        voice.say(
            f"10^8 samples on {LARGE_WORKERS} workers: {duration(large.seconds)}, {size(large.memory_per_worker)} in "
            f"each worker, {large.tasks} tasks, {size(large.reads)} read, {size(large.writes)} written."
        )
        if asked.cluster.memory_gib is not None:
            planning.refuse_too_large(made, asked.cluster.memory_gib * 2**30)
        ingestion = {} if before is None else {"ingestion": vars(before)}
        document = {**_plan_document(made), "rates": said, "choices": choices.lines(), **ingestion}
        voice.finish({**document, "large": _plan_document(large)})


def _planned_job(asked: Any, calibrate: bool) -> tuple[Any, Any, Any]:
    """The job, its choices, and what ingestion will take if it was not done yet."""
    from dlcca.errors import SettingsError
    from dlcca.fitting import planned, runner
    from dlcca.storage.views import is_views

    if not asked.recordings or is_views(asked.ingested):
        clock = asked.ingested if asked.recordings else ""
        return *runner.prepared(asked.store, asked.views, asked.settings, asked.seed, clock, asked.missing_chunks), None
    if calibrate:
        raise SettingsError("--calibrate measures on the views, which are not made yet: dlcca ingest run.toml first.")
    return planned.prepared(asked.store, asked.ingested, asked.recordings, asked.settings, asked.seed)


def _rates(voice: Voice, job: Any, cluster: Any, calibrate: bool, file: Path | None) -> tuple[Any, str]:
    """Rates that were measured, now or before, and where they come from, in words; None if there are none."""
    if not calibrate:
        return kept_rates(job, file)
    from dlcca.fitting import rate_file

    found = _calibrated(voice, job, cluster)
    rate_file.write(file or rate_file.usual_place(job), found)
    return found.rates, found.sentence()


def _calibrated(voice: Voice, job: Any, cluster: Any) -> Any:
    from dlcca.clusters import client_for
    from dlcca.fitting import calibration, rate_file

    workers = cluster.workers or os.cpu_count() or 1
    with voice.progress() as step:
        rates = calibration.calibrate(job, lambda: client_for(None, workers, cluster.memory_gib), workers, step)
    return rate_file.new(rates, job, min(job.n, calibration.ROWS), workers)


def _say_plan(voice: Voice, made: Any) -> None:
    """A table of the stages, and what they come to."""
    voice.say(f"{'stage':<14}{'tasks':>8}{'read':>10}{'written':>10}{'memory':>10}{'Gflop':>10}{'seconds':>9}")
    for stage in made.stages:
        voice.say(
            f"{stage.name:<14}{stage.tasks:>8}{size(stage.reads):>10}{size(stage.writes):>10}"
            f"{size(made.memory_of(stage)):>10}{stage.products / 1e9:>10.0f}{made.seconds_of(stage):>9.1f}"
        )
    voice.say(
        f"In all {made.tasks} tasks, {size(made.reads)} read, {size(made.writes)} written, "
        f"{size(made.memory_per_worker)} in each of {made.workers} workers, {size(made.memory_in_all)} in all "
        f"processes, about {duration(made.seconds)}."
    )
    voice.say(
        f"{made.tasks_per_block:.1f} tasks for each of {made.sizes.n_blocks} blocks of data, at most "
        f"{made.largest_wave} at a time."
    )


def _plan_document(made: Any) -> dict[str, Any]:
    """A plan for machines."""
    stages = [{**vars(s), "memory": made.memory_of(s), "seconds": made.seconds_of(s)} for s in made.stages]
    return {
        "samples": made.sizes.n,
        "workers": made.workers,
        "seconds": made.seconds,
        "start_seconds": made.rates.start_s,
        "memory_per_worker": made.memory_per_worker,
        "memory_in_all": made.memory_in_all,
        "tasks": made.tasks,
        "tasks_per_block": made.tasks_per_block,
        "largest_wave": made.largest_wave,
        "reads": made.reads,
        "writes": made.writes,
        "flops": made.products,
        "stages": stages,
    }


def _views(job: Any) -> list[tuple[Any, int]]:
    return list(zip(job.sources, job.dims, strict=True))
