"""The fixed sign of coordinates against its twin."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.coordinates import signs
from tests.numerics.cases import quick, seeds
from tests.reference.signs import column_signs, fix_sign


@quick
@given(seed=seeds, n=st.integers(1, 30), q=st.integers(0, 5), mirrored=st.booleans())
def test_signs_equal_the_literal_ones(seed, n, q, mirrored):
    Psi = np.random.default_rng(seed).standard_normal((n, q))
    if mirrored:
        Psi = np.concatenate([Psi, -Psi[::-1]])  # no longer tail: the largest entry decides
    np.testing.assert_array_equal(signs(Psi), column_signs(Psi))
    np.testing.assert_array_equal(signs(Psi) * Psi, fix_sign(Psi))


@quick
@given(seed=seeds, n=st.integers(1, 30), q=st.integers(1, 5))
def test_a_solver_that_flips_a_column_changes_nothing(seed, n, q):
    rng = np.random.default_rng(seed)
    Psi, flip = rng.standard_normal((n, q)), rng.choice([-1.0, 1.0], q)
    np.testing.assert_array_equal(signs(Psi * flip) * Psi * flip, signs(Psi) * Psi)


def test_a_column_of_zeros_keeps_its_sign():
    np.testing.assert_array_equal(signs(np.zeros((4, 2))), 1)
