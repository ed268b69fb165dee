"""Scores of coordinates: against slow twins, and what they promise."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from dlcca.trust import scores


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
