"""Our linear CCA against those of scikit-learn and of cca-zoo."""

import numpy as np
import pytest
from cca_zoo.linear import CCA, GCCA, MCCA, RidgeCCA
from numpy.testing import assert_allclose
from sklearn.cross_decomposition import CCA as SklearnCCA

from dlcca.baselines import linear_cca
from dlcca.numerics.coordinates import signs
from tests.baselines.problems import related_views


def standardised(scores):
    """Columns of unit variance under our rule of signs."""
    scores = scores / scores.std(axis=0, ddof=1)
    return scores * signs(scores)


def mean_of(variates):
    """The mean over the views of variates that each have unit variance."""
    return np.mean([Z / Z.std(axis=0, ddof=1) for Z in variates], axis=0)


def test_two_views_agree_with_scikit_learn():
    X, Y = related_views(300, [5, 4])
    ours = linear_cca([X, Y], 3)
    peer = SklearnCCA(3, scale=False, max_iter=100_000, tol=1e-14)
    variates = peer.fit_transform(X, Y)
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(variates[0].T, variates[1].T, strict=True)]
    assert_allclose(ours.eigenvalues, correlations, rtol=1e-8)
    assert_allclose(standardised(ours.embedding), standardised(mean_of(variates)), atol=1e-5)


def test_two_views_agree_with_cca_zoo():
    views = related_views(300, [5, 4])
    ours = linear_cca(views, 3)
    variates = CCA(n_components=3).fit_transform(views)
    correlations = [np.corrcoef(a, b)[0, 1] for a, b in zip(variates[0].T, variates[1].T, strict=True)]
    assert_allclose(ours.eigenvalues, correlations, rtol=1e-10)
    assert_allclose(standardised(ours.embedding), standardised(mean_of(variates)), atol=1e-8)


@pytest.mark.parametrize("ridge", [0.03, 0.5])
def test_a_ridge_agrees_with_cca_zoo_once_its_shares_are_mapped(ridge):
    # Theirs is (1 - c) Σ + c I and ours Σ + rλ I: the same up to a factor when c / (1 - c) = rλ.
    views = related_views(300, [5, 4])
    added = [ridge * np.linalg.eigvalsh(np.cov(X.T))[-1] for X in views]
    shrinkage = [a / (1 + a) for a in added]
    variates = RidgeCCA(n_components=3, shrinkage=shrinkage).fit_transform(views)
    ours = linear_cca(views, 3, ridge=ridge)
    # Their variates have (1 - c) Σ + c I as the identity: larger than ours by 1/√(1 - c).
    theirs = [Z * np.sqrt(1 - c) for Z, c in zip(variates, shrinkage, strict=True)]
    mean = np.mean(theirs, axis=0)
    assert_allclose(ours.embedding, mean * signs(mean), atol=1e-8)
    covariances = (theirs[0] * theirs[1]).sum(axis=0) / 299
    assert_allclose(ours.eigenvalues, covariances, rtol=1e-9)


@pytest.mark.parametrize("peer", [MCCA, GCCA])
def test_three_views_agree_with_cca_zoo(peer):
    views = related_views(300, [5, 4, 6])
    ours = linear_cca(views, 3)
    mean = np.mean(peer(n_components=3).fit_transform(views), axis=0)
    assert_allclose(standardised(ours.embedding), standardised(mean), atol=1e-7)
