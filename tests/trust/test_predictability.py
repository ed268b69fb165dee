"""How well a view alone tells a coordinate: as the literal twin says, and as views that share nothing cannot."""

import numpy as np
import pytest

from dlcca.trust import predictability
from dlcca.trust.predictability import told_alone
from tests.reference import alone as literal

N = 300
ONE = np.zeros(N, np.int64)


def wave(degrees, phase=0.0, n=N):
    return np.cos(np.deg2rad(degrees) * np.arange(n) + phase)


def test_it_is_the_literal_twin():
    rng = np.random.default_rng(0)
    Z = np.cumsum(rng.standard_normal((N, 3)), axis=0)
    y = Z[:, 0] + 0.5 * Z[:, 2] ** 2 / 10 + rng.standard_normal(N)
    segments = (np.arange(N) >= 130).astype(np.int64)
    delays = range(
        -predictability.SPAN, predictability.SPAN + 1, 2 * predictability.SPAN // (predictability.DELAYS - 1)
    )
    expected = literal.told_alone(Z, y, segments, delays=delays, ridge=predictability.RIDGE)
    assert told_alone(Z, y, segments) == pytest.approx(expected, abs=1e-8)


def test_a_view_tells_its_own_speeds_in_any_phase_and_no_others():
    Z = np.column_stack([wave(6), wave(4)])
    assert told_alone(Z, wave(6, 1.3), ONE) > 0.99
    assert told_alone(Z, wave(10), ONE) < 0.2


def test_noise_tells_nothing():
    rng = np.random.default_rng(1)
    assert told_alone(rng.standard_normal((N, 4)), wave(6), ONE) < 0.1


def test_a_constant_series_and_too_few_rows_are_no_evidence():
    Z = wave(6)[:, None]
    assert told_alone(Z, np.ones(N), ONE) == -np.inf
    assert told_alone(Z[:80], Z[:80, 0], ONE[:80]) == -np.inf
    assert told_alone(Z, Z[:, 0], np.arange(N) // 20) == -np.inf


def test_a_view_that_stands_still_tells_nothing():
    assert told_alone(np.zeros((N, 2)), wave(6), ONE) <= 0
