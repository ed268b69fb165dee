"""``window="auto"``: what it chooses by, and that it finds what is common where a fixed window does not."""

import warnings

import numpy as np
import pytest

from dlcca import LocalCCA, simulate
from dlcca.errors import Untrusted
from dlcca.fitting.auto_window import ROWS, auto_window, first_coordinate, rows_to_choose_by
from dlcca.fitting.in_memory import settle
from dlcca.numerics.windows import time_windows
from dlcca.settings.fit import Settings
from tests.support.scores import likeness, power_shares

SMALL = Settings.from_options(n_components=1, kernel="dense", solver="gram", n_neighbors=8)


def fitted(views, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(random_state=0, **options).fit(views)


def icons(scene):
    return simulate.icons(scene=scene, pictures="random", n_projections=24, random_state=103)


@pytest.mark.parametrize("scene", [1, 2])
def test_it_finds_the_common_icon_where_windows_of_8_do_not(scene):
    views, truth = icons(scene)
    rows, settings = np.arange(0, 300, 3), Settings.from_options(window="auto", landmarks=100)
    settled = settle(settings, views).settings
    shares = {}
    for window in (8, settled.neighborhoods.window):
        found = first_coordinate(settled, views, rows, time_windows(300, rows, window))
        shares[window] = power_shares(found, truth.speeds, truth.common)
    short, chosen = shares.values()
    assert short[0] < 0.5
    assert chosen[0] >= 0.9
    assert chosen[1] <= 0.05


@pytest.mark.parametrize("private", [False, True])
def test_it_keeps_short_windows_for_the_pendulums(private):
    views, truth = simulate.pendulums(private=private, n_projections=50, random_state=100)
    model = fitted(views, window="auto", landmarks=200)
    assert model.settings_.neighborhoods.window in (8, 15)
    assert likeness(model.embedding_[:, 0], truth.z) > 0.97
    assert "each view alone predicts" in model.summary()


def test_rows_of_a_long_recording_are_looked_at_in_a_few_stretches():
    n = 100_000
    rows, segments = rows_to_choose_by(n, np.repeat([0, 1], [n - 300, 300]))
    assert len(rows) == len(segments) == ROWS
    assert rows[0] == 0
    assert rows[-1] == n - 1
    assert (np.diff(segments) == 1).sum() == 4  # three jumps, and a gap of the recording
    assert (np.diff(rows)[np.diff(segments) == 0] == 1).all()


def test_a_window_fits_the_stretches_of_the_recording(monkeypatch):
    rng = np.random.default_rng(0)
    tried = []

    def first(settings, parts, landmarks, windows):
        tried.append(windows.shape[1])
        return parts[0][:, 0]

    views = [np.cumsum(rng.standard_normal((400, 3)), axis=0) for _ in range(2)]
    monkeypatch.setattr("dlcca.fitting.auto_window.first_coordinate", first)
    auto_window(views, np.arange(400) // 50, SMALL)
    assert tried == [8, 15, 31]


@pytest.mark.parametrize(
    "views",
    [[np.ones((400, 2))], [np.ones((20, 2))] * 2, [np.full((400, 2), np.nan)] * 2, [np.ones((400, 2))] * 2],
    ids=["one view", "few rows", "not finite", "nothing moves"],
)
def test_without_anything_to_compare_by_it_is_the_usual_length(views):
    window, why = auto_window(views, np.zeros(len(views[0]), np.int64), SMALL)
    assert window == 8
    assert "the usual length" in why


def test_unrelated_views_have_the_usual_length():
    views, _ = simulate.independent(400, smoothness=0.9, random_state=0)
    assert settle(Settings.from_options(window="auto"), views).settings.neighborhoods.window == 8


def test_views_on_disk_have_the_window_of_views_in_memory():
    da = pytest.importorskip("dask.array")
    views, _ = simulate.pendulums(swing=4.0, n_projections=20, random_state=104)
    model = fitted([da.from_array(X, chunks=(100, -1)) for X in views], window="auto", landmarks=60)
    same = settle(Settings.from_options(window="auto", landmarks=60), views)
    assert model.settings_.neighborhoods.window == same.settings.neighborhoods.window
    assert same.reasons["window"] in model.summary()
