"""Scores of coordinates: against slow twins, and what they promise."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from dlcca.trust import scores
from dlcca.trust.scores import filter_r2, linear_r2
from tests.reference import filter_r2 as literal


@pytest.fixture
def circle():
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 2 * np.pi, 400)
    return np.stack([np.cos(phase), np.sin(phase)], axis=1) + 0.3 * rng.standard_normal((400, 2)), phase


def slow_phase_score(X, phase, fold, k):
    """The definition, one sample at a time."""
    errors = []
    for i in range(len(X)):
        others = [j for j in range(len(X)) if fold[j] != fold[i]]
        near = sorted(others, key=lambda j: sum((X[i] - X[j]) ** 2))[:k]
        guess = np.angle(sum(np.exp(1j * phase[j]) for j in near))
        errors.append(np.exp(1j * (guess - phase[i])))
    return abs(sum(errors)) / len(errors)


def test_the_phase_score_is_its_definition(circle):
    X, phase = circle
    X, phase = X[:120], phase[:120]
    fold = scores.blocked_folds(120)
    assert scores.phase_score(X, phase, fold, k=7) == pytest.approx(slow_phase_score(X, phase, fold, 7), abs=1e-12)


def test_a_phase_is_told_by_a_circle_and_not_by_noise(circle):
    X, phase = circle
    fold = scores.blocked_folds(len(X))
    noise = np.random.default_rng(1).standard_normal(X.shape)
    assert scores.phase_score(X, phase, fold) > 0.9
    assert scores.phase_score(noise, phase, fold) < 0.2


def test_a_phase_has_no_beginning(circle):
    X, phase = circle
    fold = scores.blocked_folds(len(X))
    turned = scores.phase_score(X, phase + 2, fold)
    assert turned == pytest.approx(scores.phase_score(X, phase, fold), abs=1e-12)
    assert turned == pytest.approx(scores.phase_score(X, (phase + 2) % (2 * np.pi), fold), abs=1e-12)


def test_the_score_of_a_variable_is_that_of_scikit_learn(circle):
    X, phase = circle
    z = np.cos(phase)
    fold = scores.blocked_folds(len(X))
    guess = cross_val_predict(KNeighborsRegressor(15), X, z, cv=PredefinedSplit(fold))
    assert scores.variable_score(X, z, fold) == pytest.approx(r2_score(z, guess), abs=1e-12)


def test_variables_count_alike_whatever_their_units(circle):
    X, phase = circle
    fold = scores.blocked_folds(len(X))
    both = np.stack([np.cos(phase), np.sin(3 * phase)], axis=1)
    alone = [scores.variable_score(X, z, fold) for z in both.T]
    assert scores.variable_score(X, both * [1, 1000], fold) == pytest.approx(np.mean(alone), abs=1e-12)


def test_what_never_changes_has_no_score(circle):
    assert np.isnan(scores.variable_score(circle[0], np.full(400, 0.1), scores.blocked_folds(400)))


def test_the_score_of_labels_is_that_of_scikit_learn(circle):
    X, phase = circle
    labels = np.array(["north", "east", "west"])[np.searchsorted([1, 3], phase)]
    fold = scores.stratified_folds(labels, np.random.default_rng(0))
    guess = cross_val_predict(KNeighborsClassifier(15), X, labels, cv=PredefinedSplit(fold))
    assert scores.label_score(X, labels, fold) == pytest.approx(balanced_accuracy_score(labels, guess), abs=1e-12)


def test_the_score_does_not_depend_on_how_many_distances_are_held(circle, monkeypatch):
    X, phase = circle
    fold = scores.blocked_folds(len(X))
    whole = scores.variable_score(X, phase, fold)
    monkeypatch.setattr(scores, "_BLOCK", 1000)
    assert scores.variable_score(X, phase, fold) == whole


@pytest.mark.parametrize("n", [5, 23, 100])
def test_blocked_folds_are_stretches_of_nearly_equal_length(n):
    fold = scores.blocked_folds(n)
    assert (np.diff(fold) >= 0).all()
    lengths = np.bincount(fold)
    assert len(lengths) == 5
    assert lengths.max() - lengths.min() <= 1


def test_stratified_folds_have_an_equal_share_of_every_label():
    labels = np.repeat([3, 1, 2], [50, 25, 12])
    fold = scores.stratified_folds(labels, np.random.default_rng(0))
    for label, count in ((3, 50), (1, 25), (2, 12)):
        shares = np.bincount(fold[labels == label], minlength=5)
        assert shares.max() - shares.min() <= (count % 5 > 0)


def test_columns_at_unit_variance_lose_their_units_and_constants_become_zero():
    X = np.random.default_rng(0).standard_normal((50, 3)) * [1, 1e6, 0] + [0, 5, 0.1]
    made = scores.at_unit_variance(X)
    np.testing.assert_allclose(made[:, :2].std(axis=0), 1)
    assert not made[:, 2].any()


def test_linear_r2_does_not_depend_on_how_coordinates_are_rotated_and_scaled():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((300, 2))
    np.testing.assert_allclose(linear_r2(E, E @ rng.standard_normal((2, 2)) + 3), 1, atol=1e-12)
    assert (linear_r2(E, rng.standard_normal((300, 2))) < 0.1).all()


# A linear filter of one view.

N = 300
ONE = np.zeros(N, np.int64)


def wave(degrees, phase=0.0, n=N):
    return np.cos(np.deg2rad(degrees) * np.arange(n) + phase)


def test_it_is_the_literal_twin():
    rng = np.random.default_rng(0)
    Z = np.cumsum(rng.standard_normal((N, 3)), axis=0)
    y = Z[:, 0] + 0.5 * Z[:, 2] ** 2 / 10 + rng.standard_normal(N)
    segments = (np.arange(N) >= 130).astype(np.int64)
    delays = range(-scores.SPAN, scores.SPAN + 1, 2 * scores.SPAN // (scores.DELAYS - 1))
    expected = literal.filter_r2(Z, y, segments, delays=delays, ridge=scores.RIDGE)
    assert filter_r2(Z, y, segments) == pytest.approx(expected, abs=1e-8)


def test_a_view_tells_its_own_speeds_in_any_phase_and_no_others():
    Z = np.column_stack([wave(6), wave(4)])
    assert filter_r2(Z, wave(6, 1.3), ONE) > 0.99
    assert filter_r2(Z, wave(10), ONE) < 0.2


def test_noise_tells_nothing():
    rng = np.random.default_rng(1)
    assert filter_r2(rng.standard_normal((N, 4)), wave(6), ONE) < 0.1


def test_a_constant_series_and_too_few_rows_are_no_evidence():
    Z = wave(6)[:, None]
    assert filter_r2(Z, np.ones(N), ONE) == -np.inf
    assert filter_r2(Z[:80], Z[:80, 0], ONE[:80]) == -np.inf
    assert filter_r2(Z, Z[:, 0], np.arange(N) // 20) == -np.inf


def test_a_view_that_stands_still_tells_nothing():
    assert filter_r2(np.zeros((N, 2)), wave(6), ONE) <= 0
