"""What every baseline returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Baseline:
    """The coordinates that a method found, and how strong each of them is."""

    embedding: NDArray[np.float64]  # (n, q), most important first, signs fixed
    eigenvalues: NDArray[np.float64]  # (q,), falling; the trivial one, where there is one, left out
    name: str
