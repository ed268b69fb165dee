r"""Potential coordinates: principal components of powers of transition probabilities.

Eigenfunctions of a diffusion step come with their harmonics: powers of the first common variable may decay more slowly
than the second common variable. The rows of the step hold both. A random walk that starts at a sample and takes a step
along every view in turn arrives at the landmarks with probabilities that depend on the common variables alone. After a
concave power (the square root gives Hellinger's distance, the logarithm the potential distance of PHATE) samples that
differ in any common variable are far apart, and principal components give their coordinates.

With :math:`A_v` the balanced kernel of view v and :math:`C_v` its column sums (see `kernels.balanced`), the transition
matrix from the landmarks of view u to those of view v is

.. math:: P_{uv} = C_u^{-1/2} A_u^T A_v\, C_v^{1/2},

with rows that sum to one. The views follow each other in a circle. :math:`M_v = P_{v,v+1} P_{v+1,v+2} \cdots
P_{v-2,v-1}` goes from view v through all others, :math:`Q_v = M_v P_{v-1,v}` is a round trip, and a sample with the
kernel row :math:`r_v`, divided by its sum, has the transition probabilities :math:`p_v = r_v\, Q_v^{t-1} M_v` after the
diffusion time t. They sum to one for any row. A single kernel counts as two equal ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from dlcca.numerics.eigensolvers import largest_pairs
from dlcca.numerics.kernels import Grams, Kernel, inverse_root, row_shares

#: Square roots that are taken of the probabilities: their power is 1/4. The mean scores of 1/2, 1/8 and the logarithm
#: on real recordings are within 0.02.
ROOTS = 2
#: Landmarks at which probabilities are read. With 256 one pair of digits loses 0.016; more do not change the scores.
ANCHORS = 512
#: The same where there are more landmarks than `MANY`; on real recordings 128 score as 512 do to within 0.01.
FEWER_ANCHORS, MANY = 128, 8192
#: Noisy recordings have at most 3 distinguishable states after 4 round trips, smooth problems without noise 4.4 to 26.
STATES, FEW_ROUNDS, MOST_ROUNDS = 3.5, 4, 1024
#: Smaller probabilities of a step are zero: products of them would be subnormal, with which processors are slow.
LEAST = 1e-30
#: Columns of the transition matrices that `walked_arrivals` multiplies at a time.
WIDTH = 16
#: Up to so many products SciPy makes the probabilities before numba would be imported.
FEW_PRODUCTS = 1 << 27
#: Multiplies a block of vectors (m_w, b) by the transition matrix from view v to the next one, w: (v, V) -> (m_v, b).
Step = Callable[[int, NDArray], NDArray]


def anchors_of(m: int) -> int:
    """How many of m landmarks are anchors, at which probabilities are read."""
    return min(m, ANCHORS if m <= MANY else FEWER_ANCHORS)


def transitions(grams: Grams, C: Sequence[NDArray], dtype: DTypeLike = np.float64) -> list[NDArray]:
    r"""The transition matrices (m_v, m_{v+1}) from the landmarks of each view to those of the next, :math:`P_{v,v+1}`.

    From :math:`A_u^T A_v` (m_u, m_v), for each view and the next in the circle at least, in either order, and the
    column sums C (m_v,) of each view's kernel. Products of matrices without negative entries keep their digits: in
    single precision the probabilities are exact to about 1e-6 of each, in half the time.
    """
    following = [(u, (u + 1) % len(C)) for u in range(len(C))]
    links = [grams[u, v] if (u, v) in grams else grams[v, u].T for u, v in following]
    found = [inverse_root(C[u])[:, None] * G * np.sqrt(C[v]) for (u, v), G in zip(following, links, strict=True)]
    for P in found:
        P[P < LEAST] = 0
    return [P.astype(dtype, copy=False) for P in found]


@dataclass(frozen=True)
class Arrivals:
    """Probabilities to arrive at the anchors from every landmark, after the diffusion time."""

    probabilities: list[NDArray]  # per view, (m_v, a)
    time: int  # t
    states: float  # that can be distinguished after `FEW_ROUNDS` round trips


def arrivals(P: Sequence[NDArray], C: NDArray, anchors: NDArray[np.integer], time: int | None = None) -> Arrivals:
    r"""The columns ``anchors`` of :math:`Q_v^{t-1} M_v`, and the diffusion time t.

    The return probability of a landmark, :math:`(Q_1^t)_{ii}`, divided by its stationary probability
    :math:`C_{1,i} / n`, is the number of states that can be distinguished after t round trips. The median over
    landmarks, unlike the eigenvalues, does not depend on outliers and small separate pieces.

    In noisy recordings the number falls quickly, and t = 1 gives the best coordinates. A smooth variable seen through
    narrow kernels keeps many states. There the probabilities of a short time also depend on how a neighborhood is cut
    off, and with it on private variables: t is then the first power of two that leaves `STATES`, if it is above
    `FEW_ROUNDS`.

    Powers are those of the first view's round trip alone, because
    :math:`Q_v^{t-1} M_v = (P_{v,v+1} \cdots P_{K,1})\, Q_1^{t-1}\, (P_{12} \cdots P_{v-2,v-1})`.

    P is what `transitions` returns, C (m_1,) the column sums of the first view's kernel, and ``anchors`` (a,) are
    numbers of landmarks; ``time`` is t, at least 1, or None to choose it.
    """
    ways = [*P, *P] if len(P) == 1 else P  # a single kernel counts as two equal ones
    Q = reduce(np.matmul, ways)
    squared = Q @ Q
    few = states = _states(squared, C)
    # Per view, from the landmarks of the first to the anchors of the view before it.
    start = np.eye(len(Q), dtype=Q.dtype)
    ends = [reduce(np.matmul, ways[: v - 1], start)[:, anchors] for v in range(1, len(P))]
    B = np.hstack([reduce(np.matmul, ways[:-1])[:, anchors], *ends])
    if time is not None:
        t, B = time, np.linalg.matrix_power(Q, time - 1) @ B
    elif few <= STATES:
        t = 1
    else:
        t, power, B = FEW_ROUNDS, squared, squared @ (Q @ B)
        while states > STATES and t < MOST_ROUNDS:
            power = power @ power
            t, B, states = 2 * t, power @ B, _states(power, C)
    parts = np.split(B, len(P), axis=1)
    onto = [reduce(lambda part, way: way @ part, P[:0:-1][: len(P) - v], part) for v, part in enumerate(parts) if v]
    return Arrivals([parts[0], *onto], t, few)


def walked_arrivals(
    step: Step, C: Sequence[NDArray], anchors: NDArray[np.integer], time: int | None = None
) -> Arrivals:
    r"""What `arrivals` returns, from products of the transition matrices with blocks of vectors only.

    It takes :math:`K` products for a round trip. Return probabilities are known of the anchors alone, so the states
    are the median over these. C are the column sums (m_v,) of every view's kernel; ``anchors`` (a,) are the same
    landmarks in every view, and ``time`` is as in `arrivals`.
    """
    K, around = len(C), max(len(C), 2)  # a single kernel counts as two equal ones
    parts = np.split(anchors, range(WIDTH, len(anchors), WIDTH))

    def walked(first: int, steps: int, V: NDArray) -> NDArray:
        """V multiplied by the matrices of so many steps, of which the first leaves the view ``first``."""
        return reduce(lambda V, v: step(v % K, V), reversed(range(first, first + steps)), V)

    def units(v: int, these: NDArray) -> NDArray:
        """Columns of the identity."""
        E = np.zeros((len(C[v]), len(these)))
        E[these, np.arange(len(these))] = 1
        return E

    def states(trips: Sequence[NDArray]) -> float:
        returned = np.concatenate([np.diagonal(V[these]) for V, these in zip(trips, parts, strict=True)])
        share = C[0][anchors]
        return float(np.median(returned[share > 0] / share[share > 0]) * C[0].sum())

    trips = [walked(0, FEW_ROUNDS * around, units(0, these)) for these in parts]
    few = left = states(trips)
    t = time or (1 if few <= STATES else FEW_ROUNDS)
    while time is None and left > STATES and t < MOST_ROUNDS:
        trips, t = [walked(0, t * around, V) for V in trips], 2 * t
        left = states(trips)
    steps = t * around - 1
    found = [np.hstack([walked(v, steps, units((v + steps) % K, these)) for these in parts]) for v in range(K)]
    return Arrivals(found, t, few)


def _states(power: NDArray, C: NDArray) -> float:
    """States that can be distinguished after the square of some round trips (m, m)."""
    returns = np.einsum("ij,ji->i", power, power, dtype=np.float64)  # the diagonal of the square
    return float(np.median(returns[C > 0] / C[C > 0]) * C.sum())


def features(W: Kernel, B: NDArray) -> NDArray[np.float64]:
    """Powers of the transition probabilities of samples, less their mean over the anchors.

    A difference of squared distances that is the same for all anchors has no information on where a sample lies: with
    the mean over samples removed as well, principal components are classical scaling.

    Features (n, a) of the kernel rows W (n, m) of a view, dense or sparse, of which each may have a factor of its own;
    B (m, a) is what `arrivals` returns for this view. Probabilities have the precision of W: in single precision they
    take half the time.
    """
    f = _powers(W, B.astype(W.dtype))
    return np.subtract(f, f.mean(axis=1, keepdims=True, dtype=np.float64), dtype=np.float64)


def _powers(W: Kernel, B: NDArray) -> NDArray:
    f = np.asarray(row_shares(W) @ B)
    for _ in range(ROOTS):  # several times as fast as a power
        np.sqrt(f, out=f)
    return f


@dataclass(frozen=True)
class Components:
    """Principal components of the views' features side by side."""

    means: list[NDArray[np.float64]]  # per view, (a,)
    loadings: list[NDArray[np.float64]]  # per view, (a, q)
    slopes: NDArray[np.float64]  # (K, q) of the coordinates, regressed on the part of one view
    variances: NDArray[np.float64]  # (q,) of the coordinates over the sample, falling; not kept in a model


def principal_components(parts: Sequence[NDArray], q: int) -> Components:
    r"""The q leading components of a sample of rows.

    With :math:`f_v` the features of view v and :math:`V_v` its loadings, the coordinates are
    :math:`\sum_v (f_v - \bar f_v) V_v`. A view alone predicts them by its own part, times the slope of the regression
    through the origin. ``parts`` are, per view, features (s, a) of the same s samples: the landmarks, or any others.
    """
    means = [f.mean(axis=0) for f in parts]
    centred = np.hstack([f - mean for f, mean in zip(parts, means, strict=True)])
    lam, V = largest_pairs(centred.T @ centred / len(centred), q)
    loadings = np.split(V, np.cumsum([f.shape[1] for f in parts])[:-1])
    own = np.stack([(f - mean) @ V for f, mean, V in zip(parts, means, loadings, strict=True)])
    whole, size = own.sum(axis=0), (own**2).sum(axis=1)
    slopes = np.divide((own * whole).sum(axis=1), size, out=np.zeros_like(size), where=size > 0)
    return Components(means, loadings, slopes, np.maximum(lam, 0))


def potential_coordinates(
    rows: Sequence[Kernel | None], probabilities: Sequence[NDArray], fitted: Components
) -> NDArray[np.float64]:
    """Coordinates (n, q) of samples by their kernel rows (n, m) in every view, of which some may be None.

    With all views it is the sum of their parts; with some, the mean of what each of them predicts.
    ``probabilities`` are what `arrivals` returns.
    """
    own = {v: _part(W, probabilities[v], fitted, v) for v, W in enumerate(rows) if W is not None}
    if len(own) == len(fitted.means):
        return np.sum(list(own.values()), axis=0)
    return np.mean([part * fitted.slopes[v] for v, part in own.items()], axis=0)


def _part(W: Kernel, B: NDArray, fitted: Components, v: int) -> NDArray[np.float64]:
    """The features of view v, less their means, multiplied by its loadings."""
    # Instead of the mean of every row of features, the mean of every column of the loadings is subtracted. Sums are the
    # same to the bit for a model that was saved only if the order of the entries in memory is.
    B, V = B.astype(W.dtype), np.ascontiguousarray(fitted.loadings[v])
    V = V - V.mean(axis=0)
    if not sp.issparse(W) or W.nnz * B.shape[1] <= FEW_PRODUCTS:
        return _powers(W, B).astype(np.float64, copy=False) @ V - fitted.means[v] @ V
    from dlcca.numerics import compiled

    shares, E = row_shares(W), np.empty((W.shape[0], V.shape[1]))
    # Unsigned, for compiled code looks twice at an index that may count from the end.
    columns, starts = shares.indices.astype(np.uint32), shares.indptr.astype(np.int64)
    compiled.powers_times(shares.data, columns, starts, B, np.ascontiguousarray(V.T), ROOTS, E)
    return E - fitted.means[v] @ V
