"""A server of objects on loopback, and addresses in a bucket of it."""

import logging

import pytest

from tests.storage.buckets import SECRET, forget_storages, storage


@pytest.fixture(scope="session")
def object_server():
    """Host and port of a server of objects."""
    server = pytest.importorskip("moto.server", reason="the server of these tests is moto: pip install 'moto[server]'")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for every request
    running_server = server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running_server.start()
    yield running_server.get_host_and_port()
    running_server.stop()


@pytest.fixture
def credentials(monkeypatch, tmp_path):
    """Those of the tests, and none that this machine may have."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.fixture
def bucket(object_server, credentials, monkeypatch, request):
    """An address in a bucket that no other test writes to."""
    host, port = object_server
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    forget_storages()
    fs = storage()
    if not fs.exists("recordings"):
        fs.mkdir("recordings")
    return f"s3://recordings/{abs(hash(request.node.nodeid))}"
