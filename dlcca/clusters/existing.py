"""A scheduler that is already there."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from dlcca.clusters import keys
from dlcca.clusters.messages import Say
from dlcca.clusters.profile import Existing
from dlcca.errors import ClusterError

#: Time to find the scheduler, at first and when the connection was lost.
CONNECT_S = 10
#: Time to close the connection to a scheduler that is gone.
HANG_UP_S = 2


@contextmanager
def existing_client(profile: Existing, say: Say) -> Iterator[Any]:
    """A client of the scheduler at an address; the scheduler stays when the block is over."""
    if not profile.address.startswith("tls://") and _leaves_machine(profile.address):
        say(
            f"{profile.address} is not encrypted: whoever is on that network can read the data and run code. Use a "
            "scheduler with TLS (tls://, with ca_file, cert_file and key_file in a cluster file)."
        )
    client = _connected(profile)
    try:
        _await_worker(client, profile)
        yield client
    finally:
        _close(client)


def _close(client: Any) -> None:
    """Hang up; from a scheduler that is gone at once, and without the tracebacks that Dask has for it."""
    if client.status == "running":
        client.close()
        return
    log = logging.getLogger("distributed.client")  # it has a level of its own, whatever that of "distributed" is
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        client.close(timeout=HANG_UP_S)
    except (TimeoutError, AssertionError):  # its threads end with the process
        pass
    finally:
        log.setLevel(level)


def _connected(profile: Existing) -> Any:
    from distributed import Client, Security

    security = _security(profile) or Security()
    try:
        _knock(profile.address, security)
        return Client(profile.address, security=security, timeout=f"{CONNECT_S}s")
    except TypeError as error:  # how Dask says that there are no certificates
        raise ClusterError(
            f"{profile.address} wants TLS, and there are no certificates: say ca_file, cert_file and key_file in a "
            "cluster file of kind = 'existing'."
        ) from error
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {profile.address}: {_told(error)}") from error


def _knock(address: str, security: Any) -> None:
    """Connect once and hang up: a client that fails to connect would leave threads behind."""
    from distributed.comm.core import connect

    async def hang_up() -> None:
        comm = await connect(address, timeout=CONNECT_S, **security.get_connection_args("client"))
        await comm.close()

    with ThreadPoolExecutor(1) as thread:  # a caller may have an event loop of its own
        thread.submit(lambda: asyncio.run(hang_up())).result()


def _security(profile: Existing) -> Any:
    """The certificates of the profile; None leaves it to the settings of Dask, if there are any."""
    if profile.ca_file is None or profile.cert_file is None or profile.key_file is None:
        return None
    from distributed import Security

    keys.refuse_unusable(profile.ca_file, profile.cert_file, profile.key_file)
    return Security(
        tls_ca_file=profile.ca_file,
        tls_client_cert=profile.cert_file,
        tls_client_key=profile.key_file,
        require_encryption=True,
    )


def _told(error: BaseException) -> str:
    """Why there was no connection, and what to do about it."""
    causes: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(str(cause))
        cause = cause.__cause__ or cause.__context__
    said = " ".join(causes)
    if "expired" in said:
        return "a certificate has expired. Ask whoever runs the scheduler for new ones."
    if "certificate" in said.lower() or "CERTIFICATE" in said:
        return (
            "the certificates do not belong together. Are ca_file, cert_file and key_file those of this very scheduler?"
        )
    if "handshake" in said.lower() or "SSL" in said or "WRONG_VERSION" in said:
        return "one side speaks TLS and the other does not. Is it tls:// on both, or tcp:// on both?"
    return f"{causes[0] or type(error).__name__}. Is it running, and reachable from here?"


def _await_worker(client: Any, profile: Existing) -> None:
    """Give a scheduler without workers the time that the profile grants it."""
    end = time.monotonic() + 60 * profile.start_wait_min
    while not client.nthreads():
        if time.monotonic() > end:
            raise ClusterError(
                f"the scheduler at {profile.address} has had no worker for {profile.start_wait_min:g} minutes. Start "
                "some (dask worker ADDRESS), or wait longer (start_wait_min)."
            )
        time.sleep(0.5)


def _leaves_machine(address: str) -> bool:
    """Whether an address is on another machine than this; one that is not understood is."""
    host = urlsplit(address).hostname or ""
    if address.startswith("inproc://") or host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True
