"""Views that run behind each other, as users of `LocalCCA` meet them."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dlcca import LocalCCA, Views, lags, open_model
from dlcca.cli import app
from dlcca.errors import DataError, SettingsError
from dlcca.trust.lags import paired
from tests.support.scores import likeness
from tests.trust.test_lag_estimate import noise, smooth, two_views

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
    assert any("cannot be told and is taken as 0" in note for note in found.notes_)
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
        ({"lags": "auto", "max_lag": 1000}, SettingsError, "ask for at most 333"),
        ({"lags": [0, 1999]}, DataError, "leave 1 of 2000 samples"),
        ({"lags": "auto", "landmarks": np.arange(50)}, SettingsError, "ask for a count"),
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
