r"""Amplitude spectra of the coordinates, estimated block by block.

A short result is transformed as a whole,

.. math:: a_j(f) = \frac{2}{\sum_t w_t} \Big| \sum_t w_t\, \psi_j(t)\, e^{-2\pi i f t} \Big|,

with a Hann window :math:`w`. A long one is estimated in two ways. Means over groups of rows are transformed as a whole,
which resolves slow oscillations, down to one cycle in the recording. Segments that overlap by half (Welch), with the
root mean square of their amplitudes, resolve fast ones. The first is returned if nearly all of the power is slow, else
the second.
"""

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
        self.means: list[NDArray] = []  # of groups of rows
        self.rows = min(MOST_ROWS, 1 << max(0, int(np.log2(2 * n / SEGMENTS)))) if self.group > 1 else 0
        self.power, self.segments = np.zeros((self.rows // 2 + 1, q)), 0  # the sum over segments of so many rows
        self.of_group = self.of_segment = np.empty((0, q))  # the latest rows, of a group or segment that is not whole

    def take(self, E: NDArray) -> None:
        """The next rows, (b, q); NaN where one was left out."""
        rows = np.concatenate([self.of_group, E])
        whole = len(rows) // self.group * self.group
        parts = rows[:whole].reshape(-1, self.group, E.shape[1])
        known = np.isfinite(parts)
        count, total = known.sum(axis=1), np.where(known, parts, 0).sum(axis=1)
        # NaN where most of a group was left out.
        self.means.append(np.where(2 * count > self.group, total / np.maximum(count, 1), np.nan))
        self.of_group = rows[whole:]
        if self.group == 1:
            return
        rows = np.concatenate([self.of_segment, E])
        while len(rows) >= self.rows:
            power = _power(rows[: self.rows], self.rows)
            if power is not None:
                self.power, self.segments = self.power + power, self.segments + 1
            rows = rows[self.rows // 2 :]  # segments overlap by half
        self.of_segment = rows

    def finished(self, step: float) -> Spectrum | None:
        """The spectrum of rows that are ``step`` apart; None if there was nothing to transform."""
        E = np.concatenate([self.of_group[:0], *self.means])
        power = _power(E, FINER * len(E)) if len(E) > 1 else None
        if power is None:
            return None
        apart = self.group * step
        slow = Spectrum(np.fft.rfftfreq(FINER * len(E), apart), np.sqrt(power), 1, len(E) * apart, self.group)
        if not self.segments:
            return slow
        amplitude = np.sqrt(self.power / self.segments)
        fast = Spectrum(np.fft.rfftfreq(self.rows, step), amplitude, self.segments, self.rows * step)
        return slow if fast.enough < SLOW * slow.frequency[-1] else fast


def _power(E: NDArray, padded: int) -> NDArray | None:
    """Squared amplitudes of rows (b, q) without their mean, (padded / 2 + 1, q); None if most of them are NaN."""
    known = np.isfinite(E)
    if known[:, 0].mean() <= 0.5:
        return None
    mean = np.where(known, E, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    window = np.hanning(len(E))[:, None]
    scale = 2 / max(float(window.sum()), 1e-300)
    return (np.abs(np.fft.rfft(np.where(known, E - mean, 0) * window, padded, axis=0)) * scale) ** 2
