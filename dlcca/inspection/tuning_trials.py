"""Options tried on part of the data: fits to halves of the rows with few landmarks, and what they are worth.

What depends on few options is made once and shared: neighborhoods are the nearest of the widest ones, and a local
metric serves every kernel.
"""

import time
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DlccaError
from dlcca.fitting import landmarks, metric
from dlcca.fitting.embed import fitted
from dlcca.fitting.job import memory_job, rows_with_window
from dlcca.fitting.metric import fit_metric
from dlcca.numerics.fusion import FUSIONS
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.metrics.cca import LocalMetric
from dlcca.numerics.neighbors import joint_neighbors, joint_space
from dlcca.numerics.windows import time_windows
from dlcca.settings.auto import choose, gram_seconds
from dlcca.settings.fit import Settings
from dlcca.trust.scores import agreement, blocked_folds, held_out_neighbors, min_view_r2, split_rows
from dlcca.trust.select_coordinates import FEWEST_CARRIERS, carriers
from dlcca.trust.surrogates import KNN_SAMPLES, SURROGATES, WINDOW_SAMPLES
from dlcca.views import Views

#: Landmarks of a half: nearest neighbours, and windows of time, of which shorter recordings are made.
STATE_LANDMARKS, TIME_LANDMARKS = 300, 100
#: Links as fine as those of more landmarks would be too few in a trial to hold its kernel together.
MOST_SHOWN = 1000
#: Rows of a half that its kernel has, and rows at which coordinates are compared.
KERNEL_ROWS, ROWS = 1000, 1500
#: Stretches by which rows are assigned to halves, and held out. Many, because rows may be sorted.
BLOCKS, FOLDS = 100, 5
#: Neighbours in a view by which coordinates are guessed.
NEAR = 10
#: Windows in a stretch of a half, at least.
WINDOWS_OF_BLOCK = 16
#: Views shifted in time that reach such a correlation leave no room to recognize what is common.
NO_ROOM = 0.99

Options = dict[str, Any]


@dataclass(frozen=True)
class _Half:
    """Half of the rows, its landmarks, and their widest neighborhoods (m, k), nearest first."""

    views: Views
    landmarks: NDArray[np.int64]
    neighbors: NDArray[np.int64]


class Trials:
    """Fits to two halves of the rows, with ``settings`` for what is not tried, for a fit to ``n`` rows."""

    #: Local decompositions by which a fit tests whether two views share anything, beside those at its landmarks.
    TESTED = WINDOW_SAMPLES

    def __init__(self, views: Views, settings: Settings, n: int, halves: list[_Half]) -> None:
        self.views, self.settings, self.n, self.halves = views, settings, n, halves
        self.arrays = [X[evenly(views.n, min(views.n, ROWS))] for X in views.present]
        self.count = 0
        self._metric_s, self._kernel_s = 0.0, 0.0  # of the first trial's metrics, and of the last's kernels
        self._metrics: dict[Any, LocalMetric] = {}

    def settled(self, options: Options) -> Settings:
        """All settings of the fit that would be made with these options."""
        chosen = choose(self.settings.with_options(**options), self.n, len(self.views.present), self.views.dims)
        return chosen.settings

    def fits(self, options: Options) -> list[NDArray]:
        """Coordinates (s, q) of the compared rows by each half; none if these options cannot be fitted."""
        self.count += 1
        try:
            settings = self.settled(options)
            began = time.process_time()
            for h in range(len(self.halves)):
                self.metric(h, settings)
            self._metric_s = self._metric_s or time.process_time() - began  # the first has the default options
            began = time.process_time()
            made = [self._coordinates(h, settings) for h in range(len(self.halves))]
            self._kernel_s = time.process_time() - began
            return made
        except (DlccaError, np.linalg.LinAlgError):
            return []

    def _coordinates(self, h: int, settings: Settings) -> NDArray:
        half = self.halves[h]
        m = len(half.landmarks)
        # The share of all landmarks that the fit will link, so that rows are linked as far.
        links = max(2, round(int(settings.kernel.n_links) * m / min(MOST_SHOWN, self.n_landmarks(settings))))
        settings = settings.with_options(n_links=min(links, m), solver="gram")
        arrays, some = half.views.present, evenly(half.views.n, min(half.views.n, KERNEL_ROWS))
        rows = len(some) + np.arange(m)  # landmarks need not be among the rows of the kernel
        job = memory_job([X[some] for X in arrays], half.views.names, settings.with_options(landmarks=rows))
        landmarks.fill(job, rows, [X[half.landmarks] for X in arrays])
        metric.fill(job, self.metric(h, settings).factors)
        return fitted(job).coordinates(self.arrays)

    def fit_seconds(self, options: Options) -> float:
        """About what one fit to all rows takes: as many more local metrics, and kernel entries, as it has.

        Local decompositions of every two views are also what the test for a common variable takes.
        """
        settings, views = self.settled(options), len(self.views.present)
        m, few = self.n_landmarks(settings), len(self.halves[0].landmarks)
        K = len(FUSIONS[settings.kernel.fusion].kernels(views))
        links = min(int(settings.kernel.n_links), m) if settings.kernel.kind == "sparse" else m
        seen = min(KERNEL_ROWS, self.halves[0].views.n) + len(self.arrays[0])
        solving = gram_seconds(seen, few, max(2, round(links * few / m)), K)
        entries = max(0.0, self._kernel_s / 2 - solving) * (m / few) * max(1.0, 2 * self.n / seen)
        metrics = m + (m + self.TESTED) * comb(views, 2)
        return self._metric_s * metrics / (2 * few) + entries + gram_seconds(self.n, m, links, K)

    def n_landmarks(self, settings: Settings) -> int:
        choice = settings.landmarks.count
        return int(choice) if isinstance(choice, int | np.integer) else len(choice)

    def metric(self, h: int, settings: Settings) -> LocalMetric:
        """The local metrics of a half, made once for all kernels."""
        half, neighborhoods = self.halves[h], settings.neighborhoods
        k = half.neighbors.shape[1]
        k = k if neighborhoods.kind == "time" else min(k, int(neighborhoods.n_neighbors))
        key = (h, k, float(settings.metric.ridge))
        if key not in self._metrics:
            self._metrics[key] = fit_metric(half.views.present, half.neighbors[:, :k], settings)
        return self._metrics[key]


class StateTrials(Trials):
    """Nearest neighbours: coordinates have to be reproduced, and to be predictable from every view alone.

    The criterion is the mean over the coordinates of the product of both shares, minus the same for views whose blocks
    of rows are shuffled, each view in another order, with the same fusion: these share nothing.
    """

    TESTED = KNN_SAMPLES * SURROGATES // 4  # those of surrogates take about a quarter of a metric
    #: The criterion in words.
    RULE = (
        "the share of each coordinate that fits to both halves of the rows agree on, times its R² predicted from one "
        "view in held-out rows, the lowest over the views; minus the same for views whose blocks of rows are shuffled."
    )

    def __init__(self, views: Views, settings: Settings, n: int, widest: int, rng: np.random.Generator) -> None:
        self._widest, self._rng, self._by_chance = widest, rng, {}  # type: ignore[var-annotated]
        # Blocks of the rows, assigned at random.
        *parts, _block = split_rows(views.n, min(BLOCKS, views.n // 2 * 2), rng)
        halves = []
        for half in map(views.__getitem__, parts):
            few = settings.with_options(landmarks=min(STATE_LANDMARKS, half.n), landmark_rule="kmeans++")
            space = np.hstack(joint_space(half.present))
            rows = landmarks.pick_landmarks(half.n, few, rng, space.__getitem__)
            halves.append(_Half(half, rows, joint_neighbors(half.present, rows, min(widest, half.n))))
        super().__init__(views, settings, n, halves)
        fold = rng.permutation(BLOCKS)[blocked_folds(len(self.arrays[0]), BLOCKS)] % FOLDS
        self.near = [held_out_neighbors(X, fold, NEAR) for X in self.arrays]

    def criterion(self, options: Options) -> float:
        """Between 0 and 1, or less if views that share nothing do better."""
        return self.common(options) - self.by_chance(options)

    def common(self, options: Options) -> float:
        made = self.fits(options)
        if not made:
            return 0.0
        seen = np.mean([min_view_r2(E, self.near) for E in made], axis=0)
        return float(np.mean(found_twice(made) * seen))

    def by_chance(self, options: Options) -> float:
        """What views that share nothing reach, once for each fusion: nothing else changes it as much."""
        fusion = options["fusion"]
        if fusion not in self._by_chance:
            self._by_chance[fusion] = self._unrelated.common(options)
            self.count += 1
        return float(self._by_chance[fusion])

    @cached_property
    def _unrelated(self) -> Self:
        block = blocked_folds(self.views.n, BLOCKS)
        orders = [self._rng.permutation(block.max() + 1)[block].argsort(kind="stable") for _ in self.views.present]
        shuffled = tuple(X[order] for X, order in zip(self.views.present, orders, strict=True))
        return type(self)(Views(shuffled, self.views.names), self.settings, self.n, self._widest, self._rng)


class TimeTrials(Trials):
    """Windows of time: coordinates have to be reproduced, and correlations to be higher than those of shifted views.

    Views that move together need not predict each other, so the criterion is the share that is reproduced, the mean
    over the coordinates, plus the gain of squared correlations over those of views shifted in time.
    """

    #: The criterion in words.
    RULE = (
        "the share of each coordinate that fits to both halves of the recording agree on, plus the gain of squared "
        "correlations over those of views shifted in time. The window is the one that window='auto' finds."
    )

    def __init__(self, views: Views, settings: Settings, n: int, segments: NDArray, rng: np.random.Generator) -> None:
        # Stretches of many windows, assigned at random; no window leaves its own.
        width = int(settings.neighborhoods.window)
        n_blocks = int(np.clip(views.n // (WINDOWS_OF_BLOCK * width) // 2 * 2, 2, BLOCKS))
        *parts, block = split_rows(views.n, n_blocks, rng)
        _, apart = np.unique(np.column_stack([block, segments]), axis=0, return_inverse=True)
        stretch = apart.ravel()
        halves = [_Half(views[rows], *_landmarks_in_time(len(rows), settings, stretch[rows])) for rows in parts]
        super().__init__(views, settings, n, halves)
        _, self.windows = _landmarks_in_time(views.n, settings, segments)
        self._gains: dict[float, tuple[float, float]] = {}

    def criterion(self, options: Options) -> float:
        """At most 2; 0 where shifted views reach all that can be reached."""
        gain, by_chance = self._gain(options)
        made = self.fits(options)
        return 0.0 if not made or by_chance > NO_ROOM else float(found_twice(made).mean()) + gain

    def by_chance(self, options: Options) -> float:
        """The mean of the largest correlation of shifted views."""
        return self._gain(options)[1]

    def _gain(self, options: Options) -> tuple[float, float]:
        """What the largest squared correlation gains over shifted views, and what it is there; the means."""
        settings = self.settled(options)
        ridge = float(settings.metric.ridge)
        if ridge not in self._gains:
            arrays, n = self.views.present, self.views.n
            shifted = [np.roll(X, v * n // (len(arrays) + 1), axis=0) for v, X in enumerate(arrays)]
            top = [fit_metric(some, self.windows, settings).correlations[:, 0] for some in (arrays, shifted)]
            self._gains[ridge] = float((top[0] ** 2).mean() - (top[1] ** 2).mean()), float(top[1].mean())
        return self._gains[ridge]


def found_twice(made: list[NDArray]) -> NDArray[np.float64]:
    """The share of each coordinate (q,) that both halves agree on; 0 if it varies in a few rows only."""
    wide = np.minimum.reduce([carriers(E) for E in made]) >= FEWEST_CARRIERS
    return agreement(*made) * wide


def _landmarks_in_time(n: int, settings: Settings, segments: NDArray) -> tuple[NDArray, NDArray]:
    width = int(settings.neighborhoods.window)
    rows = rows_with_window(evenly(n, min(n, TIME_LANDMARKS)), segments, width)
    return rows, time_windows(n, rows, width, segments)
