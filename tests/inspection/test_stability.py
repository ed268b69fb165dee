"""How far each coordinate can be relied on, as users meet it."""

import warnings

import numpy as np
import pytest

from dlcca import LocalCCA, simulate, stability
from dlcca.errors import DataError, SettingsError, Untrusted
from dlcca.fitting.checks import MOST_ROWS, from_halves, rows_for_halves
from dlcca.fitting.job import HALVED_ROWS
from dlcca.settings.fit import Settings
from dlcca.trust.scores import linear_prediction
from dlcca.views import Views

KNN = {"neighborhoods": "knn", "landmarks": 120, "n_components": 2, "random_state": 0}
TIME = {**KNN, "neighborhoods": "time", "window": 30}


def fitted(views, options, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # noise is not to be trusted, and says so
        return LocalCCA(**{**options, **more}).fit(views)


@pytest.fixture(scope="module")
def torus():
    views, _ = simulate.torus(600, random_state=0)
    model = fitted(views, KNN)
    return model, views, stability(model, views)


@pytest.fixture(scope="module")
def smooth():
    """Two numbers that all views share and one that each has for itself, in time."""
    shared = [(0, 1), (0, 1)]
    views, _ = simulate.overlapping(900, shared=shared, n_views=2, smoothness=0.95, noise=0.02, random_state=0)
    return views


def test_coordinates_of_two_tori_are_stable(torus):
    _, _, found = torus
    assert found.stable.tolist() == [True, True]
    assert (found.reproducibility >= [0.9, 0.7]).all()
    assert (found.held >= 0.5).all()


def test_coordinates_of_pendulums_are_stable():
    views, _ = simulate.pendulums(800, random_state=0)
    found = stability(fitted(views, TIME, window=8), views, n_splits=2)
    assert found.stable.all()
    assert (found.reproducibility >= 0.9).all()


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (KNN, {}),
        (KNN, {"n_views": 3}),
        (TIME, {"smoothness": 0.9}),
        (TIME, {"smoothness": 0.9, "n_views": 3}),
        (TIME, {}),
    ],
    ids=["nearest", "nearest, 3 views", "smooth", "smooth, 3 views", "white"],
)
def test_coordinates_of_noise_are_not_stable(options, how):
    views, _ = simulate.independent(600, random_state=1, **how)
    found = stability(fitted(views, options), views, n_splits=2)
    assert not found.stable.any()
    assert not found.common
    assert str(found).endswith("what is reproduced is private.")


def test_neighbours_of_noise_are_not_even_reproduced():
    views, _ = simulate.independent(600, random_state=2)
    assert (stability(fitted(views, KNN), views).reproducibility <= 0.5).all()


def test_the_band_has_the_size_of_what_fits_to_other_samples_differ_by(torus):
    model, views, found = torus
    assert found.band.shape == model.embedding_.shape
    assert (found.band >= 0).all()
    others = [fitted(simulate.torus(600, random_state=seed)[0], KNN, n_components=4) for seed in range(1, 6)]
    apart = np.mean(
        [(linear_prediction(model.embedding_, fit.transform(views)) - model.embedding_) ** 2 for fit in others], 0
    )
    error = np.sqrt(apart / 2)  # both of them vary
    ratio = np.median(found.band, axis=0) / np.median(error, axis=0)
    assert ((1 / 4 <= ratio) & (ratio <= 4)).all()
    assert np.corrcoef(found.band[:, 0], error[:, 0])[0, 1] >= 0.4  # and where it is large


def test_more_samples_and_landmarks_make_smaller_bands():
    views, _ = simulate.linear(1500, n_common=1, noise=0.05, random_state=0)
    bands = []
    for n in (300, 1500):
        some = [X[:n] for X in views]
        model = fitted(some, KNN, landmarks=n // 3, n_neighbors=32)
        bands.append(np.median(stability(model, some, n_splits=2).band[:, 0]))
    assert bands[1] < bands[0]


def test_the_same_seed_gives_the_same_and_another_gives_another(torus):
    model, views, found = torus
    again = stability(model, views)
    assert model.stability_ is again
    np.testing.assert_array_equal(again.reproducibility, found.reproducibility)
    np.testing.assert_array_equal(again.band, found.band)
    assert (stability(model, views, random_state=1).band != found.band).any()


def test_given_neighborhoods_are_refused():
    views, _ = simulate.torus(200, random_state=0)
    rows = np.arange(0, 200, 4)
    near = (rows[:, None] + np.arange(16)) % 200
    model = fitted(views, KNN, neighborhoods=near, landmarks=rows)
    with pytest.raises(SettingsError, match="neighborhoods were given as row numbers"):
        stability(model, views)


def test_too_few_rows_are_refused():
    views, _ = simulate.torus(60, random_state=0)
    with pytest.raises(DataError, match="60 samples cannot be halved; stability needs at least 64"):
        stability(fitted(views, KNN, landmarks=30, n_neighbors=20), views)


def test_windows_too_long_for_a_half_are_refused(smooth):
    model = fitted([X[:200] for X in smooth], TIME, window=60)
    with pytest.raises(DataError, match=r"200 samples cannot be halved where window=60; .* at least 240"):
        stability(model, [X[:200] for X in smooth])


@pytest.mark.parametrize("n_splits", [0, 1.5, None])
def test_a_number_of_splits_below_one_is_refused(torus, n_splits):
    model, views, _ = torus
    with pytest.raises(SettingsError, match=f"n_splits={n_splits}; a whole number of at least 1"):
        stability(model, views, n_splits=n_splits)


def test_rows_without_a_partner_have_no_band(smooth):
    one, other = smooth
    views = [one, np.roll(other, 5, axis=0)]
    model = fitted(views, TIME, lags=[0, 5])
    found = stability(model, views, n_splits=1)
    assert found.band.shape == model.embedding_.shape
    np.testing.assert_array_equal(np.isnan(found.band), np.isnan(model.embedding_))
    assert np.isnan(found.band).any()
    assert found.stable[0]


def test_one_view_holds_its_own_coordinates():
    views, _ = simulate.torus(400, random_state=0)
    found = stability(fitted(views[:1], KNN), views[:1], n_splits=1)
    assert (found.held == 1).all()
    assert found.common


def test_as_few_landmarks_as_there_are_coordinates_will_do():
    views, _ = simulate.torus(200, random_state=0)
    found = stability(fitted(views, KNN, landmarks=3), views, n_splits=1)  # a half cannot be asked for more than two
    assert found.reproducibility.shape == (2,)


def test_it_is_told_in_the_summary_and_drawn_with_the_embedding(torus):
    import matplotlib.pyplot as plt

    model, views, _ = torus
    found = stability(model, views, n_splits=1)
    assert str(found).splitlines()[0] in model.summary()
    assert "Coordinate 1 is stable: 0.9" in str(found)
    ax = model.plot.embedding()
    assert ax.get_xlabel() == f"coordinate 1 ({found.reproducibility[0]:.2f} reproduced)"
    crosses = ax.containers[0]
    assert len(crosses.lines[2][0].get_segments()) == 200
    plt.close(ax.figure)


def test_another_fit_and_a_model_from_disk_have_none(torus, tmp_path):
    from dlcca import open_model

    model, views, _ = torus
    model.save(tmp_path / "model.zarr")
    assert open_model(tmp_path / "model.zarr").stability_ is None
    again = fitted(views, KNN)
    stability(again, views, n_splits=1)
    assert again.fit(views).stability_ is None


def settled(**options):
    return Settings.from_options(**{"neighborhoods": "time", "window": 30, "n_neighbors": 20, **options})


@pytest.mark.parametrize(("n", "window"), [(10_000, 10), (1_000_000, 50), (50_000, 120), (5_000, 300)])
def test_of_a_long_recording_unbroken_stretches_are_taken_evenly(n, window):
    rows, stretch = rows_for_halves(n, (3, 4), settled(window=window))
    assert len(rows) <= MOST_ROWS
    lengths = np.bincount(stretch)
    assert len(set(lengths)) == 1
    assert len(lengths) % 2 == 0
    assert lengths[0] >= 4 * window
    assert (np.diff(rows)[np.diff(stretch) == 0] == 1).all()
    assert (rows[0], rows[-1]) == (0, n - 1)
    assert len(np.unique(rows)) == len(rows)


def test_a_stretch_ends_where_the_recording_has_a_gap():
    segments = np.repeat([0, 1], 5000)
    rows, stretch = rows_for_halves(10_000, (3, 4), settled(), segments)
    assert all(len(set(segments[rows[stretch == s]])) == 1 for s in np.unique(stretch))


def test_without_windows_any_rows_will_do():
    rows, stretch = rows_for_halves(100_000, (3, 4), settled(neighborhoods="knn"))
    assert len(rows) == HALVED_ROWS
    assert stretch is None
    assert np.ptp(np.diff(rows)) <= 1


@pytest.mark.parametrize(("n", "dims", "window"), [(50, (2, 2), 5), (10_000, (3, 3), 1500), (10_000, (10**5, 5), 20)])
def test_there_may_be_too_few_rows_to_tell(n, dims, window):
    assert rows_for_halves(n, dims, settled(window=window)) is None


def test_stretches_of_a_long_recording_tell_much_the_same_as_all_of_it():
    views, _ = simulate.overlapping(8000, shared=[(0, 1)], n_views=2, smoothness=0.95, noise=0.02, random_state=1)
    model = fitted(views, TIME)
    rows, stretch = rows_for_halves(8000, (3, 3), model.settings_)
    some = Views.of([X[rows] for X in views])
    found = from_halves(
        model.embedding_[rows], some, model.settings_, 120, np.random.default_rng(0), segments=stretch, n_splits=1
    )
    whole = stability(model, views, n_splits=1)
    assert found.reproducibility[0] == pytest.approx(whole.reproducibility[0], abs=0.05)
