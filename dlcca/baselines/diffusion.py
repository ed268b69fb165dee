"""Diffusion maps of one view, and alternating diffusion, which steps along each view in turn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.baselines import dense
from dlcca.baselines.dense import bandwidth_of_each, gaussian_kernel
from dlcca.baselines.interface import Baseline, check_count, prepared
from dlcca.errors import SettingsError, suggest
from dlcca.numerics.coordinates import signs
from dlcca.numerics.neighbors import joint_space
from dlcca.settings.schema import NOT_NEGATIVE
from dlcca.views import Views


def diffusion_maps(
    views: Any, n_components: int = 2, *, bandwidth: float | None = None, view: int | str = 0, alpha: float = 0.0
) -> Baseline:
    r"""Slowest functions of a random walk between near samples (Coifman & Lafon, 2006).

    :math:`W_{ij} = \exp(-|x_i - x_j|^2/\sigma)`, divided by :math:`(s_i s_j)^\alpha` with s its row sums;
    :math:`P = \Omega^{-1} W` with Ω the row sums of that. The eigenvectors are computed as those, ψ, of the symmetric
    :math:`\Omega^{-1/2} W \Omega^{-1/2}`, and the coordinates :math:`\psi_l/\psi_0` are the right eigenvectors of P,
    with mean square one under the stationary distribution :math:`\Omega/\sum\Omega`.

    Dense, n x n: 24 n² bytes at most, and up to 10 000 samples.

    Parameters
    ----------
    views : list or dict of arrays (n, d_v)
    n_components : q, coordinates wanted
    bandwidth : σ, in squared units of the view; None for the median of the squared distances
    view : number or name of the view that is used; "all" for all of them side by side, each divided by its spread
    alpha : exponent of the density normalisation; 1 for coordinates that depend on the geometry only

    Returns
    -------
    Baseline; the eigenvalues are those of P without the trivial 1
    """
    given = prepared(views, "diffusion_maps", least=1, dense=True)
    q = check_count(n_components, given.n - 1, f"{given.n} samples have {given.n - 1} nontrivial eigenvectors")
    (sigma,) = bandwidth_of_each(bandwidth, 1)
    NOT_NEGATIVE.check("alpha", alpha)
    W = gaussian_kernel(_chosen(given, view), sigma)
    if alpha != 0:
        W = _scaled(W, W.sum(axis=1) ** -alpha)
    omega = W.sum(axis=1)
    S = _scaled(W, 1 / np.sqrt(omega))
    # ψ_0 = √(Ω/ΣΩ) is known: taken out, it cannot mix with another eigenvalue 1, as a kernel in two pieces has.
    psi_0 = np.sqrt(omega / omega.sum())
    eigenvalues, psi = dense.symmetric_eigenpairs(lambda v: S @ v - np.multiply.outer(psi_0, psi_0 @ v), given.n, q)
    dense.check_above_rounding(eigenvalues)
    embedding = psi / psi_0[:, None]
    return Baseline(embedding * signs(embedding), eigenvalues, "diffusion_maps")


def _chosen(views: Views, view: int | str) -> NDArray[np.float64]:
    """The samples in the chosen view, or in all of them side by side."""
    arrays = views.present
    if isinstance(view, str):
        if view in views.names:
            return arrays[views.names.index(view)]
        if view == "all":
            return np.hstack(joint_space(arrays))
        raise SettingsError(f"view={view!r} is not known; {suggest(view, [*views.names, 'all'])}")
    if not hasattr(view, "__index__") or not 0 <= view < len(arrays):
        raise SettingsError(f"view={view!r}; a number from 0 to {len(arrays) - 1}, a name or 'all' is needed.")
    return arrays[view]


def _scaled(W: NDArray, scale: NDArray) -> NDArray:
    """diag(scale) W diag(scale), in the place of W."""
    W *= scale[:, None]
    W *= scale
    return W


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
    sigmas = bandwidth_of_each(bandwidth, len(given.present))
    steps = [_step(X, sigma) for X, sigma in zip(given.present, sigmas, strict=True)]

    def walk(v: NDArray) -> NDArray:
        # With K 1 = 1 the eigenvectors of (I - 11ᵀ/n) K are those of K less their means, but for the constant one.
        for K_v in reversed(steps):
            v = K_v @ v
        return v - v.mean(axis=0)

    eigenvalues, V = dense.eigenpairs(walk, n, q)
    dense.check_above_rounding(eigenvalues)
    embedding = V / np.sqrt(np.mean(V**2, axis=0))
    return Baseline(embedding * signs(embedding), eigenvalues, "alternating_diffusion")


def _step(X: NDArray, sigma: float | None) -> NDArray[np.float64]:
    """The kernel of one view with rows that sum to one."""
    W = gaussian_kernel(X, sigma)
    W /= W.sum(axis=1, keepdims=True)
    return W
