"""Features of the windows of a recording: raw samples, delays, band powers, spectrograms, covariances.

A feature is computed in two steps, because the scale of a channel is known only after the last block has been read:
``unscaled`` computes numbers from samples, ``scaled`` turns them into the features of ``(X - center) / scale``. So the
samples are read once. A kind of feature is a class with the methods of `Feature`, and a line in `FEATURES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings.power import computed_in, frequencies, log, squares, sums
from dlcca.settings.recipe import FeatureRecipe

#: Rows are scaled in batches that fit the cache of a core.
BATCH_BYTES = 1 << 20
#: Powers below this fraction of a channel's squared scale are set to it: zero has no logarithm.
MIN_POWER = 1e-12
#: In Hz, the lower edge included and the upper one not.
BANDS = {"delta": (1.0, 4.0), "theta": (4.0, 8.0), "alpha": (8.0, 13.0), "beta": (13.0, 30.0), "gamma": (30.0, 80.0)}

#: Name, lower and upper edge in Hz.
Band = tuple[str, float, float]


class Feature(ABC):
    """A kind of feature."""

    @abstractmethod
    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """Numbers (w, d) of w windows X (w, s, c) of s samples of c channels.

        X may be a view in which windows overlap. X may hold the integers of a digital recording; then ``gain`` (c,) is
        the value of 1, and raw samples stay integers. An offset of a channel matters to raw samples only.
        """

    @abstractmethod
    def columns(self, center: NDArray, scale: NDArray) -> Columns | None:
        """How each column is scaled, which can be done whenever rows are read; None if columns are not independent."""

    def scaled(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray:
        """The features (w, d) of ``(X - center) / scale``, from what `unscaled` returned; center and scale (c,)."""
        columns = self.columns(center, scale)
        assert columns is not None
        return scaled(F.copy(), columns)

    @abstractmethod
    def width(self, channels: int) -> int:
        """How many features there are, d."""

    @abstractmethod
    def names(self, channels: Sequence[str]) -> list[str]:
        """What each of the d features is, in words."""


#: How each column is scaled by itself, (3, d) of center, scale, minimum (-inf for none): max((F - center) / scale,
#: minimum). (5, d) with gain and bias if F may be integers N: it is then gain * N + bias.
Columns = NDArray[np.float64]
#: The steps of scaling: row of `Columns`, operation, and the number with which it changes nothing.
STEPS = (3, np.multiply, np.nan), (4, np.add, 0), (0, np.subtract, 0), (1, np.divide, 1), (2, np.maximum, -np.inf)


def columns_of(center: NDArray, scale: NDArray, minimum: float = -np.inf) -> Columns:
    return np.stack([center, scale, np.full(len(center), minimum)]).astype(np.float64)


def of_integers(columns: Columns, gain: NDArray, bias: NDArray) -> Columns:
    """The same for integers; gain and bias (c,) of channels, which vary fastest along the columns."""
    return np.concatenate([columns, np.tile([gain, bias], columns.shape[1] // len(gain))])


def scaled(F: NDArray, columns: Columns) -> NDArray:
    """Scaled features (w, d): floats in place, in their dtype; integers become float32."""
    out = F if len(columns) == 3 else np.empty(F.shape, np.float32)
    steps = [
        (step, columns[row].astype(out.dtype))
        for row, step, neutral in STEPS
        if row < len(columns) and (columns[row] != neutral).any()
    ]
    batch = max(1, BATCH_BYTES // max(1, out[:1].nbytes))
    for rows in (slice(i, i + batch) for i in range(0, len(F), batch)):
        some = F[rows]
        for step, x in steps:
            some = step(some, x, out=out[rows], dtype=out.dtype)
    return out


@dataclass(frozen=True)
class RawSamples(Feature):
    """Some samples of each window, one after another, all channels of a sample together.

    With the places 0, ..., s-1 these are raw windows. With places at a distance of a delay τ, counted back from the end
    of the window, they are a delay embedding :math:`x(t), x(t - τ), x(t - 2τ), ...`.
    """

    places: range
    rate: float

    @classmethod
    def delayed(cls, recipe: FeatureRecipe, samples: int, rate: float) -> RawSamples:
        """The last sample of a window, and those 1, 2, ..., count - 1 lags before it; by default all that fit."""
        lag = 1 if recipe.delay_s is None else round(recipe.delay_s * rate)
        if lag < 1:
            raise ValueError(f"delay_s = {recipe.delay_s:g} is less than half a sample of {rate:g} Hz")
        most = (samples - 1) // lag + 1
        count = recipe.n_delays or most
        if count > most:
            raise ValueError(
                f"n_delays = {count} with delay_s = {lag / rate:g} reach back {(count - 1) * lag / rate:g} s, beyond "
                f"the window of {samples / rate:g} s; lengthen window_s, or use at most {most} delays"
            )
        return cls(range(samples - 1, samples - 1 - lag * count, -lag), rate)

    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, places * c), in the dtype of X; a view of X where possible."""
        stop = self.places.stop if self.places.stop >= 0 else None  # a range ends before 0 at -1, a slice at None
        kept = X[:, self.places.start : stop : self.places.step]
        return kept.reshape(len(X), len(self.places) * X.shape[2])

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        times = len(self.places)
        return columns_of(np.tile(center, times), np.tile(scale, times))

    def width(self, channels: int) -> int:
        return len(self.places) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        return [f"{channel} at {place / self.rate:.6g} s" for place in self.places for channel in channels]


class LogPower(Feature):
    """Log powers of channels, the channels varying fastest."""

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        center = np.tile(2 * np.log(scale), self.width(1))  # of a channel that is divided by its scale: log(P / scale²)
        return columns_of(center, np.ones(len(center)), np.log(MIN_POWER))


@dataclass(frozen=True)
class BandPower(LogPower):
    """The logarithm of the power of each channel in each band, in units squared."""

    rate: float
    bands: tuple[Band, ...]

    @classmethod
    def from_recipe(cls, recipe: FeatureRecipe, samples: int, rate: float) -> BandPower:
        bands = usual_bands(samples, rate) if recipe.bands is None else given_bands(recipe.bands, samples, rate)
        if not bands:
            raise ValueError(
                f"a window of {samples / rate:g} s at {rate:g} Hz resolves none of the bands; lengthen window_s, or "
                "name other bands"
            )
        return cls(rate, bands)

    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, bands * c): log of the sum of the spectral density over the frequencies in the band."""
        f = frequencies(X.shape[1], self.rate)
        spans = [np.flatnonzero(_within(f, low, high))[[0, -1]] + [0, 1] for _, low, high in self.bands]
        P = sums(X, self.rate, [(int(a), int(b)) for a, b in spans])
        unit = np.float64(1) if gain is None else np.square(gain)
        P *= (unit * (self.rate / X.shape[1])).astype(P.dtype)  # the width of a frequency bin
        return log(P).reshape(len(X), -1)

    def width(self, channels: int) -> int:
        return len(self.bands) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        bands = [f"{band} {low:g}-{high:g} Hz" for band, low, high in self.bands]
        return [f"log power of {channel}, {band}" for band in bands for channel in channels]


def _within(f: NDArray, low: float, high: float) -> NDArray[np.bool_]:
    """Which frequencies belong to a band."""
    return (f >= low - 1e-9) & (f < high - 1e-9)


def _is_empty(samples: int, rate: float, low: float, high: float) -> bool:
    return not _within(frequencies(samples, rate)[1:], low, high).any()


def usual_bands(samples: int, rate: float) -> tuple[Band, ...]:
    """Those of `BANDS`, cut at the Nyquist frequency, that hold a frequency of a window."""
    cut = {name: (low, min(high, rate / 2)) for name, (low, high) in BANDS.items() if low < rate / 2}
    return tuple((name, *edges) for name, edges in cut.items() if not _is_empty(samples, rate, *edges))


def given_bands(bands: Mapping[str, Sequence[float]], samples: int, rate: float) -> tuple[Band, ...]:
    """Bands of a recipe; a ValueError names one that a window does not resolve."""
    made = []
    for name, (low, high) in bands.items():
        if not 0 <= low < high <= rate / 2 + 1e-9:
            half = f"{rate / 2:g} Hz, half the rate, is needed"
            raise ValueError(f"band {name!r} from {low:g} to {high:g} Hz; 0 <= from < to <= {half}")
        if _is_empty(samples, rate, low, high):
            raise ValueError(
                f"band {name!r} from {low:g} to {high:g} Hz holds none of the frequencies of a window of "
                f"{samples / rate:g} s, which are {rate / samples:g} Hz apart; widen one of them"
            )
        made.append((str(name), float(low), float(high)))
    return tuple(made)


@dataclass(frozen=True)
class Spectrogram(LogPower):
    """The logarithm of the spectral density in segments of a window, each half a segment after the one before.

    The zero frequency is left out: it is the mean of a segment, which is subtracted first.
    """

    rate: float
    samples: int  # of a window
    segment: int  # samples
    most_hz: float  # frequencies above are left out

    @classmethod
    def from_recipe(cls, recipe: FeatureRecipe, samples: int, rate: float) -> Spectrogram:
        segment = max(2, samples // 4) if recipe.segment_s is None else round(recipe.segment_s * rate)
        if not 2 <= segment <= samples:
            raise ValueError(
                f"a segment of {segment} samples; from 2 to the {samples} of the window are possible (segment_s, "
                "window_s)"
            )
        most = rate / 2 if recipe.most_hz is None else float(recipe.most_hz)
        if most < rate / segment - 1e-9:
            raise ValueError(
                f"most_hz = {most:g} is below the lowest frequency of a segment, {rate / segment:g} Hz; lengthen "
                "segment_s"
            )
        return cls(rate, samples, segment, most)

    def _starts(self) -> range:
        return range(0, self.samples - self.segment + 1, max(1, self.segment // 2))

    def _kept(self) -> range:
        """The numbers of the frequencies."""
        return range(1, int((frequencies(self.segment, self.rate) <= self.most_hz + 1e-9).sum()))

    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, segments * frequencies * c)."""
        starts, kept = self._starts(), self._kept()
        F = np.empty((len(X), len(starts), len(kept), X.shape[2]), computed_in(X.dtype))
        unit = None if gain is None or (gain == 1).all() else np.square(gain).astype(F.dtype)
        for part, start in enumerate(starts):
            for some, Z in squares(X[:, start : start + self.segment], self.rate, kept.start, kept.stop):
                P = np.add(Z[0], Z[1], out=Z[0])
                if unit is not None:
                    P *= unit
                log(P, out=F[some, part].swapaxes(0, 1))
        return F.reshape(len(X), -1)

    def width(self, channels: int) -> int:
        return len(self._starts()) * len(self._kept()) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        f = frequencies(self.segment, self.rate)[list(self._kept())]
        places = [f"{hz:.4g} Hz at {start / self.rate:.4g} s" for start in self._starts() for hz in f]
        return [f"log power of {channel}, {place}" for place in places for channel in channels]


@dataclass(frozen=True)
class Covariances(Feature):
    r"""The matrix logarithm of the covariance of the channels in a window (log-Euclidean coordinates).

    With :math:`C` the covariance (c, c) of the window and :math:`\rho` the ridge, the features are the upper triangle
    of :math:`\log(C + \rho \frac{\mathrm{tr}\, C}{c} I)`, entries off the diagonal times :math:`\sqrt 2`, so that the
    Euclidean distance of two rows is the Frobenius distance of the logarithms.
    """

    ridge: float = 1e-3

    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, c (c + 1) / 2): the upper triangle of C; `scaled` takes the logarithm."""
        X = X if X.dtype.kind == "f" else X.astype(np.float32)
        X = X - X.mean(axis=1, keepdims=True)
        C = np.matmul(X.transpose(0, 2, 1), X) / np.asarray(X.shape[1], X.dtype)
        i, j = np.triu_indices(X.shape[2])
        return C[:, i, j] if gain is None else C[:, i, j] * (gain[i] * gain[j]).astype(C.dtype)

    def scaled(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray:
        """(w, c (c + 1) / 2): the upper triangle of C in, the features out."""
        c = len(scale)
        i, j = np.triu_indices(c)
        C = np.empty((len(F), c, c))
        C[:, i, j] = C[:, j, i] = F / (scale[i] * scale[j])
        lam, V = np.linalg.eigh(C)
        total = lam.sum(axis=1, keepdims=True) / c
        lam = np.log(np.maximum(np.maximum(lam, 0) + self.ridge * total, 1e-12))
        L = np.matmul(V * lam[:, None, :], V.transpose(0, 2, 1))
        return (L[:, i, j] * np.where(i == j, 1.0, np.sqrt(2))).astype(F.dtype)

    def columns(self, center: NDArray, scale: NDArray) -> None:
        """None: the logarithm of a matrix mixes all of its columns."""

    def width(self, channels: int) -> int:
        return channels * (channels + 1) // 2

    def names(self, channels: Sequence[str]) -> list[str]:
        return [f"log covariance of {a} and {b}" for a, b in combinations_with_replacement(channels, 2)]


#: Kind of features in a recipe -> the feature of windows of so many samples, or a ValueError.
FEATURES: dict[str, Callable[[FeatureRecipe, int, float], Feature]] = {
    "raw": lambda recipe, samples, rate: RawSamples(range(samples), rate),
    "delay": RawSamples.delayed,
    "bandpower": BandPower.from_recipe,
    "spectrogram": Spectrogram.from_recipe,
    "covariance": lambda recipe, samples, rate: Covariances(recipe.ridge),
}
