"""`dlcca pipeline install`: a pipeline in cron, or as a timer of systemd."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Cluster, Debug, Quiet
from dlcca.cli.pipeline import File
from dlcca.errors import SettingsError

EXAMPLE = "Example: dlcca pipeline install pipeline.toml --cron --at 02:30"
At = Annotated[str | None, typer.Option(metavar="HH:MM", help="Every day at this time; 02:00 if nothing is said.")]
When = Annotated[str | None, typer.Option("--schedule", metavar="CRON", help="An expression of cron instead.")]


def install(
    file: File,
    cron: Annotated[bool, typer.Option("--cron", help="A line for the crontab.")] = False,
    systemd: Annotated[bool, typer.Option("--systemd", help="A service and a timer.")] = False,
    at: At = None,
    schedule: When = None,
    environment: Annotated[
        str | None, typer.Option(metavar="FILE", help="Lines NAME=value that a run is given, for secrets.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", "--yes", help="Install it; else it is only printed.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take it away again (with --apply).")] = False,
    cluster: Cluster = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Print what runs a pipeline every night: a line for cron, or units of systemd. With --apply, install it.

    Installing twice is the same as once. Cron: the crontab of this user. Systemd: units of this user, or of the system
    if this is root.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import installing

        if cron == systemd:
            raise SettingsError("say for whom: --cron or --systemd.")
        job = installing.job(file, chosen(at, schedule), cluster, environment)
        found = _cron(job, apply, remove) if cron else _systemd(job, apply, remove)
        for text in found["files"].values():
            voice.say(text.rstrip("\n"))
        for line in found["lines"]:
            voice.say(line) if apply else voice.warn(line)
        voice.finish({**found, "applied": apply})


def chosen(at: str | None, schedule: str | None) -> Any:
    """The schedule that these options ask for."""
    from dlcca.pipelines.schedule import Schedule

    if at is not None and schedule is not None:
        raise SettingsError("--at and --schedule are both given; give one of them.")
    return Schedule.of(schedule) if schedule is not None else Schedule.at(at or "02:00")


def _cron(job: Any, apply: bool, remove: bool) -> dict[str, Any]:
    from dlcca.pipelines import crontab

    if not apply:
        files = {} if remove else {"crontab": crontab.block(job)}
        return {"files": files, "changed": False, "lines": [_printed("the crontab of this user", remove)]}
    before = crontab.read()
    after = crontab.removed(job, before) if remove else crontab.installed(job, before)
    if after != before:
        job.log.parent.mkdir(parents=True, exist_ok=True)  # the shell opens it before the first run
        crontab.write(after)
    return {"files": {}, "changed": after != before, "lines": [_done("crontab", remove, after != before)]}


def _systemd(job: Any, apply: bool, remove: bool) -> dict[str, Any]:
    from dlcca.pipelines import systemd

    for_all = systemd.is_for_all()
    place = systemd.folder(for_all)
    if not apply:
        units = {} if remove else systemd.units(job, for_all)
        lines = [_printed(str(place), remove), *systemd.complaints(units)]
        files = {name: f"# {place / name}\n{text}" for name, text in units.items()}
        return {"files": files, "changed": False, "lines": lines}
    changed, left = (systemd.remove if remove else systemd.install)(job, place, for_all)
    lines = [_done(f"{place}/{systemd.unit_name(job)}.timer", remove, changed), *([left] if left else [])]
    if not remove and not for_all:
        lines.append("So that it runs while you are not logged in: loginctl enable-linger")
    return {"files": {}, "changed": changed, "lines": lines}


def _printed(where: str, remove: bool) -> str:
    if remove:
        return f"Nothing was changed; with --apply it is removed from {where}."
    return f"Nothing was installed; with --apply this goes to {where}."


def _done(where: str, remove: bool, changed: bool) -> str:
    if remove:
        return f"Removed from {where}." if changed else f"It was not in {where}."
    return f"Installed: {where}." if changed else f"It was there already: {where}."
