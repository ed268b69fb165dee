"""Dask clients: of this machine, a running scheduler, a queue, Kubernetes or a cloud.

A client is a context manager, made by the command line and passed on. ``--cluster`` is either the address of a
scheduler or a file that describes how a cluster is started (`dlcca.clusters.profile`).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Any

from dlcca.clusters.dask_config import Say, to_log
from dlcca.clusters.profile import Cloud, Existing, Kubernetes, Local, Profile, Queue, read
from dlcca.errors import ClusterError

#: Up to this many blocks are computed in this process: starting a cluster would take longer.
FEW_BLOCKS = 8


def profile_for(where: str | None, workers: int | None, memory_gib: float | None) -> Profile:
    """The profile of an address, of a file, or of this machine if there is none."""
    if where is None:
        return Local(kind="local", workers=workers, memory_gib=memory_gib)
    if "://" in where:
        return Existing(kind="existing", address=where)
    if ":" in where and not Path(where).exists():  # as host:8786
        return Existing(kind="existing", address=f"tcp://{where}")
    return read(where)


def client_for(
    where: str | None, workers: int | None = None, memory_gib: float | None = None, say: Say = to_log
) -> AbstractContextManager[Any]:
    """A client of the cluster that a file or an address names, or of a local one; ended with the block.

    ``workers`` and ``memory_gib`` are for a local cluster without a file. ``say`` receives messages about the cluster:
    jobs that were replaced, how to reach the dashboard.
    """
    return client_of(profile_for(where, workers, memory_gib), say)


class LazyClient(ExitStack):
    """A client as `client_for` gives it, started when it is first needed, and ended with the block."""

    def __init__(self, where: str | None, workers: int | None, memory_gib: float | None, say: Say = to_log) -> None:
        super().__init__()
        self._options, self._client = (where, workers, memory_gib, say), None

    def client(self, blocks: float = inf) -> Any:
        """A client for this many blocks; None if this process computes them."""
        where, workers, *_ = self._options
        if self._client is None and (where is not None or (workers != 1 and blocks > FEW_BLOCKS)):
            self._client = self.enter_context(client_for(*self._options))
        return self._client


@contextmanager
def client_of(profile: Profile, say: Say = to_log) -> Iterator[Any]:
    """A client of the cluster that a profile describes, ended with the block; its failures are `ClusterError`."""
    import dask
    import distributed  # noqa: F401  first: defaults that it sets within our settings would be removed with them

    from dlcca.clusters import dask_config

    set_up = dask.config.set(dask_config.configuration(profile))
    with _as_cluster_error(), _ending_on_signals(), set_up, _opened(profile, say) as client:
        yield client


def _opened(profile: Profile, say: Say) -> AbstractContextManager[Any]:
    from dlcca.clusters import cloud, jobqueue, local

    if isinstance(profile, Local):
        bytes_each = None if profile.memory_gib is None else int(profile.memory_gib * 2**30)
        return local.local_client(profile.workers, bytes_each, profile.scratch)
    clients: dict[type[Profile], Callable[[Any, Say], AbstractContextManager[Any]]] = {
        Existing: local.existing_client,
        Queue: jobqueue.queue_client,
        Kubernetes: cloud.kubernetes_client,
        Cloud: cloud.cloud_client,
    }
    return clients[type(profile)](profile, say)


@contextmanager
def _as_cluster_error() -> Iterator[None]:
    """Errors of lost workers or schedulers as `ClusterError`; errors of tasks are raised as they are."""
    import asyncio

    from distributed import CancelledError, KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"a task lost its worker again and again ({error.allowed_failures} times allowed): "
            "does it need more memory than a worker has (memory_gib)? What was finished is kept: run again to go on."
        ) from error
    except (CancelledError, asyncio.CancelledError, ClosedClientError, CommClosedError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise ClusterError(
            f"the connection to the scheduler was lost ({said}). What was finished is kept: run the same command again "
            "to go on."
        ) from error


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """SIGTERM, which queues send before SIGKILL, ends the block as Ctrl-C does, so that jobs and keys are removed."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise ClusterError("ended by SIGTERM. What was finished is kept: run the same command again to go on.")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
