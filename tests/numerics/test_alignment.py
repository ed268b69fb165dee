"""The turn that lays coordinates on others, and how much then differs."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes
from scipy.stats import ortho_group

from dlcca.numerics.coordinates import change, rotation


@pytest.fixture
def old():
    return np.random.default_rng(0).normal(size=(50, 3))


def test_a_turn_is_found_and_undone(old):
    Q = ortho_group.rvs(3, random_state=1)
    R = rotation(old @ Q, old)
    np.testing.assert_allclose(R, Q.T, atol=1e-12)
    assert change(old @ Q @ R, old).r2 == pytest.approx(1)


def test_the_turn_is_that_of_scipy_for_coordinates_that_differ_otherwise_too(old):
    new = old @ ortho_group.rvs(3, random_state=1) + 0.3 * np.random.default_rng(1).normal(size=old.shape)
    np.testing.assert_allclose(rotation(new, old), orthogonal_procrustes(new, old)[0], atol=1e-12)


def test_signs_alone_turn_axes_around(old):
    new = old * [1, -1, -1]
    np.testing.assert_array_equal(rotation(new, old, only_signs=True), np.diag([1, -1, -1]))


def test_rows_that_either_does_not_know_are_left_out(old):
    Q = ortho_group.rvs(3, random_state=1)
    new, holed = old @ Q, old.copy()
    new[3], holed[7, 1] = np.nan, np.nan
    np.testing.assert_allclose(rotation(new, holed), Q.T, atol=1e-12)
    found = change(new @ Q.T, holed)
    assert (found.rows, found.relative) == (48, pytest.approx(0, abs=1e-12))


def test_the_change_is_told_by_its_definitions(old):
    new = old.copy()
    new[0, 0] += 2
    found = change(new, old)
    about = old - old.mean(axis=0)
    unit = np.sqrt((about**2).sum() / 50)
    assert found.r2 == pytest.approx(1 - 4 / (about**2).sum())
    assert found.relative == pytest.approx(np.sqrt(4 / 50) / unit)
    assert found.largest == pytest.approx(2 / unit)
    np.testing.assert_allclose(found.correlations, [np.corrcoef(new[:, i], old[:, i])[0, 1] for i in range(3)])


def test_coordinates_of_other_rows_cannot_be_compared(old):
    with pytest.raises(ValueError, match="not of the same rows"):
        rotation(old[:10], old)
