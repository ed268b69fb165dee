"""Alternating diffusion, the paper's third baseline: a step along each view in turn forgets what only one sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.baselines.eigenpairs import check_above_rounding, eigenpairs
from dlcca.baselines.inputs import check_count, in_float64, prepared
from dlcca.baselines.kernels import bandwidth_of_each, gaussian_kernel
from dlcca.baselines.result import Baseline
from dlcca.numerics.signs import signs


def alternating_diffusion(views: Any, n_components: int = 2, *, bandwidth: Any = None) -> Baseline:
    r"""Slowest functions of a random walk that steps in each view in turn (Lederman & Talmon).

    :math:`K = K_1 K_2 \cdots K_K` with :math:`K_v = \Omega_v^{-1} W_v`, whose rows sum to one: from a sample the walk
    steps to one that is near in view 1, from there to one near in view 2. (The original has columns that sum to one,
    and so the transposed product.) The coordinates are the right eigenvectors of K, not its singular vectors: those of
    a product with plain row sums mix in the first view's private part, see below. The constant vector, eigenvalue 1,
    is taken out, so each coordinate has mean zero; its mean square is one.

    Measured on 1000 samples of `simulate.linear` and of `simulate.torus`: R² of the first view's nuisance is .99 and
    .48 from singular vectors and .47 and .44 from eigenvectors, and that of z 1.00 and .66 against 1.00 and .98.

    Dense, n x n for each view: 8 (K + 2) n² bytes at most, and up to 10 000 samples. The product is never formed.

    Parameters
    ----------
    views : list or dict of two or more arrays (n, d_v)
    n_components : q, coordinates wanted
    bandwidth : σ of the kernels, in squared units, one for all or a list; None for the median of squared distances

    Returns
    -------
    Baseline; the eigenvalues are the moduli of those of K (real but for sampling noise), without the trivial 1
    """
    given = prepared(views, "alternating_diffusion", least=2, dense=True)
    n = given.n
    q = check_count(n_components, n - 1, f"{n} samples have {n - 1} nontrivial eigenvectors")
    arrays = in_float64(given)
    steps = [_step(X, sigma) for X, sigma in zip(arrays, bandwidth_of_each(bandwidth, len(arrays)), strict=True)]

    def walk(v: NDArray) -> NDArray:
        # With K 1 = 1 the eigenvectors of (I - 11ᵀ/n) K are those of K less their means, but for the constant one.
        for K_v in reversed(steps):
            v = K_v @ v
        return v - v.mean(axis=0)

    eigenvalues, V = eigenpairs(walk, n, q)
    check_above_rounding(eigenvalues)
    embedding = V / np.sqrt(np.mean(V**2, axis=0))
    return Baseline(embedding * signs(embedding), eigenvalues, "alternating_diffusion")


def _step(X: NDArray, sigma: float | None) -> NDArray[np.float64]:
    """The kernel of one view with rows that sum to one."""
    W = gaussian_kernel(X, sigma)
    W /= W.sum(axis=1, keepdims=True)
    return W
