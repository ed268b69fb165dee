"""Figures of a fitted model on matplotlib, as ``model.plot.embedding()``; each may be put on axes of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.report import figures
from dlcca.report.landmarks import strengths
from dlcca.report.rows import evenly
from dlcca.report.spectrum import SpectrumEstimator
from dlcca.report.time_axis import TimeAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points that are drawn; of more rows, as many evenly.
MOST_POINTS = 20_000
#: Samples whose standard errors are drawn.
MOST_CROSSES = 200
#: Rows of an embedding on disk that are held at a time.
ROWS = 1 << 18


class Plots:
    """What can be drawn of a fitted `LocalCCA`.

    Every figure takes ``ax``, the axes to draw on; without it, it is drawn on new ones of matplotlib's pyplot. The axes
    are returned.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def embedding(
        self,
        ax: Axes | None = None,
        *,
        coordinates: Sequence[int] = (0, 1),
        color: Any = None,
        label: str | None = None,
        **style: Any,
    ) -> Axes:
        """The samples in two of their coordinates, or in three on axes with ``projection="3d"``.

        After `dlcca.stability`, some of them have a cross of one standard error each way, and the axes show the share
        of their coordinate that fits to halves of the samples reproduce.

        Parameters
        ----------
        coordinates : which ones, counted from 0; the first three on axes in space if not said otherwise
        color : (n,) a number for each sample; their order if not said
        label : of the colours
        style : for matplotlib's scatter
        """
        ax, embedding = _axes(ax), self._model.embedding_
        n, q = embedding.shape
        in_space = getattr(ax, "name", "") == "3d"
        shown, needed = tuple(coordinates), 3 if in_space else 2
        shown = (0, 1, 2) if in_space and shown == (0, 1) else shown
        if len(shown) < needed or any(not 0 <= i < q for i in shown):
            advice = f" Fit with n_components={needed} or more." if q < needed else ""
            raise SettingsError(f"coordinates={shown}; {needed} of 0 to {q - 1} are needed here.{advice}")
        rows = evenly(n, MOST_POINTS)
        values = rows if color is None else _of_rows(color, n, rows)
        points = figures.draw_embedding(ax, np.asarray(embedding[rows]), values, coordinates=shown, **style)
        stability = getattr(self._model, "stability_", None)
        if stability is not None and not in_space:
            some = np.flatnonzero(np.isfinite(np.asarray(embedding).sum(axis=1)))
            some = some[evenly(len(some), MOST_CROSSES)]
            E, band = np.asarray(embedding[some]), stability.band[some]
            figures.draw_bands(ax, E, band, stability.reproducibility, coordinates=shown)
        if "c" not in style and ax.figure is not None:
            ax.figure.colorbar(points, ax=ax, label=label or ("sample" if color is None else ""))
        return ax

    def eigenvalues(self, ax: Axes | None = None) -> Axes:
        """The eigenvalues of the coordinates, without the trivial 1, and the largest gap between two of them."""
        ax = _axes(ax)
        figures.draw_eigenvalues(ax, np.asarray(self._model.eigenvalues_, float))
        return ax

    def spectrum(
        self, ax: Axes | None = None, *, step: float | None = None, marks: Mapping[str, float] | None = None
    ) -> Axes:
        """Amplitude spectrum of the coordinates; see `dlcca.report.spectrum`.

        Parameters
        ----------
        step : seconds between two samples; without it, frequencies are in cycles per sample
        marks : known frequencies by name, marked with dashed lines
        """
        if step is not None and not step > 0:
            raise SettingsError(f"step={step}; the time between two samples in seconds is needed, more than 0.")
        ax = _axes(ax)
        n, q = self._model.embedding_.shape
        estimator = SpectrumEstimator(n, q)
        for first in range(0, n, ROWS):  # the embedding may be on disk
            estimator.take(np.asarray(self._model.embedding_[first : first + ROWS], np.float64))
        found = estimator.finished(step or 1.0)
        if found is None:
            raise DataError("the embedding has no samples without gaps, of which a spectrum could be made.")
        figures.draw_spectrum(ax, found, "cycles per sample" if step is None else "Hz", marks=marks, most=q)
        ax.legend()
        return ax

    def strength(self, ax: Axes | None = None, *, time: Any = None) -> Axes:
        """How strongly the views move together in the course of the recording, and what chance reaches.

        ``time`` (n,) are the moments of the samples in seconds; without it, they are counted.
        """
        model = self._model
        landmarks = np.asarray(model.landmarks_)
        n = model.embedding_.shape[0]
        time_axis = TimeAxis("sample", 0, n - 1)
        at = landmarks.astype(float)
        if time is not None:
            at = _of_rows(time, n, landmarks)
            time_axis = TimeAxis("s", float(np.min(at)), float(np.max(at)))
        found = strengths(at, model.correlations_, model.local_quality_, model.quality_.get("null_edge"))
        if not found or len(model.model_.names) < 2:
            raise DataError("strength is of two or more views; this model has one.")
        ax = _axes(ax)
        figures.draw_strength(ax, found[0], time_axis)
        ax.legend()
        return ax


def _axes(ax: Any) -> Any:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _of_rows(values: Any, n: int, rows: NDArray) -> NDArray[np.float64]:
    """A number for each of some rows, from an array (n,)."""
    values = np.asarray(values)
    if values.shape != (n,):
        raise DataError(f"an array of shape {values.shape} was given; a value for each of {n} samples is needed.")
    return np.asarray(values[rows], np.float64)
