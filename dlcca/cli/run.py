"""`dlcca ingest`, `dlcca plan` and `dlcca run`: from recordings to a finished run."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from dlcca.cli.progress import format_duration
from dlcca.cli.verb import Cluster, Console, MissingChunks, RunToml, verb
from dlcca.errors import SettingsError
from dlcca.settings.recipe import ViewRecipe
from dlcca.settings.runfile import ClusterSettings, read
from dlcca.storage.cost import format_bytes

#: Every plan also has the costs of a recording of months, on a cluster.
LARGE_ROWS, LARGE_WORKERS = 10**8, 100


@verb(example="dlcca ingest night*.edf --out views.zarr --view eeg='EEG*' --view ecg=type:ecg")
def ingest(
    console: Console,
    files: Annotated[list[str], Argument(metavar="FILE...", help="Recordings, or one run.toml.")],
    out: Annotated[str | None, Option(help="The store that is written; in run.toml, the run has it.")] = None,
    view: Annotated[
        list[str] | None,
        Option(metavar="NAME=CHANNELS", help="A view: names, patterns or types of channels, with commas."),
    ] = None,
    features: Annotated[str, Option(help="raw, delay, bandpower, spectrogram or covariance.")] = "raw",
    window_s: Annotated[float | None, Option(help="Seconds of a window. Default: about a second.")] = None,
    step_s: Annotated[float | None, Option(help="Seconds between windows. Default: a window.")] = None,
    scaling: Annotated[str, Option(help="Of each channel: robust, standard or none.")] = "robust",
    resample: Annotated[str | None, Option(help="Rates that do not fit: exact, nearest or linear.")] = None,
    cluster: Cluster = None,
    workers: Annotated[int | None, Option(help="Processes of a local cluster; 1: none. Default: one per core.")] = None,
    missing_chunks: MissingChunks = "refuse",
) -> None:
    """Turn recordings into aligned, windowed views in Zarr.

    Several files make one recording, in the order of their starts, with the breaks kept. Windows that touch a gap, a
    missing value, a BAD annotation or a flat or saturated channel are marked and left out. A second call does only what
    is missing.
    """
    from dlcca.recordings import ingest as ingesting
    from dlcca.recordings.recorded_views import default_views, views_from_arguments
    from dlcca.storage import lock, places, views
    from dlcca.storage.run import FORM

    limits = ClusterSettings(workers=workers)
    if is_toml(files):
        requested = read(files[0])
        if not requested.recordings:
            raise SettingsError(f"{files[0]} names no recordings: its views are arrays, which need no ingesting.")
        place, recipes, lenient = out or requested.ingested, requested.recordings, False
        whole = out or requested.store  # a run and an ingestion for it are not to write at the same time
        inputs = [*files, *requested.inputs]
    else:
        if out is None:
            raise SettingsError("--out is missing: the store to write, for instance --out views.zarr.")
        fit = resample or ("exact" if view or window_s or step_s else "nearest")  # defaults must not fail
        given = {"features": features, "window_s": window_s, "step_s": step_s, "scaling": scaling, "resample": fit}
        recipe = ViewRecipe.of({**given, "missing_chunks": missing_chunks}, "the command line:")
        place, whole, lenient, inputs = out, out, not view, files
        recipes = views_from_arguments(view, files, recipe) if view else default_views(files, recipe)
    form, setting = (views.FORM, "--out") if whole == place else (FORM, "[store] path")
    places.refuse_store(whole, form, inputs=inputs, setting=setting)
    if not recipes:
        header = ingesting.only_annotations(place, files)
        console.say(*ingesting.summary(header))
        return console.finish({"store": place, **header})
    # Of a place of its own the ingestion first sees whether it is one of ours, and then locks it itself.
    with nullcontext() if whole == place else lock.held(whole, "dlcca ingest"):
        header = ingest_views(console, place, recipes, cluster, limits, lenient=lenient)
    console.say(*ingesting.summary(header))
    if is_toml(files):
        steps = [("what a run will take", f"dlcca plan {files[0]}"), ("run it", f"dlcca run {files[0]}")]
    else:
        made = f"{place.rstrip('/').removesuffix('.zarr')}-coordinates.zarr"
        steps = [("what is in it", f"dlcca status {place}")]
        steps += [("coordinates of a model", f"dlcca transform run.zarr {place} --out {made}")]
    console.next_steps(*steps, ("use it in Python", f"dlcca.open_views({place!r})[{next(iter(recipes))!r}]"))
    console.finish({"store": place, **header})


def is_toml(files: list[str]) -> bool:
    """Whether the FILE... of a verb is one run.toml."""
    return len(files) == 1 and files[0].endswith(".toml")


def ingest_views(
    console: Console, place: str, recipes: Mapping[str, Any], cluster: str | None, limits: Any, lenient: bool = False
) -> dict[str, Any]:
    """The header of a store of views, after doing what was missing of it; a small one without a cluster."""
    from dlcca.clusters import LazyClient
    from dlcca.recordings import ingest as ingesting

    job, line = ingesting.prepared(place, recipes, lenient=lenient)
    lazy = LazyClient(cluster, limits.workers, limits.memory_gib, console.warn)
    with console.progress(job.rows * job.step_s) as progress, lazy:
        return ingesting.run(job, line, lazy.client(job.n_blocks), progress)


@verb(example="dlcca plan run.toml --workers 100 --rows 100000000")
def plan(
    console: Console,
    runfile: RunToml,
    workers: Annotated[int | None, Option(min=1, help="Plan for this many workers.")] = None,
    rows: Annotated[int | None, Option(min=2, help="Plan for this many samples.")] = None,
    calibrate: Annotated[bool, Option("--calibrate", help="First measure this machine, and keep the rates.")] = False,
    rates: Annotated[Path | None, Option(metavar="FILE", help="Where rates are kept. Default: your cache.")] = None,
) -> None:
    """Estimate what a run will take; nothing of it is computed.

    Tasks, bytes read and written, memory of a worker, operations and the time, stage by stage. The time is a guess
    until --calibrate has measured this machine on up to 10 000 rows. What will not fit the memory of the workers is
    refused here, with the setting to change.
    """
    from dlcca.clusters import client_for
    from dlcca.fitting import calibration, planning, runner
    from dlcca.storage.views import is_views

    requested = read(runfile)
    ingestion = None  # what it will take, if it was not done yet
    if not requested.recordings or is_views(requested.ingested):
        job, choices = runner.prepared_run(requested)
    elif calibrate:
        raise SettingsError("--calibrate measures on the views, which are not made yet: dlcca ingest run.toml first.")
    else:
        views = requested.ingested, requested.recordings
        job, choices, ingestion = planning.job_to_ingest(requested.store, *views, requested.settings, requested.seed)
    limits = requested.cluster
    if calibrate:
        if rates is not None:
            calibration.refuse_occupied(rates, [runfile, requested.store, *requested.inputs])
        cores = limits.workers or os.cpu_count() or 1
        found = calibration.calibrate(job, lambda: client_for(None, cores, limits.memory_gib), cores, console.step)
        measured = calibration.new(found, job, min(job.n, calibration.ROWS), cores)
        calibration.write(rates or calibration.usual_place(job), measured)
        known, origin = measured.rates, measured.sentence()
    else:
        known, origin = kept_rates(job, rates)
    count = workers or limits.workers or os.cpu_count() or 1
    made = planning.at_scale(job, rows or job.n, count, known, asked=requested.settings)
    large = planning.at_scale(job, LARGE_ROWS, LARGE_WORKERS, known, asked=requested.settings)
    names = ", ".join(f"{source.name} ({d} channels)" for source, d in zip(job.sources, job.dims, strict=True))
    console.say(f"{made.job.n} samples, {names}", *(f"  {line}" for line in choices.lines()))
    if ingestion is not None:
        console.say(ingestion.sentence())
    console.say(f"{'stage':<14}{'tasks':>8}{'read':>10}{'written':>10}{'memory':>10}{'Gflop':>10}{'seconds':>9}")
    for stage in made.stages:
        sizes = "".join(f"{format_bytes(n):>10}" for n in (stage.reads, stage.writes, made.memory_of(stage)))
        flops, seconds = f"{stage.products / 1e9:>10.0f}", f"{made.seconds_of(stage):>9.1f}"
        console.say(f"{stage.name:<14}{stage.tasks:>8}{sizes}{flops}{seconds}")
    each, whole = format_bytes(made.memory_per_worker), format_bytes(made.memory_in_all)
    reads, writes, memory = map(format_bytes, (large.reads, large.writes, large.memory_per_worker))
    console.say(
        f"In all {made.tasks} tasks, {format_bytes(made.reads)} read, {format_bytes(made.writes)} written, {each} in "
        f"each of {made.workers} workers, {whole} in all processes, about {format_duration(made.seconds)}.",
        f"{made.tasks_per_block:.1f} tasks for each of {made.job.n_blocks} blocks of data, at most "
        f"{made.largest_wave} at a time.",
        f"The time is {origin}.",
        f"10^8 samples on {LARGE_WORKERS} workers: {format_duration(large.seconds)}, {memory} in each worker, "
        f"{large.tasks} tasks, {reads} read, {writes} written.",
    )
    if limits.memory_gib is not None:
        planning.refuse_too_large(made, limits.memory_gib * 2**30)
    document = {**_document(made), "rates": origin, "choices": choices.lines()}
    if ingestion is not None:
        document["ingestion"] = vars(ingestion)
    console.finish({**document, "large": _document(large)})


def kept_rates(job: Any, file: Path | None = None) -> tuple[Any, str]:
    """Measured rates and their origin in words; None and a reason if there are none, but an error for a ``file``."""
    from dlcca.fitting import calibration

    place = file or calibration.usual_place(job)
    if file is None and not place.exists():
        return None, "a guess: run with --calibrate to measure this machine"
    try:
        found = calibration.read(place)
        calibration.refuse_other(found, job, place)
    except SettingsError as error:
        if file is not None:
            raise
        return None, f"a guess: {error}"
    return found.rates, found.sentence()


def _document(made: Any) -> dict[str, Any]:
    stages = [{**vars(s), "memory": made.memory_of(s), "seconds": made.seconds_of(s)} for s in made.stages]
    names = ["workers", "seconds", "memory_per_worker", "memory_in_all", "tasks", "tasks_per_block", "largest_wave"]
    found = {name: getattr(made, name) for name in (*names, "reads", "writes")}
    other = {"start_seconds": made.rates.start_s, "flops": made.products}
    return {"samples": made.job.n, **found, **other, "stages": stages}


@verb(example="dlcca run run.toml")
def run(
    console: Console,
    runfile: RunToml,
    cluster: Cluster = None,
    again_from: Annotated[str | None, Option("--from", metavar="STAGE", help="Redo from this stage on.")] = None,
) -> None:
    """Run all stages; a second run does only what is missing.

    A run that was killed is resumed: finished blocks are kept in the store and not computed again.
    """
    from dlcca.storage import event_log, lock, places
    from dlcca.storage.run import FORM
    from dlcca.trust.quality import ONE_VIEW

    requested = read(runfile)
    store = requested.store
    places.refuse_store(store, FORM, inputs=[runfile, *requested.inputs], setting="[store] path")
    with lock.held(store, "dlcca run"), event_log.recording(store, "dlcca run") as log:
        job, choices, quality = _compute(console, requested, cluster, again_from, log)
    if job.K == 1:
        found = f"{job.n} samples of one view: {ONE_VIEW}."
    else:
        nothing = "nothing" if job.K == 2 else "nothing that is common to all"
        shared = f"{quality.n_common} variable{'s' * (quality.n_common != 1)}" if quality.n_common else nothing
        found = f"{job.n} samples: the {job.K} views share {shared}."
    console.say(found, *(f"  {line}" for line in choices.lines()))
    retries, lost = log.counts["retry"], log.counts["worker lost"]
    events = f"{store.rstrip('/')}/{event_log.FILE}"
    if retries or lost:
        repeated = f"{retries} tasks were retried, and {lost} workers were lost; everything was completed."
        console.say(repeated, f"  see what happened when: {events}")
    console.next_steps(
        ("look at the report", f"dlcca report {store}"),
        ("compare it with other methods", f"dlcca compare {runfile}"),
        ("use it in Python", f"zarr.open_group({store!r})['embedding']"),
    )
    result = {"n_common": quality.n_common, "quality": quality.measures, "warnings": quality.reasons}
    happened = {"choices": choices.lines(), "retries": retries, "workers_lost": lost, "events": events}
    console.finish({"store": store, "samples": job.n, **result, **happened}, quality.reasons)


def _compute(
    console: Console, requested: Any, cluster: str | None, again_from: str | None, log: Any
) -> tuple[Any, Any, Any]:
    """The job, its choices and its quality, after everything that was missing has been done."""
    from dlcca.clusters import check, client_of, dask_config, profile_for
    from dlcca.fitting import planning, runner

    limits = requested.cluster
    profile = profile_for(cluster, limits.workers, limits.memory_gib)
    if requested.recordings:
        if again_from == "ingest":
            again_from = runner.forget_recordings(requested.store)
        ingest_views(console, requested.ingested, requested.recordings, cluster, limits)
    job, choices = runner.prepared_run(requested)
    rates, origin = kept_rates(job)
    planned = planning.plan(job, 1, rates)
    memory_gib = getattr(profile, "memory_gib", limits.memory_gib)
    if memory_gib is not None:
        planning.refuse_too_large(planning.plan(job, 1), memory_gib * 2**30)
    if again_from is not None:
        runner.forget(requested.store, again_from)
    expected = {stage.name: planned.seconds_of(stage) for stage in planned.stages}
    with console.progress(expected=expected) as progress, client_of(profile, log.warned(console.warn)) as client:
        if cluster is not None:
            check.refuse_unfit(client, requested.store)
        workers = getattr(profile, "workers", None) or getattr(profile, "max_workers", None) or len(client.nthreads())
        made = planning.plan(job, int(workers or 1), rates)
        sizes = ((s.name, round(made.seconds_of(s), 3), round(made.memory_of(s))) for s in made.stages)
        stages = {name: {"seconds": seconds, "memory": memory} for name, seconds, memory in sizes}
        plan = {"seconds": round(made.seconds, 3), "workers": made.workers, "stages": stages}
        log.note("planned", rates="a guess" if rates is None else origin, **plan)  # the report has it beside the cost
        with dask_config.reported(client, log.keep_report, lambda text: log.note("warning", text=text)):
            quality = runner.run(job, choices, client, progress, console.warn)
    for doubt in quality.reasons:
        log.note("warning", text=doubt)
    return job, choices, quality
