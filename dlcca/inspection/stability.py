"""How far each coordinate can be relied on, from fits to halves of the rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.estimator import LocalCCA, in_step
from dlcca.fitting.checks import from_halves, refuse
from dlcca.inspection.view_subsets import held_by_views
from dlcca.settings.schema import count
from dlcca.trust.lags import spread
from dlcca.views import checked

#: A stable coordinate: the least share of it that is reproduced, and that every view holds.
LEAST_REPRODUCED, LEAST_HELD = 0.5, 0.1


@dataclass(frozen=True)
class Stability:
    """How far each of q coordinates can be relied on, as `stability` finds it."""

    reproducibility: NDArray[np.float64]  # (q,) share of each coordinate that halves of the rows agree on, 0 to 1
    held: NDArray[np.float64]  # (q,) how much of each the view that holds least of it has, beyond chance, 0 to 1
    common: bool  # whether the views share anything at all, as the fit has found
    band: NDArray[np.float64]  # (n, q) about one standard error of each sample's coordinates, in their unit
    n_splits: int

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Which coordinates are reproduced on other samples, and are common to all views: (q,)."""
        return (self.reproducibility >= LEAST_REPRODUCED) & (self.held >= LEAST_HELD) & self.common

    def __str__(self) -> str:
        rows = zip(self.stable, self.reproducibility, self.held, np.nanmedian(self.band, axis=0), strict=True)
        lines = [
            f"Coordinate {c + 1} is {'' if stable else 'not '}stable: {share:.2f} of it is reproduced by fits to "
            f"halves of the samples, and {held:.2f} is held by every view; standard error {error:.2g} at the "
            "typical sample."
            for c, (stable, share, held, error) in enumerate(rows)
        ]
        if not self.common:
            lines.append("Nothing common was found, so no coordinate is stable: what is reproduced is private.")
        return "\n".join(lines)


def stability(model: LocalCCA, views: Any, *, n_splits: int = 4, random_state: Any = 0) -> Stability:
    """How far each coordinate of a model can be relied on, from fits to halves of its samples.

    The samples are cut into blocks of time, and half of these at random make one half. Both halves are fitted with the
    settings of the model, and the coordinates of all samples by each are aligned to the model's own by a linear map.
    What both halves agree on is what can be relied on. Coordinates of one view alone are reproduced too, even if it is
    noise; so a coordinate counts as stable only if every view holds some of it, and if the fit has found that the
    views share something. The result is kept as ``model.stability_`` until the
    next fit, and shown by ``model.plot.embedding()`` and ``model.summary()``. It costs about ``n_splits`` fits.

    Parameters
    ----------
    model : fitted to the views
    views : those that it was fitted to, in memory
    n_splits : times that the samples are halved
    random_state : seed of the halves

    Returns
    -------
    Stability, with ``reproducibility`` (q,), ``held`` (q,), ``stable`` (q,) and ``band`` (n, q)
    """
    count(1).check("n_splits", n_splits)
    aligned, rows, n = in_step(model, views)
    refuse(model.settings_, aligned.n)
    aligned = checked(aligned)
    segments = getattr(views, "segments", None)
    E, K = model.model_.coordinates(aligned.arrays), len(aligned.present)
    found = from_halves(
        E,
        aligned,
        model.settings_,
        len(model.landmarks_),
        np.random.default_rng(random_state),
        segments=None if segments is None else segments[rows],
        n_splits=n_splits,
    )
    held = held_by_views(model, views).min(axis=1) if K > 1 else np.ones(E.shape[1])
    common = K == 1 or model.n_common_ > 0
    model.stability_ = Stability(found.reproducibility, held, common, spread(found.band, rows, n), n_splits)
    return model.stability_
