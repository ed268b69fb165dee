"""A server of objects on loopback, and addresses in a bucket of it."""

import pytest

from tests.storage.buckets import environment, forget_storages, storage
from tests.storage.object_server import ObjectServer


@pytest.fixture(scope="session")
def object_server():
    """Host and port of a server of objects."""
    pytest.importorskip("moto.server", reason="the server of these tests is moto: pip install 'moto[server]'")
    with ObjectServer() as address:
        yield address


@pytest.fixture
def credentials(monkeypatch, tmp_path):
    """Those of the tests, and none that this machine may have."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)


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
