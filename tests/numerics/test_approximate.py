"""Neighbours by pynndescent against those of all pairs. It compiles for a minute or more, once for all tests here."""

import sys

import numpy as np
import pytest

from dlcca.numerics import neighbors
from dlcca.numerics.neighbors import (
    Index,
    checked_landmarks,
    joint_neighbors,
    recall,
    shards,
    spread,
)
from tests.numerics.cases import index_neighbors, neighbor_recall


def recordings(n, dims=(20, 30), seed=0):
    """Views of a common angle and one of their own, mixed into many channels, with a mean and a little noise."""
    rng = np.random.default_rng(seed)
    z, *private = rng.uniform(0, 2 * np.pi, (3, n))
    views = []
    for e, d in zip(private, dims, strict=False):
        hidden = np.column_stack([np.cos(z), np.sin(z), 2 * np.cos(e), 2 * np.sin(e)])
        views.append(10 + hidden @ rng.standard_normal((4, d)) + 0.05 * rng.standard_normal((n, d)))
    return views


@pytest.mark.slow
def test_nearly_all_neighbors_are_found_and_come_with_their_exact_distances():
    views = recordings(5000)  # beyond 1 MB, pynndescent compiles for 10 s more
    spreads = [spread(X) for X in views]
    landmarks = np.arange(0, 5000, 13)
    found = Index.of(views, spreads, first_row=50).nearest([X[landmarks] for X in views], 64)
    exact = joint_neighbors(views, landmarks, 64)
    shared = [len(set(a - 50) & set(b)) / 64 for a, b in zip(found.rows, exact, strict=True)]
    assert np.mean(shared) > 0.97
    np.testing.assert_array_equal(found.rows[:, 0] - 50, landmarks)
    for i in range(0, len(landmarks), 100):
        each = [
            ((X[found.rows[i] - 50] - X[landmarks[i]]) ** 2).sum(axis=1) / s**2
            for X, s in zip(views, spreads, strict=True)
        ]
        np.testing.assert_allclose(found.distances[i], np.maximum(*each), rtol=1e-9)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    assert all(len(set(rows)) == 64 for rows in found.rows.tolist())


@pytest.mark.slow
def test_the_same_samples_give_the_same_index_and_rounding_in_the_spreads_gives_no_other():
    views = recordings(3000)
    spreads = [spread(X) for X in views]
    first = Index.of(views, spreads).nearest([X[:500] for X in views], 20)
    nudged = [s * (1 + 1e-13) for s in spreads]
    again = Index.of(views, nudged).nearest([X[:500] for X in views], 20)
    np.testing.assert_array_equal(first.rows, again.rows)


@pytest.mark.slow
def test_shards_searched_one_after_another_find_what_one_index_finds(monkeypatch):
    views = recordings(5000)
    landmarks = np.arange(0, 5000, 25)
    monkeypatch.setattr(neighbors, "SHARD", 2000)
    found = index_neighbors(views, landmarks, 40)
    assert neighbor_recall(views, landmarks, found) > 0.98


@pytest.mark.slow
def test_samples_that_come_back_are_all_found_or_others_at_the_same_distance():
    views = [np.repeat(X, 10, axis=0) for X in recordings(300)]
    landmarks = np.arange(0, 3000, 30)
    found = index_neighbors(views, landmarks, 30)
    assert neighbor_recall(views, landmarks, found) > 0.95


@pytest.mark.slow
def test_white_noise_in_many_channels_is_found_badly_and_said_so():
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((4000, 30)) for _ in range(2)]
    landmarks = np.arange(0, 4000, 40)
    assert neighbor_recall(views, landmarks, index_neighbors(views, landmarks, 64)) < 0.95


def test_few_samples_are_all_looked_at_without_pynndescent():
    before = "pynndescent" in sys.modules
    views = recordings(neighbors.FEW)
    landmarks = np.arange(0, neighbors.FEW, 10)
    found = index_neighbors(views, landmarks, 30)
    np.testing.assert_array_equal(found, joint_neighbors(views, landmarks, 30))
    assert neighbor_recall(views, landmarks, found) == 1.0
    assert ("pynndescent" in sys.modules) == before


def test_recall_is_the_share_of_neighbors_as_near_as_the_exact_ones():
    exact = np.array([[0.0, 1.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    found = np.array([[0.0, 2.0, 2.0, 3.0], [0.0, 0.0, 0.5, 0.5]])
    assert recall(found, exact) == (3 + 2) / 8


def test_recall_of_wrong_neighbors_is_measured_at_the_landmarks_looked_at():
    views = recordings(400)
    landmarks = np.arange(400)
    neighbors = joint_neighbors(views, landmarks, 10)
    looked_at = checked_landmarks(400)
    assert len(looked_at) == 200
    neighbors[looked_at[:50], 5:] = joint_neighbors(views, landmarks[looked_at[:50]], 400)[:, -5:]
    assert neighbor_recall(views, landmarks, neighbors) == pytest.approx(1 - 50 * 5 / 2000)


@pytest.mark.parametrize("n", [1, 2, neighbors.SHARD, neighbors.SHARD + 1, 1_000_003])
def test_shards_cover_all_samples_once_in_their_order_and_none_is_too_long(n):
    found = shards(n)
    assert [first for first, _ in found] == [0, *(last for _, last in found[:-1])]
    assert found[-1][1] == n
    assert max(last - first for first, last in found) <= neighbors.SHARD
