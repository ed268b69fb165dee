"""The private part of a view, as users meet it; the torus with the figures that must hold."""

import numpy as np
import pytest

from dlcca import LocalCCA, private, simulate
from dlcca.errors import DataError, SettingsError
from tests.support.scores import recovery


@pytest.fixture(scope="module", params=["small", "big"])
def torus(request):
    views, truth = simulate.torus(2000, common=request.param, random_state=0)
    return views, truth, LocalCCA(neighborhoods="knn", random_state=0).fit(views)


def test_the_private_part_of_each_torus_is_its_own_angle_and_nothing_else(torus):
    views, truth, model = torus
    for v in range(2):
        part = private(model, views, v)
        assert recovery(part.embedding, truth.nuisance[v]) >= 0.95
        assert recovery(part.embedding, truth.z) <= 0.1
        assert recovery(part.embedding, truth.nuisance[1 - v]) <= 0.1
        assert (part.shared < 0.1).all()
    np.testing.assert_allclose(part.transform(views), part.embedding)
    alone = part.transform([None, views[1]])
    assert recovery(alone, truth.nuisance[1]) >= 0.95


def test_what_cannot_be_done_is_refused_with_a_reason():
    views, _ = simulate.torus(500, random_state=0)
    model = LocalCCA(neighborhoods="knn", landmarks=150, random_state=0).fit(views)
    with pytest.raises(SettingsError, match="of='view 3' is no view"):
        private(model, views, "view 3")
    with pytest.raises(SettingsError, match="can separate 75 private ones"):
        private(model, views, 0, n_components=101)
    for n_components in (0, 1.5):
        with pytest.raises(SettingsError, match=f"n_components={n_components}; .* at least 1 is needed"):
            private(model, views, 0, n_components=n_components)
    part = private(model, views, "view 1", n_components=1)
    with pytest.raises(DataError, match="view 'view 1' is missing"):
        part.transform([None, views[1]])


def test_where_nothing_is_common_all_is_private():
    views, _ = simulate.independent(400, random_state=0)
    with pytest.warns(match="."):
        model = LocalCCA(neighborhoods="knn", landmarks=100, random_state=0).fit(views)
    with pytest.raises(DataError, match="all of view 'view 1' is private"):
        private(model, views, 0)


def test_a_view_without_a_private_part_is_said_to_have_none():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    own = np.random.default_rng(1).uniform(-0.5, 0.5, 600)
    views = [circle, np.column_stack([circle, own])]
    model = LocalCCA(neighborhoods="knn", landmarks=200, random_state=0).fit(views)
    with pytest.raises(DataError, match="no private part that can be separated"):
        private(model, views, 0)
