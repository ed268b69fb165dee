"""How far one view runs behind another: found to a row, and not claimed where it cannot be told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, lfilter
from typer.testing import CliRunner

from dlcca import LocalCCA, Views, lags, open_model
from dlcca.cli import app
from dlcca.errors import DataError, SettingsError
from dlcca.trust.lags import Lag, consistent, cross_spectra, described, lag_between, paired, strengths
from tests.reference import lags as literal
from tests.support.scores import likeness

RATE = 100  # rows in a second


def smooth(n, rng, hertz):
    b, a = butter(2, 2 * hertz / RATE)
    x = lfilter(b, a, rng.standard_normal(n + 500))[500:]
    return x / x.std()


def noise(n, rng):
    """Coloured noise, below 3 Hz."""
    return smooth(n, rng, 3)


def breath(n, rng):
    """A breath in about 4 s, whose pace and depth drift."""
    pace, depth = smooth(n, rng, 0.05), smooth(n, rng, 0.05)
    phase = 2 * np.pi * np.cumsum(0.25 * (1 + 0.15 * pace)) / RATE
    return (1 + 0.2 * depth) * (np.sin(phase) + 0.3 * np.sin(2 * phase))


def chaos(n, rng, step=0.02):
    """The first variable of Lorenz's equations."""
    made, s = np.empty(n + 500), np.array([1.0, 1.0, 20.0]) + rng.standard_normal(3)

    def speed(s):
        return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    for i in range(len(made)):
        middle = s + step / 2 * speed(s)
        s = s + step * speed(middle)
        made[i] = s[0]
    return made[500:]


def two_views(latent, lag, seed, n=6000, amount=0.05):
    """Bent functions of a latent series and of a private one in each; the second view shows it ``lag`` rows later."""
    rng = np.random.default_rng(seed)
    z = latent(n + 800, rng)
    z = (z - z.mean()) / z.std()
    x, y = z[400 : 400 + n], z[400 - lag : 400 - lag + n]
    e, f = smooth(n, rng, 2), smooth(n, rng, 2)
    X = np.column_stack([np.tanh(x) + 0.5 * e, x**2 + 0.7 * e, e + 0.3 * x, np.cos(e) * x])
    Y = np.column_stack([np.exp(y / 2) + 0.6 * f, f - 0.5 * y, np.sin(1.5 * y) + 0.4 * f**2])
    return tuple(V + amount * V.std(axis=0) * rng.standard_normal(V.shape) for V in (X, Y))


@pytest.mark.parametrize("latent", [noise, breath, chaos])
@pytest.mark.parametrize(("lag", "seed"), [(0, 0), (1, 1), (-37, 2), (200, 3), (-200, 4)])
def test_lags_up_to_two_seconds_are_found_to_a_row(latent, lag, seed):
    found = lag_between(*two_views(latent, lag, seed), 250)
    assert found.reason == ""
    assert abs(round(found.rows) - lag) <= 1
    assert found.p < 0.05


def test_the_lag_of_swapped_views_is_the_opposite():
    X, Y = two_views(noise, 60, 0)
    one, other = lag_between(X, Y, 100), lag_between(Y, X, 100)
    assert abs(one.rows + other.rows) < 0.1


@pytest.mark.parametrize("seed", range(6))
def test_views_that_share_nothing_have_no_lag(seed):
    (X, _), (_, Y) = two_views(noise, 0, seed), two_views(noise, 0, 100 + seed)
    found = lag_between(X, Y, 200)
    assert "no lag stands out" in found.reason
    assert np.isnan(found.rows)


def test_views_that_repeat_themselves_have_no_lag_that_could_be_told():
    t = np.arange(6000) / RATE
    rng = np.random.default_rng(0)
    X = np.column_stack([np.sin(2 * np.pi * t), smooth(6000, rng, 2)])
    Y = np.column_stack([np.cos(2 * np.pi * t), smooth(6000, rng, 2)])
    assert "periodic" in lag_between(X, Y, 250).reason


def test_a_lag_at_the_end_of_those_looked_at_is_not_claimed():
    assert "largest allowed lag (+30)" in lag_between(*two_views(noise, 35, 0), 30).reason


def test_too_short_a_recording_is_said_to_be_so():
    X = np.random.default_rng(0).standard_normal((500, 2))
    assert "600 are needed" in lag_between(X, X, 100).reason


def test_a_view_that_does_not_change_is_said_to_be_so():
    X = np.random.default_rng(0).standard_normal((500, 2))
    assert lag_between(X, np.zeros((500, 1)), 20).reason == "a view does not change"


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=10, deadline=None)
def test_all_strengths_at_once_are_those_of_the_literal_twin(seed, p, q):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((40, p)), rng.standard_normal((40, q))
    near, far = strengths(A, B, 5)
    np.testing.assert_allclose(near, [literal.strength(A, B, lag) for lag in range(-5, 6)], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(far, [literal.turned_strength(A, B, s) for s in range(11, 30)], rtol=1e-9, atol=1e-12)


def test_the_highest_strength_is_where_the_literal_twin_finds_it():
    X, Y = two_views(noise, 7, 0, n=300)
    A, B = described(X), described(Y)
    near, _ = strengths(A, B, 12)
    assert int(np.argmax(near)) - 12 == literal.lag_of(A, B, 12)


@pytest.mark.parametrize("n", [200, 280, 400])  # an eighth of them are 25, 35 and 50 rows
def test_the_last_frequency_of_the_phases_is_that_of_every_other_row(n):
    wave = (-1.0) ** np.arange(n)
    power = cross_spectra(wave, wave)[0].real
    taper = np.hanning(2 * power.shape[1])[1:-1]
    np.testing.assert_allclose(power[:, -1], taper.sum() ** 2)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=4), st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_lags_of_all_pairs_give_those_against_the_first(behind, seed):
    rows = np.array([0, *behind])
    K = len(rows)
    errors = np.random.default_rng(seed).uniform(0, 1, (K, K))
    pairs = {(u, v): Lag(rows[v] - rows[u], errors[u, v], 0.02, 1.0) for u in range(K) for v in range(u + 1, K)}
    np.testing.assert_allclose(consistent(pairs, K), rows, atol=1e-9)


def test_a_view_is_reached_through_another_and_one_that_nothing_leads_to_is_not_known():
    unknown = Lag(np.nan, np.nan, 1.0, 0.0, "nothing")
    pairs = {(0, 1): Lag(5.0, 0.1, 0.02, 1.0), (0, 2): unknown, (1, 2): Lag(-2.0, 0.1, 0.02, 1.0), (0, 3): unknown}
    np.testing.assert_allclose(consistent(pairs, 4), [0, 5, 3, np.nan])


# As users of `LocalCCA` meet them.

KNN = {"neighborhoods": "knn", "landmarks": 200, "random_state": 0}
LAG = 40


@pytest.fixture(scope="module")
def views():
    return dict(zip(("ear", "chest"), two_views(noise, LAG, 0, n=2000), strict=True))


@pytest.fixture(scope="module")
def model(views):
    return LocalCCA(lags="auto", max_lag=60, **KNN).fit(views)


def test_the_lag_is_found_and_told(model):
    assert model.lags_.tolist() == [0, LAG]
    assert model.quality_["lags"]["rows"] == {"ear": 0, "chest": LAG}
    assert f"View 'chest' runs {LAG} rows behind 'ear'." in model.summary()
    assert model.settings_.neighborhoods.lags == [0, LAG]


def test_rows_without_a_partner_have_no_coordinates(model):
    assert np.isfinite(model.embedding_[:-LAG]).all()
    assert np.isnan(model.embedding_[-LAG:]).all()
    assert len(model.embedding_) == len(model.common_strength_) == 2000


def test_the_fit_is_that_of_views_that_were_shifted_by_hand(model, views):
    X, Y = views.values()
    plain = LocalCCA(**KNN).fit([X[:-LAG], Y[LAG:]])
    np.testing.assert_array_equal(model.embedding_[:-LAG], plain.embedding_)
    np.testing.assert_array_equal(model.landmarks_, plain.landmarks_)


def test_lags_that_are_known_may_be_given(model, views):
    given = LocalCCA(lags=[0, LAG], **KNN).fit(views)
    np.testing.assert_array_equal(given.embedding_, model.embedding_)


def test_transform_shifts_the_views_too_and_so_does_a_saved_model(model, views, tmp_path):
    np.testing.assert_allclose(model.transform(views), model.embedding_)
    model.save(tmp_path / "model")
    again = open_model(tmp_path / "model")
    assert again.lags_.tolist() == [0, LAG]
    np.testing.assert_allclose(again.transform(views), model.embedding_)
    alone = again.transform({"chest": views["chest"]})
    assert likeness(alone[:-LAG, 0], model.embedding_[:-LAG, 0]) > 0.9


def test_a_lag_that_cannot_be_told_is_taken_as_none_and_said():
    rng = np.random.default_rng(0)
    X, Y = (np.column_stack([smooth(1500, rng, 3) for _ in range(2)]) for _ in range(2))
    with pytest.warns(match="."):
        found = LocalCCA(lags="auto", max_lag=50, **KNN).fit([X, Y])
    assert found.lags_.tolist() == [0, 0]
    assert any("is not determined and is taken as 0" in note for note in found.notes_)
    assert not found.quality_["lags"]["known"]["view 2"]


def test_three_views_have_lags_against_the_first():
    X, Y = two_views(noise, 12, 0, n=3000)
    Z = np.roll(X, 20, axis=0)[:, ::-1] ** 3
    found = lags({"a": X, "b": Y, "c": Z}, 60)
    assert found.rows.tolist() == [0, 12, 20]
    assert str(found) == "View 'b' runs 12 rows behind 'a'.\nView 'c' runs 20 rows behind 'a'."


def test_partners_lie_in_the_same_stretch_of_a_recording():
    X = np.arange(10.0)[:, None]
    segments = np.repeat([0, 1], 5)
    shifted, rows, kept = paired(Views((X, X), ("a", "b")), np.array([0, 2]), segments)
    assert rows.tolist() == [0, 1, 2, 5, 6, 7]
    assert (shifted.arrays[1] - shifted.arrays[0] == 2).all()
    assert kept.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lags": "often"}, SettingsError, "lags='often' is not known"),
        ({"lags": 3}, SettingsError, "a whole number of rows for each view"),
        ({"lags": [0, 1, 2]}, SettingsError, "2 whole numbers of rows are needed"),
        ({"lags": [1, 2]}, SettingsError, "0 for the first"),
        ({"lags": "auto", "max_lag": 1000}, SettingsError, "set at most 333"),
        ({"lags": [0, 1999]}, DataError, "leave 1 of 2000 samples"),
        ({"lags": "auto", "landmarks": np.arange(50)}, SettingsError, "set a count"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(options, error, words, views):
    with pytest.raises(error, match=words):
        LocalCCA(**{**KNN, **options}).fit(views)


def test_staged_fits_and_refits_refuse_lags(model, views):
    import dask.array as da

    with pytest.raises(SettingsError, match="lags is for arrays in memory"):
        LocalCCA(lags=[0, 1], **KNN).fit([da.from_array(X) for X in views.values()])
    with pytest.raises(SettingsError, match="refit does not know lags"):
        model.refit(views)


def test_the_command_refuses_a_model_with_lags_rather_than_pairing_wrong_rows(model, views, tmp_path):
    import zarr

    model.save(tmp_path / "model")
    for name, X in views.items():
        zarr.save_array(str(tmp_path / f"{name}.zarr"), X)
    files = [f"{name}={tmp_path / name}.zarr" for name in views]
    done = CliRunner().invoke(app, ["transform", str(tmp_path / "model"), *files, "--out", str(tmp_path / "new.zarr")])
    assert done.exit_code == 2
    assert "has lags" in done.output
