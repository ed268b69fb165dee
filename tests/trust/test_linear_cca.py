"""How much of the coordinates plain linear CCA explains, and what a fit says of it."""

import numpy as np
import pytest

from dlcca import LocalCCA, simulate
from dlcca.trust.quality import linear_cca_r2

KNN = {"neighborhoods": "knn", "random_state": 0}


def test_linear_views_need_no_local_metrics_and_the_fit_says_so():
    views, _truth = simulate.linear(1200, n_channels=6, random_state=0)
    model = LocalCCA(n_components=1, **KNN).fit(views)
    assert model.quality_["linear_cca_r2"] > 0.95
    assert any("plain linear CCA would have done" in note for note in model.notes_)
    assert "linear_cca(views" in model.summary()


@pytest.mark.parametrize("make", [simulate.torus, simulate.spiral])
def test_linear_cca_does_not_explain_coordinates_of_curved_views(make):
    views, _truth = make(1200, random_state=0)
    model = LocalCCA(**KNN).fit(views)
    assert model.quality_["linear_cca_r2"] < 0.8
    assert not any("plain linear CCA" in note for note in model.notes_)


def test_it_would_have_done_only_if_every_coordinate_is_explained():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((800, 2))
    views = [E[:, :1] @ rng.standard_normal((1, 4)) + 0.05 * rng.standard_normal((800, 4)) for _ in range(2)]
    first, second = linear_cca_r2(views, E)
    assert first > 0.9
    assert second < 0.1


def test_one_view_has_no_linear_cca():
    X = np.random.default_rng(0).standard_normal((50, 3))
    assert linear_cca_r2([X], X[:, :1]) is None


def test_a_view_of_many_channels_is_reduced_first():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 1))
    views = [z @ rng.standard_normal((1, 400)) + 0.1 * rng.standard_normal((300, 400)) for _ in range(2)]
    assert linear_cca_r2(views, z).min() > 0.9


def test_nothing_is_explained_where_nothing_is_common():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((500, 5)) for _ in range(2)]
    assert linear_cca_r2(views, rng.standard_normal((500, 2))).max() < 0.1
