"""How well coordinates come again from halves of the rows: against the twin, and where the answer is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcca.trust.scores import linear_prediction, reproduced, split_rows
from tests.reference import reproducibility as literal


def case(seed, n=50, q=3, noise=0.4):
    """Coordinates of all rows, and those of two splits: turned, mixed and noisy."""
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((n, q)) + rng.standard_normal(q)
    halves = [E @ rng.standard_normal((q, q + 1)) + noise * rng.standard_normal((n, q + 1)) for _ in range(4)]
    return E, [(halves[0], halves[1]), (halves[2], halves[3])]


@given(st.integers(0, 2**31), st.floats(0.01, 3))
@settings(max_examples=10, deadline=None)
def test_shares_and_bands_are_those_of_the_literal_twin(seed, noise):
    E, splits = case(seed, noise=noise)
    found = reproduced(E, splits)
    np.testing.assert_allclose(found.reproducibility, literal.reproducibility(E, splits), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.band, literal.band(E, splits), rtol=1e-6, atol=1e-8)


def test_halves_that_only_turn_and_mix_the_coordinates_tell_all_of_them():
    E, splits = case(0, noise=0)
    found = reproduced(E, splits)
    np.testing.assert_allclose(found.reproducibility, 1, rtol=1e-10)
    np.testing.assert_allclose(found.band, 0, atol=1e-8)


def test_halves_that_have_nothing_to_do_with_it_tell_nothing():
    rng = np.random.default_rng(0)
    E = rng.standard_normal((4000, 2))
    found = reproduced(E, [(rng.standard_normal((4000, 3)), rng.standard_normal((4000, 3)))])
    assert (found.reproducibility <= 0.01).all()
    np.testing.assert_allclose(np.sqrt(np.mean(found.band**2, axis=0)), E.std(axis=0), rtol=0.02)


def test_what_one_half_does_not_know_is_not_reproduced():
    rng = np.random.default_rng(1)
    E = rng.standard_normal((3000, 2))
    found = reproduced(E, [(E, E[:, :1])])
    assert found.reproducibility[0] == pytest.approx(1)
    assert found.reproducibility[1] <= 0.01


def test_the_share_does_not_depend_on_the_unit_and_the_band_goes_with_it():
    E, splits = case(2)
    found, larger = reproduced(E, splits), reproduced(1000 * E + 5, splits)
    np.testing.assert_allclose(larger.reproducibility, found.reproducibility, rtol=1e-8)
    np.testing.assert_allclose(larger.band, 1000 * found.band, rtol=1e-8)


def test_the_band_is_the_standard_error_of_estimates_whose_error_halves_with_the_rows():
    # Rows give means: E has the variance s² / n, a half 2 s² / n. What does not vary is known to both.
    rng = np.random.default_rng(3)
    true, error, splits = rng.standard_normal((20_000, 1)), 0.05, []
    halves = true + error * np.sqrt(2) * rng.standard_normal((2, 20_000, 1))
    E = halves.mean(axis=0)
    splits.append((halves[0], halves[1]))
    assert np.sqrt(np.mean(reproduced(E, splits).band ** 2)) == pytest.approx(error, rel=0.05)


def test_a_constant_coordinate_does_not_come_again():
    E, splits = case(4)
    E[:, 1] = 2.0
    assert reproduced(E, splits).reproducibility[1] == 0


def test_a_match_is_a_projection():
    E, splits = case(5)
    once = linear_prediction(E, splits[0][0])
    np.testing.assert_allclose(linear_prediction(once, splits[0][0]), once, atol=1e-9)


@pytest.mark.parametrize(("n", "n_blocks"), [(64, 2), (100, 20), (1003, 20), (77, 6)])
def test_halves_are_whole_blocks_and_every_row_is_in_one(n, n_blocks):
    one, two, block = split_rows(n, n_blocks, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate([one, two])), np.arange(n))
    assert not set(block[one]) & set(block[two])
    assert len(set(block[one])) == len(set(block[two])) == n_blocks // 2
    assert (np.diff(block) >= 0).all()
    assert np.ptp(np.bincount(block)) <= 1
