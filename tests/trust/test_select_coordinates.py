"""Selection of coordinates: harmonics and coordinates dominated by outliers are replaced by independent ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.trust.select_coordinates import NEIGHBORS_PER_UNKNOWN, carriers, independent, residual
from dlcca.trust.select_coordinates import select_coordinates as chosen_of
from tests.numerics.cases import quick, seeds
from tests.reference import select_coordinates as literal

PHASE = np.random.default_rng(0).uniform(0, 2 * np.pi, 800)
COSINE, SINE, TWICE = np.cos(PHASE), np.sin(PHASE), np.cos(2 * PHASE)
OUTLIER = np.where(np.arange(800) < 3, 30.0, 0.0)


def columns(*coordinates):
    noise = np.random.default_rng(1).standard_normal((800, len(coordinates)))
    return np.stack(coordinates, axis=1) + 0.01 * noise


def select_coordinates(E, eigenvalues, q):
    return chosen_of(E, eigenvalues, q).columns


def test_a_circle_is_completed_though_a_harmonic_fades_more_slowly():
    assert select_coordinates(
        columns(COSINE, TWICE, SINE, np.sin(2 * PHASE)), np.array([0.99, 0.97, 0.96, 0.9]), 2
    ) == [0, 2]


def test_a_harmonic_stays_if_what_is_new_fades_much_faster():
    assert select_coordinates(columns(COSINE, TWICE, SINE), np.array([0.99, 0.97, 0.9]), 2) == [0, 1]


def test_a_harmonic_does_not_give_way_to_what_makes_no_ring_with_it():
    other = np.random.default_rng(2).uniform(-1, 1, 800)
    assert select_coordinates(columns(COSINE, TWICE, other), np.array([0.99, 0.97, 0.96]), 2) == [0, 1]


def test_all_harmonics_of_a_line_stay():
    line = np.linspace(0, 1, 800)
    E = columns(*(np.cos(c * np.pi * line) for c in (1, 2, 3, 4)))
    assert select_coordinates(E, 1 - 0.01 * np.arange(1, 5.0) ** 2, 2) == [0, 1]


def test_a_coordinate_of_three_samples_gives_way():
    assert select_coordinates(columns(OUTLIER, COSINE, SINE), np.array([0.999, 0.9, 0.8]), 2) == [1, 2]


def test_what_was_left_out_is_told_and_a_separate_piece_never_is():
    E, eigenvalues = columns(OUTLIER, COSINE, SINE), np.array([0.999, 0.9, 0.8])
    assert chosen_of(E, eigenvalues, 2).outliers == 1
    assert chosen_of(E, eigenvalues, 3).outliers == 0
    kept = chosen_of(E, eigenvalues, 2, pieces_above=0.99)
    assert (kept.columns, kept.outliers) == ([0, 1], 0)


def test_an_outlier_takes_no_harmonics_place():
    assert select_coordinates(columns(COSINE, TWICE, OUTLIER), np.array([0.99, 0.97, 0.96]), 2) == [0, 1]


def test_where_many_are_wanted_all_that_is_there_is_given():
    assert select_coordinates(columns(COSINE, TWICE, SINE), np.array([0.99, 0.97, 0.96]), 3) == [0, 1, 2]


@quick
@given(seed=seeds, q=st.integers(1, 4), spare=st.integers(0, 2))
def test_as_many_as_wanted_are_given_in_their_order_and_noise_changes_nothing(seed, q, spare):
    E = np.random.default_rng(seed).standard_normal((200, q + spare))
    assert select_coordinates(E, np.linspace(0.9, 0.5, q + spare), q) == list(range(q))


@pytest.mark.parametrize("e", [TWICE, SINE, COSINE**3], ids=["twice", "sine", "cubed"])
def test_what_one_coordinate_leaves_of_another_is_the_literal_share(e):
    some = slice(0, 120)
    literal_share = literal.left_by_a_line(COSINE[some], e[some], 2 * NEIGHBORS_PER_UNKNOWN)
    assert residual(COSINE[some, None], e[some]) == pytest.approx(literal_share, rel=0.02, abs=1e-4)


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
