"""Canonical variates of two or more whitened views: what linear and kernel CCA have in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.baselines.eigenpairs import EXACT_UP_TO, symmetric_eigenpairs
from dlcca.baselines.inputs import check_count

Variates = tuple[list[NDArray[np.float64]], NDArray[np.float64]]


def canonical_variates(scores: Sequence[NDArray], n_components: Any) -> Variates:
    r"""The functions of each view that correlate best with those of the others.

    For two views the SVD of the whitened cross-covariance :math:`Z_1^T Z_2`; for more the MAXVAR eigenproblem of all
    :math:`Z_u^T Z_v` as blocks of one matrix, with identities on its diagonal, whose eigenvalues w lie in [0, K], near
    K for what is common to all. Two views are the same problem with w = 1 + ρ.

    Parameters
    ----------
    scores : K >= 2 arrays (n, p_v): centred views times a root of their inverse (regularised) covariance, divided by
        :math:`\sqrt{n-1}`; each of full rank, but for the mean
    n_components : q, at most the second largest rank: what more than one view can hold

    Returns
    -------
    variates : K arrays (n, q), of unit (regularised) variance on average over the views
    correlations : (q,), falling: ρ, or (w - 1)/(K - 1)
    """
    n, K = len(scores[0]), len(scores)
    ranks = [min(Z.shape[1], n - 1) for Z in scores]
    found = ", ".join(map(str, ranks))
    q = check_count(n_components, sorted(ranks)[-2], f"the views have ranks {found} and a variate needs two of them")
    if K == 2 and min(ranks) <= EXACT_UP_TO:
        U, correlations, Vt = np.linalg.svd(scores[0].T @ scores[1], full_matrices=False)
        parts = [U[:, :q], Vt[:q].T]
    else:
        correlations, parts = _maxvar(scores, q)
    variates = [np.sqrt(n - 1) * (Z @ part) for Z, part in zip(scores, parts, strict=True)]
    return variates, np.clip(correlations[:q], 0, 1)


def _maxvar(scores: Sequence[NDArray], q: int) -> tuple[NDArray, list[NDArray]]:
    """(w - 1)/(K - 1), and each view's part of the eigenvectors, which have length √K."""
    K, edges = len(scores), np.cumsum([0, *(Z.shape[1] for Z in scores)])
    blocks = [slice(first, last) for first, last in pairwise(edges)]

    def off_diagonal(v: NDArray) -> NDArray:
        images = [Z @ v[block] for Z, block in zip(scores, blocks, strict=True)]
        total = np.sum(images, axis=0)
        return np.concatenate([Z.T @ (total - image) for Z, image in zip(scores, images, strict=True)])

    w_less_1, V = symmetric_eigenpairs(off_diagonal, int(edges[-1]), q)
    return w_less_1 / (K - 1), [np.sqrt(K) * V[block] for block in blocks]
