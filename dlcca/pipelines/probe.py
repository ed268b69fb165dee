"""A small fit to a sample of one recording: how strongly its views correlate locally, and its leading eigenvalues.

Made in the same way of every recording, with the settings of the model, so that recordings can be told apart by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError
from dlcca.settings.fit import Settings

#: Rows of a probe, in so many stretches spread over the recording, and its landmarks.
ROWS, STRETCHES, LANDMARKS = 2048, 8, 256


def probe(address: str, settings: Settings, seed: int = 0) -> dict[str, Any] | None:
    """The typical local correlation and the eigenvalues of a store of views; None if it is too short for a fit."""
    from dlcca.fitting import in_memory
    from dlcca.recordings.recorded_views import open_views
    from dlcca.views import Views

    opened = open_views(address)
    rows = sample(len(next(iter(opened.values()))))
    views = Views(tuple(np.asarray(X[rows]) for X in opened.values()), tuple(opened))
    arrays, segments = views.present, _stretches(rows, opened.segments[rows])
    fewer = settings.with_options(landmarks=min(LANDMARKS, len(rows)), landmark_rule="even", neighbor_index="exact")
    try:
        at = in_memory.pick_landmarks(len(rows), fewer, np.random.default_rng(seed), lambda some: arrays[0][some])
        at = in_memory.with_room(at, segments, in_memory.rows_apart(fewer))
        metric = in_memory.fit_metric(arrays, in_memory.find_neighbors(len(rows), at, fewer, arrays, segments), fewer)
        eigenvalues = in_memory.fit_spectrum(views, at, metric.factors, fewer)[1]
    except (DataError, SettingsError):
        return None
    return {
        "correlation": float(np.median(metric.correlations[:, 0])),
        "eigenvalues": [float(value) for value in eigenvalues[1:]],
    }


def sample(n: int) -> np.ndarray:
    """Row numbers of stretches spread evenly over n rows; all of them if they are few."""
    if n <= ROWS:
        return np.arange(n)
    length = ROWS // STRETCHES
    starts = np.linspace(0, n - length, STRETCHES).astype(np.int64)
    return (starts[:, None] + np.arange(length)).ravel()


def _stretches(rows: np.ndarray, segments: np.ndarray) -> np.ndarray:
    """Unbroken stretches among the rows of a sample, counted from 0."""
    broken = (np.diff(rows) != 1) | (np.diff(segments) != 0)
    return np.concatenate([[0], np.cumsum(broken)]).astype(np.int64)
