"""`dlcca pipeline`: scheduled runs that embed and publish new recordings."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from dlcca.cli.settings import list_or_copy
from dlcca.cli.verb import Cluster, Console, CopyTo, group, verb
from dlcca.errors import SettingsError, StorageError

File = Annotated[Path, Argument(metavar="pipeline.toml", help="Sources, settings, model, outputs, policies.")]
At = Annotated[str | None, Option(metavar="HH:MM", help="Every day at this time. Default: 02:00.")]
When = Annotated[str | None, Option("--schedule", metavar="CRON", help="An expression of cron instead.")]


@verb(example="dlcca pipeline run pipeline.toml")
def run(console: Console, file: File, cluster: Cluster = None) -> None:
    """Embed what is new, publish it, check for drift, and refit the model if that is due.

    Run it as often as you like: it does only what is missing. Exit code 3 if a recording was refused, 4 if something
    could not be stored and is tried again, 5 if a recording was held back or differs from the data of the model, or if
    the model is not trusted.
    """
    from dlcca.pipelines import nightly_run

    _finish(console, file, lambda: nightly_run.run(file, cluster, console.step))


@verb(example="dlcca pipeline backfill pipeline.toml --from 2026-01-10")
def backfill(
    console: Console,
    file: File,
    first: Annotated[str | None, Option("--from", metavar="DAY", help="The first day. Default: all.")] = None,
    last: Annotated[str | None, Option("--to", metavar="DAY", help="The last day.")] = None,
    again: Annotated[bool, Option("--again", help="Also try what was refused or held back.")] = False,
    anew: Annotated[bool, Option("--anew", help="Fit a new model, of other settings too; do all days.")] = False,
    cluster: Cluster = None,
) -> None:
    """Embed days again with the model in use, as far as another made them.

    What is published stays until the new rows are finished. New files are embedded as well, as by dlcca pipeline run.
    """
    from dlcca.pipelines.nightly_run import backfill as embed_again

    days, say = (first, last), console.step
    _finish(console, file, lambda: embed_again(file, *days, again=again, anew=anew, cluster=cluster, say=say))


def _finish(console: Console, file: Path, work: Callable[[], Any]) -> None:
    """Do the work of a run and print its summary, or that another run is in progress."""
    from dlcca.pipelines import page, settings
    from dlcca.pipelines.catalog import Busy

    try:
        summary = work()
        page.update_reports(file, lambda text: None)
    except Busy as busy:
        code = busy.exit_code if settings.read(file).pipeline.busy == "fail" else 0
        text = f"{file}: {busy}; this one ends."
        (console.warn if code else console.say)(text)
        return console.finish({"busy": True, "text": text}, code=code)
    (console.warn if summary.exit_code and not console.as_json else console.say)(*summary.lines())
    console.finish(summary.document(), code=summary.exit_code)


@verb(example="dlcca pipeline status pipeline.toml --json")
def status(console: Console, file: File) -> None:
    """Print where a pipeline stands: recordings, model, published days, the last run."""
    from dlcca.pipelines import summary
    from dlcca.pipelines.context import opened

    with opened(file) as pipeline:
        found = summary.status(pipeline)
    console.say(*summary.status_lines(found))
    console.finish(found)


@verb(example="dlcca pipeline history pipeline.toml --file night-3.edf")
def history(
    console: Console,
    file: File,
    limit: Annotated[int, Option(min=1, help="Lines at most, the latest.")] = 50,
    day: Annotated[str | None, Option(metavar="DAY", help="Of this day only.")] = None,
    name: Annotated[str | None, Option("--file", metavar="TEXT", help="Of files with this in the path.")] = None,
    kind: Annotated[str | None, Option(help="Of this kind only, as refused, drift or published.")] = None,
) -> None:
    """Print what has happened, line by line: files, results, days, drift, models."""
    from dlcca.pipelines import nightly_run, summary

    catalog, wrong = nightly_run.catalog_of(file)
    with catalog:
        lines = summary.history(catalog, limit, day, name, kind)
    console.say(*(f"{line['at'][:19]}  {line['kind']:<11} {line['text']}" for line in lines))
    if wrong:
        console.warn(f"dlcca: no run is possible with this file: {wrong}")
    console.finish({"lines": lines})


@verb(example="dlcca pipeline page pipeline.toml")
def page(
    console: Console,
    file: File,
    out: Annotated[Path | None, Option(help="The HTML file. Default: [outputs] page.")] = None,
) -> None:
    """Write the page of a pipeline: runs, failures and their reasons, drift, models, links to reports.

    It is one HTML file that needs no network; dlcca pipeline run writes it as well.
    """
    from dlcca.pipelines import page as pages
    from dlcca.pipelines.context import opened

    with opened(file, say=console.step) as pipeline:
        place = pages.page_place(pipeline, out)
        pages.write_reports(pipeline, place)
        pages.write(pipeline, place)
    console.say(f"The page is {place}.")
    console.finish({"page": str(place)})


@verb(example="dlcca pipeline rollback pipeline.toml --to 1")
def rollback(
    console: Console,
    file: File,
    to: Annotated[int | None, Option(help="The version to use. Default: the one before.")] = None,
) -> None:
    """Use an earlier model again.

    A model that is not trusted is used only if --to names it; every run then ends with exit code 5.
    Days that are published stay as they are; dlcca pipeline backfill embeds them with the model in use.
    """
    from dlcca.pipelines import nightly_run, versions

    with nightly_run.begun(file, "rollback") as (pipeline, _):
        found = versions.rollback(pipeline, to)
    place = f", in place of model {found['from']}" if found["from"] is not None else ""
    console.say(f"Model {found['to']} is in use{place}.")
    console.finish(found)


@verb(example="dlcca pipeline retain pipeline.toml --dry-run")
def retain(
    console: Console,
    file: File,
    dry: Annotated[bool, Option("--dry-run", help="Only print what would be removed.")] = False,
) -> None:
    """Remove what [retention] does not keep; dlcca pipeline run does so as well."""
    from dlcca.pipelines import nightly_run, retention

    with nightly_run.begun(file, "retain") as (pipeline, _):
        found = retention.retain(pipeline, dry=dry)
    console.say(f"{'To be removed' if dry else 'Removed'}: {found}.")
    if found.refused:
        raise StorageError(" ".join(found.refused))
    console.finish(vars(found))


@verb(example="dlcca pipeline examples --out my-settings")
def examples(console: Console, out: CopyTo = None) -> None:
    """Print where the example settings are, or copy them.

    A run.toml, pipelines for a folder and for object storage, and files for schedulers. Files that are there already
    are not replaced.
    """
    from dlcca.pipelines.settings import examples_folder

    list_or_copy(console, examples_folder(), out)


@verb(example="dlcca pipeline install pipeline.toml --cron --at 02:30")
def install(
    console: Console,
    file: File,
    cron: Annotated[bool, Option("--cron", help="A line for the crontab.")] = False,
    systemd: Annotated[bool, Option("--systemd", help="A service and a timer.")] = False,
    at: At = None,
    schedule: When = None,
    environment: Annotated[str | None, Option(metavar="FILE", help="Lines NAME=value for runs, as secrets.")] = None,
    apply: Annotated[bool, Option("--apply", "--yes", help="Install it; else it is only printed.")] = False,
    remove: Annotated[bool, Option("--remove", help="Uninstall it (with --apply).")] = False,
    cluster: Cluster = None,
) -> None:
    """Print what runs a pipeline every night: a line for cron, or units of systemd. With --apply, install it.

    Installing twice is the same as once. Cron: the crontab of this user. Systemd: units of this user, or of the system
    if this is root.
    """
    from dlcca.pipelines import schedule as schedules

    if cron == systemd:
        raise SettingsError("give one of --cron or --systemd.")
    job = schedules.job(file, _schedule(at, schedule), cluster, environment)
    files, changed, lines = _install(job, apply, remove, systemd)
    console.say(*(text.rstrip("\n") for text in files.values()))
    (console.say if apply else console.warn)(*lines)
    console.finish({"files": files, "changed": changed, "lines": lines, "applied": apply})


@verb(example="dlcca pipeline serve pipeline.toml --at 02:30")
def serve(
    console: Console,
    file: File,
    at: At = None,
    schedule: When = None,
    timezone: Annotated[str, Option(metavar="ZONE", help="Of these times, as Europe/Berlin.")] = "UTC",
    cluster: Cluster = None,
) -> None:
    """Let Prefect start the runs of a pipeline, and do them; ends when it is stopped.

    Needs dlcca[prefect] and a Prefect server (prefect server start) at PREFECT_API_URL. Every step is a task there.
    """
    from dlcca.pipelines import settings

    when = _schedule(at, schedule).expression
    name = settings.read(file).pipeline.name
    try:
        from dlcca.pipelines import prefect_flow
    except ImportError as error:
        raise SettingsError(
            f"Prefect is not installed here ({error}): pip install 'dlcca[prefect]'. Cron and systemd need "
            "nothing: dlcca pipeline install."
        ) from error
    console.say(f"{name}: runs start at {when} ({timezone}), as the deployment dlcca-night/{name}.")
    prefect_flow.serve(file, when, cluster, timezone)
    console.finish({"deployment": f"dlcca-night/{name}", "schedule": when, "timezone": timezone})


def _schedule(at: str | None, schedule: str | None) -> Any:
    from dlcca.pipelines.schedule import Schedule

    if at is not None and schedule is not None:
        raise SettingsError("--at and --schedule are both given; give one of them.")
    return Schedule.of(schedule) if schedule is not None else Schedule.at(at or "02:00")


def _install(job: Any, apply: bool, remove: bool, systemd: bool) -> tuple[dict[str, str], bool, list[str]]:
    """The texts that are shown by name, whether anything was changed, and what to say about it."""
    from dlcca.pipelines import schedule

    for_all = systemd and os.geteuid() == 0  # units of root are of the system, others of the user
    place = schedule.unit_folder(for_all) if systemd else None
    if not apply:
        where = place or "the crontab of this user"
        if remove:
            return {}, False, [f"Nothing was changed; with --apply it is removed from {where}."]
        lines = [f"Nothing was installed; with --apply this goes to {where}."]
        if place is None:
            return {"crontab": schedule.cron_entry(job)}, False, lines
        units = schedule.units(job, for_all)
        shown = {name: f"# {place / name}\n{text}" for name, text in units.items()}
        return shown, False, [*lines, *schedule.unit_errors(units)]
    if place is None:
        before = schedule.crontab()
        after = (schedule.without_entry if remove else schedule.with_entry)(job, before)
        where, hints, changed = "crontab", [], after != before
        if changed:
            job.log.parent.mkdir(parents=True, exist_ok=True)  # the shell opens it before the first run
            schedule.crontab(after)
    else:
        where = f"{place}/{job.unit}.timer"
        changed, left = (schedule.remove_units if remove else schedule.install_units)(job, place, for_all)
        hints = [left] if left else []
        if not remove and not for_all:
            hints.append("So that it runs while you are not logged in: loginctl enable-linger")
    done = ("It was not in {}.", "Removed from {}.") if remove else ("It was there already: {}.", "Installed: {}.")
    return {}, changed, [done[changed].format(where), *hints]


pipelines = group(
    "Scheduled runs that embed and publish new recordings. Try: dlcca pipeline run pipeline.toml",
    *(run, backfill, status, history, rollback, retain, examples, page, install, serve),
)
