"""Worker processes of Dask as forks of one process that has imported what they need, as Dask's own tests have them.

A worker takes most of its first two seconds for imports; a fork has them. Tests that need workers from a new
interpreter start a process of their own (`python -m dlcca`), in which nothing of this module is at work.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest import mock

#: Imported once. Modules that start threads when they are imported must not be among them.
PRELOAD = ["distributed.nanny", "distributed.deploy.local", "scipy.linalg", "scipy.spatial", "zarr"]
PRELOAD += ["dlcca.fitting.pipeline", "dlcca.fitting.runner", "dlcca.recordings.ingest_job", "pytest"]
PRELOAD += ["tests.support.no_fsync"]


class Changed(dict[str, str]):
    """Variables of the environment that a test has set: forks have those that the server was started with."""

    def __init__(self) -> None:
        super().__init__()
        self.at_start = dict(os.environ)

    def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
        _start()
        return ((name, value) for name, value in os.environ.items() if self.at_start.get(name) != value)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return dict, ()  # workers are sent the settings of Dask, and start no others


def use() -> None:
    """Have workers of this process forked; the server starts with the first of them."""
    import dask

    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver", "distributed.nanny.environ": CHANGED})


def process(target: Callable[..., object], *args: object) -> BaseProcess:
    """A process of its own for a function of a module, with the modules that were imported once."""
    _start()
    return multiprocessing.get_context("forkserver").Process(target=target, args=args)


def not_used() -> Any:
    """A context in which workers are new interpreters: for variables that a package reads when it is imported."""
    import dask

    return dask.config.set({"distributed.worker.multiprocessing-method": "spawn", "distributed.nanny.environ": {}})


CHANGED = Changed()


@functools.cache
def _start() -> None:
    """With the environment that this process began with, whatever the test has done to it."""
    import distributed.utils

    from dlcca.clusters.dask_config import MALLOC, ONE_THREAD

    distributed.utils._forkserver_preload_set = True  # Dask would preload every package that it knows
    forkserver.set_forkserver_preload(PRELOAD)
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [CHANGED.at_start.get("PYTHONPATH")])])
    with mock.patch.dict(os.environ, {**CHANGED.at_start, **ONE_THREAD, **MALLOC, "PYTHONPATH": path}, clear=True):
        forkserver.ensure_running()
