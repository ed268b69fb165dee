"""Where a Dask client comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dlcca.errors import ClusterError


@contextmanager
def client_for(address: str | None, workers: int | None, memory_gib: float | None) -> Iterator[Any]:
    """A client of the scheduler at an address, or of a local cluster that ends with the block."""
    if address is None:
        from dlcca.clients.local import local_client

        with local_client(workers, None if memory_gib is None else int(memory_gib * 2**30)) as client:
            yield client
        return
    from distributed import Client

    try:
        client = Client(address, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {address}: {error}. Is it running, and reachable?") from error
    with client:
        yield client
