"""Features of the windows of a recording: raw samples, delays, band powers, spectrograms, covariances.

A feature is computed in two steps, because the scale of a channel is known only after the last block has been read:
``unscaled`` computes numbers from samples, ``scaled`` turns them into the features of ``(X - center) / scale``. So the
samples are read once. A kind of feature is a class with the methods of `Feature`, and a line in `FEATURES`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import SettingsError
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
        return columns.scaled(F.copy())

    @abstractmethod
    def width(self, channels: int) -> int:
        """How many features there are, d."""

    @abstractmethod
    def names(self, channels: Sequence[str]) -> list[str]:
        """What each of the d features is, in words."""


@dataclass(frozen=True)
class Columns:
    """Scaling of each column by itself, (d,) each: ``max((F - center) / scale, minimum)``.

    F may be stored as integers N; then it is ``gain * N + bias``.
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    minimum: NDArray[np.float64]  # -inf where there is none
    gain: NDArray[np.float64] | None = None  # of integers
    bias: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, center: NDArray, scale: NDArray, minimum: float = -np.inf) -> Columns:
        return cls(np.asarray(center, float), np.asarray(scale, float), np.full(len(center), minimum))

    @classmethod
    def from_array(cls, numbers: NDArray) -> Columns:
        """From what `as_array` returned."""
        return cls(*np.asarray(numbers, dtype=np.float64))

    def of_integers(self, gain: NDArray, bias: NDArray) -> Columns:
        """The same for integers; gain and bias (c,) of channels, which vary fastest along the columns."""
        times = len(self.center) // len(gain)
        return replace(self, gain=np.tile(gain, times), bias=np.tile(bias, times))

    def as_array(self) -> NDArray[np.float64]:
        """(3, d): center, scale, minimum; or (5, d) with gain and bias."""
        rows = (self.center, self.scale, self.minimum, self.gain, self.bias)
        return np.stack([row for row in rows if row is not None])

    def scaled(self, F: NDArray) -> NDArray:
        """Scaled features (w, d): floats in place, in their dtype; integers become float32."""
        out = F if self.gain is None else np.empty(F.shape, np.float32)
        center, scale, minimum = (x.astype(out.dtype) for x in (self.center, self.scale, self.minimum))
        has_center, has_scale, has_minimum = center.any(), (scale != 1).any(), np.isfinite(minimum).any()
        batch = max(1, BATCH_BYTES // max(1, out[:1].nbytes))
        for rows in (slice(i, i + batch) for i in range(0, len(F), batch)):
            some = out[rows]
            if self.gain is not None:
                self._values_into(some, F[rows])
            if has_center:
                some -= center
            if has_scale:
                some /= scale
            if has_minimum:
                np.maximum(some, minimum, out=some)
        return out

    def _values_into(self, out: NDArray[np.float32], numbers: NDArray[np.integer]) -> None:
        assert self.gain is not None
        assert self.bias is not None
        if (self.gain == 1).all() and not self.bias.any():
            out[...] = numbers
            return
        np.multiply(numbers, self.gain.astype(out.dtype), out=out, dtype=out.dtype)
        out += self.bias.astype(out.dtype)


def side_by_side(parts: Sequence[Columns]) -> Columns:
    """The scaling of features that lie side by side."""
    return Columns.from_array(np.concatenate([part.as_array() for part in parts], axis=1))


@dataclass(frozen=True)
class RawSamples(Feature):
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

    @classmethod
    def delays(cls, recipe: FeatureRecipe, samples: int, rate: float) -> RawSamples:
        lag = 1 if recipe.delay_s is None else round(recipe.delay_s * rate)
        if lag < 1:
            raise ValueError(f"delay_s = {recipe.delay_s:g} is less than half a sample of {rate:g} Hz")
        count = recipe.n_delays if recipe.n_delays is not None else (samples - 1) // lag + 1
        if (count - 1) * lag >= samples:
            raise ValueError(
                f"n_delays = {count} with delay_s = {lag / rate:g} reach back {(count - 1) * lag / rate:g} s, beyond "
                f"the window of {samples / rate:g} s; lengthen window_s, or use at most "
                f"{(samples - 1) // lag + 1} delays"
            )
        return cls.delayed(samples, rate, lag, count)

    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
        """(w, s, c) -> (w, places * c), in the dtype of X; a view of X where possible."""
        return X[:, self._slice(X.shape[1])].reshape(len(X), len(self.places) * X.shape[2])

    def _slice(self, samples: int) -> slice:
        """The places as a slice, which needs no copy: they are all, or equally far apart and going back."""
        if self.places[0] == 0 and len(self.places) == samples:
            return slice(None)
        lag = self.places[0] - self.places[1] if len(self.places) > 1 else 1
        stop = self.places[-1] - lag
        return slice(self.places[0], stop if stop >= 0 else None, -lag)

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        times = len(self.places)
        return Columns.of(np.tile(center, times), np.tile(scale, times))

    def width(self, channels: int) -> int:
        return len(self.places) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        return [f"{channel} at {place / self.rate:.6g} s" for place in self.places for channel in channels]


@dataclass(frozen=True)
class BandPower(Feature):
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

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        return _of_log_power(scale, len(self.bands))

    def width(self, channels: int) -> int:
        return len(self.bands) * channels

    def names(self, channels: Sequence[str]) -> list[str]:
        return [
            f"log power of {channel}, {band} {low:g}-{high:g} Hz"
            for band, low, high in self.bands
            for channel in channels
        ]


def _of_log_power(scale: NDArray, times: int) -> Columns:
    """Log powers of channels that are divided by their scale: log(P / scale²), the channels varying fastest."""
    center = np.tile(2 * np.log(scale), times)
    return Columns.of(center, np.ones(len(center)), np.log(MIN_POWER))


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
            raise ValueError(
                f"band {name!r} from {low:g} to {high:g} Hz; 0 <= from < to <= {rate / 2:g} Hz, half the "
                f"rate, is needed"
            )
        if _is_empty(samples, rate, low, high):
            raise ValueError(
                f"band {name!r} from {low:g} to {high:g} Hz holds none of the frequencies of a window of "
                f"{samples / rate:g} s, which are {rate / samples:g} Hz apart; widen one of them"
            )
        made.append((str(name), float(low), float(high)))
    return tuple(made)


@dataclass(frozen=True)
class Spectrogram(Feature):
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

    def _starts(self) -> list[int]:
        return list(range(0, self.samples - self.segment + 1, max(1, self.segment // 2)))

    def _kept(self) -> NDArray[np.bool_]:
        f = frequencies(self.segment, self.rate)
        return (f > 0) & (f <= self.most_hz + 1e-9)

    def unscaled(self, X: NDArray, gain: NDArray | None = None) -> NDArray:
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

    def columns(self, center: NDArray, scale: NDArray) -> Columns:
        return _of_log_power(scale, self.width(1))

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
        pairs = [(a, b) for a in range(len(channels)) for b in range(a, len(channels))]
        return [f"log covariance of {channels[a]} and {channels[b]}" for a, b in pairs]


#: Kind of features in a recipe -> the feature of windows of so many samples, or a ValueError.
FEATURES: dict[str, Callable[[FeatureRecipe, int, float], Feature]] = {
    "raw": lambda recipe, samples, rate: RawSamples.all_of(samples, rate),
    "delay": RawSamples.delays,
    "bandpower": BandPower.from_recipe,
    "spectrogram": Spectrogram.from_recipe,
    "covariance": lambda recipe, samples, rate: Covariances(recipe.ridge),
}


def feature_of(recipe: FeatureRecipe, samples: int, rate: float, where: str) -> Feature:
    """The feature of a recipe, or an error that says why windows of this length cannot have it."""
    try:
        return FEATURES[recipe.kind](recipe, samples, rate)
    except ValueError as error:
        raise SettingsError(f"{where}: features = {recipe.kind!r}: {error}.") from error
