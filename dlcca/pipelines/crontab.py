"""A pipeline in the crontab of a user: a few lines between two marks, which can be put there, replaced and removed."""

from __future__ import annotations

import shlex
import shutil
import subprocess

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines.installing import EXIT_CODES, Job

#: Debian's cron cuts a command that is longer.
MOST_CHARACTERS = 998


def block(job: Job) -> str:
    """The lines of a job, with the marks before and after."""
    begin, end = _marks(job)
    told = [f"# {line}" for line in EXIT_CODES]
    log = f"# What it says is in {job.log}; a night that did not end with 0 is told to cron, which may send mail."
    return "\n".join([begin, *told, log, f"{job.schedule.expression} {command(job)}", end]) + "\n"


def command(job: Job) -> str:
    """What cron has the shell do. A % would begin the input of the command, if it were not escaped."""
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
            f"the command would be {len(made)} characters long, and cron takes {MOST_CHARACTERS}; put the pipeline, or "
            "the environment of its Python, where paths are shorter."
        )
    return made


def installed(job: Job, table: str) -> str:
    """A crontab with the job in it, once; what else is in it stays as it is."""
    without = removed(job, table)
    if without and not without.endswith("\n"):
        without += "\n"
    return without + block(job)


def removed(job: Job, table: str) -> str:
    """A crontab without the job."""
    begin, end = _marks(job)
    kept, inside = [], False
    for line in table.splitlines(keepends=True):
        if line.rstrip("\n") == begin:
            inside = True
        if not inside:
            kept.append(line)
        if line.rstrip("\n") == end:
            inside = False
    if inside:
        raise SettingsError(
            f"the crontab holds the line {begin!r}, but not the one that ends it; mend it by crontab -e."
        )
    return "".join(kept)


def _marks(job: Job) -> tuple[str, str]:
    return f"# dlcca pipeline {job.file} begins", f"# dlcca pipeline {job.file} ends"


def read() -> str:
    """The crontab of this user; empty if there is none."""
    answer = _crontab("-l")
    if answer.returncode and "no crontab" not in answer.stderr:
        raise StorageError(f"the crontab cannot be read: {answer.stderr.strip()}.")
    return "" if answer.returncode else answer.stdout


def write(table: str) -> None:
    """Put a crontab in the place of the one of this user."""
    answer = _crontab("-", table)
    if answer.returncode:
        raise StorageError(f"the crontab cannot be written: {answer.stderr.strip()}.")


def _crontab(argument: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("crontab")
    if program is None:
        raise SettingsError(
            "cron is not installed here (there is no crontab command); on Debian: apt-get install cron."
        )
    return subprocess.run([program, argument], input=text, capture_output=True, text=True, timeout=60, check=False)
