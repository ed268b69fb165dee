"""Two sets of coordinates of the same rows: the turn that lays one on the other, and how much they then differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
