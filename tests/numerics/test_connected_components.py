"""Connected components of kernels, and how many landmarks a row has weights on."""

import numpy as np
import pytest
import scipy.sparse as sp

from dlcca.numerics.kernels import balanced, gram, gram_components, landmarks_seen


def blocks(rng, sizes):
    """A kernel of so many pieces, each of some rows and half as many landmarks."""
    return sp.block_diag([rng.uniform(0.1, 1, (size, size // 2)) for size in sizes], format="csr")


def n_connected_components(kernels):
    A = [balanced(W)[0] for W in kernels]
    return len(gram_components({(u, v): gram(A[u], A[v]) for u in range(len(A)) for v in range(u, len(A))}))


@pytest.mark.parametrize("sizes", [[20], [10, 14], [8, 10, 12, 6]])
@pytest.mark.parametrize("dense", [False, True])
def test_pieces_are_as_many_as_eigenvalues_of_one(sizes, dense):
    W = blocks(np.random.default_rng(0), sizes)
    W = W.toarray() if dense else W
    A = balanced(W)[0]
    values = np.linalg.eigvalsh((A @ A.T).toarray() if sp.issparse(A) else A @ A.T)
    assert n_connected_components([W]) == len(sizes) == (values > 1 - 1e-9).sum()


def test_what_one_kernel_leaves_apart_another_may_join():
    rng = np.random.default_rng(0)
    apart, together = blocks(rng, [10, 10]), blocks(rng, [20])
    assert n_connected_components([apart, apart]) == 2
    assert n_connected_components([apart, together]) == 1


def test_a_weight_that_is_nothing_joins_nothing():
    W = blocks(np.random.default_rng(0), [10, 10]).toarray()
    W[0, -1] = 1e-12
    assert n_connected_components([W]) == n_connected_components([sp.csr_array(W)]) == 2
    W[0, -1] = 1e-3
    assert n_connected_components([W]) == n_connected_components([sp.csr_array(W)]) == 1


def test_a_row_sees_as_many_landmarks_as_it_weighs_alike():
    W = np.array([[1.0, 1, 1, 1], [1, 0, 0, 0], [2, 2, 0, 0]])
    np.testing.assert_allclose(landmarks_seen(W), [4, 1, 2])
    np.testing.assert_allclose(landmarks_seen(sp.csr_array(W)), [4, 1, 2])


def test_components_of_several_kernels_are_those_of_all_of_them_together():
    rng = np.random.default_rng(0)
    apart = np.kron(np.eye(3), rng.uniform(0.1, 1, (20, 4)))
    together = rng.uniform(0.1, 1, apart.shape)
    for kernels, expected in (([apart], 3), ([apart, apart], 3), ([apart, together], 1)):
        assert n_connected_components(kernels) == expected


def test_components_are_sorted_by_their_landmarks_and_those_without_a_sample_do_not_count():
    A, C = balanced(np.insert(blocks(np.random.default_rng(0), [10, 14, 6]).toarray(), 3, 0.0, axis=1))
    assert C[3] == 0
    np.testing.assert_array_equal(gram_components({(0, 0): A.T @ A}), [7, 5, 3])
