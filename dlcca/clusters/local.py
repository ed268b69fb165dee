"""Clients of a cluster of processes on this machine, and of a scheduler that is already running."""

import asyncio
import ipaddress
import logging
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster, Security
from distributed.comm.core import connect

from dlcca.clusters import keys
from dlcca.clusters.dask_config import LOOPBACK, MALLOC, ONE_THREAD, PROFILE_INTERVAL, Say, await_workers
from dlcca.clusters.keys import private_folder
from dlcca.clusters.profile import Existing
from dlcca.errors import ClusterError

PREFIX = "dlcca-workers-"
#: Dask opens a port for web pages in every process, and they have no password: without routes they show nothing.
NO_PAGES: dict[str, list[str]] = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


@contextmanager
def local_client(
    workers: int | None = None, memory_bytes: int | None = None, scratch: str | None = None
) -> Iterator[Any]:
    """A client of a cluster of single-threaded worker processes, ended with the block.

    Every user of the machine can connect to loopback, and a Dask scheduler runs any task. So scheduler, nannies and
    workers use TLS with a key that stays in the memory of these processes, there is no dashboard, and their
    folder on disk, from which they load pickles and modules, is one that only its owner can open.
    One thread of arithmetic for each worker, so that workers do not fight for the cores.
    """
    count = workers or os.cpu_count() or 1
    environ = {"distributed.nanny.pre-spawn-environ": {**ONE_THREAD, **MALLOC}}
    parent = Path(scratch or dask.config.get("temporary-directory", None) or tempfile.gettempdir())
    with private_folder(parent, PREFIX) as folder:
        with dask.config.set({**environ, **PROFILE_INTERVAL, **NO_PAGES, "temporary-directory": str(folder)}):
            cluster = LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol="tls://",
                security=keys.security(*(content.decode() for content in keys.make_keys())),
                dashboard_address=LOOPBACK,
                scheduler_kwargs={"dashboard": False},
                memory_limit=memory_bytes if memory_bytes is not None else "auto",
            )
        with cluster, Client(cluster) as client:
            yield client


#: Time to connect to the scheduler.
CONNECT_S = 10
#: Time to close the connection to a scheduler that is gone.
DISCONNECT_S = 2


@contextmanager
def existing_client(profile: Existing, say: Say) -> Iterator[Any]:
    """A client of the scheduler at an address; the scheduler stays when the block is over."""
    if not profile.address.startswith("tls://") and _leaves_machine(profile.address):
        say(
            f"{profile.address} is not encrypted: others on that network can read the data and run code. Use a "
            "scheduler with TLS (tls://, with ca_file, cert_file and key_file in a cluster file)."
        )
    client = _connected(profile)
    try:
        if not await_workers(client, 1, profile.start_wait_min):
            raise ClusterError(
                f"the scheduler at {profile.address} has had no worker for {profile.start_wait_min:g} minutes. Start "
                "some (dask worker ADDRESS), or wait longer (start_wait_min)."
            )
        yield client
    finally:
        if client.status == "running":
            client.close()
        else:  # the scheduler is gone: at once, and without the tracebacks of Dask
            log = logging.getLogger("distributed.client")  # its level is independent of that of "distributed"
            level = log.level
            log.setLevel(logging.CRITICAL + 1)
            try:
                with suppress(TimeoutError, AssertionError):  # its threads end with the process
                    client.close(timeout=DISCONNECT_S)
            finally:
                log.setLevel(level)


def _connected(profile: Existing) -> Any:
    if profile.ca_file is None or profile.cert_file is None or profile.key_file is None:
        security = Security()  # certificates in the settings of Dask, if there are any
    else:
        files = profile.ca_file, profile.cert_file, profile.key_file
        keys.refuse_unusable(*files)
        security = keys.security(*files)

    async def try_connection() -> None:
        """Connect once and disconnect: a client that fails to connect would leave threads behind."""
        comm = await connect(profile.address, timeout=CONNECT_S, **security.get_connection_args("client"))
        await comm.close()

    try:
        with ThreadPoolExecutor(1) as thread:  # a caller may have an event loop of its own
            thread.submit(lambda: asyncio.run(try_connection())).result()
        return Client(profile.address, security=security, timeout=f"{CONNECT_S}s")
    except TypeError as error:  # raised by Dask without certificates
        raise ClusterError(
            f"{profile.address} needs TLS, and there are no certificates: set ca_file, cert_file and key_file in a "
            "cluster file of kind = 'existing'."
        ) from error
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {profile.address}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Why the connection failed, and what to do about it."""
    cause: BaseException | None = error
    said = ""
    while cause is not None:
        said += f" {cause}"
        cause = cause.__cause__ or cause.__context__
    if "expired" in said:
        return "a certificate has expired. Request new ones from the administrator of the scheduler."
    if "certificate" in said.lower() or "CERTIFICATE" in said:
        return (
            "the certificates do not belong together. Are ca_file, cert_file and key_file those of this very scheduler?"
        )
    if "handshake" in said.lower() or "SSL" in said or "WRONG_VERSION" in said:
        return "one side uses TLS and the other does not. Is it tls:// on both, or tcp:// on both?"
    return f"{str(error) or type(error).__name__}. Is it running, and reachable from here?"


def _leaves_machine(address: str) -> bool:
    """Whether an address is on another machine; one that cannot be parsed counts as such."""
    host = urlsplit(address).hostname or ""
    if address.startswith("inproc://") or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
