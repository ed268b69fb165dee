"""Appending to a fitted model, and new halves of recordings through models of the old half."""

import dask.array as da
import numpy as np
import pytest

from dlcca import LocalCCA, open_model, refit, simulate
from dlcca.errors import DataError, SettingsError
from dlcca.numerics.coordinates import change, rotation

KNN = {"neighborhoods": "knn", "random_state": 0}
POTENTIAL = {"coordinates": "potential", **KNN}
TIME = {"neighborhoods": "time", "random_state": 0}
PROBLEMS = {
    "pendulums": (lambda: simulate.pendulums(800, random_state=0)[0], TIME),
    "pendulums with private ones": (lambda: simulate.pendulums(800, private=True, random_state=0)[0], TIME),
    "torus, big circle": (lambda: simulate.torus(2000, common="big", random_state=0)[0], KNN),
    "torus, small circle": (lambda: simulate.torus(2000, common="small", random_state=0)[0], KNN),
    "torus, small circle, potential": (lambda: simulate.torus(2000, common="small", random_state=0)[0], POTENTIAL),
}


def halves(views):
    half = len(views[0]) // 2
    return [X[:half] for X in views], [X[half:] for X in views]


def after_alignment(new, old):
    """R² of coordinates of the same rows."""
    return change(new @ rotation(new, old), old).r2


@pytest.fixture(scope="module", params=PROBLEMS, ids=lambda name: name)
def problem(request):
    """Views, the options, a model of the first half and the embedding of a model of all."""
    make, options = PROBLEMS[request.param]
    views = make()
    old, _new = halves(views)
    return views, options, LocalCCA(**options).fit(old), LocalCCA(**options).fit(views).embedding_


def test_the_second_half_through_a_model_of_the_first_is_what_a_fit_of_all_gives(problem):
    views, options, model, whole = problem
    new = halves(views)[1]
    # Potential coordinates of this circle have a diffusion time of 16 for 1000 rows and 8 for 2000: R² = 0.977.
    least = 0.97 if options is POTENTIAL else 0.98
    assert after_alignment(model.transform(new), whole[len(whole) // 2 :]) > least
    assert model.outside(new).mean() < 0.02


def test_a_refit_gives_what_a_fit_of_all_gives_on_the_old_axes(problem):
    views, _options, model, whole = problem
    old, new = halves(views)
    again = model.refit(new, old)
    assert again.embedding_.shape == whole.shape
    assert after_alignment(again.embedding_, whole) > 0.98
    assert (again.landmarks_[: len(model.landmarks_)] == model.landmarks_).all()
    assert again.change_["landmarks_kept"] == len(model.landmarks_)
    assert again.change_["r2"] > 0.97
    assert min(again.change_["correlations"]) > 0.98
    moved = change(again.transform(old), model.embedding_)  # as they are: they have been laid on the old ones
    assert (moved.r2, moved.relative) == pytest.approx((again.change_["r2"], again.change_["relative"]))
    np.testing.assert_allclose(again.transform(views), again.embedding_, atol=1e-8)


def test_without_the_old_rows_the_landmarks_stand_for_them(problem):
    views, _options, model, whole = problem
    old, new = halves(views)
    again = model.refit(new)
    assert after_alignment(again.transform(new), whole[len(whole) // 2 :]) > 0.98
    assert change(again.transform(old), model.embedding_).r2 > 0.95
    assert len(again.embedding_) == len(model.landmarks_) + len(new[0])


@pytest.fixture(scope="module")
def arc():
    """A model of one half of the circle that the views of a torus share, and the other rows."""
    views, truth = simulate.torus(2000, common="big", random_state=0)
    seen = truth.z[:, 0] > 0
    model = LocalCCA(n_components=2, **KNN, landmarks=150).fit([X[seen] for X in views])
    return model, [X[seen] for X in views], [X[~seen] for X in views]


@pytest.mark.parametrize("with_old", [True, False], ids=["with old rows", "without"])
def test_rows_outside_get_landmarks_of_their_own_until_none_is_outside(arc, with_old):
    model, old, new = arc
    assert model.outside(new).mean() > 0.5
    again = model.refit(new, old if with_old else None)
    assert 0 < again.change_["landmarks_added"] <= 150
    assert again.outside(new).mean() < 0.01
    assert again.outside(old).mean() < 0.01


def test_lazy_views_are_refitted_block_by_block_to_the_same(arc, tmp_path):
    model, old, new = arc
    here = model.refit(new, old)
    lazily = model.refit(*([da.from_array(X, chunks=(200, -1)) for X in part] for part in (new, old)))
    assert isinstance(lazily.embedding_, da.Array)
    np.testing.assert_allclose(lazily.embedding_.compute(), here.embedding_, atol=1e-6)
    assert lazily.change_["r2"] == pytest.approx(here.change_["r2"], abs=1e-6)
    with pytest.raises(SettingsError, match="needs the old views too"):
        model.refit([da.from_array(X) for X in new])


def test_a_refitted_model_is_saved_with_its_axes(arc, tmp_path):
    model, old, new = arc
    again = refit(model, new, old)
    again.save(tmp_path / "again.zarr")
    opened = open_model(tmp_path / "again.zarr")
    assert (opened.transform(new) == again.transform(new)).all()
    assert (opened.distance(new) == again.distance(new)).all()
    third = opened.refit([X[:2] for X in new], [np.concatenate(pair) for pair in zip(old, new, strict=True)])
    assert third.change_["r2"] > 0.99


def test_signs_alone_may_be_aligned(arc):
    model, old, new = arc
    R = np.array(model.refit(new, old, align="sign").change_["rotation"])
    assert (np.abs(R) == np.eye(2)).all()
    with pytest.raises(SettingsError, match="align='signs' is not known; did you mean 'sign'"):
        model.refit(new, old, align="signs")


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # too short to tell, which is not the question here
def test_windows_of_time_do_not_cross_from_old_rows_to_new_ones():
    views = simulate.pendulums(400, random_state=0)[0]
    old, new = halves(views)
    model = LocalCCA(**TIME, landmarks=50).fit(old)
    again = model.refit([X[::-1] for X in new], old)  # what follows the break has nothing to do with it
    for F, G in zip(model.model_.factors, again.model_.factors, strict=True):
        np.testing.assert_allclose(np.abs(F), np.abs(G[:50]), atol=1e-9)


def test_old_rows_that_are_not_those_of_the_fit_are_refused(arc):
    model, old, new = arc
    with pytest.raises(DataError, match="the landmarks are not among its rows"):
        model.refit(new, [X[::-1] for X in old])
    with pytest.raises(DataError, match="give the rows of the fit"):
        model.refit(new, [X[:10] for X in old])
    with pytest.raises(DataError, match="give the rows of the fit"):
        model.refit([da.from_array(X) for X in new], [da.from_array(X[:10]) for X in old])
    with pytest.raises(DataError, match="fitted with 3"):
        model.refit([X[:, :2] for X in new], old)


def test_given_neighborhoods_cannot_be_refitted():
    views = simulate.linear(300, random_state=0)[0]
    rows = np.arange(0, 300, 10)
    near = np.random.default_rng(0).integers(0, 300, (30, 40))
    model = LocalCCA(landmarks=rows, neighborhoods=near, random_state=0).fit(views)
    with pytest.raises(SettingsError, match="neighborhoods as row numbers"):
        model.refit(views)
