"""Covariance features against the matrix logarithm of SciPy."""

import numpy as np
import scipy.linalg

from dlcca.recordings.features import Covariances


def logarithms(X: np.ndarray, ridge: float) -> np.ndarray:
    """(w, c, c), window by window."""
    made = []
    for window in X:
        C = np.cov(window.T, bias=True).reshape(X.shape[2], X.shape[2])
        made.append(scipy.linalg.logm(C + ridge * np.trace(C) / len(C) * np.eye(len(C))).real)
    return np.array(made)


def features(X: np.ndarray, ridge: float = 1e-3) -> np.ndarray:
    feature = Covariances(ridge)
    return feature.scaled(feature.unscaled(X), np.zeros(X.shape[2]), np.ones(X.shape[2]))


def test_distances_of_features_are_those_of_matrix_logarithms():
    X = np.random.default_rng(0).standard_normal((6, 50, 4)) * [1, 2, 5, 0.1]
    F, L = features(X), logarithms(X, 1e-3)
    for i in range(6):
        for j in range(6):
            np.testing.assert_allclose(np.linalg.norm(F[i] - F[j]), np.linalg.norm(L[i] - L[j]), atol=1e-9)


def test_the_diagonal_comes_as_it_is():
    X = np.random.default_rng(1).standard_normal((3, 40, 3))
    F, L = features(X), logarithms(X, 1e-3)
    names = Covariances().names(["a", "b", "c"])
    assert names[3] == "log covariance of b and b"
    np.testing.assert_allclose(F[:, 3], L[:, 1, 1], atol=1e-9)


def test_one_channel_gives_the_log_of_its_variance():
    X = np.random.default_rng(2).standard_normal((3, 40, 1))
    np.testing.assert_allclose(features(X, 1e-9)[:, 0], np.log(X.var(axis=1)[:, 0]), atol=1e-6)


def test_channels_that_are_the_same_do_not_give_infinities():
    x = np.random.default_rng(3).standard_normal((2, 40, 1))
    assert np.isfinite(features(np.concatenate([x, x], axis=2))).all()
