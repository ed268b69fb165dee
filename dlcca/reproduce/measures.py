"""The baselines of the experiments, and measures of a first coordinate: correlation, spectrum, shares of power."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import baselines

#: Harmonics are counted up to here, degrees per frame: beyond, they lie so densely that every bin is one.
HARMONICS_UP_TO = 60.0

MAPS, KERNEL, ALTERNATING = "diffusion maps of movie 1", "kernel CCA", "alternating diffusion"
# Without a ridge, 200 channels a view and 300 or 400 frames leave nothing to find: everything correlates.
LINEAR = "linear CCA (ridge 0.03)"

#: The baselines of the paper, and linear CCA, by the names that the table and the figures use.
METHODS: dict[str, Callable[[list[NDArray]], Any]] = {
    MAPS: lambda views: baselines.diffusion_maps(views, n_components=2, view=0),
    KERNEL: lambda views: baselines.kernel_cca(views, n_components=2),
    ALTERNATING: lambda views: baselines.alternating_diffusion(views, n_components=2),
    LINEAR: lambda views: baselines.linear_cca(views, n_components=2, ridge=0.03),
}


def first_coordinate(method: str, views: list[NDArray]) -> NDArray:
    """The first coordinate (n,) that a baseline finds."""
    return np.asarray(METHODS[method](views).embedding)[:, 0]


def correlation(a: NDArray, b: NDArray) -> float:
    """|Pearson correlation| of two series: a coordinate has no sign of its own."""
    return float(abs(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]))


@dataclass(frozen=True)
class Spectrum:
    """Periodogram of a series without its mean; the powers sum to 1."""

    frequency: NDArray
    power: NDArray

    @property
    def bin_width(self) -> float:
        return float(self.frequency[1])


def spectrum(x: NDArray, per_sample: float) -> Spectrum:
    """Periodogram of a real series (n,), no taper.

    ``per_sample`` is the frequency of one turn per sample in the wanted unit: 1/step for Hz, 360 for degrees per frame.
    """
    power = np.abs(np.fft.rfft(x - np.mean(x))) ** 2
    return Spectrum(np.fft.rfftfreq(len(x)) * per_sample, power / power.sum())


def highest_peaks(of: Spectrum, count: int) -> NDArray:
    """Frequencies of the ``count`` highest local maxima, rising."""
    p = of.power
    peaks = 1 + np.flatnonzero((p[1:-1] > p[:-2]) & (p[1:-1] >= p[2:]))
    return np.sort(of.frequency[peaks[np.argsort(p[peaks])[-count:]]])


def peaks_at(of: Spectrum, wanted: Sequence[float] | NDArray) -> bool:
    """Whether the highest peaks are the wanted ones, each within one bin."""
    found = highest_peaks(of, len(wanted))
    return len(found) == len(wanted) and bool(np.all(np.abs(found - np.sort(wanted)) <= of.bin_width * (1 + 1e-9)))


def harmonics(speed: float, up_to: float = HARMONICS_UP_TO) -> NDArray:
    """The multiples of a speed, itself first."""
    return speed * np.arange(1, int(up_to / speed + 1e-9) + 1)


@dataclass(frozen=True)
class Shares:
    """Shares of a coordinate's power: at the common icon's harmonics, at the private icons' own, at 1 x the common."""

    common: float
    private: float
    fundamental: float


def icon_shares(x: NDArray, speeds: Sequence[float] | NDArray, common: int) -> Shares:
    """Where the power of a coordinate (n,) of the icon movies lies.

    A harmonic takes the bins within one bin width (360°/n per frame) of it. A private icon's harmonic is its own
    if it is more than one bin width from every harmonic of the common icon. A bin claimed by both sides is
    counted as private, so that both figures err against the method.
    """
    of = spectrum(x, 360.0)
    shared, own = harmonic_bins(of, speeds, common)
    first = _near(of.frequency, np.atleast_1d(speeds[common]), of.bin_width)
    return Shares(float(of.power[shared].sum()), float(of.power[own].sum()), float(of.power[first & ~own].sum()))


def harmonic_bins(of: Spectrum, speeds: Sequence[float] | NDArray, common: int) -> tuple[NDArray, NDArray]:
    """Masks of the bins at the common icon's harmonics, and at the private icons' own."""
    private = np.concatenate([harmonics(s) for i, s in enumerate(speeds) if i != common])
    # One more common harmonic than is counted: a private one at the limit may lie just below it.
    near_common = _near(private, harmonics(speeds[common], HARMONICS_UP_TO + speeds[common]), of.bin_width)
    own = _near(of.frequency, private[~near_common], of.bin_width)
    return _near(of.frequency, harmonics(speeds[common]), of.bin_width) & ~own, own


def chance_shares(n: int, speeds: Sequence[float] | NDArray, common: int) -> tuple[float, float]:
    """What white noise of length n would have at the common and at the private harmonics."""
    flat = Spectrum(np.fft.rfftfreq(n) * 360.0, np.ones(n // 2 + 1))
    shared, own = harmonic_bins(flat, speeds, common)
    return float(shared.mean()), float(own.mean())


def _near(frequency: NDArray, targets: NDArray, width: float) -> NDArray:
    return (np.abs(frequency[:, None] - targets[None, :]) <= width * (1 + 1e-9)).any(axis=1)
