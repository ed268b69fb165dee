"""Workers as jobs of a queue (SLURM, PBS, LSF, SGE, OAR, HTCondor), through dask-jobqueue: start, walltime, end.

The scheduler runs in this process. Job scripts contain the paths of the run's keys, never the keys. Jobs end, are
cancelled and are replaced at any time, also while the cluster is closed. An error then must hide neither the result nor
the error of the run: it is reported, and no job is left behind.
"""

import asyncio
import math
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.core import Status
from distributed.utils import get_ip

from dlcca.clusters import dask_config, keys
from dlcca.clusters.dask_config import LOOPBACK, NANNY_GIB, Say, needs, say_dashboard
from dlcca.clusters.job_monitor import JobMonitor, reader_of
from dlcca.clusters.profile import Queue
from dlcca.errors import ClusterError

#: A worker ends, and with it its job, after this long without its scheduler.
ORPHANED_S = 60


@contextmanager
def queue_client(profile: Queue, say: Say) -> Iterator[Any]:
    """A client whose workers are jobs of the queue; all jobs and keys are removed at the end of the block."""
    command = cluster_class(profile).job_cls.submit_command
    if shutil.which(command) is None:
        raise ClusterError(
            f"there is no {command} on this machine, with which jobs of {profile.kind} are submitted. Run dlcca where "
            "it is: on a login node, or in a job that may submit others."
        )
    shared = Path(profile.shared).expanduser().absolute()
    with keys.keys_of_run(shared) as security:
        cluster = new_cluster(profile, shared, security)
        with closing_cluster(cluster, say), closing_client(Client(cluster, security=security), say) as client:
            say_dashboard(client, profile.dashboard, say)
            with JobMonitor(cluster, client, profile, reader_of(profile.kind), say):
                yield client


def cluster_class(profile: Queue) -> Any:
    """The class of dask-jobqueue for a kind of queue."""
    with needs("dask-jobqueue", "hpc"):
        import dask_jobqueue
    name = "HTCondor" if profile.kind == "htcondor" else profile.kind.upper()
    return getattr(dask_jobqueue, f"{name}Cluster")


def new_cluster(profile: Queue, shared: Path, security: Any) -> Any:
    """The cluster of dask-jobqueue, with no job yet."""
    kind = ignoring_unknown_workers(cluster_class(profile))
    host = {} if profile.interface else {"host": get_ip()}  # the only address on which the scheduler listens
    try:
        return kind(
            job_cls=monitored(kind.job_cls, profile),
            security=security,
            protocol="tls://",
            scheduler_options={"dashboard_address": LOOPBACK, "dashboard": profile.dashboard, **host},
            **options(profile, shared),
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise ClusterError(
            f"the scheduler cannot be started: {error}. Is interface right in the cluster file?"
        ) from error


def options(profile: Queue, shared: Path) -> dict[str, Any]:
    """The options of dask-jobqueue for a job."""
    logs = shared / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    (lifetime_s, stagger_s), scratch = lifetime_of(profile.walltime_min), profile.scratch
    exports = [f"export {name}={value}" for name, value in dask_config.environment(profile).items()]
    common = {
        "cores": profile.cores,
        "processes": profile.cores,
        "memory": f"{_job_gib(profile)}GiB",
        "interface": profile.interface,
        # If a variable is empty, the next argument would be taken for the folder.
        "local_directory": f'"{scratch}"' if scratch is not None and "$" in scratch else scratch,
        "log_directory": str(logs),
        "job_name": profile.job_name,
        "job_script_prologue": [*profile.setup, *exports],  # ours have priority
        "job_extra_directives": list(profile.directives),
        "python": _python(profile, shared),
        "death_timeout": ORPHANED_S,
        "worker_extra_args": [
            *("--lifetime", f"{lifetime_s}s", "--lifetime-stagger", f"{stagger_s}s"),
            # Without a dashboard, workers still serve a page of metrics.
            *("--no-dashboard", "--dashboard-address", LOOPBACK),
        ],
    }
    return {**common, **_of_kind(profile)}


def _job_gib(profile: Queue) -> float:
    return profile.cores * (profile.memory_gib + NANNY_GIB)


def _of_kind(profile: Queue) -> dict[str, Any]:
    """Options that differ between queues."""
    if profile.kind == "htcondor":
        pairs = [line.partition("=") for line in profile.directives]
        extra = {name.strip(): value.strip() for name, _, value in pairs}
        extra |= {} if profile.account is None else {"accounting_group": profile.account}
        return {"disk": f"{profile.disk_gib}GiB", "job_extra_directives": extra}
    account = {"account" if profile.kind in ("slurm", "pbs") else "project": profile.account}
    own = {
        "slurm": {"job_mem": f"{math.ceil(_job_gib(profile) * 1024)}M"},
        "lsf": {"walltime": hours_minutes(profile.walltime_min)},
        "oar": {"memory_per_core_property_name": profile.memory_property},
    }
    named = {"queue": profile.queue, "walltime": hours_minutes_seconds(profile.walltime_min)}
    return {**named, **account, **own.get(profile.kind, {})}


def _python(profile: Queue, shared: Path) -> str:
    """The command that runs Python in a job."""
    python = shlex.quote(profile.python or (sys.executable if profile.image is None else "python3"))
    if profile.image is None:
        return python
    binds = [str(shared), *([profile.scratch] if profile.scratch else [])]
    return f"apptainer exec {' '.join(f'--bind {bind}' for bind in binds)} {profile.image} {python}"


def ignoring_unknown_workers(cluster_cls: Any) -> Any:
    """A cluster that ignores the end of a worker that it does not know.

    Dask itself stops listening then: later workers stay unknown, and closing the cluster fails. It happens when workers
    leave while they are counted (`wait_for_workers`).
    """

    def _update_worker_status(self: Any, op: str, msg: Any) -> None:
        if op != "remove" or msg in self.scheduler_info["workers"]:
            cluster_cls._update_worker_status(self, op, msg)

    return type(cluster_cls.__name__, (cluster_cls,), {"_update_worker_status": _update_worker_status})


def monitored(job_cls: type, profile: Queue) -> type:
    """A job class that records a refusal by the queue, and whose workers have the memory of the profile."""

    class MonitoredJob(job_cls):
        """One job. An error of its submission or end would otherwise be lost in the log of an event loop."""

        refusal: str | None = None
        left_behind: str | None = None
        """Why it could not be cancelled."""

        @classmethod
        def default_config_name(cls) -> str:
            return str(job_cls.config_name)  # type: ignore[attr-defined]

        @property
        def worker_process_memory(self) -> str:
            return f"{profile.memory_gib:g}GiB"

        def __await__(self) -> Generator[Any, None, Any]:
            """Submit the job; a refused one is not an error here: the monitor reports it.

            Dask asserts that the job is running and logs a traceback if it is not.
            """

            async def submitted() -> Any:
                async with self.lock:
                    if self.status == Status.created:
                        await self.start()
                return self

            return submitted().__await__()

        async def start(self) -> None:
            try:
                await super().start()
            except (RuntimeError, OSError, ValueError) as error:
                self.refusal = _in_short(error)
                self.status = Status.failed

        async def close(self) -> None:
            try:
                await super().close()
            except (RuntimeError, OSError) as error:
                self.left_behind = _in_short(error)
            finally:
                self.status = Status.closed  # or Dask would not close the others

    return MonitoredJob


def _in_short(error: Exception) -> str:
    """The message of the queue, without the report around it."""
    said = str(error).partition("stderr:\n")[2].strip() or str(error)
    return " ".join(said.split())


#: The least and the most time at the end of a job for workers to hand over their data.
GRACE_S = (60.0, 300.0)
STAGGER_S = 300.0


def lifetime_of(walltime_min: float) -> tuple[int, int]:
    """Workers leave after ``lifetime ± stagger`` seconds, each at a random time, so that not all leave at once.

    The latest leaves a grace before the walltime: a tenth of it, within a minute and five. With w the walltime, g the
    grace and s the stagger, workers leave in [w - g - 2 s, w - g].
    """
    walltime = 60 * walltime_min
    grace = min(max(walltime / 10, GRACE_S[0]), GRACE_S[1])
    stagger = min((walltime - grace) / 10, STAGGER_S)
    return int(walltime - grace - stagger), int(stagger)


def hours_minutes_seconds(walltime_min: float) -> str:
    """HH:MM:SS, the format of most queues."""
    seconds = round(60 * walltime_min)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def hours_minutes(walltime_min: float) -> str:
    """HH:MM, the format of LSF."""
    return hours_minutes_seconds(walltime_min).rpartition(":")[0]


#: For the scheduler to release its workers, and the queue its jobs.
CLOSE_S = 60.0
#: For a direct command to cancel jobs.
CANCEL_S = 30.0
#: What Dask may raise at the end, when the work is done or has failed.
FAULTS = (Exception, asyncio.CancelledError)


@contextmanager
def closing_client(made: Any, say: Say) -> Iterator[Any]:
    """A client of Dask, closed with the block."""
    try:
        yield made
    finally:
        try:
            made.close(timeout=CLOSE_S)
        except FAULTS as error:
            say(f"the connection to the scheduler did not end cleanly ({_one_line(error)}).")


@contextmanager
def closing_cluster(made: Any, say: Say) -> Iterator[Any]:
    """A cluster of dask-jobqueue, closed with the block; its jobs are cancelled even if it cannot be."""
    try:
        yield made
    finally:
        jobs = [job for job in made.workers.values() if getattr(job, "job_id", None)]
        try:
            made.close(timeout=CLOSE_S)
        except FAULTS as error:
            say(f"the workers did not end cleanly ({_one_line(error)}).{_cancelled(jobs)}")
            with suppress(Exception):  # the thread that Dask would have ended
                made._loop_runner.stop()
        else:
            left = [job for job in jobs if job.left_behind is not None]
            if left:
                say(f"jobs could not be cancelled ({left[0].left_behind}).{_cancelled(left)}")


def _cancelled(jobs: list[Any]) -> str:
    """Cancel jobs without Dask, and return a sentence about the outcome."""
    if not jobs:
        return ""
    command = [*shlex.split(jobs[0].cancel_command), *(str(job.job_id) for job in jobs)]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, capture_output=True, timeout=CANCEL_S, check=True)
        return " They are cancelled."
    return f" They end by themselves soon; to cancel them now: {shlex.join(command)}"


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":. ")
