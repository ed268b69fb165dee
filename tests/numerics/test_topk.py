"""Links and neighbours, block by block and tile by tile, against loops over all pairs."""

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics import compiled, topk
from dlcca.numerics.neighbors import joint_neighbors
from dlcca.numerics.topk import Nearest, block_links, block_neighbors, nearest_links
from tests.numerics.cases import merged, quick, seeds
from tests.reference import kernel as literal_kernel
from tests.reference import neighborhoods as literal

dtypes = st.sampled_from([np.float64, np.float32])


@st.composite
def recordings(draw, *, levels):
    """K views (n, d_v); of whole numbers below ``levels``, whose ties are ties to the last digit, or of any (None)."""
    rng = np.random.default_rng(draw(seeds))
    n, K, dtype = draw(st.integers(2, 20)), draw(st.integers(1, 3)), draw(dtypes)
    views = []
    for _ in range(K):
        shape = (n, draw(st.integers(1, 3)))
        X = rng.standard_normal(shape) if levels is None else rng.integers(0, levels, shape)
        views.append(X.astype(dtype))
    return views


@st.composite
def cuts(draw, n):
    """Where blocks begin and end: any cuts of n rows."""
    inner = draw(st.sets(st.integers(1, n - 1), max_size=4)) if n > 1 else set()
    return [0, *sorted(inner), n]


def found_in_blocks(views, landmarks, spreads, *, n_links, k, edges, tile):
    """Links of all rows, and the merged neighbours of all landmarks, each block searched by itself."""
    points = [X[landmarks] for X in views]
    links, parts = [], []
    with patch.object(topk, "TILE_ENTRIES", tile * len(landmarks)):
        for first, last in pairwise(edges):
            block = [X[first:last] for X in views]
            links.append(block_links(block, points, spreads, n_links))
            parts.append(block_neighbors(block, points, spreads, k, first_row=first))
    return [np.concatenate(of_view) for of_view in zip(*links, strict=True)], merged(parts)


def ranked(views, spreads, i, k):
    """The k rows nearest to row i and their distances, by a loop: ties to the lower row, row i no exception."""
    views = [X.astype(float) for X in views]
    everything = [(literal.joint_squared_distance(views, spreads, i, j), j) for j in range(len(views[0]))]
    return np.array(sorted(everything)[:k]).T


@quick
@given(data=st.data(), levels=st.sampled_from([2, 4, 50]), seed=seeds)
def test_ties_go_to_the_lower_number_whatever_the_blocks_and_tiles(data, levels, seed):
    views = data.draw(recordings(levels=levels))
    n = len(views[0])
    rng = np.random.default_rng(seed)
    spreads = [2.0 ** rng.integers(-3, 4) for _ in views]  # division by a power of two is exact
    landmarks = rng.permutation(n)[: data.draw(st.integers(1, n))]
    s, k = data.draw(st.integers(1, len(landmarks))), data.draw(st.integers(1, n))
    edges, tile = data.draw(cuts(n)), data.draw(st.sampled_from([1, 3, 512]))
    links, nearest = found_in_blocks(views, landmarks, spreads, n_links=s, k=k, edges=edges, tile=tile)
    for X, found in zip(views, links, strict=True):
        D = np.square(X[:, None].astype(float) - X[landmarks]).sum(axis=2)
        np.testing.assert_array_equal(found, np.argsort(D, axis=1, kind="stable")[:, :s])
        np.testing.assert_array_equal(
            [np.isin(np.arange(len(landmarks)), row) for row in found], literal_kernel.nearest_links(X, landmarks, s)
        )
    for i, landmark in enumerate(landmarks):
        distances, rows = ranked(views, spreads, landmark, k)
        np.testing.assert_array_equal(nearest.rows[i], rows)
        np.testing.assert_array_equal(nearest.distances[i], distances)


@quick
@given(data=st.data(), unit=st.sampled_from([1e-3, 1.0, 1e4]))
def test_neighbors_equal_the_literal_ones_whatever_the_blocks_and_tiles(data, unit):
    views = [unit * X for X in data.draw(recordings(levels=None))]
    n = len(views[0])
    spreads = [literal.spread(X) for X in views]
    k = data.draw(st.integers(1, n))
    edges, tile = data.draw(cuts(n)), data.draw(st.sampled_from([1, 3, 512]))
    rows = np.arange(n)
    links, nearest = found_in_blocks(views, rows, spreads, n_links=1, k=k, edges=edges, tile=tile)
    np.testing.assert_array_equal(nearest.rows, [literal.joint_neighbors(views, i, k) for i in rows])
    exact = [ranked(views, spreads, i, k)[0] for i in rows]
    np.testing.assert_allclose(nearest.distances, exact, atol=1e-13 if views[0].dtype == np.float64 else 1e-5)
    for found in links:
        np.testing.assert_array_equal(found[:, 0], rows)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("edges", [[0, 1100], [0, 1, 513, 1025, 1100], [0, 511, 512, 600, 1099, 1100]])
def test_blocks_may_be_smaller_than_a_tile_or_cross_it(edges, dtype):
    rng = np.random.default_rng(0)
    views = [rng.standard_normal((1100, d)).astype(dtype) for d in (3, 7)]
    landmarks = rng.permutation(1100)[:23]
    spreads = [literal.spread(X) for X in views]
    links, nearest = found_in_blocks(views, landmarks, spreads, n_links=6, k=40, edges=edges, tile=512)
    np.testing.assert_array_equal(nearest.rows, joint_neighbors(views, landmarks, 40))
    for X, found in zip(views, links, strict=True):
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, nearest_links(X, X[landmarks], 6))


def test_links_alone_and_neighbors_alone_are_those_found_together():
    rng = np.random.default_rng(1)
    views = [rng.standard_normal((50, 2)), rng.standard_normal((50, 3))]
    points, spreads = [X[:9] for X in views], [1.0, 2.0]
    links, distances, rows = topk._by_compiled(views, points, spreads, 4, 5)
    np.testing.assert_array_equal(block_links(views, points, spreads, 4), links)
    nearest = block_neighbors(views, points, spreads, 5, first_row=100)
    np.testing.assert_array_equal(nearest.distances, distances)
    np.testing.assert_array_equal(nearest.rows, 100 + rows)
    np.testing.assert_array_equal(nearest.rows[:, 0], 100 + np.arange(9))


def test_blocks_may_be_merged_in_any_order_and_grouping():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 3, (40, 2)).astype(float)  # many ties
    parts = []
    for first in range(0, 40, 8):
        parts.append(block_neighbors([X[first : first + 8]], [X[:6]], [1.0], 11, first_row=first))
    whole = block_neighbors([X], [X[:6]], [1.0], 11)
    grouped = merged([merged(parts[3:]), merged([parts[1], parts[0]]), parts[2]])
    for found in (merged(parts), merged(parts[::-1]), grouped):
        np.testing.assert_array_equal(found.rows, whole.rows)
        np.testing.assert_array_equal(found.distances, whole.distances)


@pytest.mark.parametrize("few_pairs", [0, 100])
def test_fewer_samples_than_neighbors_wanted_leave_places_open(few_pairs):
    X = np.array([[0.0], [2.0], [1.0]])
    nearest = block_neighbors([X], [X[:1]], [1.0], 5, first_row=7, few_pairs=few_pairs)
    np.testing.assert_array_equal(nearest.rows, [[7, 9, 8, -1, -1]])
    np.testing.assert_array_equal(nearest.distances, [[0, 1, 4, np.inf, np.inf]])
    other = Nearest(np.array([[0.5, 9, np.inf, np.inf, np.inf]]), np.array([[20, 21, -1, -1, -1]]))
    np.testing.assert_array_equal(merged([nearest, other]).rows, [[7, 20, 9, 8, 21]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("power", [-66, 66])
def test_units_whose_squares_overflow_or_vanish_change_nothing(dtype, power):
    # 2^66 is about 1e20; its square is beyond float32.
    rng = np.random.default_rng(3)
    X, Y = (rng.standard_normal((200, d)).astype(dtype) for d in (2, 4))
    landmarks, edges = np.arange(0, 200, 9), [0, 70, 200]
    wanted = {"n_links": 5, "k": 12, "edges": edges, "tile": 64}
    links, nearest = found_in_blocks([X, Y], landmarks, [1.4, 2.0], **wanted)
    spreads = [float(np.ldexp(1.4, power)), 2.0]
    scaled = found_in_blocks([np.ldexp(X, power), Y], landmarks, spreads, **wanted)
    np.testing.assert_array_equal(scaled[0], links)
    np.testing.assert_array_equal(scaled[1].rows, nearest.rows)
    np.testing.assert_array_equal(scaled[1].distances, nearest.distances)


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 2.0**33), (np.float32, 2.0**16)])
def test_an_offset_far_above_the_spread_changes_nothing(dtype, offset):
    X = np.random.default_rng(4).integers(0, 50, (60, 3)).astype(dtype)
    wanted = {"n_links": 4, "k": 9, "edges": [0, 25, 60], "tile": 16}
    links, nearest = found_in_blocks([X], np.arange(11), [15.0], **wanted)
    moved, moved_nearest = found_in_blocks([X + dtype(offset)], np.arange(11), [15.0], **wanted)
    np.testing.assert_array_equal(moved, links)
    np.testing.assert_array_equal(moved_nearest.rows, nearest.rows)


def test_a_view_without_spread_does_not_count():
    X = np.random.default_rng(5).standard_normal((30, 2))
    still = np.full((30, 3), 0.1)
    known = [still, X], [still[:4], X[:4]], [0.0, 1.0]
    links, nearest = block_links(*known, 2), block_neighbors(*known, 6)
    np.testing.assert_array_equal(nearest.rows, joint_neighbors([X], np.arange(4), 6))
    np.testing.assert_array_equal(links[0], np.tile([0, 1], (30, 1)))


@quick
@given(
    entries=st.lists(st.integers(0, 12), min_size=1, max_size=400),
    share=st.floats(0, 1),
    far=st.floats(0, 1),
    dtype=st.sampled_from([np.float32, np.float64]),
    guess=st.sampled_from([0.0, 1e-30, 1.0, 1e30]),
)
def test_the_smallest_entries_come_in_their_order_however_many_are_equal_or_infinite(entries, share, far, dtype, guess):
    m = len(entries)
    s = max(1, round(share * m))
    stacks = -(-m // compiled.HEIGHT)
    D = np.full(compiled.HEIGHT * stacks, np.inf, dtype)
    D[:m] = entries
    D[: int(far * (m - s))] = np.inf
    chosen = np.empty(s, np.int32)
    work = [np.empty(size, kind) for size, kind in ((stacks, dtype), (stacks + 1, np.int32), (len(D) + 1, dtype))]
    work += [np.empty(len(D) + 1, kind) for kind in (np.int32, np.int64)]
    bound = compiled._smallest(D, m, dtype(guess), *work, chosen)
    assert 0 <= bound < np.inf
    np.testing.assert_array_equal(chosen, np.argsort(D[:m], kind="stable")[:s])
