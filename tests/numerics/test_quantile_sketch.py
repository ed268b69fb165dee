"""Quantiles from summaries of blocks: never off by more than the ranks they keep."""

import numpy as np
import pytest

from dlcca.numerics import streaming
from dlcca.numerics.streaming import RANKS, Sketches, quantiles, robust_scaling, summary

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)


def summed_up(blocks):
    return [summary(block, len(blocks)) for block in blocks]


def rank_error(x: np.ndarray, found: float, share: float) -> float:
    """How far the share of numbers below is from what was asked."""
    return max(0.0, np.mean(x < found) - share, share - np.mean(x <= found))


@pytest.mark.parametrize("sizes", [[5000], [700, 3, 4000, 1], [50] * 90])
def test_quantiles_are_known_to_a_share_of_one_over_twice_the_ranks(sizes):
    rng = np.random.default_rng(len(sizes))
    blocks = [rng.standard_normal((n, 2)) * [1, 50] + [1e5, i] for i, n in enumerate(sizes)]
    every = np.concatenate(blocks)
    found = quantiles(summed_up(blocks), SHARES)
    for i, share in enumerate(SHARES):
        for c in range(2):
            # One rank of the summary, and one number of the block that is split between two.
            assert rank_error(every[:, c], found[i, c], share) <= 1 / RANKS + len(sizes) / len(every)


def test_what_is_not_a_number_is_left_out_and_counted_out():
    X = np.random.default_rng(0).standard_normal((1000, 2))
    X[::3, 0] = np.nan
    X[1::3, 0] = np.inf
    values, counts = summary(X)
    assert counts.tolist() == [333, 1000]
    assert quantiles([(values, counts)], (0.5,))[0, 0] == pytest.approx(np.median(X[2::3, 0]), abs=0.02)


def test_a_channel_without_numbers_has_no_quantiles():
    X = np.stack([np.full(10, np.nan), np.arange(10.0)], axis=1)
    values, counts = summary(X)
    found = quantiles([(values, counts)], (0.5,))
    assert np.isnan(found[0, 0])
    assert found[0, 1] == pytest.approx(4.5, abs=0.01)


def test_a_large_block_is_summed_up_from_a_part_of_it(monkeypatch):
    monkeypatch.setattr(streaming, "SORTED", 1000)
    monkeypatch.setattr(streaming, "SORTED_LEAST", 1000)
    x = np.random.default_rng(0).standard_normal((100_000, 1))
    values, counts = summary(x)
    assert counts.tolist() == [100_000]
    assert quantiles([(values, counts)], (0.5,))[0, 0] == pytest.approx(0, abs=0.15)


def test_the_robust_scale_of_normal_numbers_is_their_standard_deviation_whatever_a_few_do():
    x = 7 + 3 * np.random.default_rng(0).standard_normal((20_000, 1))
    x[:200] = 1e6
    center, scale = robust_scaling(summed_up(np.array_split(x, 7)))
    assert center[0] == pytest.approx(7, abs=0.1)
    assert scale[0] == pytest.approx(3, rel=0.05)


def test_a_channel_that_rests_is_scaled_by_its_range_and_a_dead_one_by_one():
    rests = np.zeros(1000)
    rests[::20] = np.linspace(-1, 1, 50)
    center, scale = robust_scaling(summed_up([np.stack([rests, np.full(1000, 3.0)], axis=1)]))
    assert 0 < scale[0] < 1
    assert (center[1], scale[1]) == (3, 1)


def test_summaries_that_were_folded_say_the_same_of_very_many_blocks(monkeypatch):
    monkeypatch.setattr(streaming, "FOLDED", 5)
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((50, 2)) + np.array([i, -i]) for i in range(101)]
    folded = Sketches()
    for block in blocks:
        folded.add(*summary(block))
    assert len(folded.summaries) < 12
    every, found = np.concatenate(blocks), quantiles(folded.summaries, SHARES)
    for i, share in enumerate(SHARES):
        for c in range(2):
            assert rank_error(every[:, c], found[i, c], share) <= 1 / RANKS + len(blocks) / len(every)


def test_the_numbers_that_are_summed_up_are_left_as_they_are():
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((100, 2)))
    before = X.copy()
    summary(X)
    np.testing.assert_array_equal(X, before)
