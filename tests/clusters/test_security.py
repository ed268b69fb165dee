"""Who is let in, who is not, and what can be reached from outside."""

import datetime
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from distributed import LocalCluster, Security
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.clusters import client_for, keys, local
from dlcca.errors import ClusterError
from tests.clusters import stranger


def made(folder, **options):
    """New keys in a new folder, as a cluster file would name them."""
    folder.mkdir()
    authority, certificate, key = keys.write_keys(folder, **options)
    return {"ca_file": authority, "cert_file": certificate, "key_file": key}


def cluster_file(path, address, files):
    said = "".join(f'{name} = "{file}"\n' for name, file in files.items())
    path.write_text(f'kind = "existing"\naddress = "{address}"\nstart_wait_min = 0.05\n{said}')
    return str(path)


def test_keys_are_in_a_folder_of_ours_alone_and_gone_after_the_run(tmp_path):
    with keys.keys_of_run(tmp_path / "shared") as security:
        (folder,) = (tmp_path / "shared").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
        assert security.require_encryption
        assert {Path(security.tls_ca_file).parent, Path(security.tls_worker_key).parent} == {folder}
    assert list((tmp_path / "shared").iterdir()) == []


def test_keys_go_also_when_the_run_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), keys.keys_of_run(tmp_path):
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == []


def test_keys_that_a_killed_run_left_are_removed_by_the_next_and_those_of_others_stay(tmp_path):
    over = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    host = socket.gethostname()
    dead = tmp_path / f"keys-{host}-{int(over.stdout)}-x"
    alive = tmp_path / f"keys-{host}-{os.getppid()}-x"
    elsewhere = tmp_path / f"keys-other-{host}-{int(over.stdout)}-x"
    for folder in (dead, alive, elsewhere):
        folder.mkdir()
    keys.remove_orphans(tmp_path, keys.PREFIX)
    assert sorted(tmp_path.iterdir()) == sorted([alive, elsewhere])


def test_the_key_of_the_authority_is_never_written(tmp_path):
    files = made(tmp_path / "a")
    authority = x509.load_pem_x509_certificate(files["ca_file"].read_bytes())
    certificate = x509.load_pem_x509_certificate(files["cert_file"].read_bytes())
    certificate.verify_directly_issued_by(authority)
    assert sorted(f.name for f in (tmp_path / "a").iterdir()) == ["authority.pem", "certificate.pem", "key.pem"]
    assert authority.public_key() != certificate.public_key()
    assert certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=91)


@pytest.fixture(scope="module")
def tls_cluster(tmp_path_factory):
    """A scheduler that speaks TLS, with one worker, and the files of its keys."""
    files = made(tmp_path_factory.mktemp("tls") / "keys")
    roles = {
        f"tls_{role}_{part}": str(files[f"{part}_file"])
        for role in ("scheduler", "worker", "client")
        for part in ("cert", "key")
    }
    security = Security(tls_ca_file=str(files["ca_file"]), require_encryption=True, **roles)
    with LocalCluster(
        n_workers=1, processes=False, protocol="tls://", security=security, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster, files


@pytest.mark.cluster
def test_who_has_the_keys_is_let_in(tls_cluster, tmp_path):
    cluster, files = tls_cluster
    with client_for(cluster_file(tmp_path / "c.toml", cluster.scheduler_address, files)) as client:
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3


@pytest.mark.cluster
def test_who_has_keys_of_another_authority_is_refused(tls_cluster, tmp_path):
    cluster, _ = tls_cluster
    file = cluster_file(tmp_path / "c.toml", cluster.scheduler_address, made(tmp_path / "others"))
    with pytest.raises(ClusterError, match="the certificates do not belong together"), client_for(file):
        pass


@pytest.mark.cluster
def test_who_has_no_keys_is_refused(tls_cluster):
    cluster, _ = tls_cluster
    with pytest.raises(ClusterError, match="there are no certificates"), client_for(cluster.scheduler_address):
        pass


@pytest.mark.cluster
def test_who_does_not_encrypt_is_refused_by_the_scheduler(tls_cluster):
    cluster, _ = tls_cluster
    plain = cluster.scheduler_address.replace("tls://", "tcp://")
    with pytest.raises(ClusterError, match="no Dask scheduler answers at tcp://"), client_for(plain):
        pass


def test_an_expired_certificate_is_told_by_its_date(tmp_path):
    file = cluster_file(tmp_path / "c.toml", "tls://127.0.0.1:9", made(tmp_path / "old", valid_days=-3))
    done = CliRunner().invoke(app, ["cluster", "check", file])
    assert done.exit_code == 4
    assert f"{tmp_path / 'old' / 'authority.pem'} expired on 20" in done.output


def test_certificates_that_are_none_or_not_there_are_refused(tmp_path):
    files = made(tmp_path / "a")
    files["cert_file"].write_text("nonsense")
    with pytest.raises(ClusterError, match=r"certificate\.pem is not a certificate"):
        keys.refuse_unusable(*files.values())
    files["key_file"].unlink()
    with pytest.raises(ClusterError, match=r"key\.pem cannot be read"):
        keys.refuse_unusable(*files.values())


@pytest.mark.parametrize("verb", ["run", "cluster check"])
def test_an_address_at_which_nobody_answers_ends_with_exit_code_4(verb, pendulums, monkeypatch):
    monkeypatch.setattr(local, "CONNECT_S", 1)
    arguments = ["run", str(pendulums / "run.toml"), "--cluster"] if verb == "run" else ["cluster", "check"]
    done = CliRunner().invoke(app, [*arguments, "tcp://127.0.0.1:9"])
    assert done.exit_code == 4
    assert done.stderr.strip().count("\n") == 0
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in done.output
    assert "Is it running, and reachable from here?" in done.output


@pytest.mark.cluster
def test_a_scheduler_without_workers_is_given_up(tmp_path):
    with LocalCluster(
        n_workers=0, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        file = cluster_file(tmp_path / "c.toml", cluster.scheduler_address, {})
        with pytest.raises(ClusterError, match=r"has had no worker for 0\.05 minutes"), client_for(file):
            pass


def listening() -> set[tuple[str, int, int]]:
    """Addresses and ports on which this process and all that it has started listen, with the process."""
    ours = psutil.Process()
    return {
        (*connection.laddr, process.pid)
        for process in [ours, *ours.children(recursive=True)]
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


@pytest.mark.cluster
@pytest.mark.slow
def test_a_local_cluster_listens_on_loopback_only():
    before = listening()  # a queue that other tests have started may still be up
    with client_for(None, workers=2) as client:
        found = listening() - before
        assert {pid for *_, pid in found} >= {os.getpid(), *client.run(os.getpid).values()}  # scheduler and workers
        assert {address for address, *_ in found} == {"127.0.0.1"}


@pytest.fixture
def open_temporary(monkeypatch):
    """A temporary folder like /tmp: everybody can write there, and another user has been there first."""
    with tempfile.TemporaryDirectory(prefix="dlcca-test-") as folder:
        os.chmod(folder, 0o1777)
        planted = Path(folder) / "dask-scratch-space"  # the name that Dask would use
        planted.mkdir()
        os.chmod(planted, 0o777)
        os.chown(planted, stranger.UID, stranger.UID)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


@pytest.mark.cluster
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_does_not_get_into_a_local_cluster(open_temporary, tmp_path):
    before = listening()
    with client_for(None, workers=2) as client:
        found = listening() - before
        pids = sorted({pid for *_, pid in found})
        assert set(pids) >= {os.getpid(), *client.run(os.getpid).values()}  # scheduler and nannies, workers
        ports = sorted({port for _, port, _ in found})
        assert len(ports) >= 5  # scheduler, two nannies, two workers
        others = {name: str(file) for name, file in made(tmp_path / "others").items()}
        achieved = stranger.tried(ports, pids, str(open_temporary), others)
        assert achieved == {what: [] for what in achieved}
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3  # and it works on
        places = client.run(lambda dask_worker: dask_worker.local_directory).values()
        assert all(Path(place).is_relative_to(open_temporary) for place in places)
        assert list((open_temporary / "dask-scratch-space").iterdir()) == []
    assert [path.name for path in open_temporary.iterdir()] == ["dask-scratch-space"]


def test_a_local_cluster_is_started_in_one_place_only():
    package = Path(local.__file__).parents[1]
    naming = {path.name for path in package.rglob("*.py") if "LocalCluster" in path.read_text(encoding="utf-8")}
    assert naming == {"local.py"}
