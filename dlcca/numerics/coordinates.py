"""Coordinates of rows: from kernel rows, with a fixed sign, and compared with those of another fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dlcca.numerics.kernels import Kernel


def extend(W: Kernel, weights: NDArray, values: NDArray) -> NDArray[np.float64]:
    r"""Average of the landmarks' values, weighed by the kernel row and the landmarks' weights.

    :math:`\psi(j) = \sum_i W_{ji} b_i V_i \,/\, \sum_i W_{ji} b_i`. For the eigenvectors of `spectra` this is ψ_l/ψ_0
    itself and not an approximation, so the training rows keep their coordinates. A factor of a row of W drops out.

    Parameters
    ----------
    W : (n, m) kernel rows, dense or sparse, none of them all zero
    weights : (m,) b
    values : (m, q) V

    Returns
    -------
    Psi : (n, q)
    """
    W = _in_float64(W)
    return (W @ (weights[:, None] * values)) / (W @ weights)[:, None]


def _in_float64(W: Kernel) -> Kernel:
    """The same entries; a sparse W keeps their order, which its own ``astype`` takes the time to change."""
    if sp.issparse(W):
        return sp.csr_array((W.data.astype(np.float64), W.indices, W.indptr), shape=W.shape)
    return W.astype(np.float64)


def signs(Psi: NDArray) -> NDArray[np.float64]:
    """+1 or -1 for each column of Psi (n, q), to be multiplied by it.

    A column leans to its longer tail: its sum of cubes is made positive. Where that is too near zero to tell, its
    largest entry is.
    """
    cubes = (Psi**3).sum(axis=0)
    clear = np.abs(cubes) >= 1e-6 * (np.abs(Psi) ** 3).sum(axis=0)
    largest = Psi[np.argmax(np.abs(Psi), axis=0), np.arange(Psi.shape[1])]
    return np.where(np.where(clear, cubes, largest) < 0, -1.0, 1.0)


@dataclass(frozen=True)
class Change:
    """How coordinates of the same rows differ, axis by axis and in all."""

    r2: float  # share of the old coordinates' variance that the new ones have, 1 if nothing changed
    correlations: NDArray[np.float64]  # (q,) of each axis with itself
    relative: float  # root mean square of the change, as a share of that of the old coordinates about their mean
    largest: float  # the largest change of a row, in the same unit
    rows: int  # compared


def rotation(new: NDArray, old: NDArray, *, only_signs: bool = False) -> NDArray[np.float64]:
    r"""The orthogonal R that makes ``new @ R`` most like ``old``, :math:`\min_R |E' R - E|_F` (Procrustes).

    It keeps the origin and the scale, as a fitted model must. With :math:`E'^T E = U S V^T`, :math:`R = U V^T`.

    Parameters
    ----------
    new, old : (n, q) coordinates of the same rows; rows with NaN in either are left out
    only_signs : turn axes around only; R is then diagonal, with entries 1 and -1

    Returns
    -------
    R : (q, q)
    """
    A, B = _both_known(new, old)
    if only_signs:
        return np.diag(np.where((A * B).sum(axis=0) < 0, -1.0, 1.0))
    U, _S, Vt = np.linalg.svd(A.T @ B)
    return U @ Vt


def change(new: NDArray, old: NDArray) -> Change:
    """How much coordinates (n, q) of the same rows differ; rows with NaN in either are left out."""
    A, B = _both_known(new, old)
    about = B - B.mean(axis=0) if len(B) else B
    total, moved = (about**2).sum(), ((A - B) ** 2).sum(axis=1)
    unit = np.sqrt(total / len(B)) if total > 0 else 1.0
    return Change(
        r2=float(1 - moved.sum() / total) if total > 0 else float("nan"),
        correlations=_correlations(A, B),
        relative=float(np.sqrt(moved.mean()) / unit) if len(B) else 0.0,
        largest=float(np.sqrt(moved.max(initial=0.0)) / unit),
        rows=len(B),
    )


def _both_known(new: NDArray, old: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if new.shape != old.shape:
        raise ValueError(f"coordinates {new.shape} and {old.shape} are not of the same rows and axes")
    known = np.isfinite(new).all(axis=1) & np.isfinite(old).all(axis=1)
    return np.asarray(new[known], np.float64), np.asarray(old[known], np.float64)


def _correlations(A: NDArray, B: NDArray) -> NDArray[np.float64]:
    if len(A) < 2:
        return np.full(A.shape[1], np.nan)
    a, b = A - A.mean(axis=0), B - B.mean(axis=0)
    size = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return np.divide((a * b).sum(axis=0), size, out=np.full(A.shape[1], np.nan), where=size > 0)
