"""Harmonics, outliers, halves and pieces: what may be the matter with coordinates and kernels."""

import numpy as np
import pytest
import scipy.sparse as sp

from dlcca.numerics.affinity import balanced
from dlcca.numerics.connected_components import landmarks_seen, n_pieces
from dlcca.trust.coordinate_checks import carriers, independent, residual, told_by


def test_harmonics_of_a_line_are_functions_of_the_first_coordinate():
    z = np.random.default_rng(0).uniform(0, 1, 1500)
    E = np.cos(np.pi * np.outer(z, np.arange(1, 5)))
    assert independent(E) == [0]
    assert residual(E[:, :1], E[:, 1]) < 0.05


def test_the_second_coordinate_of_a_circle_is_none_of_the_first():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 1500)
    E = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)])
    assert independent(E) == [0, 1]


def test_the_independent_coordinate_of_a_rectangle_comes_after_harmonics_of_its_long_side():
    u, v = np.random.default_rng(0).uniform(0, 1, (2, 2000))
    E = np.column_stack([np.cos(np.pi * u), np.cos(2 * np.pi * u), np.cos(np.pi * v), np.cos(np.pi * (u + v))])
    assert independent(E) == [0, 2]
    # Without the first the second is two-to-one, and the last is no function of what remains.
    assert independent(E, np.array([False, True, True, True])) == [1, 2, 3]


def test_noise_is_no_function():
    E = np.random.default_rng(0).standard_normal((800, 3))
    assert independent(E) == [0, 1, 2]
    assert residual(E[:, :0], E[:, 0]) == 1.0


def test_a_coordinate_of_one_row_is_told_from_one_of_all():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((500, 2))
    E[:, 1] *= 0.01
    E[7, 1] = 1.0
    few = carriers(E)
    assert few[1] == 1 / 500
    assert 0.1 < few[0] < 0.16  # 0.13 for a normal variable


def test_coordinates_are_told_however_they_are_turned():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((300, 2))
    np.testing.assert_allclose(told_by(E, E @ rng.standard_normal((2, 2)) + 3), 1, atol=1e-12)
    assert (told_by(E, rng.standard_normal((300, 2))) < 0.1).all()


def blocks(rng, sizes):
    """A kernel of so many pieces, each of some rows and half as many landmarks."""
    return sp.block_diag([rng.uniform(0.1, 1, (size, size // 2)) for size in sizes], format="csr")


@pytest.mark.parametrize("sizes", [[20], [10, 14], [8, 10, 12, 6]])
@pytest.mark.parametrize("dense", [False, True])
def test_pieces_are_as_many_as_eigenvalues_of_one(sizes, dense):
    W = blocks(np.random.default_rng(0), sizes)
    W = W.toarray() if dense else W
    A = balanced(W)[0]
    values = np.linalg.eigvalsh((A @ A.T).toarray() if sp.issparse(A) else A @ A.T)
    assert n_pieces([W]) == len(sizes) == (values > 1 - 1e-9).sum()


def test_what_one_kernel_leaves_apart_another_may_join():
    rng = np.random.default_rng(0)
    apart, together = blocks(rng, [10, 10]), blocks(rng, [20])
    assert n_pieces([apart, apart]) == 2
    assert n_pieces([apart, together]) == 1


def test_a_weight_that_is_nothing_joins_nothing():
    W = blocks(np.random.default_rng(0), [10, 10]).toarray()
    W[0, -1] = 1e-12
    assert n_pieces([W]) == n_pieces([sp.csr_array(W)]) == 2
    W[0, -1] = 1e-3
    assert n_pieces([W]) == n_pieces([sp.csr_array(W)]) == 1


def test_a_row_sees_as_many_landmarks_as_it_weighs_alike():
    W = np.array([[1.0, 1, 1, 1], [1, 0, 0, 0], [2, 2, 0, 0]])
    np.testing.assert_allclose(landmarks_seen(W), [4, 1, 2])
    np.testing.assert_allclose(landmarks_seen(sp.csr_array(W)), [4, 1, 2])
