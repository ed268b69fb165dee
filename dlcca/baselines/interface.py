"""What a baseline takes and returns: checks of views and options, and the result."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.settings.schema import count
from dlcca.views import Views, check_varies, checked

#: Samples up to which a method may hold n x n matrices: 800 MB each at the limit.
DENSE_LIMIT = 10_000


@dataclass(frozen=True, eq=False)
class Baseline:
    """The coordinates that a method found, and how strong each of them is."""

    embedding: NDArray[np.float64]  # (n, q), most important first, signs fixed
    eigenvalues: NDArray[np.float64]  # (q,), falling; without the trivial one, where there is one
    name: str


def prepared(views: Any, method: str, *, least: int, dense: bool) -> Views:
    """The views for a method that needs ``least`` of them, or a `DataError`.

    They are in double precision and centred, so that distances and covariances keep their digits.
    """
    views = checked(views)
    check_varies(views)
    K = len(views.arrays)
    if K < least:
        raise DataError(f"{method} needs at least {least} views and {K} was given; it looks for what views share.")
    if dense and views.n > DENSE_LIMIT:
        raise DataError(
            f"the views have {views.n} samples and {method} holds n x n matrices, so it takes at most {DENSE_LIMIT}. "
            "Give it every k-th sample, or use LocalCCA, which goes through landmarks."
        )
    arrays = (X.astype(np.float64) for X in views.present)
    return Views(tuple(X - X.mean(axis=0) for X in arrays), views.names)


def check_count(n_components: Any, most: int, why: str) -> int:
    """n_components as a whole number from 1 to ``most``, or a `SettingsError` that says why no more."""
    count(1).check("n_components", n_components)
    if n_components > most:
        raise SettingsError(f"n_components={n_components}, but {why}; ask for at most {most}.")
    return int(n_components)
