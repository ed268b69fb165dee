"""Workers as jobs of a queue (SLURM, PBS, LSF, SGE, OAR, HTCondor), through dask-jobqueue.

The scheduler runs in this process. The jobs' scripts hold the paths of the run's keys, never the keys.
"""

from __future__ import annotations

import math
import shlex
import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlcca.clusters import closing, dask_config, keys, queues, walltime
from dlcca.clusters.dashboard import LOOPBACK, say_dashboard
from dlcca.clusters.job_monitor import Keeper
from dlcca.clusters.messages import Say
from dlcca.clusters.optional import needs
from dlcca.clusters.profile import Queue
from dlcca.errors import ClusterError

EXTRA = "hpc"
#: Of the process that watches a worker; a job asks for it besides the memory of its workers.
WATCHER_GIB = 0.25
#: A worker whose scheduler is gone for so long ends, and with it its job.
ORPHANED_S = 60

CLUSTERS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "htcondor": "HTCondorCluster",
}
SUBMIT = {
    "slurm": "sbatch",
    "pbs": "qsub",
    "lsf": "bsub",
    "sge": "qsub",
    "oar": "oarsub",
    "htcondor": "condor_submit",
}


@contextmanager
def queue_client(profile: Queue, say: Say) -> Iterator[Any]:
    """A client whose workers are jobs of the queue; all jobs and keys are gone with the block."""
    from distributed import Client

    refuse_no_queue(profile)
    shared = Path(profile.shared).expanduser().absolute()
    with keys.keys_of_run(shared) as security:
        cluster = made(profile, shared, security)
        with closing.cluster(cluster, say), closing.client(Client(cluster, security=security), say) as client:
            say_dashboard(client, profile.dashboard, say)
            keeper = Keeper(cluster, client, profile, queues.reader_of(profile.kind), say)
            with keeper:
                yield client


def refuse_no_queue(profile: Queue) -> None:
    """Jobs are submitted from here: the command of the queue must be here too."""
    command = SUBMIT[profile.kind]
    if shutil.which(command) is None:
        raise ClusterError(
            f"there is no {command} on this machine, with which jobs of {profile.kind} are submitted. Run dlcca where "
            "it is: on a login node, or in a job that may submit others."
        )


def made(profile: Queue, shared: Path, security: Any) -> Any:
    """The cluster of dask-jobqueue, with no job yet."""
    with needs("dask-jobqueue", EXTRA):
        import dask_jobqueue
    kind = steady(getattr(dask_jobqueue, CLUSTERS[profile.kind]))
    host = {} if profile.interface else {"host": _own_address()}
    try:
        return kind(
            job_cls=watched(kind.job_cls, profile),
            security=security,
            protocol="tls://",
            scheduler_options={"dashboard_address": LOOPBACK, "dashboard": profile.dashboard, **host},
            **options(profile, shared),
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise ClusterError(
            f"the scheduler cannot be started: {error}. Is interface right in the cluster file?"
        ) from error


def _own_address() -> str:
    """The address of this machine that others see, on which alone the scheduler then listens."""
    from distributed.utils import get_ip

    return str(get_ip())


def options(profile: Queue, shared: Path) -> dict[str, Any]:
    """What dask-jobqueue is told of a job."""
    logs = shared / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    life = walltime.lifetime_of(profile.walltime_min)
    common = {
        "cores": profile.cores,
        "processes": profile.cores,
        "memory": f"{_job_gib(profile)}GiB",
        "interface": profile.interface,
        "local_directory": _quoted(profile.scratch),
        "log_directory": str(logs),
        "job_name": profile.job_name,
        "job_script_prologue": prologue(profile),
        "job_extra_directives": list(profile.directives),
        "python": _python(profile, shared),
        "death_timeout": ORPHANED_S,
        "worker_extra_args": [
            *("--lifetime", f"{life.lifetime_s}s", "--lifetime-stagger", f"{life.stagger_s}s"),
            *("--no-dashboard", "--dashboard-address", LOOPBACK),  # even without one, workers have a page of figures
        ],
    }
    return {**common, **_of_kind(profile)}


def _job_gib(profile: Queue) -> float:
    return profile.cores * (profile.memory_gib + WATCHER_GIB)


def _of_kind(profile: Queue) -> dict[str, Any]:
    """What each queue calls by a name of its own."""
    clock = walltime.clock(profile.walltime_min)
    named = {"queue": profile.queue, "walltime": clock}
    match profile.kind:
        case "slurm":
            mebibytes = math.ceil(_job_gib(profile) * 1024)
            return {**named, "account": profile.account, "job_mem": f"{mebibytes}M"}
        case "pbs":
            return {**named, "account": profile.account}
        case "lsf":
            return {**named, "project": profile.account, "walltime": walltime.hours(profile.walltime_min)}
        case "sge":
            return {**named, "project": profile.account}
        case "oar":
            return {**named, "project": profile.account, "memory_per_core_property_name": profile.memory_property}
    pairs = [line.partition("=") for line in profile.directives]
    extra = {name.strip(): value.strip() for name, _, value in pairs}
    if profile.account is not None:
        extra["accounting_group"] = profile.account
    return {"disk": f"{profile.disk_gib}GiB", "job_extra_directives": extra}


def prologue(profile: Queue) -> list[str]:
    """Lines that a job runs before its workers: the site's own, then ours, which must hold whatever the site's say."""
    return [*profile.setup, *(f"export {name}={value}" for name, value in dask_config.environment(profile).items())]


def _python(profile: Queue, shared: Path) -> str:
    """How Python is called in a job."""
    python = shlex.quote(profile.python or (sys.executable if profile.image is None else "python3"))
    if profile.image is None:
        return python
    binds = [str(shared), *([profile.scratch] if profile.scratch else [])]
    return f"apptainer exec {' '.join(f'--bind {bind}' for bind in binds)} {profile.image} {python}"


def _quoted(folder: str | None) -> str | None:
    """In quotes if it has a variable of the job: were that empty, the next argument would be taken for the folder."""
    return f'"{folder}"' if folder is not None and "$" in folder else folder


def steady(cluster_cls: Any) -> Any:
    """A cluster that bears to be told of the end of a worker which it did not know, or no longer.

    Dask itself stops listening then: workers that come later stay unknown, and the end of the cluster is an error. It
    happens when workers leave while they are counted (`wait_for_workers`).
    """

    def _update_worker_status(self: Any, op: str, msg: Any) -> None:
        if op != "remove" or msg in self.scheduler_info["workers"]:
            cluster_cls._update_worker_status(self, op, msg)

    return type(cluster_cls.__name__, (cluster_cls,), {"_update_worker_status": _update_worker_status})


def watched(job_cls: type, profile: Queue) -> type:
    """A job whose refusal by the queue is kept, and whose workers have the memory of the profile."""
    from distributed.core import Status

    class WatchedJob(job_cls):
        """One job. An error of its submission, or of its end, would else be lost in the log of an event loop."""

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
            """Submit the job; a refused one is not an error here: the keeper reports it.

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

    return WatchedJob


def _in_short(error: Exception) -> str:
    """What the queue said, without the report around it."""
    said = str(error).partition("stderr:\n")[2].strip() or str(error)
    return " ".join(said.split())
