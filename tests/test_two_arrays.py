"""`LocalCCA().fit(X, Y)`, as scikit-learn's own CCA is called."""

import gc
import tempfile

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dlcca
from dlcca import LocalCCA, Views, simulate
from dlcca.errors import DataError, SettingsError

KNN = {"neighborhoods": "knn", "landmarks": 60, "n_neighbors": 30, "random_state": 0}


@pytest.fixture(scope="module")
def torus():
    return simulate.torus(400, common="big", random_state=0)[0]


AS = {
    "NumPy": np.asarray,
    "DataFrame": pd.DataFrame,
    "xarray": lambda X: xr.DataArray(X, dims=("time", "channel")),
    "Dask": lambda X: da.from_array(X, chunks=(150, -1)),
    "Zarr": zarr.array,
}


@pytest.mark.parametrize("kind", AS)
def test_two_arrays_are_two_views(kind, torus):
    expected = LocalCCA(**KNN).fit(torus)
    X, Y = (AS[kind](V) for V in torus)
    model = LocalCCA(**KNN).fit(X, Y)
    assert len(model.model_.names) == 2
    assert model.n_common_ == expected.n_common_
    np.testing.assert_allclose(np.asarray(model.embedding_), expected.embedding_, atol=1e-8, rtol=0)
    np.testing.assert_allclose(np.asarray(model.transform(X, Y)), expected.embedding_, atol=1e-8, rtol=0)
    np.testing.assert_allclose(np.asarray(LocalCCA(**KNN).fit_transform(X, Y)), expected.embedding_, atol=1e-8, rtol=0)


def test_a_score_of_two_arrays_is_that_of_two_views(torus):
    model = LocalCCA(**KNN).fit(*torus)
    assert model.score(*torus) == model.score(torus)


def test_two_arrays_of_unequal_length_are_refused(torus):
    with pytest.raises(DataError, match="differ in length"):
        LocalCCA(**KNN).fit(torus[0], torus[1][:300])


LABELS = {
    "array": lambda n: np.arange(n) % 2,
    "list": lambda n: [i % 2 for i in range(n)],
    "Series": lambda n: pd.Series(np.arange(n) % 2),
    "words": lambda n: np.array(["wake", "sleep"])[np.arange(n) % 2],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_beside_one_array_are_neither_a_view_nor_ignored(kind, torus):
    X, y = torus[0], LABELS[kind](400)
    for call in (LocalCCA(**KNN).fit, LocalCCA(**KNN).fit_transform):
        with pytest.raises(DataError, match=r"y has 1 dimension.*fit\(X, Y\).*metric='mahalanobis'"):
            call(X, y)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_beside_views_are_not_used_as_in_every_transformer(kind, torus):
    expected = LocalCCA(**KNN).fit(torus).embedding_
    for views in (torus, Views.of(torus), {"left": torus[0], "right": torus[1]}):
        np.testing.assert_array_equal(LocalCCA(**KNN).fit(views, LABELS[kind](400)).embedding_, expected)


def test_labels_go_past_one_view_that_is_meant_to_be_one(torus):
    line = make_pipeline(StandardScaler(), LocalCCA(**KNN, metric="mahalanobis"))
    np.testing.assert_array_equal(line.fit_transform(torus[0], np.arange(400) % 2), line.fit_transform(torus[0]))


def test_an_array_beside_views_is_refused(torus):
    X, Y = torus
    frame = pd.concat({"left": pd.DataFrame(X), "right": pd.DataFrame(Y)}, axis=1)
    for views in ([X, Y], (X, Y), {"left": X}, np.stack([X, Y]), frame, Views.of([X, Y])):
        with pytest.raises(DataError, match=r"besides views.*put it among the views"):
            LocalCCA(**KNN).fit(views, Y)
    with pytest.raises(DataError, match="put it among the views"):
        LocalCCA(**KNN).fit([X, Y]).transform([X, Y], Y)


def test_what_is_no_array_is_no_view(torus):
    X = torus[0]
    with pytest.raises(DataError, match="y is a list of"):
        LocalCCA(**KNN).fit(X, [X, X])
    with pytest.raises(DataError, match="3 dimensions"):
        LocalCCA(**KNN).fit(X, np.stack(torus))


def test_the_function_takes_its_views_as_one_argument(torus):
    with pytest.raises(SettingsError, match=r"settings is of type ndarray.*fit\(\[X, Y\]\)"):
        dlcca.fit(*torus)


def test_a_lazy_embedding_outlives_its_estimator(torus):
    """Its files are removed with the last array that reads them: without them, Zarr would read zeros."""
    lazy = [da.from_array(V, chunks=(150, -1)) for V in torus]
    expected = LocalCCA(**KNN).fit(torus).embedding_
    doubled = 2 * LocalCCA(**KNN).fit_transform(lazy)
    gc.collect()
    np.testing.assert_allclose(doubled.compute(), 2 * expected, atol=1e-8, rtol=0)


def test_the_files_of_a_lazy_embedding_go_with_it(torus, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = LocalCCA(**KNN).fit([da.from_array(V, chunks=(150, -1)) for V in torus])
    assert list(tmp_path.glob("dlcca-*"))
    del model
    gc.collect()
    assert not list(tmp_path.glob("dlcca-*"))
