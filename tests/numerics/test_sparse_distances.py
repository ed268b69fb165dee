"""Distances to a few landmarks, compiled and by NumPy, against the literal ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics.distances import linked_distances
from tests.numerics.cases import TOLERANCE, assert_close, metrics, quick, seeds
from tests.reference import distances as literal


@quick
@given(
    seed=seeds,
    n=st.integers(1, 10),
    d=st.integers(1, 9),
    r=st.integers(1, 5),
    data=st.data(),
    dtype=st.sampled_from([np.float64, np.float32]),
    kind=st.sampled_from([np.int64, np.int32]),
    few=st.sampled_from([0, 1 << 19]),
)
def test_linked_distances_are_the_literal_ones_at_the_links(seed, n, d, r, data, dtype, kind, few):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(n)[: data.draw(st.integers(1, n))]
    m, s = len(rows), data.draw(st.integers(1, len(rows)))
    X, F = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d, r)).astype(dtype)
    links = np.array([rng.permutation(m)[:s] for _ in range(n)]).astype(kind)
    D = linked_distances(X, X[rows], F, links, few_links=few)  # compiled, and by NumPy
    assert D.dtype == dtype
    assert D.shape == (n, s)
    everything = literal.landmark_distances(X.astype(float), rows, metrics(F))
    assert_close(D, np.take_along_axis(everything, links, axis=1), TOLERANCE[np.dtype(dtype)], floor=1e-3)
    assert (D[rows[links] == np.arange(n)[:, None]] == 0).all()  # of a landmark to itself
