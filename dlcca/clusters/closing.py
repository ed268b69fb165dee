"""The end of a cluster of jobs, whatever is left of it.

Jobs leave, are cancelled and are replaced at moments of their own, also while all is being closed. What goes wrong then
must not take the place of what the run has found, nor of the error that ended it: it is said, and no job stays behind.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dlcca.clusters.messages import Say

#: For the scheduler to take leave of its workers, and the queue of its jobs.
CLOSE_S = 60.0
#: For the queue to cancel jobs when it is asked directly.
CANCEL_S = 30.0
#: Whatever Dask raises at the end: the work is done by then, or has failed already.
FAULTS = (Exception, asyncio.CancelledError)


@contextmanager
def client(made: Any, say: Say) -> Iterator[Any]:
    """A client of Dask, closed with the block."""
    try:
        yield made
    finally:
        try:
            made.close(timeout=CLOSE_S)
        except FAULTS as error:
            say(f"the connection to the scheduler did not end in order ({_told(error)}).")


@contextmanager
def cluster(made: Any, say: Say) -> Iterator[Any]:
    """A cluster of dask-jobqueue, closed with the block; its jobs are cancelled even if it cannot be."""
    try:
        yield made
    finally:
        jobs = [job for job in made.workers.values() if getattr(job, "job_id", None)]
        try:
            made.close(timeout=CLOSE_S)
        except FAULTS as error:
            say(f"the workers did not end in order ({_told(error)}).{_cancelled(jobs)}")
            with suppress(Exception):  # the thread that Dask would have ended
                made._loop_runner.stop()
        else:
            left = [job for job in jobs if job.left_behind is not None]
            if left:
                say(f"jobs could not be cancelled ({left[0].left_behind}).{_cancelled(left)}")


def _cancelled(jobs: list[Any]) -> str:
    """Have the queue cancel jobs, past Dask; what to do about those that it does not, in words."""
    if not jobs:
        return ""
    command = [*shlex.split(jobs[0].cancel_command), *(str(job.job_id) for job in jobs)]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=CANCEL_S, check=False)
        done = asked.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        done = False
    return " They are cancelled." if done else f" They end by themselves soon; to see to it now: {shlex.join(command)}"


def _told(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":. ")
