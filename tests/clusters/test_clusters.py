"""What clients do besides connecting: tell of errors in words, keep to what a profile says, end on SIGTERM."""

import logging
import os
import signal
import subprocess
import sys
from asyncio import CancelledError
from types import SimpleNamespace

import dask
import pytest
from distributed import KilledWorker
from distributed.client import FutureCancelledError
from distributed.comm.core import CommClosedError

from dlcca import clusters
from dlcca.clusters import dask_config
from dlcca.clusters.profile import of
from dlcca.errors import ClusterError, DataError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KilledWorker("metric-1", None, 10), "10 times allowed"),
        (CommClosedError("gone"), "the connection to the scheduler was lost (gone)"),
        (CancelledError(), "the connection to the scheduler was lost (CancelledError)"),
        (FutureCancelledError("scan-1", "lost", "Sorry."), "was lost (scan-1 cancelled for reason: lost)"),
    ],
    ids=["killed", "closed", "cancelled", "future"],
)
def test_what_dask_raises_when_workers_go_is_told_in_words(error, said):
    with pytest.raises(ClusterError) as told, clusters._as_cluster_error():
        raise error
    assert said in str(told.value)
    assert "What was finished is kept: run" in str(told.value)


def test_what_tasks_raise_stays_what_it_is():
    with pytest.raises(DataError, match="flat"), clusters._as_cluster_error():
        raise DataError("flat")


def test_sigterm_ends_a_block_so_that_what_it_opened_is_closed():
    before = signal.getsignal(signal.SIGTERM)
    closed = []

    def work():
        with clusters._ending_on_signals():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                signal.pause()
            finally:
                closed.append(True)

    with pytest.raises(ClusterError, match="ended by SIGTERM"):
        work()
    assert closed
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("kind", "command"), [("pbs", "qsub"), ("htcondor", "condor_submit")])
def test_a_machine_without_the_queue_is_told_so(kind, command, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=f"there is no {command} on this machine"):
        clusters.client_of(of({"kind": kind, "workers": 1, "shared": str(tmp_path)})).__enter__()


def test_the_settings_of_dask_follow_the_profile_and_go_with_it():
    slurm = of({"kind": "slurm", "workers": 1, "tcp_timeout_s": 45})
    assert dask_config.configuration(slurm)["distributed.comm.timeouts.tcp"] == "45s"
    assert dask_config.environment(slurm)["DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP"] == "45s"
    before = dask.config.get("distributed.comm.timeouts.tcp")
    with dask.config.set(dask_config.configuration(slurm)):
        assert dask.config.get("distributed.comm.timeouts.tcp") == "45s"
    assert dask.config.get("distributed.comm.timeouts.tcp") == before


def test_in_a_fresh_process_the_settings_of_dask_are_left_whole():
    code = (
        "from dlcca import clusters\n"
        "from dlcca.clusters.profile import of\n"
        "from dlcca.errors import ClusterError\n"
        "nowhere = of({'kind': 'existing', 'address': 'nonsense://127.0.0.1:9'})\n"
        "try: clusters.client_of(nowhere).__enter__()\n"
        "except ClusterError: pass\n"
        "import dask, distributed\n"
        "assert 'ciphers' in dask.config.get('distributed.comm.tls')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.cluster
@pytest.mark.slow
def test_workers_of_a_local_profile_have_its_memory_its_folder_and_one_thread_of_arithmetic(tmp_path):
    profile = of({"kind": "local", "workers": 1, "memory_gib": 0.5, "scratch": str(tmp_path), "tcp_timeout_s": 20})
    with clusters.client_of(profile) as client:
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["memory_limit"] == 2**29
        assert worker["nthreads"] == 1
        assert worker["local_directory"].startswith(str(tmp_path))
        assert set(client.run(os.environ.get, "OMP_NUM_THREADS").values()) == {"1"}


def test_the_dashboard_is_told_only_when_it_is_asked_for(monkeypatch):
    said = []
    client = SimpleNamespace(dashboard_link="http://127.0.0.1:4242/status")
    dask_config.say_dashboard(client, False, said.append)
    assert said == []
    monkeypatch.setattr(dask_config, "find_spec", lambda name: object())
    dask_config.say_dashboard(client, True, said.append)
    assert "ssh -N -L 4242:127.0.0.1:4242" in said[0]
    monkeypatch.setattr(dask_config, "find_spec", lambda name: None)
    dask_config.say_dashboard(client, True, said.append)
    assert "pip install bokeh" in said[1]


def test_what_nobody_asked_to_be_told_goes_to_the_log(caplog):
    from dlcca.clusters.dask_config import to_log

    with caplog.at_level(logging.INFO, logger="dlcca.clusters"):
        to_log("job 3 is gone")
    assert caplog.messages == ["job 3 is gone"]
