"""A pipeline as a job of the machine's own scheduler: what is run, where, with which environment, and when."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from dlcca.errors import SettingsError
from dlcca.pipelines import settings
from dlcca.pipelines.catalog import CRON_LOG
from dlcca.pipelines.schedule import Schedule

#: For whoever reads a crontab or a unit and wonders.
EXIT_CODES = (
    "Exit codes: 0 done, or another run is at it; 2 a setting is wrong; 3 done, but a recording was refused;",
    "4 storage or cluster failed, the next run goes on; 5 done, but a recording was held back or the data drifts.",
    "Two at once do no harm: a lock lets one of them work.",
)


@dataclass(frozen=True)
class Job:
    """A pipeline that is to be run on time."""

    name: str
    file: Path  # absolute, as all paths here
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


def job(
    file: str | Path, schedule: Schedule, cluster: str | None = None, environment_file: str | Path | None = None
) -> Job:
    """The job of a pipeline file, which is checked; the Python that asks for it will run it."""
    asked = settings.read(file)
    command = [sys.executable, "-m", "dlcca", "pipeline", "run", str(asked.path)]
    if cluster is not None:
        command += ["--cluster", str(Path(cluster).absolute()) if Path(cluster).exists() else cluster]
    secrets = None if environment_file is None else Path(environment_file).absolute()
    if secrets is not None and not secrets.is_file():
        raise SettingsError(f"{secrets} is not there; a file of lines NAME=value is needed.")
    made = Job(
        name=asked.pipeline.name,
        file=asked.path,
        log=asked.state / CRON_LOG,
        command=tuple(command),
        schedule=schedule,
        # Schedulers start with next to nothing. A night has workers for its cores, and each does its own arithmetic.
        environment={
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "OPENBLAS_NUM_THREADS": "1",
        },
        environment_file=secrets,
    )
    for said in (*made.command, str(made.log), str(secrets or ""), made.name):
        if "\n" in said or "\r" in said:
            raise SettingsError(f"{said!r} holds the end of a line, which neither cron nor systemd can be given.")
    return made
