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
    def bars(self) -> Iterator[Callable[[str, int, int], None]]:
        """A function that shows how far each stage is, on a terminal only."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda stage, done, blocks: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as shown:
            tasks: dict[str, Any] = {}

            def tell(stage: str, done: int, blocks: int) -> None:
                if stage not in tasks:
                    tasks[stage] = shown.add_task(stage, total=blocks)
                shown.update(tasks[stage], completed=done, total=blocks)

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
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="A Dask scheduler, as tcp://host:8786; else local.")
]


@app.command("plan", epilog="Example: dlcca plan run.toml --workers 100 --rows 100000000")
def plan(
    runfile: RunToml,
    workers: Annotated[int | None, typer.Option(help="Plan for this many workers.")] = None,
    rows: Annotated[int | None, typer.Option(help="Plan for this many samples.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what a run will take; nothing is computed.

    Tasks, bytes read and written, memory of a worker, operations and an estimate of the time, stage by stage. What will
    not fit the memory of the workers is refused here, with the setting to change.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca import runfile as files
        from dlcca.stages import planning, running

        asked = files.read(runfile)
        job, choices = running.prepared(asked.store, asked.views, asked.settings, asked.seed)
        count = workers or asked.cluster.workers or os.cpu_count() or 1
        made = planning.at_scale(job, rows or job.n, count)
        voice.say(f"{rows or job.n} samples, {', '.join(f'{s.name} ({d} channels)' for s, d in _views(job))}")
        for line in choices.lines():
            voice.say(f"  {line}")
        voice.say(f"{'stage':<12}{'tasks':>8}{'read':>10}{'written':>10}{'memory':>10}{'Gflop':>10}{'seconds':>9}")
        for stage in made.stages:
            voice.say(
                f"{stage.name:<12}{stage.tasks:>8}{_size(stage.reads):>10}{_size(stage.writes):>10}"
                f"{_size(stage.memory):>10}{stage.products / 1e9:>10.0f}"
                f"{stage.seconds / min(count, stage.tasks):>9.1f}"
            )
        voice.say(
            f"In all {made.tasks} tasks, {_size(made.reads)} read, {_size(made.writes)} written, "
            f"{_size(made.memory_per_worker)} in each of {count} workers, about {_duration(made.seconds)}."
        )
        if asked.cluster.memory_gib is not None:
            planning.refuse_too_large(made, asked.cluster.memory_gib * 2**30)
        voice.finish(
            {
                "samples": rows or job.n,
                "workers": count,
                "seconds": made.seconds,
                "memory_per_worker": made.memory_per_worker,
                "tasks": made.tasks,
                "reads": made.reads,
                "writes": made.writes,
                "flops": made.products,
                "stages": [{**vars(stage), "seconds": stage.seconds} for stage in made.stages],
                "choices": choices.lines(),
            }
        )


def _views(job: Any) -> list[tuple[Any, int]]:
    return list(zip(job.sources, job.dims, strict=True))


def _duration(seconds: float) -> str:
    """A time, for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


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
        from dlcca import runfile as files
        from dlcca.clients import client_for
        from dlcca.stages import planning, running

        asked = files.read(runfile)
        job, choices = running.prepared(asked.store, asked.views, asked.settings, asked.seed)
        if asked.cluster.memory_gib is not None:
            planning.refuse_too_large(planning.plan(job, 1), asked.cluster.memory_gib * 2**30)
        if again_from is not None:
            running.forget(asked.store, again_from)
        with voice.bars() as tell, client_for(cluster, asked.cluster.workers, asked.cluster.memory_gib) as client:
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
        from dlcca.stores import run as run_store

        name = Path(store).name
        beside = Path() / name if "://" in store else Path(store)  # a report on a remote run is written here
        place = out if out is not None else beside.with_suffix(".html")
        page.refuse_foreign(place)
        with voice.progress() as step:
            step(f"reading {store}")
            run = run_store.read(store)
            step(f"drawing {place}")
            page.write(place, page.render(run, title=f"dlcca report of {name}"))
        voice.say(f"{page.headline(run)}.")
        voice.say(f"The report is {place}.")
        voice.finish({"store": store, "report": str(place), "headline": page.headline(run)})


@app.command("status", epilog="Example: dlcca status demo-output/run.zarr")
def status(store: Store, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Say what is in a finished run.

    It looks at the headers alone; dlcca verify looks at the arrays too.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.stages import running
        from dlcca.stores import run as run_store

        stages = running.progress(store)
        if stages and not run_store.is_finished(store):
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
        for name, value in facts.items():
            voice.say(f"  {name:<12} {value}")
        for warning in found["warnings"]:
            voice.say(f"  do not trust this result: {warning}")
        voice.finish({"store": store, **found})


def _say_unfinished(voice: Voice, store: str, stages: Sequence[Any]) -> None:
    """How far a run is that was begun and not finished."""
    voice.say(f"{store} is not finished; run the same run.toml again to go on.")
    for stage in stages:
        voice.say(f"  {stage.name:<12} {stage.done} of {stage.blocks} blocks")
    voice.finish({"store": store, "finished": False, "stages": [vars(stage) for stage in stages]})


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
        from dlcca.stages import running
        from dlcca.stores import run as run_store

        with voice.progress() as step:
            step(f"reading {store}")
            blocks = running.damages(store)
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
        finished = run_store.is_finished(store)
        voice.say(f"{store} is complete and unchanged." if finished else f"What {store} has so far is unchanged.")
