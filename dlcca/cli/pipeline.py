"""`dlcca pipeline`: recordings of every night, embedded by morning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dlcca.cli.console import Voice, speaking
from dlcca.cli.options import AsJson, Cluster, Debug, Help, Quiet
from dlcca.errors import StorageError

pipelines = typer.Typer(
    help="Recordings of every night, embedded by morning. Try: dlcca pipeline run pipeline.toml",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
File = Annotated[Path, typer.Argument(metavar="pipeline.toml", help="Sources, settings, model, outputs, policies.")]


@pipelines.callback()
def pipeline_verbs(
    help: Help = False,
) -> None:
    """Recordings of every night, embedded by morning. Try: dlcca pipeline run pipeline.toml"""


@pipelines.command("run", epilog="Example: dlcca pipeline run pipeline.toml")
def run(
    file: File, cluster: Cluster = None, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False
) -> None:
    """Embed what is new, publish it, check for drift, and refit the model if that is due.

    Run it as often as you like: it does only what is missing. Exit code 3 if a recording was refused, 4 if something
    could not be stored and is tried again, 5 if a recording was held back or is unlike what the model has seen, or if
    the model is not trusted.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import nightly_run

        with voice.progress() as step:
            _finish(voice, file, lambda: nightly_run.run(file, cluster, step))


@pipelines.command("backfill", epilog="Example: dlcca pipeline backfill pipeline.toml --from 2026-01-10")
def backfill(
    file: File,
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day; all if not said.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DAY", help="The last day.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also try what was refused or held back.")] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="Fit a new model, of other settings too, and do all days.")
    ] = False,
    cluster: Cluster = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Embed days again with the model in use, as far as another made them.

    What is published stands until the new rows are there. New files are embedded as well, as by dlcca pipeline run.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import backfill as filling

        with voice.progress() as step:
            _finish(
                voice,
                file,
                lambda: filling.run(file, first, last, again=again, anew=anew, cluster=cluster, say=step),
            )


def _finish(voice: Voice, file: Path, work: Callable[[], Any]) -> None:
    """Have a night done, and say what came of it; or that another is at it."""
    from dlcca.pipelines import lock, reports, settings

    try:
        summary = work()
        reports.draw(file, lambda text: None)
    except lock.Busy as busy:
        code = busy.exit_code if settings.read(file).pipeline.busy == "fail" else 0
        text = f"{file}: {busy}; this one leaves."
        voice.document({"busy": True, "text": text, "exit_code": code})
        voice.warn(text) if code else voice.say(text)
        raise typer.Exit(code) from None
    code = summary.exit_code
    voice.document(summary.document())
    for line in summary.lines():
        voice.warn(line) if code and not voice.as_json else voice.say(line)
    if code:
        raise typer.Exit(code)


@pipelines.command("status", epilog="Example: dlcca pipeline status pipeline.toml --json")
def status(file: File, as_json: AsJson = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Say where a pipeline stands: recordings, model, published days, the last run."""
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import messages
        from dlcca.pipelines.context import opened

        with opened(file) as flow:
            found = messages.status(flow)
        for line in messages.status_lines(found):
            voice.say(line)
        voice.finish(found)


@pipelines.command("history", epilog="Example: dlcca pipeline history pipeline.toml --file night-3.edf")
def history(
    file: File,
    limit: Annotated[int, typer.Option(min=1, help="Lines at most, the latest.")] = 50,
    day: Annotated[str | None, typer.Option(metavar="DAY", help="Of this day only.")] = None,
    name: Annotated[str | None, typer.Option("--file", metavar="TEXT", help="Of files with this in the path.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind only, as refused, drift or published.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what has happened, line by line: files, results, days, drift, models."""
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import invalid_config, messages

        catalog, wrong = invalid_config.catalog_of(file)
        with catalog:
            lines = messages.history(catalog, limit, day, name, kind)
        for line in lines:
            voice.say(f"{line['at'][:19]}  {line['kind']:<11} {line['text']}")
        if wrong:
            voice.warn(f"dlcca: no run can begin as it is: {wrong}")
        voice.finish({"lines": lines})


@pipelines.command("rollback", epilog="Example: dlcca pipeline rollback pipeline.toml --to 1")
def rollback(
    file: File,
    to: Annotated[int | None, typer.Option(help="The version to use; the one before if not said.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Use an earlier model again.

    A model that is not trusted is used only if --to names it; every run then ends with exit code 5.
    Days that are published stay as they are; dlcca pipeline backfill embeds them with the model in use.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import nightly_run, versions

        with nightly_run.begun(file, "rollback") as (flow, _):
            found = versions.rollback(flow, to)
        place = f", in place of model {found['from']}" if found["from"] is not None else ""
        voice.say(f"Model {found['to']} is in use{place}.")
        voice.finish(found)


@pipelines.command("retain", epilog="Example: dlcca pipeline retain pipeline.toml --dry-run")
def retain(
    file: File,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Remove what [retention] does not keep; dlcca pipeline run does so as well."""
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import nightly_run, retention

        with nightly_run.begun(file, "retain") as (flow, _):
            found = retention.retain(flow, dry=dry)
        would = "would be " if dry else ""
        voice.say(
            f"Views of {found.views} recordings, {len(found.models)} models, {found.lines} lines of the history and "
            f"{len(found.paths)} replaced results {would}removed."
        )
        if found.refused:
            raise StorageError(" ".join(found.refused))
        voice.finish(vars(found))
