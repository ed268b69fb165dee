r"""Amplitude spectra of the coordinates, estimated block by block.

A short result is transformed as a whole,

.. math:: a_j(f) = \frac{2}{\sum_t w_t} \Big| \sum_t w_t\, \psi_j(t)\, e^{-2\pi i f t} \Big|,

with a Hann window :math:`w`. A long one is estimated in two ways. Means over groups of rows are transformed as a whole,
which resolves slow oscillations, down to one cycle in the recording. Segments that overlap by half (Welch), with the
root mean square of their amplitudes, resolve fast ones. The first is returned if nearly all of the power is slow, else
the second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Results of no more rows are transformed as a whole, zero-padded to a finer grid of frequencies.
WHOLE, FINER = 20_000, 4
#: A long result has about so many segments, none of more rows than this.
SEGMENTS, MOST_ROWS = 16, 1 << 18
#: Power is slow below this share of the highest frequency that means of groups resolve.
SLOW = 0.25


@dataclass(frozen=True)
class Spectrum:
    """Amplitudes of the coordinates."""

    frequency: NDArray  # (f,) in cycles per unit of time
    amplitude: NDArray  # (f, q)
    segments: int = 1  # that were averaged; 1 for the whole
    length: float = 0.0  # of a segment, in the unit of time
    group: int = 1  # rows that were averaged before

    @property
    def enough(self) -> float:
        """The frequency below which nearly all of the power lies."""
        power = np.cumsum((self.amplitude**2).sum(axis=1))
        if not power[-1] > 0:
            return float(self.frequency[-1])
        at = int(np.searchsorted(power, 0.98 * power[-1]))
        return float(min(1.4 * self.frequency[max(1, at)], self.frequency[-1]))


class SpectrumEstimator:
    """Takes n rows in order, and then returns their spectrum."""

    def __init__(self, n: int, q: int) -> None:
        self.group = -(-n // WHOLE)
        self.means = _Means(self.group, q)
        self.welch = _Welch(n, q) if self.group > 1 else None

    def take(self, E: NDArray) -> None:
        """The next rows, (b, q); NaN where one was left out."""
        self.means.take(E)
        if self.welch is not None:
            self.welch.take(E)

    def finished(self, step: float) -> Spectrum | None:
        """The spectrum of rows that are ``step`` apart; None if there was nothing to transform."""
        E = self.means.finished()
        power = _power(E, FINER * len(E)) if len(E) > 1 else None
        if power is None:
            return None
        apart = self.group * step
        slow = Spectrum(np.fft.rfftfreq(FINER * len(E), apart), np.sqrt(power), 1, len(E) * apart, self.group)
        fast = None if self.welch is None else self.welch.finished(step)
        return slow if fast is None or fast.enough < SLOW * slow.frequency[-1] else fast


class _Means:
    """Means of groups of rows, NaN where most of a group was left out."""

    def __init__(self, group: int, q: int) -> None:
        self.group, self.held = group, np.empty((0, q))
        self.made: list[NDArray] = []

    def take(self, E: NDArray) -> None:
        held = np.concatenate([self.held, E])
        whole = len(held) // self.group * self.group
        parts = held[:whole].reshape(-1, self.group, held.shape[1])
        known = np.isfinite(parts)
        count = known.sum(axis=1)
        total = np.where(known, parts, 0).sum(axis=1)
        self.made.append(np.where(2 * count > self.group, total / np.maximum(count, 1), np.nan))
        self.held = held[whole:]

    def finished(self) -> NDArray:
        return np.concatenate(self.made) if self.made else self.held


class _Welch:
    """The mean power of segments that overlap by half."""

    def __init__(self, n: int, q: int) -> None:
        self.rows = min(MOST_ROWS, 1 << int(np.log2(2 * n / SEGMENTS)))
        self.power, self.segments = np.zeros((self.rows // 2 + 1, q)), 0
        self.held = np.empty((0, q))

    def take(self, E: NDArray) -> None:
        held = np.concatenate([self.held, E])
        while len(held) >= self.rows:
            found = _power(held[: self.rows], self.rows)
            if found is not None:
                self.power, self.segments = self.power + found, self.segments + 1
            held = held[self.rows // 2 :]
        self.held = held

    def finished(self, step: float) -> Spectrum | None:
        if not self.segments:
            return None
        amplitude = np.sqrt(self.power / self.segments)
        return Spectrum(np.fft.rfftfreq(self.rows, step), amplitude, self.segments, self.rows * step)


def _power(E: NDArray, padded: int) -> NDArray | None:
    """Squared amplitudes of rows (b, q) without their mean, (padded / 2 + 1, q); None if most of them are NaN."""
    known = np.isfinite(E)
    if known[:, 0].mean() <= 0.5:
        return None
    mean = np.where(known, E, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    window = np.hanning(len(E))[:, None]
    scale = 2 / max(float(window.sum()), 1e-300)
    return (np.abs(np.fft.rfft(np.where(known, E - mean, 0) * window, padded, axis=0)) * scale) ** 2
