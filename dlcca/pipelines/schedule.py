"""Scheduled runs on this machine: cron expressions, entries of a crontab, and units of systemd."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines import settings
from dlcca.pipelines.catalog import CRON_LOG
from dlcca.storage.files import files_at

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: The fields of a cron expression in their order: smallest and largest value, and names of values.
FIELDS = {"minute": (0, 59), "hour": (0, 23), "day of the month": (1, 31), "month": (1, 12), "day of the week": (0, 7)}
NAMES = {"month": MONTHS, "day of the week": WEEKDAYS}
SHORT = {"@hourly": "0 * * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
SHORT |= dict.fromkeys(("@daily", "@midnight"), "0 0 * * *") | dict.fromkeys(("@yearly", "@annually"), "0 0 1 1 *")
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


@dataclass(frozen=True)
class Schedule:
    """A checked cron expression."""

    expression: str  # five fields
    chosen: tuple[frozenset[int], ...]  # the values of each field

    @classmethod
    def of(cls, expression: str) -> Self:
        """The schedule of a cron expression such as "0 2 * * *" or "@daily"."""
        given = SHORT.get(expression.strip().lower(), expression).split()
        if len(given) != len(FIELDS):
            raise SettingsError(
                f"the schedule {expression!r} has {len(given)} fields; five are needed: minute, hour, day, month, day "
                "of the week, such as '0 2 * * *' for every night at 02:00."
            )
        return cls(" ".join(given), tuple(_numbers(text, name) for text, name in zip(given, FIELDS, strict=True)))

    @classmethod
    def at(cls, time: str) -> Self:
        """Once a day, at a time such as 02:30."""
        found = re.fullmatch(r"(\d{1,2}):(\d{2})", time)
        if found is None or int(found[1]) > 23 or int(found[2]) > 59:
            raise SettingsError(f"{time!r} is not a time of day; give one such as 02:30.")
        return cls.of(f"{int(found[2])} {int(found[1])} * * *")

    def calendars(self) -> list[str]:
        """The schedule as one or two values of OnCalendar= of systemd."""
        minute, hour, day, month = (
            "*" if len(chosen) > high - low else ",".join(f"{number:02d}" for number in sorted(chosen))
            for chosen, (low, high) in zip(self.chosen[:4], FIELDS.values(), strict=False)
        )
        week = [name.capitalize() for i, name in enumerate(WEEKDAYS) if {i, i or 7} & self.chosen[4]]
        of_week = "" if len(week) == 7 else ",".join(week) + " "
        # If days of the month and of the week are restricted, cron runs on either, and systemd on days that match both.
        texts = self.expression.split()
        if texts[2].startswith("*") or texts[4].startswith("*"):
            return [f"{of_week}*-{month}-{day} {hour}:{minute}:00"]
        return [f"*-{month}-{day} {hour}:{minute}:00", f"{of_week}*-{month}-* {hour}:{minute}:00"]


def _numbers(text: str, name: str) -> frozenset[int]:
    """The values of one field of an expression."""
    refused, (low, high) = f"is not a valid {name} in a schedule", FIELDS[name]

    def number(word: str) -> int:
        if word.lower() in NAMES.get(name, ()):
            return NAMES[name].index(word.lower()) + low
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


#: A comment in crontabs and units.
EXIT_CODES = """\
# Exit codes: 0 done, or another run is in progress; 2 a setting is wrong; 3 done, but a recording was refused;
# 4 storage or cluster failed, the next run continues; 5 done, but a recording was held back or the data drifts.
# Two runs at once are safe: a lock lets one of them work."""


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
    def unit(self) -> str:
        return "dlcca-" + (re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "pipeline")

    @property
    def marks(self) -> tuple[str, str]:
        """The lines before and after it in a crontab."""
        return f"# dlcca pipeline {self.file} begins", f"# dlcca pipeline {self.file} ends"


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
    # Schedulers start with a nearly empty environment. Workers use all cores, so each computes with one thread.
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = {"PATH": path, "OPENBLAS_NUM_THREADS": "1"}
    name, log = checked.pipeline.name, checked.state / CRON_LOG
    for value in (*command, str(log), str(secrets or ""), name):
        if "\n" in value or "\r" in value:
            raise SettingsError(f"{value!r} contains a line break, which neither cron nor systemd accepts.")
    return Job(name, checked.path, log, tuple(command), schedule, environment, secrets)


# Cron: some lines between two marks in the crontab of a user.

#: Debian's cron truncates longer commands.
MOST_CHARACTERS = 998


def cron_entry(job: Job) -> str:
    """The lines of a job, with the marks before and after."""
    begin, end = job.marks
    log = f"# Output goes to {job.log}; an exit code other than 0 is reported to cron, which may send mail."
    return "\n".join([begin, EXIT_CODES, log, f"{job.schedule.expression} {cron_command(job)}", end]) + "\n"


def cron_command(job: Job) -> str:
    """The shell command of a job. Each % is escaped, because cron ends a command at a %."""
    environment = " ".join(f"{name}={shlex.quote(value)}" for name, value in job.environment.items())
    secrets = "" if job.environment_file is None else f"set -a; . {shlex.quote(str(job.environment_file))}; set +a; "
    folder, logs, log = (shlex.quote(str(path)) for path in (job.file.parent, job.log.parent, job.log))
    run = f"export {environment}; {secrets}{shlex.join(job.command)}"
    made = (
        f"cd {folder} && mkdir -p {logs} && {{ {run}; }} >> {log} 2>&1 "
        f'|| echo "dlcca pipeline {job.unit.removeprefix("dlcca-")} ended with exit code $?"'
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
    return others + "\n" * (others[-1:] not in ("", "\n")) + cron_entry(job)


def without_entry(job: Job, table: str) -> str:
    """A crontab without the job."""
    begin, end = job.marks
    entry = rf"^{re.escape(begin)}\n(.*\n)*?{re.escape(end)}(\n|\Z)"
    kept = re.sub(entry, "", table, flags=re.MULTILINE)
    if begin in kept.splitlines():
        raise SettingsError(f"the crontab has the line {begin!r}, but not {end!r}; repair it with crontab -e.")
    return kept


def crontab(new: str | None = None) -> str:
    """The crontab of this user, empty if there is none; with ``new``, it is replaced."""
    argument, done = ("-l", "read") if new is None else ("-", "written")
    program = shutil.which("crontab")
    if program is None:
        raise SettingsError("cron is not installed (there is no crontab command); on Debian: apt-get install cron.")
    answer = subprocess.run([program, argument], input=new, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode and "no crontab" not in answer.stderr:
        raise StorageError(f"the crontab cannot be {done}: {answer.stderr.strip()}.")
    return answer.stdout


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
    texts = {
        "file": job.file,
        "name": _percent(job.name),
        "folder": _percent(job.file.parent),
        "environment": "\n".join(lines),
        "command": " ".join(_quoted(word.replace("$", "$$")) for word in job.command),
        "codes": EXIT_CODES,
        "journal": f"journalctl {'' if for_all else '--user '}-u {job.unit}",
        "calendars": "\n".join(f"OnCalendar={calendar}" for calendar in job.schedule.calendars()),
    }
    return {f"{job.unit}.service": SERVICE.format(**texts), f"{job.unit}.timer": TIMER.format(**texts)}


def _percent(value: object) -> str:
    """Text with % escaped, which begins a specifier in systemd."""
    return str(value).replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command line of systemd."""
    escaped = _percent(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


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
    if errors := unit_errors(files):
        raise SettingsError(f"systemd refuses these units: {' '.join(errors)}")
    stored = files_at(str(folder))
    changed = [name for name, text in files.items() if stored.get(name) != text.encode()]
    for name in changed:
        stored.put(name, files[name].encode())
    return bool(changed), _systemctl(for_all, "daemon-reload", f"enable --now {job.unit}.timer")


def remove_units(job: Job, folder: Path, for_all: bool) -> tuple[bool, str]:
    """Stop the timer and remove the units; whether there were any, and what the user still has to do."""
    found = [folder / name for name in units(job, for_all) if (folder / name).exists()]
    if not found:
        return False, ""
    _refuse_other_units(job, folder)
    left = _systemctl(for_all, f"disable --now {job.unit}.timer")
    for unit in found:
        unit.unlink()
    return True, _systemctl(for_all, "daemon-reload") or left


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


def _systemctl(for_all: bool, *actions: str) -> str:
    """Have systemd do something; the commands for the user where it does not run."""
    commands = [f"systemctl {'' if for_all else '--user '}{action}" for action in actions]
    if shutil.which("systemctl") is None or not Path("/run/systemd/system").is_dir():
        return f"systemd does not run here; where it does: {' && '.join(commands)}"
    for command in commands:
        done = subprocess.run(command.split(), capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise StorageError(f"{command} failed: {done.stderr.strip()}")
    return ""
