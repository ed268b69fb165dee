"""The samples of a window themselves, all of them or some at a fixed distance in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings.features.columns import Columns


@dataclass(frozen=True)
class RawSamples:
    """Some samples of each window, one after another, all channels of a sample together.

    With the places 0, ..., s-1 these are raw windows. With places at a distance of a delay τ, counted back from the end
    of the window, they are a delay embedding :math:`x(t), x(t - τ), x(t - 2τ), ...`.
    """

    places: tuple[int, ...]
    rate: float

    @classmethod
    def all_of(cls, samples: int, rate: float) -> RawSamples:
        """Raw windows."""
        return cls(tuple(range(samples)), rate)

    @classmethod
    def delayed(cls, samples: int, rate: float, lag: int, count: int) -> RawSamples:
        """The last sample of a window, and those 1, 2, ..., count - 1 lags before it."""
        if lag < 1 or count < 1 or (count - 1) * lag >= samples:
            raise ValueError(f"{count} samples {lag} apart do not fit a window of {samples}")
        return cls(tuple(samples - 1 - lag * i for i in range(count)), rate)

    def draft(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, places * c), in the dtype of X: whole numbers stay what they are."""
        return X[:, self._slice(X.shape[1])].reshape(len(X), len(self.places) * X.shape[2])

    def _slice(self, samples: int) -> slice:
        """The places as a slice, which is taken without a copy: they are all, or equally far apart and going back."""
        if self.places[0] == 0 and len(self.places) == samples:
            return slice(None)
        lag = self.places[0] - self.places[1] if len(self.places) > 1 else 1
        stop = self.places[-1] - lag
        return slice(self.places[0], stop if stop >= 0 else None, -lag)

    def finished(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray:
        return self.columns(center, scale).finish(F.copy())

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        times = len(self.places)
        return Columns.of(np.tile(center, times), np.tile(scale, times))

    def width(self, channels: int) -> int:
        return len(self.places) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        return [f"{channel} at {place / self.rate:.6g} s" for place in self.places for channel in channels]
