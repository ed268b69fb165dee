"""The command line: parses arguments, has the work done, and says what came of it.

Nothing but typer is imported before a verb runs, so that help comes at once. Exit codes: 0 done; 2 bad usage or
settings; 3 the data was refused; 4 storage failed; 5 done, but the result should not be trusted.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca import __version__
from dlcca.errors import DlccaError, StorageError, StoreFileError

UNTRUSTED = 5

app = typer.Typer(
    help="Find what your sensors have in common. Try: dlcca demo",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich would take as long to import as all the rest
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Store = Annotated[str, typer.Argument(metavar="STORE", help="A finished run, as run.zarr.", show_default=False)]


def main() -> None:
    """What the command `dlcca` calls."""
    app(prog_name="dlcca")


@dataclass(frozen=True)
class Voice:
    """How a verb speaks: words for people, or one document for machines."""

    as_json: bool
    quiet: bool
    debug: bool

    def say(self, text: str = "") -> None:
        """Words for people."""
        if not (self.as_json or self.quiet):
            typer.echo(text)

    def warn(self, text: str) -> None:
        """Words that are printed come what may, beside the results."""
        typer.echo(text, err=True)

    def document(self, content: Mapping[str, Any]) -> None:
        """The result for machines."""
        if self.as_json:
            from dlcca.stores.arrays import plain

            typer.echo(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False, default=str))

    def finish(self, content: Mapping[str, Any], doubts: Sequence[str] = ()) -> None:
        """The document and the end: 0, or 5 if there is reason for doubt, which is printed."""
        self.document({**content, "exit_code": UNTRUSTED if doubts else 0})
        for doubt in doubts:
            self.warn(f"do not trust this result: {doubt}")
        if doubts:
            raise typer.Exit(UNTRUSTED)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """A function that shows what is being done, on a terminal only."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda text: None
            return
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status("starting") as status:
            yield lambda text: status.update(escape(text))

    @contextmanager
    def bars(self, block_s: float | None = None) -> Iterator[Callable[[str, int, int], None]]:
        """A function that shows how far each stage is, on a terminal only.

        If a block is so many seconds of a recording, it also shows how many times faster it is than the recording.
        """
        if self.quiet or not sys.stderr.isatty():
            yield lambda stage, done, blocks: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = [TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
        if block_s is not None:
            columns.append(TextColumn("{task.fields[rate]}"))
        with Progress(*columns, console=Console(stderr=True)) as shown:
            tasks: dict[str, Any] = {}

            def tell(stage: str, done: int, blocks: int) -> None:
                if stage not in tasks:
                    tasks[stage] = shown.add_task(stage, total=blocks, rate="")
                shown.update(tasks[stage], completed=done, total=blocks)
                speed = shown.tasks[tasks[stage]].speed
                if block_s is not None and speed and blocks > 1:
                    shown.update(tasks[stage], rate=f"{speed * block_s:,.0f} x real time")

            yield tell

    def fail(self, error: Exception) -> typer.Exit:
        """Say what went wrong; what is returned ends the program with the code for it."""
        code = getattr(error, "exit_code", StorageError.exit_code if isinstance(error, OSError) else 1)
        known = isinstance(error, DlccaError | OSError)
        message = str(error) if known else f"unexpected {type(error).__name__}: {error} (--debug shows where)"
        if self.debug:
            import traceback

            traceback.print_exception(error)
        self.document({"error": message, "kind": type(error).__name__, "exit_code": code})
        self.warn(f"dlcca: {message}")
        return typer.Exit(code)


@contextmanager
def speaking(as_json: bool, quiet: bool, debug: bool) -> Iterator[Voice]:
    """The voice of a verb, which turns errors into a message and an exit code."""
    voice = Voice(as_json, quiet, debug)
    try:
        yield voice
    except typer.Exit:
        raise
    except Exception as error:
        raise voice.fail(error) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dlcca {__version__}")
        raise typer.Exit


def _help(context: typer.Context, wanted: bool) -> None:
    """The help of all verbs. Without an option of our own typer imports pydantic (0.2 s) before the help of a verb."""
    if wanted:
        typer.echo(context.get_help())
        raise typer.Exit


@app.callback()
def dlcca(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    help: Annotated[
        bool, typer.Option("--help", "-h", callback=_help, is_eager=True, help="Show this message and exit.")
    ] = False,
) -> None:
    """Find what your sensors have in common. Try: dlcca demo"""


@app.command("demo", epilog="Example: dlcca demo --out demo-output")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for run.zarr and report.html.")] = Path("demo-output"),
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the pendulum that two simulated movies share.

    Simulates two movies of coupled pendulums, each with a private pendulum in it, fits them with the default settings,
    and leaves run.zarr and report.html in the folder. An earlier demo there is replaced; other files are left alone.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import demo as demonstration

        with voice.progress() as step:
            made = demonstration.run(out, step)
        voice.say(made.summary)
        voice.say(f"\n{demonstration.sentence(made.found)}\n")
        voice.say("Next:")
        voice.say(f"  look at the report                 {made.report}")
        voice.say("  find what your recordings share    from dlcca import LocalCCA; LocalCCA().fit([X, Y]).embedding_")
        voice.say("  rerun the paper's experiments      dlcca reproduce")
        found = {"store": str(made.store), "report": str(made.report), "correlations": made.found}
        voice.finish({**found, **_result(made.run)}, made.run.warnings)


def _result(run: Any) -> dict[str, Any]:
    """What a run found, for machines."""
    return {
        "samples": len(run.embedding),
        "landmarks": len(run.landmarks),
        "n_common": run.n_common,
        "eigenvalues": run.eigenvalues.tolist(),
        "quality": run.quality,
        "warnings": run.warnings,
        "fingerprint": run.fingerprint,
    }


@app.command("reproduce", epilog="Example: dlcca reproduce --out reproduce-output")
def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the table.")] = Path("reproduce-output"),
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments beside the baselines.

    Leaves figures and a table in the folder, and holds every figure against what is expected of it.
    """
    with speaking(as_json, quiet, debug) as voice:
        import warnings

        from dlcca import reproduce as experiments
        from dlcca.errors import Untrusted

        # Some experiments show how a method fails; it is their table that says whether they went as expected.
        with voice.progress() as step, warnings.catch_warnings():
            warnings.simplefilter("ignore", Untrusted)
            rows = experiments.run(out, step)
        if not (as_json or quiet):
            _print_table(rows)
            voice.say(f"The figures are in {out}.")
        table = [{name: getattr(row, name) for name in ("figure", "expected", "got", "met")} for row in rows]
        missed = [f"{row.figure}: expected {row.expected}, got {row.got}" for row in rows if row.met is False]
        voice.finish({"out": str(out), "rows": table}, missed)


def _print_table(rows: Sequence[Any]) -> None:
    """The figures against what is expected of them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("figure", "expected", "got", "met")
    for row in rows:
        met = {True: Text("yes", "green"), False: Text("no", "bold red")}.get(row.met, Text("reported"))
        table.add_row(Text(str(row.figure)), Text(str(row.expected)), Text(str(row.got)), met)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


RunToml = Annotated[Path, typer.Argument(metavar="run.toml", help="What to run: views, settings, store, cluster.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="FILE|ADDRESS", help="A cluster file, as slurm.toml, or a Dask scheduler; local if not said."),
]


@app.command("plan", epilog="Example: dlcca plan run.toml --workers 100 --rows 100000000")
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
        from dlcca import runfile as files
        from dlcca.stages import planning

        asked = files.read(runfile)
        job, choices, before = _planned_job(asked, calibrate)
        count = workers or asked.cluster.workers or os.cpu_count() or 1
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
            f"10^8 samples on {LARGE_WORKERS} workers: {_duration(large.seconds)}, {_size(large.memory_per_worker)} in "
            f"each worker, {large.tasks} tasks, {_size(large.reads)} read, {_size(large.writes)} written."
        )
        if asked.cluster.memory_gib is not None:
            planning.refuse_too_large(made, asked.cluster.memory_gib * 2**30)
        ingestion = {} if before is None else {"ingestion": vars(before)}
        document = {**_plan_document(made), "rates": said, "choices": choices.lines(), **ingestion}
        voice.finish({**document, "large": _plan_document(large)})


def _planned_job(asked: Any, calibrate: bool) -> tuple[Any, Any, Any]:
    """The job, its choices, and what ingestion will take if it was not done yet."""
    from dlcca.errors import SettingsError
    from dlcca.stages import planned, running
    from dlcca.stores.views import is_views

    if not asked.recordings or is_views(asked.ingested):
        clock = asked.ingested if asked.recordings else ""
        return *running.prepared(asked.store, asked.views, asked.settings, asked.seed, clock), None
    if calibrate:
        raise SettingsError("--calibrate measures on the views, which are not made yet: dlcca ingest run.toml first.")
    return planned.prepared(asked.store, asked.ingested, asked.recordings, asked.settings, asked.seed)


#: What every plan tells of besides: a recording of months, on a cluster.
LARGE_ROWS, LARGE_WORKERS = 10**8, 100


def _rates(voice: Voice, job: Any, cluster: Any, calibrate: bool, file: Path | None) -> tuple[Any, str]:
    """Rates that were measured, now or before, and where they come from, in words; None if there are none."""
    from dlcca.errors import SettingsError
    from dlcca.stages import ratefile

    place = file or ratefile.usual_place(job)
    if calibrate:
        found = _calibrated(voice, job, cluster)
        ratefile.write(place, found)
        return found.rates, found.sentence()
    if file is None and not place.exists():
        return None, "a guess: run with --calibrate to measure this machine"
    try:
        found = ratefile.read(place)
        ratefile.refuse_other(found, job, place)
    except SettingsError as error:
        if file is not None:
            raise
        return None, f"a guess: {error}"
    return found.rates, found.sentence()


def _calibrated(voice: Voice, job: Any, cluster: Any) -> Any:
    from dlcca.clients import client_for
    from dlcca.stages import calibration, ratefile

    workers = cluster.workers or os.cpu_count() or 1
    with voice.progress() as step:
        rates = calibration.calibrate(job, lambda: client_for(None, workers, cluster.memory_gib), workers, step)
    return ratefile.new(rates, job, min(job.n, calibration.ROWS), workers)


def _say_plan(voice: Voice, made: Any) -> None:
    """A table of the stages, and what they come to."""
    voice.say(f"{'stage':<14}{'tasks':>8}{'read':>10}{'written':>10}{'memory':>10}{'Gflop':>10}{'seconds':>9}")
    for stage in made.stages:
        voice.say(
            f"{stage.name:<14}{stage.tasks:>8}{_size(stage.reads):>10}{_size(stage.writes):>10}"
            f"{_size(made.memory_of(stage)):>10}{stage.products / 1e9:>10.0f}{made.seconds_of(stage):>9.1f}"
        )
    voice.say(
        f"In all {made.tasks} tasks, {_size(made.reads)} read, {_size(made.writes)} written, "
        f"{_size(made.memory_per_worker)} in each of {made.workers} workers, {_size(made.memory_in_all)} in all "
        f"processes, about {_duration(made.seconds)}."
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


def _duration(seconds: float) -> str:
    """A time, for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


@app.command("ingest", epilog="Example: dlcca ingest night*.edf --out views.zarr --view eeg='EEG*' --view ecg=type:ecg")
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
        from dlcca.recipes import ViewRecipe
        from dlcca.stages import ingest as ingesting
        from dlcca.stages.usual_views import said_views, usual_views

        if len(files) == 1 and files[0].endswith(".toml"):
            from dlcca import runfile

            asked = runfile.read(files[0])
            if not asked.recordings:
                raise SettingsError(f"{files[0]} names no recordings: its views are arrays, which need no ingesting.")
            place, recipes, lenient = out or asked.ingested, asked.recordings, False
        else:
            if out is None:
                raise SettingsError("--out is missing: the store to write, for instance --out views.zarr.")
            fit = resample or ("exact" if view or window_s or step_s else "nearest")  # what is not said must not fail
            said = {"features": features, "window_s": window_s, "step_s": step_s, "scaling": scaling, "resample": fit}
            given = {key: value for key, value in said.items() if value is not None}
            recipe = ViewRecipe.of(given, "the command line:")
            place, lenient = out, not view
            recipes = said_views(view, files, recipe) if view else usual_views(files, recipe, ingesting.opener())
        if recipes:
            header = _ingested(voice, place, recipes, cluster, workers, None, lenient=lenient)
        else:
            header = ingesting.only_annotations(place, files)
        for line in ingesting.summary(header):
            voice.say(line)
        if recipes:
            voice.say("Next:")
            voice.say(f"  use it in Python          zarr.open_group({place!r})['views/{next(iter(recipes))}']")
        voice.finish({"store": place, **header})


def _ingested(
    voice: Voice,
    place: str,
    recipes: Mapping[str, Any],
    cluster: str | None,
    workers: int | None,
    memory: float | None,
    lenient: bool = False,
) -> dict[str, Any]:
    """The header of a store of views, after doing what was missing of it; a small one without a cluster."""
    from contextlib import nullcontext

    from dlcca.clients import client_for
    from dlcca.stages import ingest as ingesting

    job, line = ingesting.prepared(place, recipes, lenient=lenient)
    alone = cluster is None and (workers == 1 or job.n_blocks <= FEW_BLOCKS)
    shown = voice.bars(job.rows * job.step_s)
    with shown as tell, nullcontext() if alone else client_for(cluster, workers, memory, voice.warn) as client:
        return ingesting.run(job, line, client, tell)


#: So few blocks are done before a cluster would have started.
FEW_BLOCKS = 8


@app.command("run", epilog="Example: dlcca run run.toml")
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
        from dlcca import checkup
        from dlcca import runfile as files
        from dlcca.clients import client_of, profile_for
        from dlcca.stages import planning, running

        asked = files.read(runfile)
        profile = profile_for(cluster, asked.cluster.workers, asked.cluster.memory_gib)
        if asked.recordings:
            if again_from == "ingest":
                again_from = running.forget_recordings(asked.store)
            limits = asked.cluster.workers, asked.cluster.memory_gib
            _ingested(voice, asked.ingested, asked.recordings, cluster, *limits)
        clock = asked.ingested if asked.recordings else ""
        job, choices = running.prepared(asked.store, asked.views, asked.settings, asked.seed, clock)
        memory_gib = getattr(profile, "memory_gib", asked.cluster.memory_gib)
        if memory_gib is not None:
            planning.refuse_too_large(planning.plan(job, 1), memory_gib * 2**30)
        if again_from is not None:
            running.forget(asked.store, again_from)
        with voice.bars() as tell, client_of(profile, voice.warn) as client:
            if cluster is not None:
                checkup.refuse_unfit(client, asked.store)
            quality = running.run(job, choices, client, tell)
        voice.say(f"{job.n} samples, {quality.n_common} common at the typical landmark.")
        for line in choices.lines():
            voice.say(f"  {line}")
        voice.say("Next:")
        voice.say(f"  look at the report        dlcca report {asked.store}")
        voice.say(f"  check that it is intact   dlcca verify {asked.store}")
        voice.say(f"  use it in Python          zarr.open_group({asked.store!r})['embedding']")
        voice.finish(
            {
                "store": asked.store,
                "samples": job.n,
                "n_common": quality.n_common,
                "quality": quality.measures,
                "warnings": quality.reasons,
                "choices": choices.lines(),
            },
            quality.reasons,
        )


@app.command("transform", epilog="Example: dlcca transform run.zarr monday.edf tuesday.edf --out week.zarr")
def transform(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A finished run, or a saved model.")],
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Recordings; a store of views; or arrays, as NAME=left.zarr."),
    ],
    out: Annotated[str, typer.Option(help="The store that is written.")],
    cluster: Cluster = None,
    workers: Annotated[int, typer.Option(help="Processes of a local cluster; 1 works without one.")] = 1,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Give new recordings the coordinates of a fitted model.

    They are treated as the recordings of the fit were: the same channels, windows, features and scaling. Each row also
    gets its distance to what the fit has seen; beyond 1 it is outside. Files without the channels of a view are taken
    where the fusion can do without. A second call does only what is missing.
    """
    with speaking(as_json, quiet, debug) as voice:
        from contextlib import nullcontext

        from dlcca.clients import client_for
        from dlcca.stages import transform as transforming

        transforming.refuse_occupied(out)
        sources, clock = _new_views(voice, model, files, out, cluster, workers)
        job = transforming.prepared(out, model, sources, clock)
        alone = cluster is None and (workers == 1 or job.stage.n_blocks <= FEW_BLOCKS)
        with voice.bars() as tell, nullcontext() if alone else client_for(cluster, workers, None, voice.warn) as client:
            header = transforming.run(job, client, tell)
        told = (
            f"{header['samples']} rows, {header['valid']} of them valid, {header['outside']} outside what the fit saw."
        )
        voice.say(told)
        if header["missing_views"]:
            voice.say(f"  without {', '.join(header['missing_views'])}, which the files do not have")
        voice.say("Next:")
        voice.say(f"  for other tools           dlcca export {out} --to parquet --out {Path(out).stem}.parquet")
        voice.say(f"  use it in Python          zarr.open_group({out!r})['embedding']")
        voice.finish({"store": out, **header}, _mostly_outside(header))


def _new_views(
    voice: Voice, model: str, files: list[str], out: str, cluster: str | None, workers: int
) -> tuple[dict[str, Any], str]:
    """The views of new recordings by name, made first if need be; and the store of views that they are, if any."""
    from contextlib import nullcontext

    from dlcca.clients import client_for
    from dlcca.errors import SettingsError
    from dlcca.estimator import open_model
    from dlcca.stages import ingest as ingesting
    from dlcca.stages import new_recordings
    from dlcca.stages import transform as transforming
    from dlcca.stores import views

    fitted = open_model(model)
    if len(files) == 1 and views.is_views(files[0]):
        new_recordings.refuse_other_views(files[0], fitted.recordings_)
        return transforming.views_of_store(files[0]), files[0]
    if fitted.recordings_ is None:
        return transforming.named_arrays(files, fitted.model_.names), ""
    if any("=" in file and not Path(file).exists() for file in files):
        raise SettingsError(f"{model} was fitted to recordings: give files of recordings, not NAME=array.")
    place = f"{out.rstrip('/')}/recordings"
    job, line = new_recordings.prepared(place, transforming.model_address(model), fitted.recordings_, files)
    fitted.model_.check_present([view.name for view in job.views])
    alone = cluster is None and (workers == 1 or job.n_blocks <= FEW_BLOCKS)
    with voice.bars() as tell, nullcontext() if alone else client_for(cluster, workers, None, voice.warn) as client:
        header = ingesting.run(job, line, client, tell)
    for sentence in ingesting.summary(header):
        voice.say(sentence)
    return transforming.views_of_store(place), place


def _mostly_outside(header: Mapping[str, Any]) -> list[str]:
    """A reason for doubt if most rows are unlike anything that the fit has seen."""
    if header["outside"] * 2 <= header["valid"]:
        return []
    share = header["outside"] / header["valid"]
    return [f"{share:.0%} of the rows are outside what the fit saw; are these the same sensors, in the same place?"]


@app.command("export", epilog="Example: dlcca export run.zarr --to parquet --out run.parquet")
def export(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A finished run, or what dlcca transform wrote.")],
    to: Annotated[str, typer.Option("--to", help="parquet, csv, xarray (netcdf or zarr), or mne (fif).")],
    out: Annotated[Path, typer.Option(help="The file that is written; one that is there is replaced.")],
    rate: Annotated[float | None, typer.Option(help="Rows in a second, for mne where rows are counted.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write the coordinates for other tools.

    With the time of every row, the reason where it has no coordinates, and whether it is outside what the fit saw.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.export import writing

        kind = writing.format_of(to, out)
        with voice.progress() as step:
            step(f"writing {out}")
            writing.write(store, kind, out, rate=rate)
        voice.say(f"The coordinates of {store} are in {out}.")
        voice.finish({"store": store, "out": str(out), "format": kind})


@app.command("report", epilog="Example: dlcca report demo-output/run.zarr --out report.html")
def report(
    store: Store,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; beside the store and named like it if not said.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw the report of a finished run.

    It is one HTML file that needs no network. A report that is there already is replaced.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.report import page
        from dlcca.stores import comparison
        from dlcca.stores import run as run_store

        name = Path(store).name
        beside = Path() / name if "://" in store else Path(store)  # a report on a remote run is written here
        place = out if out is not None else beside.with_suffix(".html")
        page.refuse_foreign(place)
        with voice.progress() as step:
            step(f"reading {store}")
            run = run_store.read(store)
            step(f"drawing {place}")
            compared = comparison.of_run(store, run.fingerprint)
            page.write(place, page.render(run, title=f"dlcca report of {name}", compared=compared))
        voice.say(f"{page.headline(run)}.")
        voice.say(f"The report is {place}.")
        voice.finish({"store": store, "report": str(place), "headline": page.headline(run)})


@app.command("compare", epilog="Example: dlcca compare run.toml --truth breaths.npz:phase --circular")
def compare(
    runfile: RunToml,
    out: Annotated[Path, typer.Option(help="Folder for compare.json and compare.html.")] = Path("compare-output"),
    rows: Annotated[int, typer.Option(help="Compare at most this many rows, spread evenly.")] = 5000,
    truth: Annotated[
        str | None,
        typer.Option(metavar="FILE[:NAME]", help="A value for each row: .npy, an array of .npz, a column of .csv."),
    ] = None,
    circular: Annotated[bool, typer.Option("--circular", help="The truth is a phase, in radians.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="The truth is a label, a number or a text.")] = False,
    folds: Annotated[str, typer.Option(help="How rows are held out for the truth: auto, blocked or random.")] = "auto",
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Hold a finished run against the baselines, on the same views.

    Diffusion maps, kernel CCA, alternating diffusion and linear CCA; each also on views that are shifted in time, as a
    control. Says how far they agree, how much of each every view sees, and, with --truth, how well each tells it. The
    comparison is kept in the run, where dlcca report finds it.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import compare as comparing
        from dlcca import runfile as files
        from dlcca.compare import output

        asked = files.read(runfile)
        known = output.known_truth(truth, circular, labels, folds)
        output.refuse_occupied(out)
        with voice.progress() as step:
            made = comparing.compare(asked, rows=rows, truth=known, folds=folds, say=step)
            step(f"drawing {out / output.PAGE}")
            output.write(out, asked.store, made)
        for line in output.lines(made):
            voice.say(line)
        voice.say(f"The comparison is in {out / output.PAGE} and {out / output.TABLE}.")
        voice.finish({"store": asked.store, "out": str(out), **output.document(made)})


@app.command("status", epilog="Example: dlcca status demo-output/run.zarr")
def status(store: Store, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Say what is in a finished run.

    It looks at the headers alone; dlcca verify looks at the arrays too.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.stages import running
        from dlcca.stores import run as run_store

        if _is_transformed(voice, store) or _is_views(voice, store):
            return
        if not run_store.is_finished(store) and (stages := running.progress(store)):
            _say_unfinished(voice, store, stages)
            return
        found = run_store.describe(store)
        n, q = found["shapes"]["embedding"]
        voice.say(f"{store} is a finished run of {found['created']}, {_size(found['bytes'])}.")
        facts = {
            "views": ", ".join(f"{name} ({channels} channels)" for name, channels in found["views"].items()),
            "samples": n,
            "coordinates": q,
            "landmarks": found["shapes"]["landmarks"][0],
            "common": f"{found['n_common']} at the typical landmark",
            "fingerprint": found["fingerprint"],
            "versions": ", ".join(f"{name} {number}" for name, number in found["versions"].items()),
        }
        if found["cost"]:
            facts["seconds"] = _told_costs({name: cost["seconds"] for name, cost in found["cost"].items()})
        for name, value in facts.items():
            voice.say(f"  {name:<12} {value}")
        for warning in found["warnings"]:
            voice.say(f"  do not trust this result: {warning}")
        voice.finish({"store": store, **found})


def _is_views(voice: Voice, store: str) -> bool:
    """Whether a store is one of views, or a run that has no more yet; if so, what is in it has been said."""
    from dlcca.stages import ingest as ingesting
    from dlcca.stages import ingested, running
    from dlcca.stores import run as run_store
    from dlcca.stores import views

    inner = f"{store.rstrip('/')}/recordings"
    of_run = not (run_store.is_finished(store) or running.begun(store))
    place = inner if of_run and (views.is_views(inner) or ingested.begun(inner)) else store
    if views.is_views(place):
        found = views.describe(place)
        voice.say(f"{place} has the views of recordings:")
        for line in ingesting.summary(found):
            voice.say(f"  {line}")
        voice.finish({"store": place, "finished": True, **found})
        return True
    stages = ingested.progress(place)
    if stages:
        _say_unfinished(voice, place, stages, again="dlcca ingest or dlcca run")
    return bool(stages)


def _is_transformed(voice: Voice, store: str) -> bool:
    """Whether a store is one that `transform` has written or begun; if so, what is in it has been said."""
    from dlcca.stages import transform as transforming
    from dlcca.stores import transformed

    if transformed.is_transformed(store):
        found = transformed.describe(store)
        voice.say(
            f"{store} has the coordinates of {found['samples']} rows in the model {found['model']}; {found['valid']} "
            f"are valid, {found['outside']} outside what the fit saw."
        )
        voice.finish({"store": store, "finished": True, **found})
        return True
    done = transforming.progress(store)
    if done is not None:
        voice.say(
            f"{store} is not finished: {done[0]} of {done[1]} blocks. Run the same dlcca transform again to go on."
        )
        voice.finish({"store": store, "finished": False, "done": done[0], "blocks": done[1]})
    return done is not None


def _say_unfinished(voice: Voice, store: str, stages: Sequence[Any], again: str = "run.toml") -> None:
    """How far a run is that was begun and not finished."""
    voice.say(f"{store} is not finished; run the same {again} again to go on.")
    for stage in stages:
        voice.say(f"  {stage.name:<14} {stage.done} of {stage.blocks} blocks, {stage.seconds:.1f} s of a worker's time")
    voice.finish({"store": store, "finished": False, "stages": [vars(stage) for stage in stages]})


def _told_costs(seconds: Mapping[str, float]) -> str:
    """What the stages took of the workers' time, the longest first."""
    largest = sorted(seconds.items(), key=lambda entry: -entry[1])
    told = ", ".join(f"{name} {value:.1f}" for name, value in largest)
    return f"{sum(seconds.values()):.1f} of the workers' time ({told})"


def _size(count: float) -> str:
    """Bytes, for people."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


@app.command("verify", epilog="Example: dlcca verify demo-output/run.zarr")
def verify(store: Store, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Check that a finished run is complete and unchanged.

    Reads every array and holds it against the checksums in the manifest.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.stages import ingested, running
        from dlcca.stores import run as run_store
        from dlcca.stores import transformed, views

        with voice.progress() as step:
            step(f"reading {store}")
            blocks = running.damages(store)
            for place in (store, f"{store.rstrip('/')}/recordings"):
                blocks += ingested.damages(place)
            if transformed.is_transformed(store):
                damages = transformed.damages(store)
            elif views.is_views(store):
                damages = dict.fromkeys(views.describe(store)["views"]) if not blocks else {}
            elif ingested.begun(store):
                damages = {}
            else:
                damages = run_store.damages(store) if run_store.is_finished(store) or not running.begun(store) else {}
            damages |= {f"block {number}": problem for number, problem in enumerate(blocks)}
        for name, damage in damages.items():
            voice.say(f"  {'intact ' if damage is None else 'DAMAGED'}  {name}")
        bad = {name: damage for name, damage in damages.items() if damage is not None}
        code = StoreFileError.exit_code if bad else 0
        voice.document({"store": store, "intact": not bad, "entries": damages, "exit_code": code})
        for damage in bad.values():
            voice.warn(f"dlcca: {damage}")
        if bad:
            raise typer.Exit(code)
        finished = run_store.is_finished(store) or transformed.is_transformed(store) or views.is_views(store)
        voice.say(f"{store} is complete and unchanged." if finished else f"What {store} has so far is unchanged.")


clusters = typer.Typer(
    help="Where runs may run. Try: dlcca cluster profiles",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(clusters, name="cluster")


@clusters.callback()
def cluster_verbs(
    help: Annotated[
        bool, typer.Option("--help", "-h", callback=_help, is_eager=True, help="Show this message and exit.")
    ] = False,
) -> None:
    """Where runs may run. Try: dlcca cluster profiles"""


@clusters.command("profiles", epilog="Example: dlcca cluster profiles --out my-cluster")
def cluster_profiles(
    out: Annotated[Path | None, typer.Option(help="Folder to copy them to, for you to change.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say where the ready cluster files are, or copy them.

    One for each kind of queue, for Kubernetes and for clouds, a Containerfile and a batch script. Files that are there
    already are not replaced.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.clients import ready

        files = ready.copied(out) if out is not None else ready.files()
        for file in files:
            voice.say(f"{file!s:<40} {ready.first_words(file)}")
        voice.finish({"files": [str(file) for file in files]})


@clusters.command("check", epilog="Example: dlcca cluster check slurm.toml --store /shared/run.zarr")
def cluster_check(
    file: Annotated[str, typer.Argument(metavar="FILE|ADDRESS", help="A cluster file, or a Dask scheduler.")],
    store: Annotated[str | None, typer.Option(help="A place that every worker must read and write.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Start a cluster and see whether it can do a run.

    Starts the workers, sends a task to each, compares the versions of packages, and has every worker read and write
    the store. What is wrong is said in words, with exit code 4, or 2 if it is the file.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import checkup
        from dlcca.clients import profile_for
        from dlcca.errors import ClusterError

        place = store if store is None or "://" in store else str(Path(store).resolve())
        with voice.progress() as step:
            step(f"starting the workers of {file}")
            found = checkup.check(profile_for(file, None, None), place, voice.warn)
        for text in found.well:
            voice.say(f"  well    {text}")
        for text in found.wrong:
            voice.warn(f"  WRONG   {text}")
        code = ClusterError.exit_code if found.wrong else 0
        voice.document({**vars(found), "exit_code": code})
        if found.wrong:
            raise typer.Exit(code)
        voice.say(f"{file} is fit for a run.")
