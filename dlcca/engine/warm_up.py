"""A plugin by which workers compile pynndescent when they start: a minute or more, which a task should not take."""

import asyncio
from typing import Any

from distributed import WorkerPlugin

from dlcca.numerics.neighbors import compile_pynndescent


class CompilesPynndescent(WorkerPlugin):
    """Registered through the client, and only where pynndescent is chosen."""

    name = "dlcca-compiles-pynndescent"
    idempotent = True

    async def setup(self, worker: Any) -> None:
        # In a thread: the worker goes on to answer its scheduler, which would take it for dead.
        await asyncio.to_thread(compile_pynndescent)
