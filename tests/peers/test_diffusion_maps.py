"""Our diffusion maps against pydiffmap."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pydiffmap.diffusion_map import DiffusionMap

from dlcca.baselines import diffusion_maps
from dlcca.numerics.coordinates import signs
from tests.baselines.problems import related_views


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_eigenvalues_and_coordinates_agree_with_pydiffmap(alpha):
    # Theirs: W = exp(-d²/4ε), with the k nearest samples of each; eigenvalues of the generator (P - I)/ε.
    n, sigma = 200, 3.0
    (X,) = related_views(n, [3])
    peer = DiffusionMap.from_sklearn(alpha=alpha, k=n, epsilon=sigma / 4, n_evecs=4)
    peer.fit(X)
    ours = diffusion_maps([X], 4, bandwidth=sigma, alpha=alpha)
    assert_allclose(ours.eigenvalues, 1 + peer.evals * sigma / 4, rtol=1e-9)
    scaled = [V / np.linalg.norm(V, axis=0) * signs(V) for V in (ours.embedding, peer.evecs)]
    assert_allclose(*scaled, atol=1e-8)
