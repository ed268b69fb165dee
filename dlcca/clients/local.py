"""A cluster of processes on this machine, that nobody else can reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlcca.clients.dashboard import LOOPBACK
from dlcca.clients.tuning import KEEPING_MEMORY, LOOKING_LESS, ONE_THREAD


@contextmanager
def local_client(
    workers: int | None = None, memory_bytes: int | None = None, scratch: str | None = None
) -> Iterator[Any]:
    """A client of a cluster of single-threaded worker processes, ended with the block.

    Scheduler, workers and dashboard listen on loopback only; left to itself, Dask would offer its dashboard to all.
    One thread of arithmetic for each worker, so that workers do not fight for the cores.
    """
    import dask
    from distributed import Client, LocalCluster

    count = workers or os.cpu_count() or 1
    environ = {"distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **KEEPING_MEMORY}}
    with dask.config.set({**environ, **LOOKING_LESS}):
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=LOOPBACK,
            memory_limit=memory_bytes if memory_bytes is not None else "auto",
            local_directory=scratch,
        )
    with cluster, Client(cluster) as client:
        yield client
