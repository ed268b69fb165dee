"""Neighborhoods of every awkward kind, drawn for the tests of this folder."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dlcca.numerics.fusion import FUSIONS, Degrees
from dlcca.numerics.kernels import balanced, gram, inverse_root
from dlcca.numerics.neighbors import Index, Tree, checked_landmarks, joint_neighbors, recall, shards, spread
from dlcca.numerics.topk import Nearest, add, rank, stacked

quick = settings(
    max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)

seeds = st.integers(0, 2**32 - 1)
ridges = st.sampled_from([0.0, 0.03, 0.5])

#: What may be the matter with a view's neighborhood.
KINDS = ("full", "short rank", "constant channel", "constant")

#: Largest error allowed, as a share of the largest entry.
TOLERANCE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 2e-4}


@dataclass(frozen=True)
class Case:
    """The neighborhoods (m, k, d_v) of some views, and the rank that each view was made with."""

    views: list[np.ndarray]
    ranks: list[int]

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.views[0].dtype]

    @property
    def landmarks(self) -> int:
        return len(self.views[0])

    def at(self, i: int) -> list[np.ndarray]:
        """The neighborhood of one landmark in float64, for a twin."""
        return [X[i].astype(np.float64) for X in self.views]


@st.composite
def cases(draw, *, views=2, kinds=KINDS, max_k=14, max_d=6, dtypes=(np.float64, np.float32), repeats=True):
    """Views with a common part, whose ranks are what they are meant to be: singular values are 0 or near 1."""
    rng = np.random.default_rng(draw(seeds))
    K = draw(views) if isinstance(views, st.SearchStrategy) else views
    m, k = draw(st.integers(1, 3)), draw(st.integers(2, max_k))
    distinct = draw(st.integers(2, k)) if repeats and draw(st.booleans()) else k
    dtype = draw(st.sampled_from(dtypes))
    common = rng.standard_normal((m, distinct, 2))
    rows = np.concatenate([np.arange(distinct), rng.integers(0, distinct, k - distinct)])
    arrays, ranks = [], []
    for _ in range(K):
        d, kind = draw(st.integers(1, max_d)), draw(st.sampled_from(kinds))
        rank = min(distinct - 1, d)
        if kind == "short rank":
            rank = draw(st.integers(1, rank))
        if kind == "constant channel":
            rank = min(rank, d - 1)
        if kind == "constant":
            rank = 0
        arrays.append(_neighborhoods(rng, common, rows, d, rank, still=kind == "constant channel").astype(dtype))
        ranks.append(rank)
    return Case(arrays, ranks)


def _neighborhoods(rng, common, rows, d, rank, *, still):
    """(m, k, d) of the given rank; `still`: the last channel is constant. The means are no round numbers."""
    m, distinct, _ = common.shape
    out = np.empty((m, len(rows), d))
    for i in range(m):
        samples = common[i] @ rng.standard_normal((2, rank)) + 0.7 * rng.standard_normal((distinct, rank))
        samples = samples[rows] - samples[rows].mean(axis=0)
        left = np.linalg.qr(samples)[0]
        mixing = rng.standard_normal((d, rank))
        if still:
            mixing[-1] = 0
        right = np.linalg.qr(mixing)[0]
        sizes = rng.uniform(0.4, 1.6, rank) * np.sqrt(len(rows))
        out[i] = (left * sizes) @ right.T
        # Repeated rows are equal to the last digit, as in a recording, and not only to rounding.
        out[i] = out[i][_first_of_each(rows)] + rng.uniform(-1, 1, d)
        if still:
            out[i][:, -1] = out[i][0, -1]
    return out


def _first_of_each(rows):
    """For each entry, where its value stands first."""
    return np.array([int(np.argmax(rows == row)) for row in rows])


def metrics(F):
    """A = F Fᵀ of each landmark, in float64."""
    F = F.astype(np.float64)
    return F @ np.swapaxes(F, 1, 2)


def inner_distances(X, F):
    """Squared distances (m, k, k) between the samples of each neighborhood under its own metric."""
    Y = np.einsum("mkd,mdr->mkr", X.astype(np.float64), F.astype(np.float64))
    return np.square(Y[:, :, None] - Y[:, None]).sum(axis=3)


def well_conditioned(rng, d):
    """An invertible (d, d) matrix of condition 10 at most."""
    left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    return (left * rng.uniform(0.3, 3.0, d)) @ right


def rotation(rng, d):
    """An orthogonal (d, d) matrix."""
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def assert_close(actual, desired, tolerance, *, floor=0.0):
    """Equal to a share ``tolerance`` of the largest entry, or of ``floor`` where that is larger."""
    desired = np.asarray(desired, np.float64)
    size = max(float(np.abs(desired).max(initial=0.0)), floor)
    np.testing.assert_allclose(np.asarray(actual, np.float64), desired, rtol=0, atol=tolerance * size)


@dataclass(frozen=True)
class Spectrum:
    """What a fusion makes of kernels in memory: eigenvalues, and weights and values of each kernel's landmarks."""

    eigenvalues: np.ndarray
    weights: list[np.ndarray]
    values: list[np.ndarray]


def spectrum_of(kernels, q, *, solver="gram", normalization="balanced"):
    """The spectrum of one kernel, or of the alternating steps of several, as the stages of a run find it."""
    fusion = FUSIONS["alternating" if len(kernels) > 1 else "view"]
    n, sums = kernels[0].shape[0], None
    if normalization == "paper":
        (W,) = (W.astype(np.float64) for W in kernels)
        sums = W.T @ np.ones(n)
        halves = [(sp.diags_array(inverse_root(W @ sums)).tocsr() @ W, sums)]
    else:
        halves = [balanced(W) for W in kernels]
    degrees = Degrees(n, [C for _, C in halves], sums)
    A = [half for half, _ in halves]

    def walk(path, V):
        for u, v in pairwise(path):
            V = A[v].T @ (A[u] @ V)
        return V

    if solver == "lanczos":
        S, values = fusion.from_walk(walk, q, degrees)
    else:
        S, values = fusion.from_grams({(u, v): gram(A[u], A[v]) for u, v in fusion.gram_pairs(len(A))}, q, degrees)
    return Spectrum(S, [(C > 0) * 1.0 if sums is None else sums for C in degrees.columns], values)


def landmark_spectrum(W, q, **options):
    """Of a single kernel normalized as in the paper: weights and values of its landmarks."""
    return _of_one(spectrum_of([W], q, normalization="paper", **options))


def balanced_spectrum(W, q, **options):
    """Of a single balanced kernel: weights and values of its landmarks."""
    return _of_one(spectrum_of([W], q, **options))


def _of_one(spectrum):
    return Spectrum(spectrum.eigenvalues, spectrum.weights[0], spectrum.values[0])


def tree_neighbors(views, landmarks, k):
    """What `joint_neighbors` gives, found by a tree: rows (m, k), nearest first."""
    return Tree.of(views, [spread(X) for X in views]).nearest([X[landmarks] for X in views], k).rows


def index_neighbors(views, landmarks, k):
    """Nearly what `joint_neighbors` gives, found by pynndescent, shard by shard: rows (m, k), nearest first."""
    found = Nearest.none(len(landmarks), k)
    for first, last in shards(len(views[0])):
        index = Index.of([X[first:last] for X in views], [spread(X) for X in views], first)
        add(found, index.nearest([X[landmarks] for X in views], k))
    return found.rows


def neighbor_recall(views, landmarks, neighbors):
    """Share of the true neighbours among those found, (m, k), at some of the landmarks."""
    some = checked_landmarks(len(landmarks))
    exact = joint_neighbors(views, landmarks[some], neighbors.shape[1], block=16)
    points, spreads = [X[landmarks[some]] for X in views], [spread(X) for X in views]
    distances = []
    for rows in (neighbors[some], exact):
        ranked = Nearest.none(*rows.shape)
        rank(points, stacked(views), spreads, rows, ranked)
        distances.append(ranked.distances)
    return recall(*distances)


def merged(parts):
    """The nearest of several parts together."""
    found = Nearest.none(*parts[0].rows.shape)
    for part in parts:
        add(found, part)
    return found
