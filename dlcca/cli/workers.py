"""Whether a verb has workers."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dlcca.cli.console import Voice

#: So few blocks are done before a cluster would have started.
FEW_BLOCKS = 8


def client_if_worthwhile(
    voice: Voice, cluster: str | None, workers: int | None, blocks: int | None, memory_gib: float | None = None
) -> AbstractContextManager[Any]:
    """A Dask client; or None, for work of so few blocks, or by one worker, that this process does it itself.

    ``blocks`` is None where there are surely many.
    """
    if cluster is None and (workers == 1 or (blocks is not None and blocks <= FEW_BLOCKS)):
        return nullcontext()
    from dlcca.clusters import client_for

    return client_for(cluster, workers, memory_gib, voice.warn)
