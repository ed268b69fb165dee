"""Log spectrogram: how strong each frequency is in each part of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings.features.columns import Columns
from dlcca.recordings.features.power import computed_in, frequencies, log, of_log_power, squares


@dataclass(frozen=True)
class Spectrogram:
    """The logarithm of the spectral density in segments of a window, each half a segment after the one before.

    The zero frequency is left out: it is the mean of a segment, which is taken off before.
    """

    rate: float
    samples: int  # of a window
    segment: int  # samples
    most_hz: float  # frequencies above are left out

    def _starts(self) -> list[int]:
        return list(range(0, self.samples - self.segment + 1, max(1, self.segment // 2)))

    def _kept(self) -> NDArray[np.bool_]:
        f = frequencies(self.segment, self.rate)
        return (f > 0) & (f <= self.most_hz + 1e-9)

    def draft(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, segments * frequencies * c)."""
        first, last = np.flatnonzero(self._kept())[[0, -1]] + [0, 1]
        starts = self._starts()
        F = np.empty((len(X), len(starts), last - first, X.shape[2]), computed_in(X.dtype))
        unit = None if gain is None or (gain == 1).all() else np.square(gain).astype(F.dtype)
        for part, start in enumerate(starts):
            for some, Z in squares(X[:, start : start + self.segment], self.rate, first, last):
                P = np.add(Z[0], Z[1], out=Z[0])
                if unit is not None:
                    P *= unit
                log(P, out=F[some, part].swapaxes(0, 1))
        return F.reshape(len(X), -1)

    def finished(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray:
        return self.columns(center, scale).finish(F.copy())

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        return of_log_power(scale, self.width(1))

    def width(self, channels: int) -> int:
        return len(self._starts()) * int(self._kept().sum()) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        f = frequencies(self.segment, self.rate)[self._kept()]
        return [
            f"log power of {channel}, {hz:.4g} Hz at {start / self.rate:.4g} s"
            for start in self._starts()
            for hz in f
            for channel in channels
        ]
