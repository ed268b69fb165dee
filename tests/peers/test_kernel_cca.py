"""Our kernel CCA against that of cca-zoo."""

import numpy as np
import pytest
from cca_zoo.nonparametric import KCCA
from numpy.testing import assert_allclose

from dlcca.baselines import kernel_cca
from dlcca.numerics.coordinates import signs
from tests.baselines.problems import related_views


@pytest.mark.parametrize("channels", [(3, 2), (3, 2, 4)])
def test_it_agrees_with_cca_zoo_once_the_regularisation_is_mapped(channels):
    # Theirs is (1 - c) K²/(n - 1) + c K and ours K² + rλ K. With their kernels multiplied by s, the two differ by one
    # factor for all views when (n - 1) c / (1 - c) = s rλ in each.
    n, ridge, sigma, c = 60, 0.1, 4.0, 0.2
    views = related_views(n, channels)
    kernels = []
    for X in views:
        K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma)
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        s = (n - 1) * c / (1 - c) / (ridge * np.linalg.eigvalsh(K)[-1])
        kernels.append(lambda x, y, s=s: s * np.exp(-((x - y) ** 2).sum() / sigma))
    theirs = KCCA(n_components=3, kernel=kernels, shrinkage=c).fit_transform(views)[0]
    ours = kernel_cca(views, 3, bandwidth=sigma, ridge=ridge).embedding
    scaled = [Z / Z.std(axis=0) * signs(Z) for Z in (ours, theirs)]
    assert_allclose(*scaled, atol=1e-8)
