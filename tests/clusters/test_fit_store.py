"""`LocalCCA(client=...)` on workers that do not see the files of this machine."""

import importlib.util
import subprocess
import tempfile

import dask.array as da
import numpy as np
import pytest
import zarr

from dlcca import LocalCCA
from dlcca.clusters import check
from dlcca.errors import ClusterError, StorageError
from tests.clusters.test_check import one_worker
from tests.fitting.jobs import KNN, recordings, written
from tests.storage.buckets import environment
from tests.storage.conftest import bucket, credentials, object_server  # noqa: F401  fixtures
from tests.support import repeats

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")]


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """The temporary folder of this process, which workers elsewhere do not see; it holds two views in Zarr."""
    folder = tmp_path_factory.mktemp("hidden")
    written(folder, recordings(2), 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(check, "TRIES", 1)
        yield folder


@pytest.fixture(scope="module")
def elsewhere(hidden, tmp_path_factory, request):
    """A client whose worker is on another machine: a mount namespace in which the temporary folder is another one. The
    worker has what it needs for the buckets of the tests."""
    folder, known = tmp_path_factory.mktemp("worker"), {}
    if importlib.util.find_spec("moto"):
        host, port = request.getfixturevalue("object_server")
        known = {**environment(folder), "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    before = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden)]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here: not root, or not Linux")
    with one_worker(folder, before, **known) as client:
        yield client


def given(kind, folder):
    if kind == "dask":
        return [da.from_array(X, chunks=(40, -1)) for X in recordings(2)]
    if kind == "zarr in memory":
        return [zarr.array(X) for X in recordings(2)]
    return [zarr.open_array(str(folder / f"view{v}.zarr"), mode="r") for v in (1, 2)]


@pytest.fixture(scope="module")
def expected():
    return LocalCCA(**KNN, random_state=0).fit(recordings(2)).embedding_


@pytest.mark.parametrize("kind", ["dask", "zarr"])
def test_a_fit_on_workers_that_do_not_see_the_temporary_folder_is_refused_with_advice(elsewhere, hidden, kind):
    before = sorted(hidden.iterdir())
    with pytest.raises(ClusterError) as refused:
        LocalCCA(**KNN, client=elsewhere).fit(given(kind, hidden))
    assert "does not see" in str(refused.value)
    assert "Give LocalCCA(store=...) a folder on a file system that this machine and all workers share, or" in str(
        refused.value
    )
    assert sorted(hidden.iterdir()) == before


def test_dask_arrays_are_not_computed_on_such_workers_without_being_asked(elsewhere, hidden):
    """A client that is open is what Dask computes with, whether LocalCCA is given it or not."""
    with pytest.raises(ClusterError, match=r"Give LocalCCA\(store=\.\.\.\)"):
        LocalCCA(**KNN).fit(given("dask", hidden))


@pytest.mark.parametrize("kind", repeats.first(2, ["dask", "zarr", "zarr in memory"]))
def test_with_a_shared_folder_as_store_it_is_the_fit_of_one_machine(elsewhere, hidden, tmp_path, expected, kind):
    model = LocalCCA(**KNN, random_state=0, client=elsewhere, store=tmp_path / "shared").fit(given(kind, hidden))
    np.testing.assert_allclose(model.embedding_.compute(), expected, atol=1e-8, rtol=0)


def test_with_a_bucket_as_store_it_is_the_fit_of_one_machine(elsewhere, bucket, hidden, expected):  # noqa: F811
    for kind in ("dask", "zarr"):
        store = f"{bucket}/{kind}"
        model = LocalCCA(**KNN, random_state=0, client=elsewhere, store=store).fit(given(kind, hidden))
        np.testing.assert_allclose(model.embedding_.compute(), expected, atol=1e-8, rtol=0)


def test_a_store_that_workers_do_not_see_is_refused(elsewhere, hidden):
    with pytest.raises(ClusterError, match="Choose another store: a folder on a file system"):
        LocalCCA(**KNN, client=elsewhere, store=hidden / "fit").fit(given("dask", hidden))
    assert not (hidden / "fit").exists()


def test_a_refit_on_such_workers_works_in_the_store(elsewhere, hidden, tmp_path):
    whole = recordings(2, n=240)
    old, new = ([da.from_array(X[part], chunks=(40, -1)) for X in whole] for part in (slice(150), slice(150, None)))
    model = LocalCCA(**KNN, random_state=0, client=elsewhere, store=tmp_path / "shared").fit(old)
    again = model.refit(new, old)
    views = [[X[part] for X in whole] for part in (slice(150), slice(150, None))]
    here = LocalCCA(**KNN, random_state=0).fit(views[0]).refit(views[1], views[0])
    np.testing.assert_allclose(again.embedding_.compute(), here.embedding_, atol=1e-8, rtol=0)


def test_zarr_arrays_that_a_worker_does_not_see_are_not_read_as_zeros(elsewhere, hidden):
    """Zarr takes chunks that are not there for zeros, and a worker elsewhere sees none of them."""
    model = LocalCCA(**KNN, random_state=0).fit(recordings(2))
    for method in (model.transform, model.distance):
        with pytest.raises(StorageError, match="no Zarr array can be opened at"):
            method(given("zarr", hidden)).compute()
