"""Principal components from blocks against an SVD of all rows."""

import numpy as np
import pytest

from dlcca.numerics.streaming import Moments, principal


@pytest.mark.parametrize("sizes", [[200], [1, 120, 0, 79]])
def test_components_are_those_of_all_rows_together(sizes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 5)) + 1e4
    blocks = np.split(X, np.cumsum(sizes)[:-1])
    mean, V, variances = principal([Moments.of(X, products=True) for X in blocks], 3)
    _, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(mean, X.mean(axis=0))
    np.testing.assert_allclose(variances, s[:3] ** 2 / 200, rtol=1e-6)
    np.testing.assert_allclose(np.abs(V.T @ Vt[:3].T), np.eye(3), atol=1e-6)
    assert ((V**3).sum(axis=0) > 0).all()
