"""Diffusion maps of one view, the paper's first baseline: what is largest in a view, common or not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.baselines.eigenpairs import check_above_rounding, symmetric_eigenpairs
from dlcca.baselines.inputs import check_count, check_number, in_float64, prepared
from dlcca.baselines.kernels import gaussian_kernel, one_bandwidth
from dlcca.baselines.result import Baseline
from dlcca.errors import SettingsError, suggest
from dlcca.numerics.neighborhoods import joint_space
from dlcca.numerics.signs import signs
from dlcca.views import Views


def diffusion_maps(
    views: Any,
    n_components: int = 2,
    *,
    bandwidth: float | None = None,
    view: int | str = 0,
    alpha: float = 0.0,
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
    bandwidth, alpha = one_bandwidth(bandwidth), check_number("alpha", alpha)
    W = gaussian_kernel(_chosen(given, view), bandwidth)
    if alpha != 0:
        W = _scaled(W, W.sum(axis=1) ** -alpha)
    omega = W.sum(axis=1)
    S = _scaled(W, 1 / np.sqrt(omega))
    # ψ_0 = √(Ω/ΣΩ) is known: taken out, it cannot mix with another eigenvalue 1, as a kernel in two pieces has.
    psi_0 = np.sqrt(omega / omega.sum())
    eigenvalues, psi = symmetric_eigenpairs(lambda v: S @ v - np.multiply.outer(psi_0, psi_0 @ v), given.n, q)
    check_above_rounding(eigenvalues)
    embedding = psi / psi_0[:, None]
    return Baseline(embedding * signs(embedding), eigenvalues, "diffusion_maps")


def _chosen(views: Views, view: int | str) -> NDArray[np.float64]:
    """The samples in the chosen view, or in all of them side by side."""
    arrays = in_float64(views)
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
