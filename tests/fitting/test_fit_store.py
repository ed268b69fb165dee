"""The store of a fit in Python: kept for the user, resumed, and never mixed with another fit or with other files."""

import dask.array as da
import numpy as np
import pytest
import zarr
from sklearn.base import clone

from dlcca import LocalCCA, open_model
from dlcca.errors import SettingsError, StaleStage
from dlcca.storage import run as run_store
from tests.fitting.jobs import KNN, patch_stage, recordings, written

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")


@pytest.fixture
def lazy():
    return [da.from_array(X, chunks=(40, -1)) for X in recordings(2)]


@pytest.fixture
def here():
    """The fit without a store."""
    return LocalCCA(**KNN, random_state=0).fit(recordings(2))


def blocks(store):
    """When each finished block was marked as such."""
    return {file.relative_to(store): file.stat().st_mtime_ns for file in store.rglob("done/*.json")}


def test_a_fit_in_a_store_is_that_without_one_and_stays(lazy, here, tmp_path):
    model = LocalCCA(**KNN, random_state=0, store=tmp_path / "fit").fit(lazy)
    assert isinstance(model.embedding_, da.Array)
    np.testing.assert_allclose(model.embedding_.compute(), here.embedding_, atol=1e-8, rtol=0)
    embedding = model.embedding_
    del model
    np.testing.assert_allclose(embedding.compute(), here.embedding_, atol=1e-8, rtol=0)
    assert sorted(file.name for file in (tmp_path / "fit").iterdir()) == ["fit.json", "run.zarr", "views"]
    assert run_store.is_finished(tmp_path / "fit" / "run.zarr")
    again = open_model(tmp_path / "fit" / "run.zarr")
    np.testing.assert_allclose(again.embedding_.compute(), here.embedding_, atol=1e-8, rtol=0)


def test_zarr_arrays_on_disk_are_not_copied_into_the_store(here, tmp_path):
    written(tmp_path, recordings(2), 50)
    views = {f"view {v}": zarr.open_array(str(tmp_path / f"view{v}.zarr"), mode="r") for v in (1, 2)}
    model = LocalCCA(**KNN, random_state=0, store=str(tmp_path / "fit")).fit(views)
    np.testing.assert_allclose(model.embedding_.compute(), here.embedding_, atol=1e-8, rtol=0)
    assert not (tmp_path / "fit" / "views").exists()


@pytest.mark.parametrize("random_state", [0, None])
def test_a_second_fit_does_only_what_is_missing(lazy, tmp_path, monkeypatch, random_state):
    store = tmp_path / "fit"

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patch_stage(patched, "kernel", compute=dies)
        with pytest.raises(KeyboardInterrupt):
            LocalCCA(**KNN, random_state=random_state, store=store).fit(lazy)
    before = blocks(store)
    assert before
    first = LocalCCA(**KNN, random_state=random_state, store=store).fit(lazy)
    after = blocks(store)
    assert {file: after[file] for file in before} == before
    second = LocalCCA(**KNN, random_state=random_state, store=store).fit(lazy)
    assert blocks(store) == after
    np.testing.assert_array_equal(first.embedding_.compute(), second.embedding_.compute())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"landmarks": 40}, "landmarks=45 there, 40 now"),
        ({"landmarks": np.arange(0, 150, 5)}, "landmarks=45 there"),
        ({"random_state": 1}, "random_state=0 there, 1 now"),
    ],
)
def test_a_store_with_a_fit_of_other_parameters_is_refused_and_unchanged(lazy, tmp_path, changed, said):
    options = {**KNN, "random_state": 0, "store": tmp_path / "fit"}
    model = LocalCCA(**options).fit(lazy)
    before, E = blocks(tmp_path / "fit"), model.embedding_.compute()
    with pytest.raises(StaleStage, match=said) as refused:
        LocalCCA(**{**options, **changed}).fit(lazy)
    assert f"store={tmp_path / 'fit'} holds another fit" in str(refused.value)
    assert "Give another store, or remove this one" in str(refused.value)
    assert blocks(tmp_path / "fit") == before
    np.testing.assert_array_equal(model.embedding_.compute(), E)


def test_a_store_with_a_fit_of_other_views_is_refused(lazy, tmp_path):
    options = {**KNN, "random_state": 0, "store": tmp_path / "fit"}
    LocalCCA(**options).fit(lazy)
    with pytest.raises(StaleStage, match="other views"):
        LocalCCA(**options).fit([X + 1 for X in lazy])


def test_a_folder_with_other_files_is_refused_and_unchanged(lazy, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"holds something that is not a fit of LocalCCA \(thesis.txt\)"):
        LocalCCA(**KNN, store=tmp_path).fit(lazy)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_store_is_a_parameter_that_is_cloned_and_not_saved(lazy, tmp_path):
    model = LocalCCA(**KNN, random_state=0, store=tmp_path / "fit").fit(lazy)
    assert clone(model).get_params()["store"] == tmp_path / "fit"
    model.save(tmp_path / "model.zarr")
    opened = open_model(tmp_path / "model.zarr")
    assert opened.store is None
    np.testing.assert_allclose(opened.embedding_, model.embedding_.compute())


def test_arrays_in_memory_need_no_store(here, tmp_path):
    model = LocalCCA(**KNN, random_state=0, store=tmp_path / "fit").fit(recordings(2))
    np.testing.assert_array_equal(model.embedding_, here.embedding_)
    assert not (tmp_path / "fit").exists()


def test_a_refit_has_a_folder_of_its_own_in_the_store(tmp_path):
    whole = recordings(2, n=240)
    old, new = ([da.from_array(X[part], chunks=(40, -1)) for X in whole] for part in (slice(150), slice(150, None)))
    model = LocalCCA(**KNN, random_state=0, store=tmp_path / "fit").fit(old)
    before = blocks(tmp_path / "fit" / "run.zarr")
    again = model.refit(new, old)
    plain = LocalCCA(**KNN, random_state=0).fit(old).refit(new, old)
    np.testing.assert_allclose(again.embedding_.compute(), plain.embedding_.compute(), atol=1e-8, rtol=0)
    assert blocks(tmp_path / "fit" / "run.zarr") == before
    (folder,) = (tmp_path / "fit").glob("refit-*")
    assert run_store.is_finished(folder / "run.zarr")


def test_the_chunks_of_a_copy_are_all_there_even_those_of_zeros(lazy, tmp_path):
    quiet = [da.concatenate([X[:60], da.zeros((60, 4), chunks=(40, -1)), X[60:]]) for X in lazy]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("dlcca.fitting.lazy.CHUNK_BYTES", 20 * 4 * 8)
        LocalCCA(**KNN, random_state=0, store=tmp_path / "fit").fit(quiet)
    for v in range(2):
        copy = zarr.open_array(str(tmp_path / "fit" / "views" / f"{v}.zarr"), mode="r")
        assert copy.nchunks_initialized == copy.nchunks == 11
