"""Scheduler, workers and client on hosts of their own, with TLS between them; and the cable of one is pulled."""

import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from dlcca.clusters import dask_config, keys
from dlcca.clusters.profile import Existing
from tests.clusters.hosts import missing, network
from tests.faults.chaos import RUN, embedding, records, undisturbed
from tests.faults.processes import Family

pytestmark = [pytest.mark.cluster, pytest.mark.faults, pytest.mark.slow]

#: What a run may take longer when a worker's host is gone: the time until it counts as lost, and its work again.
ALLOWED_S = 60
#: After so long the client gives up its scheduler; scheduler and workers wait for as long as they usually do.
CLIENT_TIMEOUT_S = 12
#: Long enough for any of these runs on a busy machine.
PATIENCE_S = 300
SCHEDULER, CLIENT, WORKERS = "scheduler", "client", ("worker1", "worker2")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture(scope="module")
def site(tmp_path_factory, reference):
    """A scheduler and two workers on hosts of their own, a host for the client, and the files that it needs."""
    if why := missing():
        pytest.skip(why)
    with network(SCHEDULER, CLIENT, *WORKERS) as hosts:
        site = Site(tmp_path_factory.mktemp("site"), hosts, reference)
        try:
            site.start()
            yield site
        finally:
            site.family.end()


class Site:
    """A cluster that somebody has started, with the settings that `docs/how-to/clusters.md` asks for."""

    def __init__(self, folder, hosts, reference):
        self.folder, self.hosts = folder, hosts
        self.address = f"tls://{hosts.addresses[SCHEDULER]}:8786"
        (folder / "keys").mkdir(mode=0o700)
        self.keys = keys.write_keys(folder / "keys")
        self.profile = Existing(kind="existing", address=self.address)
        self.family = Family(folder, dask_config.environment(self.profile))
        (folder / "run.toml").write_text(RUN.format(views=reference.views))
        files = zip(("ca_file", "cert_file", "key_file"), self.keys, strict=True)
        said = "".join(f'{name} = "{file}"\n' for name, file in files)
        head = f'kind = "existing"\naddress = "{self.address}"\ntcp_timeout_s = {CLIENT_TIMEOUT_S}\n'
        (folder / "cluster.toml").write_text(head + said)

    def start(self):
        here = ("--protocol", "tls", "--port", "8786", "--no-dashboard")
        self._started(SCHEDULER, "dask_scheduler", *here)
        for host in WORKERS:
            self._started(host, "dask_worker", self.address, "--nthreads", "1", "--no-dashboard")

    def _started(self, host, program, *options):
        tls = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), self.keys, strict=True)
        secured = [text for option, file in tls for text in (option, str(file))]
        command = (sys.executable, "-m", f"distributed.cli.{program}", *options, *secured)
        address = ("--host", self.hosts.addresses[host])
        return self.family.start(*self.hosts.command(host, *command, *address), log=f"{host}.log")

    def run(self):
        """The command, on the host of the client."""
        command = (sys.executable, "-m", "dlcca", "run", "run.toml", "--quiet", "--cluster", "cluster.toml")
        return self.family.start(*self.hosts.command(CLIENT, *command), log="run.log")

    def said(self):
        return "".join(f"{log.name}: {log.read_text(errors='replace')[-3000:]}\n" for log in self.folder.glob("*.log"))

    def finished(self, run):
        """Exit code and seconds of a run."""
        began = time.monotonic()
        try:
            return run.wait(timeout=PATIENCE_S), time.monotonic() - began
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end in {PATIENCE_S} s\n{self.said()}") from None

    def await_blocks(self, stage, count, run):
        """Wait until a stage has so many finished blocks."""
        done = self.folder / "run.zarr" / "stages" / stage / "done"
        end = time.monotonic() + PATIENCE_S
        while len(list(done.glob("[0-9]*.json"))) < count:
            assert run.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.005)

    def begin_anew(self):
        """Room for another run by the same workers."""
        shutil.rmtree(self.folder / "run.zarr", ignore_errors=True)

    def is_like(self, reference):
        np.testing.assert_allclose(embedding(self.folder), reference.embedding, rtol=0, atol=1e-8)


def test_a_client_whose_cable_is_pulled_stops_with_exit_code_4_and_the_next_run_goes_on(site, reference):
    site.begin_anew()
    run = site.run()
    site.await_blocks("near", 3, run)
    site.hosts.cut(CLIENT)
    code, _ = site.finished(run)
    site.hosts.mend(CLIENT)
    assert code == 4, site.said()
    assert "the connection to the scheduler was lost" in (site.folder / "run.log").read_text()
    before = records(site.folder / "run.zarr")
    assert 0 < len(before) < sum(reference.blocks.values())
    code, _ = site.finished(site.run())
    assert code == 0, site.said()
    after = records(site.folder / "run.zarr")
    assert {name: after[name] for name in before} == before
    site.is_like(reference)


def test_a_worker_whose_cable_is_pulled_costs_less_than_a_minute_and_no_result(site, reference):
    site.begin_anew()
    code, healthy_s = site.finished(site.run())
    assert code == 0, site.said()
    site.begin_anew()
    run, began = site.run(), time.monotonic()
    site.await_blocks("near", 3, run)
    site.hosts.cut(WORKERS[1])
    code, _ = site.finished(run)
    took_s = time.monotonic() - began
    assert code == 0, site.said()
    site.is_like(reference)
    lost = f"Remove worker addr: tls://{site.hosts.addresses[WORKERS[1]]}"
    assert lost in (site.folder / f"{SCHEDULER}.log").read_text(), site.said()  # it was needed, and given up
    assert took_s < healthy_s + ALLOWED_S, f"{took_s:.1f} s, {healthy_s:.1f} s when healthy\n{site.said()}"
