"""The fit of arrays in memory: the stages of a run on one block."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.fitting import embed, kernel, landmarks, metric, pipeline, readout, runner, spectrum
from dlcca.fitting.auto_window import with_window
from dlcca.fitting.job import Job, memory_job, refuse_early
from dlcca.model import Model
from dlcca.settings.auto import Choices, choose
from dlcca.settings.fit import Settings
from dlcca.trust.quality import Quality
from dlcca.views import Views


@dataclass(frozen=True)
class Fit:
    """A model and the results of its fit."""

    model: Model
    embedding: Any  # (n, q): an array, or a Dask array where views were read in blocks
    eigenvalues: NDArray  # (q + 1,), the trivial 1 first
    landmarks: NDArray  # (m,) row numbers
    correlations: NDArray  # (m, r)
    bandwidth: float | NDArray  # σ, or one for each view
    quality: Quality
    choices: Choices


def fit_views(
    views: Views,
    settings: Settings,
    seed: int = 0,
    *,
    allow_degenerate: bool = False,
    segments: NDArray[np.int64] | None = None,
) -> Fit:
    """Fit a model to views that have been checked (see `views.checked`).

    ``segments`` (n,) number the unbroken stretches of a recording, which windows of time do not cross.
    ``allow_degenerate`` accepts a ridge of 0 where neighborhoods are too small for it: to show what then happens.
    """
    choices = settle(settings, views.present, segments)
    refuse_early(choices.settings.options(), views.n, views.dims)
    job = memory_job(views.present, views.names, choices.settings, seed, segments, allow_degenerate=allow_degenerate)
    pipeline.compute(job)
    return fit_of(job, embed.EMBEDDING.of(job).read("/embedding", 0), runner.quality_of(job, choices), choices)


def fit_of(job: Job, embedding: Any, quality: Quality, choices: Choices, correlations: NDArray | None = None) -> Fit:
    """The results of a job whose stages are finished; correlations (m, r) where the metrics were given."""
    return Fit(
        model=embed.model_of(job),
        embedding=embedding,
        eigenvalues=spectrum.eigenvalues(job),
        landmarks=landmarks.rows(job),
        correlations=metric.result(job).correlations if correlations is None else correlations,
        bandwidth=kernel.bandwidth_of_model(job),
        quality=quality,
        choices=readout.with_chosen(job, choices),
    )


def settle(settings: Settings, arrays: list[NDArray], segments: NDArray | None = None) -> Choices:
    """The settings without any "auto" left; the window last, because it takes small fits to choose it."""
    n = len(arrays[0])
    choices = choose(settings, n, len(arrays), [X.shape[1] for X in arrays])
    return with_window(choices, n, lambda rows: [X[rows] for X in arrays], segments)
