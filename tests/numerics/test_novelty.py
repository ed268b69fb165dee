"""How far rows lie from landmarks, held against loops over all pairs."""

import numpy as np
import pytest

from dlcca.numerics import landmarks
from dlcca.numerics.landmarks import cover, coverage_radius, nearest_distances


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(60, 4)) + 1e4


@pytest.mark.parametrize("entries", [1, 100, 1 << 20])
def test_the_nearest_landmark_is_that_of_a_loop(rows, entries, monkeypatch):
    monkeypatch.setattr(landmarks, "TILE_ENTRIES", entries)
    L = rows[::7]
    expected = [min(np.linalg.norm(x - p) for p in L) for x in rows]
    np.testing.assert_allclose(nearest_distances(rows, L), expected, atol=1e-6)


@pytest.mark.parametrize("apart", [1, 5, 100])
@pytest.mark.parametrize("entries", [30, 1 << 20])
def test_landmarks_too_near_in_time_do_not_count(rows, apart, entries, monkeypatch):
    monkeypatch.setattr(landmarks, "TILE_ENTRIES", entries)
    at = np.array([3, 40, 11, 57])
    found = nearest_distances(rows, rows[at], (np.arange(60), at), apart)
    for j, x in enumerate(rows):
        others = [np.linalg.norm(x - rows[i]) for i in at if abs(i - j) >= apart]
        assert found[j] == pytest.approx(min(others, default=np.inf))


def test_the_reach_leaves_out_what_has_no_landmark_and_is_never_rounding(rows):
    distances = np.array([*np.linspace(0, 1, 1001), np.inf, np.nan])
    assert coverage_radius(distances, rows) == pytest.approx(0.999)
    spread = np.sqrt(rows.var(axis=0).sum())
    assert coverage_radius(np.zeros(5), rows) == pytest.approx(1e-6 * spread)
    assert coverage_radius(np.full(5, np.inf), rows) == pytest.approx(1e-6 * spread)


def test_a_cover_brings_every_row_within_reach_of_some_landmark(rows):
    other = np.random.default_rng(1).normal(size=(60, 2))
    units = [1.0, 0.7]
    nearest = np.full(60, 9.0)
    nearest[7] = 9.5
    taken = cover([rows, other], units, nearest, 60)
    assert taken[0] == 7
    assert len(set(taken)) == len(taken) < 60
    for j in range(60):
        assert any(
            max(np.linalg.norm(rows[j] - rows[i]) / 1.0, np.linalg.norm(other[j] - other[i]) / 0.7) <= 1 for i in taken
        )
    assert len(cover([rows, other], units, nearest, 4)) == 4
    assert len(cover([rows, other], units, np.full(60, 0.9), 60)) == 0
