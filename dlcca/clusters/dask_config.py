"""Settings of Dask itself, on our side and on the workers'."""

from __future__ import annotations

from typing import Any

from dlcca.clusters.profile import Elastic, Profile

#: Threads of arithmetic in a worker, which is one thread itself: more would fight for its core.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
#: How a worker's memory is kept: Dask has it given back to the system at once, and then every array of some kilobytes
#: is new pages from the system. Arrays below 4 MiB come from memory that the worker keeps, of which at most 8 MiB are
#: unused.
KEEPING_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 20)}
#: Dask looks a hundred times a second what each worker is at, for its performance report. Many workers on few cores
#: then take a part of a core to be idle; ten times tell as much of a run.
LOOKING_LESS = {"distributed.worker.profile.interval": "100ms"}
#: Times that a task may lose its worker before Dask blames the task. Jobs of a queue go for reasons of their own.
ALLOWED_FAILURES = 10


def configuration(profile: Profile) -> dict[str, Any]:
    """For `dask.config.set`, while the cluster is up."""
    patience = {"distributed.comm.timeouts.tcp": f"{profile.tcp_timeout_s:g}s"}
    if not isinstance(profile, Elastic):
        return patience
    return {
        **patience,
        "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
        # Dask would drop a lost job by itself and ask for no other; the keeper does both.
        "distributed.deploy.lost-worker-timeout": "30 days",
    }


def environment(profile: Profile) -> dict[str, str]:
    """Variables of the workers."""
    return {**ONE_THREAD, **KEEPING_MEMORY, "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": f"{profile.tcp_timeout_s:g}s"}
