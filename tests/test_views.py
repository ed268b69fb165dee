"""What is refused of views, and what of them does not matter: masks, magnitudes and shapes."""

import functools
import warnings

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcca import LocalCCA, Settings, Views, baselines, from_mne, simulate
from dlcca.errors import DataError, DlccaError, Untrusted
from dlcca.fitting import pipeline
from dlcca.fitting.job import make_job, settled
from tests.fitting.jobs import written

KNN = {"neighborhoods": "knn", "landmarks": 100, "n_neighbors": 40, "random_state": 0}
TIME = {"neighborhoods": "time", "window": 9, "landmarks": 100}


@pytest.fixture(scope="module")
def torus():
    return simulate.torus(500, common="big", random_state=0)[0]


@pytest.fixture(scope="module")
def unscaled(torus):
    """Embeddings of the views as they are, by their dtype and the kind of neighborhoods; each is fitted once."""
    options = {"knn": KNN, "time": TIME}
    return functools.cache(lambda dtype, kind: quietly([X.astype(dtype) for X in torus], options[kind]))


# Masks.


def masked(X, *rows):
    mask = np.zeros(X.shape, bool)
    mask[list(rows), 1] = True
    return np.ma.masked_array(np.where(mask, 1e6, X), mask)


MASKED = r"view '{}' is masked in row 17, channel 1 \(2 rows with.*[Rr]emove these rows from every view"


def test_a_masked_array_is_refused_in_a_fit_and_in_a_transform(torus):
    X, Y = torus
    bad = masked(Y, 17, 30)
    for views in ([X, bad], (X, bad), {"view 1": X, "view 2": bad}):
        with pytest.raises(DataError, match=MASKED.format("view 2")):
            LocalCCA(**KNN).fit(views)
    with pytest.raises(DataError, match=MASKED.format("view 2")):
        LocalCCA(**KNN).fit(X, bad)
    with pytest.raises(DataError, match=MASKED.format("view 1")):
        LocalCCA(**KNN).fit(np.ma.stack([masked(X, 17, 30), Y]))
    model = LocalCCA(**KNN).fit(torus)
    for call in (model.transform, model.distance, model.score, model.refit):
        with pytest.raises(DataError, match=MASKED.format("view 2")):
            call([X, bad])
    with pytest.raises(DataError, match=MASKED.format("view 2")):
        Views.of([X, bad])
    with pytest.raises(DataError, match=MASKED.format("view 2")):
        LocalCCA(**KNN).fit(Views((X, bad), ("view 1", "view 2")))
    with pytest.raises(DataError, match=MASKED.format("view 2")):
        baselines.linear_cca([X, bad])


def test_a_masked_array_of_whole_numbers_is_refused_too():
    X = np.random.default_rng(0).integers(0, 9, (500, 3))
    with pytest.raises(DataError, match=MASKED.format("view 2")):
        LocalCCA(**KNN).fit([X, masked(X, 17, 30).astype(int)])


def test_a_mask_that_hides_nothing_does_not_matter(torus):
    expected = LocalCCA(**KNN).fit(torus).embedding_
    unhidden = [np.ma.masked_array(X) for X in torus]
    np.testing.assert_array_equal(LocalCCA(**KNN).fit(unhidden).embedding_, expected)
    lazy = [da.from_array(X, chunks=(200, -1)) for X in unhidden]
    np.testing.assert_allclose(LocalCCA(**KNN).fit(lazy).embedding_.compute(), expected, atol=1e-8)


def hidden_from_dask(X):
    """A Dask array whose chunks are masked, and which does not know it."""
    return da.from_array(X.data, chunks=(200, -1)).map_blocks(
        lambda block, mask: np.ma.masked_array(block, mask), da.from_array(X.mask, chunks=(200, -1)), meta=X.data[:0]
    )


@pytest.mark.parametrize("row", [17, 450])
@pytest.mark.parametrize(
    "lazily", [lambda X: da.from_array(X, chunks=(200, -1)), hidden_from_dask], ids=["known", "unknown"]
)
def test_a_masked_dask_array_is_refused(lazily, row, torus):
    X, Y = (da.from_array(V, chunks=(200, -1)) for V in torus)
    bad = lazily(masked(torus[1], row, row + 1))
    says = rf"view 'view 2' is masked in row {row}, channel 1 \(2 rows with"
    with pytest.raises(DataError, match=says):
        LocalCCA(**KNN).fit([X, bad])
    model = LocalCCA(**KNN).fit([X, Y])
    with pytest.raises(DataError, match=says):
        model.transform([X, bad]).compute()


# Magnitudes.

TOO_LARGE, TOO_SMALL = r"row \d+.*at most 1e\+140", r"changes by about .*e-\d+.*at least 1e-140.*[Mm]ultiply"


def times(X, factor):
    with np.errstate(under="ignore"):
        return (X * factor).astype(X.dtype)


def one_of(X, value):
    made = X.copy()
    made[123, 1] = value
    return made


def narrow(X):
    return X.astype(np.float32)


MAGNITUDES = {
    "times 1e-300": (lambda X: times(X, 1e-300), TOO_SMALL),
    "times 1e-160": (lambda X: times(X, 1e-160), TOO_SMALL),
    "times 1e-320": (lambda X: times(X, 1e-320), TOO_SMALL),
    "times 1e160": (lambda X: times(X, 1e160), TOO_LARGE + r".*[Dd]ivide the view"),
    "times 1e300": (lambda X: times(X, 1e300), TOO_LARGE + r".*[Dd]ivide the view"),
    "one of 1e300": (lambda X: one_of(X, 1e300), r"1e\+300 in row 123, channel 1.*1 row.*at most 1e\+140.*[Rr]emove"),
    "one of -1e160": (lambda X: one_of(X, -1e160), r"-1e\+160 in row 123, channel 1.*at most 1e\+140.*[Rr]emove"),
    "float32 times 1e30": (lambda X: times(narrow(X), 1e30), r"at most 1e\+15.*float32.*[Dd]ivide the view"),
    "float32 times 1e-30": (lambda X: times(narrow(X), 1e-30), r"changes by about.*at least 1e-16.*float32"),
    "float32, one of 1e30": (lambda X: one_of(narrow(X), 1e30), r"1e\+30 in row 123.*at most 1e\+15.*float32"),
}


def staged(folder, views, options):
    given = {name: value for name, value in options.items() if name != "random_state"}
    sources = written(folder, views, 200)
    job = make_job(str(folder / "run.zarr"), sources, settled(Settings.from_options(**given), sources).settings, seed=0)
    pipeline.run(job)


@pytest.mark.parametrize("options", [KNN, TIME], ids=["knn", "time"])
@pytest.mark.parametrize("kind", MAGNITUDES)
def test_a_magnitude_whose_squares_are_no_numbers_is_refused_with_view_row_and_scale(kind, options, torus, tmp_path):
    spoil, says = MAGNITUDES[kind]
    bad = spoil(torus[1])
    views = [torus[0].astype(bad.dtype), bad]
    says = rf"(?s)view 'view 2'.*{says}"
    with pytest.raises(DataError, match=says):
        LocalCCA(**options).fit(views)
    with pytest.raises(DataError, match=says):
        LocalCCA(**options).fit([da.from_array(X, chunks=(200, -1)) for X in views])
    with pytest.raises(DataError, match=says):
        LocalCCA(**options).fit([zarr.array(X, chunks=(200, 3)) for X in views])
    with pytest.raises(DataError, match=says):
        staged(tmp_path, views, options)


def test_a_transform_refuses_a_magnitude_whose_squares_are_no_numbers(torus):
    model = LocalCCA(**KNN).fit(torus)
    with pytest.raises(DataError, match=r"view 'view 2' holds 1e\+300 in row 123, channel 1"):
        model.transform([torus[0], one_of(torus[1], 1e300)])
    tiny = model.transform([torus[0], times(torus[1], 1e-300)])  # all near zero, which is a place like any other
    assert np.isfinite(tiny).all()


@settings(max_examples=12, deadline=None)
@given(
    powers=st.tuples(st.integers(-12, 12), st.integers(-12, 12)),
    dtype=st.sampled_from(["float64", "float32"]),
    options=st.sampled_from([KNN, TIME]),
)
def test_the_scale_of_a_view_does_not_matter(powers, dtype, options, torus, unscaled):
    scaled = [(X * 10.0**p).astype(dtype) for X, p in zip(torus, powers, strict=True)]
    expected = unscaled(dtype, options["neighborhoods"])
    tolerance = 1e-9 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(quietly(scaled, options), expected, atol=tolerance * np.abs(expected).max())


def quietly(views, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(**options).fit(views).embedding_


@pytest.mark.parametrize("scale", [1e-139, 1e-120, 1e120, 1e138])
@pytest.mark.parametrize("options", [KNN, TIME], ids=["knn", "time"])
def test_what_is_allowed_works_to_its_ends(scale, options, torus, unscaled):
    expected = unscaled("float64", options["neighborhoods"])
    found = quietly([torus[0] * scale, torus[1]], options)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("factor", [1e-130, 1e-200, 1e-310])
@pytest.mark.parametrize("options", [KNN, TIME], ids=["knn", "time"])
@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # half of a view is silent, and nothing is common there
def test_a_view_that_fades_into_the_smallest_numbers_is_fitted(factor, options, torus):
    """As the tail of a recursive filter does in silence."""
    quiet = torus[1].copy()
    quiet[250:] = times(quiet[250:], factor)
    assert np.isfinite(LocalCCA(**options).fit([torus[0], quiet]).embedding_).all()


@pytest.mark.parametrize("value", [1e6, 1e30, 1e100, 1e139])
@pytest.mark.parametrize("options", [KNN, TIME], ids=["knn", "time"])
@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # one outlier may well be a coordinate of its own
def test_one_large_value_is_no_error_of_the_linear_algebra(value, options, torus):
    assert np.isfinite(LocalCCA(**options).fit([torus[0], one_of(torus[1], value)]).embedding_).all()


# Channels x samples, and objects that are no arrays.

RNG = np.random.default_rng(0)
CHANNELS_FIRST = RNG.standard_normal((64, 2000)), RNG.standard_normal((3, 2000))


def test_channels_first_are_told_to_be_transposed_where_lengths_differ(tmp_path):
    says = r"'view 1' has 64, 'view 2' has 3 samples.*2000 columns.*transpose"
    with pytest.raises(DataError, match=says):
        LocalCCA().fit(CHANNELS_FIRST)
    with pytest.raises(DataError, match=says):
        LocalCCA().fit(*CHANNELS_FIRST)
    with pytest.raises(DataError, match=says):
        LocalCCA().fit([da.from_array(X) for X in CHANNELS_FIRST])
    with pytest.raises(DataError, match=says):
        make_job(str(tmp_path / "run.zarr"), written(tmp_path, CHANNELS_FIRST, 2), Settings(), seed=0)


@pytest.mark.parametrize("options", [{}, {"neighborhoods": "knn"}], ids=["time", "knn"])
def test_too_few_rows_of_many_columns_are_told_to_be_transposed(options):
    views = [X[:3] for X in CHANNELS_FIRST]
    for given_views in (views, [da.from_array(X) for X in views]):
        with pytest.raises(DlccaError, match=r"3 rows and 2000, 2000 columns.*transpose them"):
            LocalCCA(n_components=1, landmarks=3, metric="cca", fusion="view", **options).fit(given_views)


def test_many_more_columns_than_rows_are_a_hint_in_the_result(torus):
    wide = RNG.standard_normal((2, 64, 2000))
    for views in (list(wide), [da.from_array(X) for X in wide]):
        with pytest.warns(Untrusted) as caught:
            model = LocalCCA().fit(views)
        assert any("64 rows and 2000, 2000 columns" in str(warning.message) for warning in caught)
        assert "transpose them" in model.summary()
    steady = [np.hstack([X[:90]] * 400) for X in torus]  # 1200 columns of few directions
    assert any("transpose them" in text for text in [*quiet_model(steady).notes_, *quiet_model(steady).warnings_])
    assert "transpose" not in quiet_model(torus).summary()


def quiet_model(views):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA().fit(views)


def test_a_transform_of_channels_first_is_told_to_be_transposed(torus):
    model = LocalCCA(**KNN).fit(torus)
    with pytest.raises(DataError, match=r"has 500 channels; the model was fitted with 3.*Transpose"):
        model.transform([X.T for X in torus])


def test_objects_of_mne_are_refused_with_what_to_do():
    mne = pytest.importorskip("mne")
    raw = mne.io.RawArray(1e-5 * RNG.standard_normal((4, 1000)), mne.create_info(4, 100.0, "eeg"), verbose=False)
    epochs = mne.make_fixed_length_epochs(raw, 1.0, preload=True, verbose=False)
    for call in (lambda X: LocalCCA().fit([X, X]), lambda X: LocalCCA().fit(X, X), lambda X: LocalCCA().fit(X)):
        with pytest.raises(DataError, match=r"'view 1' is an MNE RawArray.*from_mne.*raw\.get_data\(\)\.T"):
            call(raw)
        with pytest.raises(DataError, match=r"'view 1' is an MNE Epochs.*from_mne.*hstack\(epochs\.get_data"):
            call(epochs)
    with pytest.raises(DataError, match=r"MNE Raw, and Epochs was given.*the Raw that it was cut from"):
        from_mne(epochs, {"a": "eeg", "b": [0]})
    with pytest.raises(DataError, match=r"MNE Raw, and EvokedArray was given"):
        from_mne(epochs.average(), {"a": "eeg"})
    with pytest.raises(DataError, match=r"MNE Raw, and str was given.*mne\.io\.read_raw"):
        from_mne("night.edf", {"a": "eeg"})
    arrays = [raw.get_data().T[:, :2], np.hstack(epochs.get_data()).T[:, 2:]]  # as the messages advise
    assert arrays[0].shape == arrays[1].shape == (1000, 2)


def test_what_numpy_cannot_read_is_named():
    with pytest.raises(DataError, match="view 'view 2' is of type list and cannot be read as an array"):
        LocalCCA().fit([RNG.standard_normal((3, 2)), [[1.0, 2.0], [3.0]]])
    with pytest.raises(DataError, match="y is of type object"):
        LocalCCA().fit(RNG.standard_normal((3, 2)), object())


def test_a_row_too_far_for_any_distance_is_refused_by_transform(torus):
    model = LocalCCA(**KNN).fit([(X * 1e-12).astype(np.float32) for X in torus])
    far = one_of(narrow(torus[0]) * np.float32(1e-12), 1e14)
    with pytest.raises(DataError, match=r"row 123 has no finite coordinates.*distances overflow"):
        model.transform([far, narrow(torus[1]) * np.float32(1e-12)])
