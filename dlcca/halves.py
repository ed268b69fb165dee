"""How far each coordinate can be relied on: the fit made again from halves of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.aligning import spread
from dlcca.errors import DataError, SettingsError
from dlcca.estimator import LocalCCA, in_step
from dlcca.fitting import find_neighbors, fit_metric, fit_spectrum, pick_landmarks, rows_apart, with_room
from dlcca.model import Model
from dlcca.numerics.neighborhoods import joint_space
from dlcca.numerics.reproducibility import reproduced, split_rows
from dlcca.settings import Settings
from dlcca.subsets import held_by_views
from dlcca.views import Views, checked

#: Blocks of rows that are dealt out to the halves, each at least so many windows long; and the fewest rows of a half.
BLOCKS, WINDOWS_OF_BLOCK, FEWEST_ROWS = 20, 4, 32
#: Coordinates more that a half is asked for: what is the second of all rows may be its third.
MORE = 2
#: A stable coordinate: the share of it that comes again, and that every view holds.
LEAST_REPRODUCED, LEAST_HELD = 0.5, 0.1


@dataclass(frozen=True)
class Stability:
    """How far each of q coordinates can be relied on, as `stability` finds it."""

    reproducibility: NDArray[np.float64]  # (q,) share of each coordinate that halves of the rows agree on, 0 to 1
    held: NDArray[np.float64]  # (q,) how much of each the view that holds least of it has, beyond chance, 0 to 1
    band: NDArray[np.float64]  # (n, q) about one standard error of each sample's coordinates, in their unit
    n_splits: int

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Which coordinates come again from other samples, and are of all views: (q,)."""
        return (self.reproducibility >= LEAST_REPRODUCED) & (self.held >= LEAST_HELD)

    def __str__(self) -> str:
        rows = zip(self.stable, self.reproducibility, self.held, np.nanmedian(self.band, axis=0), strict=True)
        return "\n".join(
            f"Coordinate {c + 1} is {'' if stable else 'not '}stable: {share:.2f} of it comes again from halves of the "
            f"samples, and {held:.2f} is held by every view; standard error {error:.2g} at the typical sample."
            for c, (stable, share, held, error) in enumerate(rows)
        )


def stability(model: LocalCCA, views: Any, *, n_splits: int = 4, random_state: Any = 0) -> Stability:
    """How far each coordinate of a model can be relied on, from fits to halves of its samples.

    The samples are cut into blocks of time, and half of these at random make one half. Both halves are fitted with the
    settings of the model, give coordinates to all samples, and are turned and mixed so that they come as near to the
    model's own as they can. What both halves then tell of a coordinate is what can be relied on. Coordinates of one
    view alone come again too, even if it is noise; so a coordinate counts as stable only if every view holds some of
    it. The result is kept as ``model.stability_`` until the next fit, and shown by ``model.plot.embedding()``. It costs
    about ``n_splits`` fits.

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
    if n_splits < 1:
        raise SettingsError(f"n_splits={n_splits}; a whole number of at least 1 is needed.")
    aligned, rows, n = in_step(model, views)
    aligned = checked(aligned)
    settings = _settings(model, aligned.n)
    blocks = _n_blocks(aligned.n, rows_apart(settings))
    E = model.model_.coordinates(aligned.arrays)
    rng = np.random.default_rng(random_state)
    made = []
    for _ in range(n_splits):
        *halves, block = split_rows(aligned.n, blocks, rng)
        segments = _segments(block, getattr(views, "segments", None))
        models = [_fitted(aligned[half], settings, rng, segments[half]) for half in halves]
        made.append((models[0].coordinates(aligned.arrays), models[1].coordinates(aligned.arrays)))
    found = reproduced(E, made)
    q, K = E.shape[1], len(aligned.present)
    held = held_by_views(model, views).min(axis=1) if K > 1 else np.ones(q)
    model.stability_ = Stability(found.reproducibility, held, spread(found.band, rows, n), n_splits)
    return model.stability_


def _settings(model: LocalCCA, n: int) -> Settings:
    """Those of the model, for half the rows: so many landmarks as there are, but not more than the rows allow."""
    used = model.settings_
    if not isinstance(used.neighborhoods.kind, str):
        raise SettingsError(
            "neighborhoods were given as row numbers, and those of half the rows are not known; stability is of models "
            "with neighborhoods='time' or 'knn'."
        )
    if n < 2 * FEWEST_ROWS:
        raise DataError(f"{n} samples cannot be halved; stability needs at least {2 * FEWEST_ROWS}.")
    least = int(np.floor(0.4 * n))  # blocks are not all of one length
    q = min(int(used.spectrum.n_components) + MORE, len(model.landmarks_) - 2)
    rule = used.landmarks.rule if used.landmarks.rule != "auto" else "even"
    return used.with_options(
        n_components=max(q, int(used.spectrum.n_components)),
        landmarks=min(len(model.landmarks_), least),
        landmark_rule=rule,
        n_neighbors=min(int(used.neighborhoods.n_neighbors), least),
    )


def _n_blocks(n: int, width: int) -> int:
    """An even number, of blocks that are long against a window."""
    return int(np.clip(n // (WINDOWS_OF_BLOCK * width) // 2 * 2, 2, BLOCKS))


def _segments(block: NDArray[np.int64], segments: NDArray | None) -> NDArray[np.int64]:
    """Stretches that a window may not leave: those of the recording, cut at the edges of the blocks."""
    if segments is None:
        return block
    new = np.flatnonzero((np.diff(block) != 0) | (np.diff(segments) != 0))
    return np.searchsorted(new, np.arange(len(block)), side="left")


def _fitted(views: Views, settings: Settings, rng: np.random.Generator, segments: NDArray) -> Model:
    """The model alone, without a look at its quality."""
    arrays = views.present
    rows = pick_landmarks(views.n, settings, rng, lambda some: np.hstack(joint_space(arrays))[some])
    rows = with_room(rows, segments, rows_apart(settings))
    neighbors = find_neighbors(views.n, rows, settings, arrays, segments)
    return fit_spectrum(views, rows, fit_metric(arrays, neighbors, settings).factors, settings)[0]
