"""``fusion="auto"`` of neighbours in state: alternating where the metrics can tell what is common, else the average."""

import numpy as np
import pytest
import zarr

from dlcca import simulate
from dlcca.fitting import runner
from dlcca.fitting.chance_correlation import by_chance
from dlcca.fitting.in_memory import settle
from dlcca.settings.fit import Settings
from dlcca.trust.significance import null_edge

KNN = Settings.from_options(neighborhoods="knn")


def narrow():
    return simulate.torus(600, noise=0.02, random_state=0)[0]


def full(channels=30, n=600):
    """Two views that are nearly full in every direction, and share a little."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n, 3))
    return [np.hstack([z, rng.standard_normal((n, channels - 3))]) for _ in range(2)]


def chance(views, settings=KNN):
    return by_chance(lambda rows: [X[rows] for X in views], len(views[0]), settings)


@pytest.mark.parametrize(("views", "fusion"), [(narrow(), "alternating"), (full(), "average")])
def test_the_directions_of_the_neighborhoods_decide_the_fusion(views, fusion):
    assert settle(KNN, views).settings.kernel.fusion == fusion


def test_more_neighbours_leave_less_to_chance():
    views = full()
    wider = KNN.with_options(n_neighbors=256)
    assert chance(views, wider) < chance(views) - 0.1
    assert settle(wider, views).settings.kernel.fusion == "alternating"


def test_chance_does_not_depend_on_what_views_share():
    views = full()
    rng = np.random.default_rng(1)
    assert chance([views[0], views[1][rng.permutation(600)]]) == pytest.approx(chance(views), abs=0.02)


def test_without_a_ridge_chance_is_the_edge_of_all_channels():
    views = full(channels=10)
    expected = float(null_edge(np.array([[10, 10]]), 64)[0])
    assert chance(views, KNN.with_options(ridge=0.0)) == pytest.approx(expected, abs=1e-9)


def test_what_cannot_be_looked_at_decides_nothing():
    views = full(n=40)
    assert chance(views) == 0.0  # fewer samples than neighbours
    holes = full()
    holes[1][7, 2] = np.nan
    assert chance(holes) == 0.0


@pytest.mark.parametrize(("views", "fusion"), [(narrow(), "alternating"), (full(), "average")])
def test_a_run_chooses_as_a_fit_in_memory_does(tmp_path, views, fusion):
    for name, X in zip("ab", views, strict=True):
        zarr.create_array(tmp_path / f"{name}.zarr", data=X)
    addresses = {name: str(tmp_path / f"{name}.zarr") for name in "ab"}
    job, choices = runner.prepared(str(tmp_path / "run.zarr"), addresses, KNN, 0)
    assert job.options["fusion"] == choices.settings.kernel.fusion == fusion
    assert "fusion" in choices.reasons
