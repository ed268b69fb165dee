"""A cluster of processes on this machine, that no other user of it can reach."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dlcca.clusters.dashboard import LOOPBACK
from dlcca.clusters.dask_config import KEEPING_MEMORY, LOOKING_LESS, ONE_THREAD
from dlcca.clusters.folders import private_folder
from dlcca.clusters.keys import keys_in_memory

PREFIX = "dlcca-workers-"
#: Dask opens a port for web pages in every process, and they have no password: without routes they show nothing.
NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


@contextmanager
def local_client(
    workers: int | None = None, memory_bytes: int | None = None, scratch: str | None = None
) -> Iterator[Any]:
    """A client of a cluster of single-threaded worker processes, ended with the block.

    Every user of the machine can connect to loopback, and a Dask scheduler runs what it is sent. So scheduler, nannies
    and workers speak TLS with a key that stays in the memory of these processes, there is no dashboard, and their
    folder on disk, from which they load pickles and modules, is one that only its owner can open.
    One thread of arithmetic for each worker, so that workers do not fight for the cores.
    """
    import dask
    from distributed import Client, LocalCluster

    count = workers or os.cpu_count() or 1
    environ = {"distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **KEEPING_MEMORY}}
    parent = Path(scratch or dask.config.get("temporary-directory", None) or tempfile.gettempdir())
    with private_folder(parent, PREFIX) as folder:
        with dask.config.set({**environ, **LOOKING_LESS, **NO_PAGES, "temporary-directory": str(folder)}):
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol="tls://",
                security=keys_in_memory(),
                dashboard_address=LOOPBACK,
                scheduler_kwargs={"dashboard": False},
                memory_limit=memory_bytes if memory_bytes is not None else "auto",
            )
        with cluster, Client(cluster) as client:
            yield client
