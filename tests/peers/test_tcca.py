"""Our rank-1 approximation, which never forms the tensor, against tensorly's of the formed one."""

import numpy as np
import pytest
import tensorly
from numpy.testing import assert_allclose
from tensorly.decomposition import parafac

from dlcca.numerics.metrics.tcca import rank_one


def scores_and_tensor(sizes, seed, k=12):
    """Scores (1, k, p_v) with one direction per mode that stands out, and the tensor Σ_i z_i ⊗ z_i ⊗ ... of them."""
    rng = np.random.default_rng(seed)
    shared = rng.exponential(size=k)
    scores = [np.outer(shared, rng.standard_normal(p)) + 0.5 * rng.standard_normal((k, p)) for p in sizes]
    tensor = np.zeros(sizes)
    for rows in zip(*scores, strict=True):
        product = rows[0]
        for row in rows[1:]:
            product = np.multiply.outer(product, row)
        tensor += product
    return [Z[None] for Z in scores], tensor


@pytest.mark.parametrize("sizes", [(4, 3, 5), (2, 2, 2), (3, 4, 2, 3)])
@pytest.mark.parametrize("seed", range(5))
def test_weight_and_directions_agree_with_tensorly(sizes, seed):
    scores, tensor = scores_and_tensor(sizes, seed)
    ours = rank_one(scores, rng=np.random.default_rng(0), restarts=5, sweeps=1000, tol=1e-14)
    peer = parafac(tensorly.tensor(tensor), rank=1, n_iter_max=2000, tol=1e-15, init="svd", normalize_factors=True)
    assert ours.converged[0]
    assert_allclose(ours.rho[0], peer.weights[0], rtol=1e-8)
    for u, factor in zip(ours.vectors, peer.factors, strict=True):
        assert_allclose(abs(u[0] @ factor[:, 0]), 1, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_a_tensor_without_a_clear_direction_is_approximated_no_worse_than_by_tensorly(seed):
    rng = np.random.default_rng(seed)
    scores = [rng.standard_normal((1, 12, p)) for p in (4, 3, 5)]
    tensor = np.einsum("ia,ib,ic->abc", *(Z[0] for Z in scores))
    ours = rank_one(scores, rng=rng, restarts=10, sweeps=2000)
    peers = [
        parafac(tensor, rank=1, n_iter_max=2000, tol=1e-12, init=init, random_state=0, normalize_factors=True)
        for init in ("svd", "random")
    ]
    assert ours.rho[0] >= max(peer.weights[0] for peer in peers) * (1 - 1e-6)
