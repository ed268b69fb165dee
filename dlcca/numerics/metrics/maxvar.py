"""MAXVAR: canonical correlation of any number of views, by one eigenproblem."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.metrics.cca import LocalMetric, whiten


def maxvar_metric(views: Sequence[NDArray], *, ridge: float, rank: int | None = None) -> LocalMetric:
    r"""Local metric of each of K views from what all of them share.

    With the whitened neighborhoods of the views side by side, the eigenvalues w of their correlation matrix (whose
    diagonal blocks are identities) lie in [0, K]; w near K means "common to all". The factor of view v is
    :math:`F_v = \sqrt{K}\, P_v \,\mathrm{diag}((w-1)/(K-1))` with the components that have w > 1. For K = 2 this is
    local CCA: w = 1 + ρ.

    ``views`` are K arrays (m, k, d_v), the same k moments around each of m landmarks; the ``ridge`` is as in `whiten`.
    There are r components, those of the largest w: all that more than one view can hold, the sum of the views'
    min(k, d_v) less the largest, or ``rank`` if that is less.
    """
    white = [whiten(X, ridge=ridge) for X in views]
    K, sizes = len(white), [w.scores.shape[2] for w in white]
    edges = np.cumsum([0, *sizes])
    Z = np.concatenate([w.scores for w in white], axis=2)
    R = np.swapaxes(Z, 1, 2) @ Z
    for first, last in pairwise(edges):
        R[:, first:last, first:last] = np.eye(last - first, dtype=Z.dtype)
    w, V = np.linalg.eigh(R)
    r = min(sum(sizes) - max(sizes), rank or sum(sizes))
    w, V = w[:, ::-1][:, :r], V[:, :, ::-1][:, :, :r]
    correlations = np.clip((w - 1) / (K - 1), 0, 1)
    weighted = V * (np.sqrt(K) * correlations)[:, None, :].astype(Z.dtype)
    parts = zip(white, pairwise(edges), strict=True)
    return LocalMetric.of(white, [w.unmix @ weighted[:, first:last] for w, (first, last) in parts], correlations)
