"""The power of windows of samples at each frequency, which band powers and spectrograms are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.features.columns import Columns

#: Samples of windows that are transformed together, in bytes.
BATCH_BYTES = 1 << 19
#: Powers below this share of a channel's squared scale count as this share: nothing has no logarithm.
LEAST_SHARE = 1e-12
_TINY = {4: 1e-35, 8: 1e-290}


def frequencies(samples: int, rate: float) -> NDArray[np.float64]:
    """The frequencies in Hz at which `power` looks, (samples // 2 + 1,)."""
    return np.arange(samples // 2 + 1, dtype=np.float64) * float(rate / samples)


def power(X: NDArray, rate: float) -> NDArray:
    r"""Power spectral density of each window by Welch's recipe for one segment.

    With :math:`h` the periodic Hann window and :math:`\bar x` the mean of the window,
    :math:`P(f) = \frac{2}{r \sum h^2} |\sum_j h_j (x_j - \bar x) e^{-2 \pi i f j / r}|^2`; without the 2 at zero and
    at the Nyquist frequency, which stand for themselves alone.

    Parameters
    ----------
    X : (w, s, c)
    rate : r, samples per second

    Returns
    -------
    P : (w, s // 2 + 1, c), in units of the channel squared per Hz
    """
    P = np.empty((len(X), X.shape[1] // 2 + 1, X.shape[2]), X.dtype)
    for some, S in squares(X, rate, 0, P.shape[1]):
        P[some] = in_pairs(S)
    return P


def squares(X: NDArray, rate: float, first: int, last: int) -> Iterator[tuple[slice, NDArray]]:
    """`power` at some of the frequencies, in its two parts that are to be added: (w, last - first, 2 c).

    The squares of real and imaginary part of each channel lie side by side; whoever adds up frequencies does so with
    both before `in_pairs`, which is a pass less over much. Windows come in batches, each with its place in X: what the
    cache of a core holds is done in half the time, and memory is used again instead of asked for anew.
    """
    from scipy.fft import rfft  # keeps float32, where that of NumPy takes eight times as long

    w, s, c = X.shape
    batch = max(1, BATCH_BYTES // max(1, s * c * X.itemsize))
    mean, taper = np.full((1, s), 1 / s, X.dtype), _taper(s, rate)[:, None].astype(X.dtype)
    scratch = np.empty((min(batch, w), s, c), X.dtype)
    for i in range(0, w, batch):
        some = X[i : i + batch]
        tapered = np.subtract(some, np.matmul(mean, some), out=scratch[: len(some)])
        tapered *= taper
        S = rfft(tapered, axis=1).view(X.dtype)[:, first:last]
        np.square(S, out=S)
        if first == 0:
            S[:, 0] /= 2
        if s % 2 == 0 and last == s // 2 + 1:
            S[:, -1] /= 2
        yield slice(i, i + len(some)), S


def _taper(s: int, rate: float) -> NDArray[np.float64]:
    """The periodic Hann window, times the root of what powers are multiplied with."""
    h = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(s) / s) if s > 1 else np.ones(1)
    return h * np.sqrt(2 / (rate * (h**2).sum()))


def in_pairs(S: NDArray) -> NDArray:
    """Real and imaginary parts added: (..., 2 c) -> (..., c)."""
    return S[..., ::2] + S[..., 1::2]


def log(P: NDArray) -> NDArray:
    """Natural logarithm, with a bottom far below any real power."""
    return np.log(np.maximum(P, _TINY[P.dtype.itemsize]))


def of_log_power(scale: NDArray, times: int) -> Columns:
    """Log powers of channels that are divided by their scale: log(P / scale²), the channels running fastest."""
    center = np.tile(2 * np.log(scale), times)
    return Columns.of(center, np.ones(len(center)), np.log(LEAST_SHARE))
