"""Dask in a run: settings for client and workers, dashboard, performance report, and messages to the user."""

import getpass
import logging
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dlcca.clusters.profile import Elastic, Profile
from dlcca.errors import SettingsError

#: Receives messages for the user of a run.
Say = Callable[[str], None]
#: The default: messages go to the log.
to_log: Say = logging.getLogger("dlcca.clusters").info


@contextmanager
def needs(package: str, extra: str, besides: str = "") -> Iterator[None]:
    """Turn a failed import into a message that names the extra with the package."""
    try:
        yield
    except ImportError as error:
        raise SettingsError(
            f"this kind of cluster needs {package}, which is not installed here ({error}): "
            f"pip install 'dlcca[{extra}]'{besides}"
        ) from error


#: A worker is one thread; more threads of BLAS would compete for its core.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
#: Dask returns memory to the system at once, so that every array needs new pages, which takes a quarter of a run on a
#: virtual machine. Arrays below 32 MiB, the most that glibc allows, come from memory that the worker keeps, of which at
#: most 64 MiB are unused; and pages are large ones, where the system has them on request. With an arena for each thread
#: a worker would keep as much several times.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_ARENA_MAX": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
#: Dask samples each worker a hundred times a second for its performance report. With many workers on few cores that
#: takes part of a core; ten times a second are enough.
PROFILE_INTERVAL = {"distributed.worker.profile.interval": "100ms"}
#: Times that a task may lose its worker before it fails. Jobs of a queue end for other reasons than their tasks.
ALLOWED_FAILURES = 10


def configuration(profile: Profile) -> dict[str, Any]:
    """For `dask.config.set`, while the cluster is up."""
    settings: dict[str, Any] = {"distributed.comm.timeouts.tcp": f"{profile.tcp_timeout_s:g}s"}
    if isinstance(profile, Elastic):
        settings["distributed.scheduler.allowed-failures"] = ALLOWED_FAILURES
        # Dask would drop a lost job and not replace it; the job monitor does both.
        settings["distributed.deploy.lost-worker-timeout"] = "30 days"
    return settings


def environment(profile: Profile) -> dict[str, str]:
    """Variables of the workers."""
    return {**ONE_THREAD, **MALLOC, "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": f"{profile.tcp_timeout_s:g}s"}


def await_workers(client: Any, count: int, wait_min: float) -> bool:
    """Wait for a number of workers; False if there are fewer after the time."""
    end = time.monotonic() + 60 * wait_min
    # `wait_for_workers` would overwrite what the cluster learns about its workers meanwhile.
    while len(client.nthreads()) < count:
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


#: Memory of the process that supervises a worker (nanny), which is requested besides that of the worker.
NANNY_GIB = 0.25
#: Any free port that only this machine can reach.
LOOPBACK = "127.0.0.1:0"


def say_dashboard(client: Any, shown: bool, say: Say) -> None:
    """Print how to reach the dashboard from another machine."""
    if not shown:
        return
    if find_spec("bokeh") is None:
        say("The dashboard cannot be shown: it needs bokeh (pip install bokeh).")
        return
    number = urlsplit(client.dashboard_link).port
    say(
        f"The dashboard is on this machine only. From yours: ssh -N -L {number}:127.0.0.1:{number} "
        f"{getpass.getuser()}@{socket.gethostname()}, then open http://127.0.0.1:{number}/status"
    )


LACKING = "Dask's performance report is not kept: it needs bokeh (pip install bokeh)"


@contextmanager
def reported(client: Any, keep: Callable[[bytes], None], say: Say) -> Iterator[None]:
    """Store Dask's performance report of the block; it opens no port, and its errors do not fail the run."""
    if find_spec("bokeh") is None:
        say(f"{LACKING}.")
        yield
        return
    from distributed import performance_report

    with tempfile.TemporaryDirectory(prefix="dlcca-report-") as folder, client.as_current():
        page = Path(folder) / "performance.html"
        report: Any = performance_report(filename=str(page))

        def succeeds(step: Callable[[], Any]) -> bool:
            try:
                step()
            except Exception as error:  # a scheduler elsewhere may lack bokeh, or be of another version
                say(f"Dask's performance report is not kept: {type(error).__name__}: {error}.")
                return False
            return True

        is_begun = succeeds(report.__enter__)
        yield  # a failed run has no report: its cluster may no longer answer
        if is_begun and succeeds(lambda: report.__exit__(None, None, None)):
            succeeds(lambda: keep(page.read_bytes()))
