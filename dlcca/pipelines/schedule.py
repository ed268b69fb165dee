"""Scheduled runs on this machine: cron expressions, entries of a crontab, and units of systemd."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines import settings
from dlcca.pipelines.catalog import CRON_LOG
from dlcca.storage.files import files_at

#: The fields of a cron expression in their order: name, smallest and largest value.
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


@dataclass(frozen=True)
class Schedule:
    """A checked cron expression."""

    expression: str  # five fields
    chosen: tuple[frozenset[int], ...]  # the values of each field

    @classmethod
    def of(cls, expression: str) -> Schedule:
        """The schedule of a cron expression such as "0 2 * * *" or "@daily"."""
        given = SHORT.get(expression.strip().lower(), expression).split()
        if len(given) != len(FIELDS):
            raise SettingsError(
                f"the schedule {expression!r} has {len(given)} fields; five are needed: minute, hour, day, month, day "
                "of the week, such as '0 2 * * *' for every night at 02:00."
            )
        return cls(" ".join(given), tuple(_numbers(text, *field) for text, field in zip(given, FIELDS, strict=True)))

    @classmethod
    def at(cls, time: str) -> Schedule:
        """Once a day, at a time such as 02:30."""
        found = re.fullmatch(r"(\d{1,2}):(\d{2})", time)
        if found is None or int(found[1]) > 23 or int(found[2]) > 59:
            raise SettingsError(f"{time!r} is not a time of day; give one such as 02:30.")
        return cls.of(f"{int(found[2])} {int(found[1])} * * *")

    def calendars(self) -> list[str]:
        """The schedule as one or two values of OnCalendar= of systemd.

        If both days of the month and days of the week are restricted, cron runs on either, and systemd on days that
        match both: then two values are needed.
        """
        minutes, hours, days, months, weekdays = self.chosen
        texts = self.expression.split()
        time = f"{_calendar_field(hours, 1)}:{_calendar_field(minutes, 0)}:00"
        month, of_month = _calendar_field(months, 3), _calendar_field(days, 2)
        week = [name.capitalize() for i, name in enumerate(WEEKDAYS) if i in weekdays or (i == 0 and 7 in weekdays)]
        of_week = "" if len(week) == 7 else ",".join(week) + " "
        if texts[2].startswith("*") or texts[4].startswith("*"):
            return [f"{of_week}*-{month}-{of_month} {time}"]
        return [f"*-{month}-{of_month} {time}", f"{of_week}*-{month}-* {time}"]


def _numbers(text: str, name: str, low: int, high: int) -> frozenset[int]:
    """The values of one field of an expression."""
    names = {"month": MONTHS, "day of the week": WEEKDAYS}.get(name, ())
    refused = f"is not a valid {name} in a schedule"

    def number(word: str) -> int:
        if word.lower() in names:
            return names.index(word.lower()) + low
        if not word.isdecimal() or not low <= int(word) <= high:
            raise SettingsError(f"{word!r} {refused}; {low} to {high} is needed.")
        return int(word)

    found: set[int] = set()
    for part in text.split(","):
        parsed = _PART.fullmatch(part)
        if parsed is None:
            raise SettingsError(f"{text!r} {refused}; give 5, 1-5, */15 or 1,3, for example.")
        first, last, step = parsed.groups()
        if (first == "*" and last) or (step and first != "*" and not last):
            raise SettingsError(f"{text!r} {refused}; a step needs a range, such as */15 or 0-30/10.")
        begin, end = (low, high) if first == "*" else (number(first), number(last or first))
        if end < begin or step == "0":
            raise SettingsError(f"{part!r} {refused}: the range is empty.")
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def _calendar_field(chosen: frozenset[int], field: int) -> str:
    _, low, high = FIELDS[field]
    return "*" if len(chosen) > high - low else ",".join(f"{number:02d}" for number in sorted(chosen))


# The job.

#: A comment in crontabs and units.
EXIT_CODES = (
    "Exit codes: 0 done, or another run is in progress; 2 a setting is wrong; 3 done, but a recording was refused;",
    "4 storage or cluster failed, the next run continues; 5 done, but a recording was held back or the data drifts.",
    "Two runs at once are safe: a lock lets one of them work.",
)


@dataclass(frozen=True)
class Job:
    """A pipeline to be run on a schedule."""

    name: str
    file: Path  # absolute, like all paths here
    log: Path  # of cron; systemd has its journal
    command: tuple[str, ...]
    schedule: Schedule
    environment: dict[str, str]
    environment_file: Path | None = None

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def slug(self) -> str:
        """The name as a part of a file name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "pipeline"

    @property
    def unit(self) -> str:
        """The name of its units."""
        return f"dlcca-{self.slug}"


def job(
    file: str | Path, schedule: Schedule, cluster: str | None = None, environment_file: str | Path | None = None
) -> Job:
    """The job of a pipeline file, which is checked. It is run by the Python that calls this function."""
    checked = settings.read(file)
    command = [sys.executable, "-m", "dlcca", "pipeline", "run", str(checked.path)]
    if cluster is not None:
        command += ["--cluster", str(Path(cluster).absolute()) if Path(cluster).exists() else cluster]
    secrets = None if environment_file is None else Path(environment_file).absolute()
    if secrets is not None and not secrets.is_file():
        raise SettingsError(f"{secrets} does not exist; a file with lines NAME=value is needed.")
    made = Job(
        name=checked.pipeline.name,
        file=checked.path,
        log=checked.state / CRON_LOG,
        command=tuple(command),
        schedule=schedule,
        # Schedulers start with a nearly empty environment. Workers use all cores, so each computes with one thread.
        environment={
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "OPENBLAS_NUM_THREADS": "1",
        },
        environment_file=secrets,
    )
    for value in (*made.command, str(made.log), str(secrets or ""), made.name):
        if "\n" in value or "\r" in value:
            raise SettingsError(f"{value!r} contains a line break, which neither cron nor systemd accepts.")
    return made


# Cron: some lines between two marks in the crontab of a user.

#: Debian's cron truncates longer commands.
MOST_CHARACTERS = 998


def cron_entry(job: Job) -> str:
    """The lines of a job, with the marks before and after."""
    begin, end = _marks(job)
    comments = [f"# {line}" for line in EXIT_CODES]
    log = f"# Output goes to {job.log}; an exit code other than 0 is reported to cron, which may send mail."
    return "\n".join([begin, *comments, log, f"{job.schedule.expression} {cron_command(job)}", end]) + "\n"


def cron_command(job: Job) -> str:
    """The shell command of a job. Each % is escaped, because cron ends a command at a %."""
    environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in job.environment.items())
    secrets = "" if job.environment_file is None else f"set -a; . {shlex.quote(str(job.environment_file))}; set +a; "
    folder, logs, log = (shlex.quote(str(path)) for path in (job.folder, job.log.parent, job.log))
    run = f"export {environment}; {secrets}{shlex.join(job.command)}"
    made = (
        f"cd {folder} && mkdir -p {logs} && {{ {run}; }} >> {log} 2>&1 "
        f'|| echo "dlcca pipeline {job.slug} ended with exit code $?"'
    ).replace("%", r"\%")
    if len(made) > MOST_CHARACTERS:
        raise SettingsError(
            f"the command has {len(made)} characters, and cron accepts {MOST_CHARACTERS}; move the pipeline or its "
            "Python environment to a shorter path."
        )
    return made


def with_entry(job: Job, table: str) -> str:
    """A crontab with the job in it, once; all other lines stay as they are."""
    others = without_entry(job, table)
    if others and not others.endswith("\n"):
        others += "\n"
    return others + cron_entry(job)


def without_entry(job: Job, table: str) -> str:
    """A crontab without the job."""
    begin, end = _marks(job)
    entry = rf"^{re.escape(begin)}\n(.*\n)*?{re.escape(end)}(\n|\Z)"
    kept = re.sub(entry, "", table, flags=re.MULTILINE)
    if begin in kept.splitlines():
        raise SettingsError(f"the crontab has the line {begin!r}, but not {end!r}; repair it with crontab -e.")
    return kept


def _marks(job: Job) -> tuple[str, str]:
    return f"# dlcca pipeline {job.file} begins", f"# dlcca pipeline {job.file} ends"


def read_crontab() -> str:
    """The crontab of this user; empty if there is none."""
    answer = _crontab("-l")
    if answer.returncode and "no crontab" not in answer.stderr:
        raise StorageError(f"the crontab cannot be read: {answer.stderr.strip()}.")
    return "" if answer.returncode else answer.stdout


def write_crontab(table: str) -> None:
    """Replace the crontab of this user."""
    answer = _crontab("-", table)
    if answer.returncode:
        raise StorageError(f"the crontab cannot be written: {answer.stderr.strip()}.")


def _crontab(argument: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("crontab")
    if program is None:
        raise SettingsError("cron is not installed (there is no crontab command); on Debian: apt-get install cron.")
    return subprocess.run([program, argument], input=text, capture_output=True, text=True, timeout=60, check=False)


# Systemd: a service that runs the pipeline once, and a timer that starts the service.

SERVICE = """\
# Written by dlcca pipeline install, for {file}
[Unit]
Description=dlcca pipeline {name}
# A failed run is repeated a few times.
StartLimitIntervalSec=6h
StartLimitBurst=4

[Service]
Type=oneshot
WorkingDirectory={folder}
{environment}
ExecStart={command}
{codes}
# Only failures that may pass by themselves are repeated; any exit code but 0 is listed by: systemctl --failed
Restart=on-failure
RestartPreventExitStatus=2 3 5
RestartSec=10min
# Output goes to the journal: {journal}
"""

TIMER = """\
# Written by dlcca pipeline install, for {file}
[Unit]
Description=Schedule of the dlcca pipeline {name}

[Timer]
# Times are in the time zone of this machine.
{calendars}
AccuracySec=1min
# A run that was missed while the machine was off starts when it is on again.
Persistent=true

[Install]
WantedBy=timers.target
"""


def units(job: Job, for_all: bool) -> dict[str, str]:
    """The unit files by name. ``for_all``: units of the system, not of the user."""
    lines = [f"Environment={_quoted(f'{key}={value}')}" for key, value in job.environment.items()]
    if job.environment_file is not None:
        lines.append(f"EnvironmentFile={_percent(job.environment_file)}")
    service = SERVICE.format(
        file=job.file,
        name=_percent(job.name),
        folder=_percent(job.folder),
        environment="\n".join(lines),
        command=" ".join(_quoted(word.replace("$", "$$")) for word in job.command),
        codes="\n".join(f"# {line}" for line in EXIT_CODES),
        journal=f"journalctl {'' if for_all else '--user '}-u {job.unit}",
    )
    calendars = "\n".join(f"OnCalendar={calendar}" for calendar in job.schedule.calendars())
    timer = TIMER.format(file=job.file, name=_percent(job.name), calendars=calendars)
    return {f"{job.unit}.service": service, f"{job.unit}.timer": timer}


def _percent(value: object) -> str:
    """Text with % escaped, which begins a specifier in systemd."""
    return str(value).replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command line of systemd."""
    escaped = _percent(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_for_all() -> bool:
    """Whether units are installed for the system, as root does, and not for the user."""
    return os.geteuid() == 0


def unit_folder(for_all: bool) -> Path:
    """The folder of unit files."""
    if for_all:
        return Path("/etc/systemd/system")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def unit_errors(files: dict[str, str]) -> list[str]:
    """Errors that systemd finds in unit files; none where it is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return []
    with tempfile.TemporaryDirectory(prefix="dlcca-units-") as folder:
        paths = [Path(folder) / name for name in files]
        for path in paths:
            path.write_text(files[path.name], encoding="utf-8")
        command = [program, "verify", *map(str, paths)]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return [line.replace(f"{folder}/", "") for line in answer.stderr.splitlines() if folder in line]


def install_units(job: Job, folder: Path, for_all: bool) -> tuple[bool, str]:
    """Write the units and start the timer; whether anything changed, and what the user still has to do."""
    files = units(job, for_all)
    _refuse_other_units(job, folder)
    errors = unit_errors(files)
    if errors:
        raise SettingsError(f"systemd refuses these units: {' '.join(errors)}")
    stored, changed = files_at(str(folder)), False
    for name, text in files.items():
        if stored.get(name) != text.encode():
            stored.put(name, text.encode())
            changed = True
    return changed, _systemctl(for_all, ["enable", "--now", f"{job.unit}.timer"])


def remove_units(job: Job, folder: Path, for_all: bool) -> tuple[bool, str]:
    """Stop the timer and remove the units; whether there were any, and what the user still has to do."""
    found = [folder / name for name in units(job, for_all) if (folder / name).exists()]
    if not found:
        return False, ""
    _refuse_other_units(job, folder)
    left = _systemctl(for_all, ["disable", "--now", f"{job.unit}.timer"], reload=False)
    for unit in found:
        unit.unlink()
    return True, _systemctl(for_all) or left


def _refuse_other_units(job: Job, folder: Path) -> None:
    """An error if there are units of this name that belong to something else."""
    expected = SERVICE.partition("\n")[0].format(file=job.file)
    for name in (f"{job.unit}.service", f"{job.unit}.timer"):
        unit = folder / name
        if unit.exists() and (first := unit.read_text(encoding="utf-8").partition("\n")[0]) != expected:
            raise SettingsError(
                f"{unit} exists and does not belong to this pipeline ({first!r}); choose another [pipeline] name in "
                f"{job.file.name}, or remove that unit."
            )


def _systemctl(for_all: bool, action: list[str] | None = None, reload: bool = True) -> str:
    """Have systemd reload its units and do something; the commands for the user where systemd does not run."""
    base = ["systemctl"] if for_all else ["systemctl", "--user"]
    commands = ([[*base, "daemon-reload"]] if reload else []) + ([[*base, *action]] if action else [])
    if shutil.which("systemctl") is None or not Path("/run/systemd/system").is_dir():
        return f"systemd does not run here; where it does: {' && '.join(' '.join(words) for words in commands)}"
    for words in commands:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise StorageError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return ""
