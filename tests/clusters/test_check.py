"""`dlcca cluster check` on clusters with something wrong."""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest
from distributed import Client, LocalCluster
from typer.testing import CliRunner

from dlcca import __version__
from dlcca.cli import app
from dlcca.clusters import check
from dlcca.errors import ClusterError

pytestmark = pytest.mark.cluster

#: In threads of this process, reached by the network all the same.
HERE = {"processes": False, "protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def client():
    with LocalCluster(n_workers=1, **HERE) as cluster, Client(cluster) as made:
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
    assert check.version_differences(client) == []
    check.refuse_other_versions(client)


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
        check.refuse_other_versions(others)
    assert said in str(refused.value)
    assert "Install the same versions" in str(refused.value)


def test_a_patch_of_numpy_is_no_difference(client):
    (found,) = client.get_versions()["workers"].values()
    major, minor, *_ = found["packages"]["numpy"].split(".")
    assert check.version_differences(SaysAnotherVersion(client, numpy=f"{major}.{minor}.99")) == []
    assert check.version_differences(SaysAnotherVersion(client, numpy="1.0.0")) != []


def test_a_check_of_the_store_leaves_nothing_in_it(client, tmp_path):
    assert check.access_problems(client, str(tmp_path / "new.zarr")) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.zarr").mkdir()
    assert check.access_problems(client, str(tmp_path / "old.zarr")) == []
    assert list((tmp_path / "old.zarr").iterdir()) == []


def test_a_store_that_cannot_be_written_is_told_with_exit_code_4(client, tmp_path):
    (tmp_path / "file").write_text("")
    address = client.scheduler.address
    done = CliRunner().invoke(app, ["cluster", "check", address, "--store", str(tmp_path / "file" / "run.zarr")])
    assert done.exit_code == 4
    assert "cannot be written" in done.output


WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]


@contextmanager
def one_worker(folder, before=(), **environment):
    """A client of a scheduler whose one worker is a process of its own, started by a command of ours."""
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(n_workers=0, **HERE))
        client = stack.enter_context(Client(cluster))
        command = [*before, *WORKER, "--local-directory", str(folder), cluster.scheduler_address]
        settings = {**os.environ, **environment}
        worker = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL, env=settings, cwd=folder))
        stack.callback(worker.terminate)
        client.wait_for_workers(1, timeout=60)
        yield client


def another_dlcca(folder):
    """A folder with a package of our name in which nothing is as here."""
    (folder / "dlcca").mkdir(parents=True)
    (folder / "dlcca" / "__init__.py").write_text("")
    return folder


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused_in_words(done):
    """What a refusal says: one paragraph, with exit code 4."""
    assert done.exit_code == 4, done.output
    said = done.stderr.strip()
    assert said.startswith("dlcca: ")
    assert "\n" not in said
    return said


@pytest.mark.slow
def test_a_run_on_workers_with_another_version_of_dlcca_is_refused(pendulums, tmp_path):
    old = another_dlcca(tmp_path / "old")
    (old / "dlcca-0.0.9.dist-info").mkdir()
    (old / "dlcca-0.0.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: dlcca\nVersion: 0.0.9\n")
    with one_worker(tmp_path, PYTHONPATH=str(old)) as client:
        address = client.scheduler.address
        said = refused_in_words(dlcca("run", pendulums / "run.toml", "--cluster", address))
        assert f"has dlcca 0.0.9, and here it is {__version__}" in said
        assert "Install the same versions for the workers" in said
        checked = dlcca("cluster", "check", address)
        assert checked.exit_code == 4
        assert "has dlcca 0.0.9" in checked.output


@pytest.mark.slow
def test_a_run_on_workers_with_another_dlcca_that_says_to_be_the_same_is_refused(pendulums, tmp_path):
    with one_worker(tmp_path, PYTHONPATH=str(another_dlcca(tmp_path / "old"))) as client:
        said = refused_in_words(dlcca("run", pendulums / "run.toml", "--cluster", client.scheduler.address))
        assert "has another dlcca than this machine" in said


@pytest.mark.slow
def test_a_run_on_workers_that_do_not_see_the_store_is_refused(pendulums):
    """The other machine is a mount namespace in which the folder is another one."""
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(pendulums)]
    if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here: not root, or not Linux")
    with one_worker(pendulums, hidden) as client:
        said = refused_in_words(dlcca("run", pendulums / "run.toml", "--cluster", client.scheduler.address))
        assert f"does not see {pendulums / 'run.zarr'}" in said
        assert "Put the store where all nodes see it, or use object storage" in said
