"""Log band power: how strong each rhythm is in a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings.features.columns import Columns
from dlcca.recordings.features.power import frequencies, log, of_log_power, sums

#: In Hz, the lower edge included and the upper one not.
BANDS = {"delta": (1.0, 4.0), "theta": (4.0, 8.0), "alpha": (8.0, 13.0), "beta": (13.0, 30.0), "gamma": (30.0, 80.0)}


@dataclass(frozen=True)
class BandPower:
    """The logarithm of the power of each channel in each band, in units squared."""

    rate: float
    bands: tuple[tuple[str, float, float], ...]  # name, from Hz, to Hz

    def draft(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, bands * c): the sum of the spectral density over the frequencies in the band."""
        f = frequencies(X.shape[1], self.rate)
        spans = [np.flatnonzero(within(f, low, high))[[0, -1]] + [0, 1] for _, low, high in self.bands]
        P = sums(X, self.rate, [(int(a), int(b)) for a, b in spans])
        unit = np.float64(1) if gain is None else np.square(gain)
        P *= (unit * (self.rate / X.shape[1])).astype(P.dtype)  # the width of a frequency bin
        return log(P).reshape(len(X), -1)

    def finished(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray:
        return self.columns(center, scale).finish(F.copy())

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        return of_log_power(scale, len(self.bands))

    def width(self, channels: int) -> int:
        return len(self.bands) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        return [
            f"log power of {channel}, {band} {low:g}-{high:g} Hz"
            for band, low, high in self.bands
            for channel in channels
        ]


def within(f: NDArray, low: float, high: float) -> NDArray[np.bool_]:
    """Which frequencies belong to a band."""
    return (f >= low - 1e-9) & (f < high - 1e-9)


def usual_bands(samples: int, rate: float) -> tuple[tuple[str, float, float], ...]:
    """The usual bands, cut at the Nyquist frequency, as far as a window of so many samples can tell them apart."""
    cut = {name: (low, min(high, rate / 2)) for name, (low, high) in BANDS.items() if low < rate / 2}
    return tuple((name, *edges) for name, edges in cut.items() if not is_empty(samples, rate, *edges))


def given_bands(
    bands: Mapping[str, Sequence[float]], samples: int, rate: float
) -> tuple[tuple[str, float, float], ...]:
    """Bands that the user named; a ValueError says which of them a window cannot tell."""
    made = []
    for name, (low, high) in bands.items():
        if not 0 <= low < high <= rate / 2 + 1e-9:
            raise ValueError(
                f"band {name!r} from {low:g} to {high:g} Hz; 0 <= from < to <= {rate / 2:g} Hz, half the "
                f"rate, is needed"
            )
        if is_empty(samples, rate, low, high):
            raise ValueError(
                f"band {name!r} from {low:g} to {high:g} Hz holds none of the frequencies of a window of "
                f"{samples / rate:g} s, which are {rate / samples:g} Hz apart; widen one of them"
            )
        made.append((str(name), float(low), float(high)))
    return tuple(made)


def is_empty(samples: int, rate: float, low: float, high: float) -> bool:
    return not within(frequencies(samples, rate)[1:], low, high).any()
