"""Linear CCA of whole recordings: perfect where the common variable is linear in the channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlcca.baselines.canonical import canonical_variates
from dlcca.baselines.inputs import check_count, check_number, in_float64, prepared
from dlcca.baselines.result import Baseline
from dlcca.numerics.signs import signs
from dlcca.numerics.whitening import whiten


def linear_cca(views: Any, n_components: int = 2, *, ridge: float = 0.0) -> Baseline:
    r"""Linear functions of each view that correlate best over all samples (Hotelling; MAXVAR of Kettenring).

    :math:`\max\, p_1^T \Sigma_{12}\, p_2` subject to :math:`p_v^T (\Sigma_{vv} + r\lambda_v I)\, p_v = 1`, by the
    thin SVD of each view, restricted to the directions in which the view has extent. For more than two views it is the
    MAXVAR form of the same, see `canonical`. Any number of samples: nothing larger than the views is held.

    Without a ridge, views of ranks r_1 + r_2 >= n correlate perfectly whatever they hold.

    Parameters
    ----------
    views : list or dict of two or more arrays (n, d_v)
    n_components : q, at most the second largest of the views' ranks
    ridge : r, as a share of the largest variance λ_v of each view

    Returns
    -------
    Baseline; the embedding is the mean of the views' canonical variates, the eigenvalues their correlations
    """
    given = prepared(views, "linear_cca", least=2, dense=False)
    channels = sorted(given.dims)[-2]
    check_count(n_components, channels, f"at most {channels} channels are in two of the views or more")
    ridge = check_number("ridge", ridge)
    white = [whiten(X[None], ridge=ridge) for X in in_float64(given)]
    variates, correlations = canonical_variates([w.scores[0, :, : w.rank[0]] for w in white], n_components)
    embedding = np.mean(variates, axis=0)
    return Baseline(embedding * signs(embedding), correlations, "linear_cca")
