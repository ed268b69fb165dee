"""`LocalCCA` as its users meet it."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dlcca import LocalCCA, Settings, Views, fit, open_model, simulate, transform
from dlcca.errors import NotFittedYet, SettingsError, Untrusted
from tests.support import repeats

KNN = {"neighborhoods": "knn", "landmarks": 200, "random_state": 0}


@pytest.fixture(scope="module")
def torus():
    return simulate.torus(1200, common="big", random_state=0)[0]


@pytest.fixture(scope="module")
def pendulums():
    return simulate.pendulums(200, private=True, random_state=0)[0]


FITS = [
    {"neighborhoods": "time", "fusion": "view"},
    {"neighborhoods": "time", "fusion": "average"},
    {"neighborhoods": "time", "fusion": "view", "normalization": "paper"},
    {"neighborhoods": "time", "fusion": "view", "kernel": "sparse", "n_links": 60},
    {"neighborhoods": "time", "fusion": "average", "kernel": "sparse", "n_links": 60, "normalization": "paper"},
    {"neighborhoods": "knn", "fusion": "alternating"},
    {"neighborhoods": "knn", "fusion": "alternating", "kernel": "dense"},
    {"neighborhoods": "knn", "fusion": "alternating", "solver": "lanczos"},
    {"neighborhoods": "knn", "fusion": "average", "landmarks": 50},
    {"neighborhoods": "knn", "landmark_rule": "farthest", "landmarks": 100},
    {"neighborhoods": "knn", "landmark_rule": "random", "landmarks": 100, "metric": "maxvar"},
    {"neighborhoods": "knn", "metric": "tcca", "fusion": "average"},
]


@pytest.mark.parametrize("options", repeats.first(8, FITS), ids=lambda options: " ".join(map(str, options.values())))
def test_transform_of_the_training_rows_is_the_embedding_in_any_chunks(options, pendulums):
    model = LocalCCA(n_components=3, random_state=0, **options).fit(pendulums)
    assert model.embedding_.shape == (200, 3)
    np.testing.assert_allclose(model.transform(pendulums), model.embedding_, atol=1e-8, rtol=0)
    for rows in (1, 7, 150):
        chunks = [model.transform([X[i : i + rows] for X in pendulums]) for i in range(0, 200, rows)]
        np.testing.assert_allclose(np.concatenate(chunks), model.embedding_, atol=1e-8, rtol=0)
    assert abs(model.quality_["leading_eigenvalue"] - 1) < 1e-10
    assert (np.diff(model.eigenvalues_) <= 1e-12).all()


@pytest.mark.parametrize("options", [KNN, {"neighborhoods": "time"}], ids=["knn", "time"])
def test_the_result_depends_on_neither_channel_order_nor_the_scale_of_a_view(options, pendulums):
    plain = LocalCCA(**options).fit(pendulums).embedding_
    X, Y = pendulums
    order = np.random.default_rng(0).permutation(X.shape[1])
    changed = LocalCCA(**options).fit([1000 * X[:, order], 0.001 * Y]).embedding_
    np.testing.assert_allclose(changed, plain, atol=1e-6 * np.abs(plain).max())


def test_two_fits_of_one_seed_are_equal_to_the_bit(torus):
    one, two = (LocalCCA(**KNN).fit(torus) for _ in range(2))
    assert (one.embedding_ == two.embedding_).all()
    assert (one.landmarks_ == two.landmarks_).all()
    assert (one.eigenvalues_ == two.eigenvalues_).all()
    other = LocalCCA(**{**KNN, "random_state": 1}).fit(torus)
    assert set(other.landmarks_) != set(one.landmarks_)


def test_lanczos_and_gram_agree(torus):
    one = LocalCCA(solver="gram", coordinates="diffusion", **KNN).fit(torus)
    two = LocalCCA(solver="lanczos", **KNN).fit(torus)
    assert two.settings_.spectrum.coordinates == "diffusion"
    np.testing.assert_allclose(one.eigenvalues_, two.eigenvalues_, atol=1e-8)
    np.testing.assert_allclose(one.embedding_, two.embedding_, atol=1e-5)


def test_float32_stays_float32_and_nearly_agrees(torus):
    wide = LocalCCA(**KNN).fit(torus)
    narrow = LocalCCA(**KNN).fit([X.astype(np.float32) for X in torus])
    assert narrow.embedding_.dtype == np.float32
    shared = np.abs(np.corrcoef(np.hstack([wide.embedding_, narrow.embedding_]).T))[:2, 2:]
    # The two coordinates of a circle may be turned into each other.
    assert (np.sqrt((shared**2).sum(axis=1)) > 0.98).all()


def test_a_missing_view_is_allowed_where_the_fusion_permits(torus, pendulums):
    alternating = LocalCCA(**KNN).fit(torus)
    for v in range(2):
        lone = alternating.transform([X if u == v else None for u, X in enumerate(torus)])
        assert np.abs(np.corrcoef(lone[:, 0], alternating.embedding_[:, 0])[0, 1]) > 0.99
    first_only = LocalCCA(fusion="view").fit(pendulums)
    np.testing.assert_array_equal(first_only.transform([pendulums[0], None]), first_only.embedding_)
    with pytest.raises(ValueError, match="reads only 'view 1'"):
        first_only.transform([None, pendulums[1]])
    average = LocalCCA(fusion="average").fit(pendulums)
    assert np.isfinite(average.transform([None, pendulums[1]])).all()


def test_one_view_gets_the_mahalanobis_metric():
    views, _truth = simulate.metric_square(500, random_state=0)
    with pytest.warns(Untrusted, match="one view: nothing common can be tested"):
        model = LocalCCA(neighborhoods="knn", n_neighbors=20).fit(views)
    assert model.settings_.metric.kind == "mahalanobis"
    assert model.settings_.kernel.fusion == "view"
    assert np.isfinite(model.embedding_).all()


def test_every_auto_choice_is_settled_told_and_documented(torus, pendulums):
    still = LocalCCA(**KNN).fit(torus)
    moving = LocalCCA().fit(pendulums)
    three = LocalCCA().fit([*pendulums, pendulums[0][::-1].copy()])
    assert (still.settings_.metric.kind, still.settings_.kernel.fusion) == ("cca", "alternating")
    assert (moving.settings_.metric.kind, moving.settings_.kernel.fusion) == ("cca", "view")
    assert (three.settings_.metric.kind, three.settings_.kernel.fusion) == ("maxvar", "average")
    for model in (still, moving, three):
        assert "auto" not in [v for v in model.settings_.options().values() if isinstance(v, str)]
        for option in ("metric", "fusion", "kernel", "bandwidth", "solver"):
            assert f"{option} = " in model.summary()


def test_independent_views_are_said_to_share_nothing():
    views, _truth = simulate.independent(1500, random_state=0)
    with pytest.warns(Untrusted, match="nothing common found"):
        model = LocalCCA(neighborhoods="knn", random_state=0).fit(views)
    assert model.n_common_ == 0
    assert model.warnings_
    assert not model.quality_["trusted"]


def test_a_kernel_in_two_pieces_is_said_to_be_so():
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.uniform(0, 1, 300), rng.uniform(1000, 1001, 300)])
    views = [np.column_stack([z, rng.uniform(0, 1, 600)]) for _ in range(2)]
    with pytest.warns(Untrusted, match="separate pieces"):
        LocalCCA(neighborhoods="knn", n_links=8, random_state=0).fit(views)


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # too short to tell, which is not the question here
def test_ordinary_oddities_are_fitted():
    rng = np.random.default_rng(0)
    views, _truth = simulate.torus(600, common="big", random_state=0)
    odd = [
        np.column_stack([views[0], np.full(600, 3.0), views[0][:, 0] * 2]),  # a constant and a repeated channel
        np.repeat(views[1][::2], 2, axis=0),  # duplicated rows
    ]
    odd[0] = np.repeat(odd[0][::2], 2, axis=0)
    model = LocalCCA(neighborhoods="knn", landmarks=100, random_state=0).fit(odd)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.transform([X + 1e6 for X in odd])).all()  # far from every landmark
    six = [rng.standard_normal((300, 1)) * 0.002 + np.linspace(0, 1, 300)[:, None] for _ in range(6)]
    assert np.isfinite(LocalCCA(window=15).fit(six).embedding_).all()


def test_views_come_as_lists_dicts_frames_and_arrays(torus):
    expected = LocalCCA(**KNN).fit(torus).embedding_
    frame = pd.concat({"left": pd.DataFrame(torus[0]), "right": pd.DataFrame(torus[1])}, axis=1)
    same = [tuple(torus), {"left": torus[0], "right": torus[1]}, frame, np.stack(torus), Views.of(torus)]
    for views in same:
        np.testing.assert_array_equal(LocalCCA(**KNN).fit(views).embedding_, expected)
    model = LocalCCA(**KNN).fit(frame)
    np.testing.assert_array_equal(model.transform({"right": torus[1], "left": torus[0]}), expected)
    with pytest.raises(SettingsError, match="did you mean 'right'"):
        model.transform({"left": torus[0], "rigth": torus[1]})


def test_dask_zarr_and_xarray_arrays_are_read(torus):
    import dask.array as da
    import xarray as xr
    import zarr

    in_memory = LocalCCA(**KNN).fit(torus)
    dataset = xr.Dataset({f"v{i}": (("time", f"c{i}"), X) for i, X in enumerate(torus)})
    np.testing.assert_array_equal(LocalCCA(**KNN).fit(dataset).embedding_, in_memory.embedding_)
    chunked = dataset.chunk(time=500)
    for views in ([da.from_array(X, chunks=(700, 2)) for X in torus], [zarr.array(X) for X in torus], chunked):
        model = LocalCCA(**KNN).fit(views)
        assert isinstance(model.embedding_, da.Array)
        np.testing.assert_allclose(model.embedding_.compute(), in_memory.embedding_, atol=1e-8, rtol=0)
        np.testing.assert_allclose(model.eigenvalues_, in_memory.eigenvalues_, atol=1e-10)
        np.testing.assert_allclose(model.transform(torus), in_memory.embedding_, atol=1e-8, rtol=0)
        lazy = model.transform(views)
        assert isinstance(lazy, da.Array)
        np.testing.assert_allclose(lazy.compute(), in_memory.embedding_, atol=1e-8, rtol=0)


def test_lazy_views_are_never_loaded_whole(tmp_path):
    import dask.array as da

    largest = 0

    def watched(block):
        nonlocal largest
        largest = max(largest, len(block))
        return block

    views, _truth = simulate.torus(20_000, common="big", random_state=0)
    lazy = [da.from_array(X, chunks=(1000, -1)).map_blocks(watched, dtype=X.dtype, meta=X[:0]) for X in views]
    model = LocalCCA(**KNN).fit(lazy)
    assert largest <= 1000
    assert model.embedding_.numblocks[0] > 1
    model.save(tmp_path / "model.zarr")
    np.testing.assert_allclose(open_model(tmp_path / "model.zarr").embedding_, model.embedding_.compute())


def test_it_is_a_scikit_learn_estimator(torus):
    model = LocalCCA(n_components=3, **KNN)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(ridge=0.1).ridge == 0.1
    with pytest.raises(SettingsError, match="did you mean 'ridge'"):
        copy.set_params(rigde=0.1)
    with pytest.raises(TypeError):
        LocalCCA(rigde=0.1)
    scaled = FunctionTransformer(lambda views: [StandardScaler().fit_transform(X) for X in views])
    line = make_pipeline(scaled, LocalCCA(**KNN))
    assert line.fit_transform(torus).shape == (1200, 2)
    assert line.transform(torus).shape == (1200, 2)
    assert list(line[-1].get_feature_names_out()) == ["common0", "common1"]


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")
def test_dask_distinguishes_fits_with_equal_parameters(pendulums):
    from dask.base import tokenize

    first, same, other = (LocalCCA(random_state=0).fit([X[:n] for X in pendulums]) for n in (100, 100, 120))
    assert tokenize(first) == tokenize(same)
    assert len({tokenize(model) for model in (first, other, LocalCCA(random_state=0))}) == 3


def test_a_grid_search_splits_the_rows_of_the_views(torus):
    frame = pd.concat({"left": pd.DataFrame(torus[0]), "right": pd.DataFrame(torus[1])}, axis=1)
    for views in (Views.of(torus), frame):
        line = Pipeline([("common", LocalCCA(**KNN))])
        search = GridSearchCV(line, {"common__ridge": [0.03, 0.3], "common__n_links": [8, 32]}, cv=2)
        search.fit(views)
        assert search.best_score_ > 0.9
        assert search.best_estimator_.transform(views).shape == (1200, 2)


def test_results_are_asked_for_after_the_fit(torus):
    with pytest.raises(NotFittedYet, match="call fit"):
        LocalCCA().transform(torus)
    with pytest.raises(NotFittedYet):
        LocalCCA().summary()


def test_the_functions_do_what_the_estimator_does(torus):
    model = fit(torus, Settings.from_options(neighborhoods="knn"), landmarks=200, random_state=0)
    np.testing.assert_array_equal(model.embedding_, LocalCCA(**KNN).fit(torus).embedding_)
    np.testing.assert_array_equal(transform(model, torus), model.embedding_)


def test_given_landmarks_and_neighborhoods_are_used(pendulums):
    rows = np.arange(5, 195, 2)
    windows = rows[:, None] + np.arange(-3, 5)
    given = LocalCCA(neighborhoods=windows, landmarks=rows, fusion="view").fit(pendulums)
    window = LocalCCA(neighborhoods="time", landmarks=rows, window=8).fit(pendulums)
    np.testing.assert_array_equal(given.embedding_, window.embedding_)
    np.testing.assert_array_equal(given.landmarks_, rows)


def test_a_window_is_chosen_when_asked(pendulums):
    model = LocalCCA(window="auto").fit(pendulums)
    assert model.settings_.neighborhoods.window in (8, 15, 31)
    assert "window = " in model.summary()


@pytest.mark.parametrize("options", [KNN, {"fusion": "view"}, {"fusion": "average", "kernel": "sparse"}])
def test_a_saved_model_is_the_same_model(options, pendulums, tmp_path):
    model = LocalCCA(**options).fit({"left": pendulums[0], "right": pendulums[1]})
    model.save(tmp_path / "model.zarr")
    model.save(tmp_path / "model.zarr")  # replaces it
    opened = open_model(tmp_path / "model.zarr")
    np.testing.assert_array_equal(opened.transform(pendulums), model.transform(pendulums))
    for name in ("embedding_", "eigenvalues_", "landmarks_", "correlations_", "bandwidth_"):
        np.testing.assert_array_equal(getattr(opened, name), getattr(model, name))
    assert (opened.n_common_, opened.quality_, opened.summary()) == (model.n_common_, model.quality_, model.summary())
    assert [p.name for p in tmp_path.iterdir()] == ["model.zarr"]


def test_the_parameters_in_the_docstring_are_those_of_the_estimator_and_nothing_else():
    section = inspect.getdoc(LocalCCA).split("Parameters\n----------\n")[1].split("\n\nAttributes\n")[0]
    names = [line.split(" : ")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    assert names == list(inspect.signature(LocalCCA).parameters)
