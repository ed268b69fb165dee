"""A fixed sign for coordinates, which an eigensolver leaves open."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def signs(Psi: NDArray) -> NDArray[np.float64]:
    """+1 or -1 for each column of Psi (n, q), to be multiplied by it.

    A column leans to its longer tail: its sum of cubes is made positive. Where that is too near zero to tell, its
    largest entry is.
    """
    cubes = (Psi**3).sum(axis=0)
    clear = np.abs(cubes) >= 1e-6 * (np.abs(Psi) ** 3).sum(axis=0)
    largest = Psi[np.argmax(np.abs(Psi), axis=0), np.arange(Psi.shape[1])]
    return np.where(np.where(clear, cubes, largest) < 0, -1.0, 1.0)
