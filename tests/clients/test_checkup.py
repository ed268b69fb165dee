"""`dlcca cluster check` on clusters with something wrong."""

import subprocess
import sys
from contextlib import ExitStack

import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

from dlcca import checkup
from dlcca.cli import app
from dlcca.clients import versions
from dlcca.errors import ClusterError

pytestmark = pytest.mark.cluster

#: In threads of this process, reached by the network all the same.
HERE = {"processes": False, "protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        Client(cluster) as made,
    ):
        yield made


class SaysAnotherVersion:
    """A client whose workers say that they have other versions; all else is as it is."""

    def __init__(self, client, **others):
        self.client, self.others = client, others

    def get_versions(self, **options):
        found = self.client.get_versions(**options)
        for facts in found["workers"].values():
            facts["packages"].update(self.others)
        return found


def test_workers_with_our_versions_are_taken(client):
    assert versions.differences(client) == []
    versions.refuse_others(client)


@pytest.mark.parametrize(
    ("package", "number", "said"),
    [
        ("dlcca", "0.0.9", "has dlcca 0.0.9, and here it is"),
        ("dlcca", None, "has dlcca not at all"),
        ("distributed", "2020.1.0", "has distributed 2020.1.0"),
        ("python", "3.9.1.final.0", "has python 3.9.1"),
    ],
)
def test_workers_with_other_versions_are_refused(client, package, number, said):
    others = SaysAnotherVersion(client, **{package: number})
    with pytest.raises(ClusterError) as refused:
        versions.refuse_others(others)
    assert said in str(refused.value)
    assert "Install the same versions" in str(refused.value)


def test_a_patch_of_numpy_is_no_difference(client):
    (found,) = client.get_versions()["workers"].values()
    major, minor, *_ = found["packages"]["numpy"].split(".")
    assert versions.differences(SaysAnotherVersion(client, numpy=f"{major}.{minor}.99")) == []
    assert versions.differences(SaysAnotherVersion(client, numpy="1.0.0")) != []


def test_a_check_of_the_store_leaves_nothing_in_it(client, tmp_path):
    assert checkup.blind(client, str(tmp_path / "new.zarr")) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.zarr").mkdir()
    assert checkup.blind(client, str(tmp_path / "old.zarr")) == []
    assert list((tmp_path / "old.zarr").iterdir()) == []


def test_a_store_that_cannot_be_written_is_told_with_exit_code_4(client, tmp_path):
    (tmp_path / "file").write_text("")
    address = client.scheduler.address
    done = CliRunner().invoke(app, ["cluster", "check", address, "--store", str(tmp_path / "file" / "run.zarr")])
    assert done.exit_code == 4
    assert "cannot be written" in done.output


WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]


@pytest.mark.slow
def test_a_worker_on_a_machine_that_does_not_see_the_store_is_found(tmp_path):
    """The other machine is a mount namespace in which the folder is another one."""
    store = tmp_path / "shared"
    store.mkdir()
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(store)]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here: not root, or not Linux")
    with ExitStack() as stack:
        options = {
            "n_workers": 0,
            "processes": False,
            "protocol": "tcp://",
            "dashboard_address": "127.0.0.1:0",
            "host": "127.0.0.1",
        }
        cluster = stack.enter_context(LocalCluster(**options))
        client = stack.enter_context(Client(cluster))
        command = [*hidden, *WORKER, "--local-directory", str(tmp_path), cluster.scheduler_address]
        worker = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        stack.callback(worker.terminate)
        client.wait_for_workers(1, timeout=60)
        (told,) = checkup.blind(client, str(store / "run.zarr"))
        assert "does not see" in told
        with pytest.raises(ClusterError, match="Put the store where all nodes see it"):
            checkup.refuse_unfit(client, str(store / "run.zarr"))
