"""Our CCA of neighborhoods against cca-zoo's of each neighborhood in turn."""

import numpy as np
import pytest
from cca_zoo.linear import RidgeCCA
from numpy.testing import assert_allclose

from dlcca.numerics.coordinates import signs
from dlcca.numerics.metrics.cca import local_cca
from tests.baselines.problems import related_views


@pytest.mark.parametrize(("k", "channels"), [(40, (3, 4)), (8, (12, 9))])
@pytest.mark.parametrize("ridge", [0.03, 0.3])
def test_correlations_and_directions_agree_with_cca_zoo_once_its_shares_are_mapped(k, channels, ridge):
    # Theirs is (1 - c) Σ + c I and ours Σ + rλ I: the same up to a factor when c / (1 - c) = rλ.
    neighborhoods = [related_views(k, channels, seed=seed) for seed in range(4)]
    X, Y = (np.stack(views) for views in zip(*neighborhoods, strict=True))
    P_x, P_y, rho = local_cca(X, Y, ridge=ridge)
    for i, views in enumerate(neighborhoods):
        added = [ridge * np.linalg.eigvalsh(np.cov(V.T))[-1] for V in views]
        shrinkage = [a / (1 + a) for a in added]
        peer = RidgeCCA(n_components=2, shrinkage=shrinkage).fit(views)
        sign = 1.0
        theirs = []
        for ours, weights, c in zip((P_x, P_y), peer.weights_, shrinkage, strict=True):
            scaled = weights * np.sqrt(1 - c)
            if not theirs:  # one sign for both views, or their correlation would turn
                sign = signs(scaled) * signs(ours[i][:, :2])
            theirs.append(scaled * sign)
            assert_allclose(ours[i][:, :2], theirs[-1], atol=1e-7)
        cross = np.cov(np.hstack([V - V.mean(axis=0) for V in views]).T)[: channels[0], channels[0] :]
        assert_allclose(rho[i, :2], np.diag(theirs[0].T @ cross @ theirs[1]), rtol=1e-8)
