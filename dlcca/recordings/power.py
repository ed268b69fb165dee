"""The power spectrum of windows of samples, from which band powers and spectrograms are computed."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.storage import cache

#: Up to this many frequencies, products with cosines and sines take less time than a Fourier transform: they run at the
#: full speed of a processor, and skip the frequencies that are not needed.
MOST_BY_PRODUCTS = 128
#: Samples of windows that are transformed together, in bytes: what fits the cache of a core takes half the time, and
#: its memory is reused.
BATCH_BYTES = 1 << 19
_TINY = {4: 1e-35, 8: 1e-290}

#: Some windows, by their places, and the two squares whose sum is their power, (2, frequencies, windows, channels), in
#: units of the channel squared per Hz.
Squares = Iterator[tuple[slice, NDArray]]


def frequencies(samples: int, rate: float) -> NDArray[np.float64]:
    """The frequencies of a window in Hz, (samples // 2 + 1,)."""
    return np.arange(samples // 2 + 1, dtype=np.float64) * float(rate / samples)


def sums(X: NDArray, rate: float, spans: Sequence[tuple[int, int]]) -> NDArray:
    """The power (see `squares`) added up over each span of frequencies (first, one after the last), (w, spans, c)."""
    first, last = min(a for a, _ in spans), max(b for _, b in spans)
    (w, _, c), dtype = X.shape, computed_in(X.dtype)
    members = np.zeros((len(spans), 2, last - first), dtype)
    for span, (a, b) in enumerate(spans):
        members[span, :, a - first : b - first] = 1
    added = np.empty((w, len(spans), c), dtype)
    for some, Z in squares(X, rate, first, last):
        n = Z.shape[2]
        # One product with zeros and ones: quicker than to add up each span.
        S = np.matmul(members.reshape(len(spans), -1), Z.reshape(-1, n * c))
        added[some] = S.reshape(-1, n, c).swapaxes(0, 1)
    return added


def computed_in(dtype: np.dtype) -> np.dtype:
    """Integers are computed with in single precision."""
    return dtype if dtype.kind == "f" else np.dtype(np.float32)


def squares(X: NDArray, rate: float, first: int, last: int) -> Squares:
    r"""The power of each window at some of its frequencies, a few windows at a time, in memory that is reused.

    The power spectral density is that of Welch's recipe for one segment. With :math:`h` the periodic Hann window and
    :math:`\bar x` the mean of the window,
    :math:`P(f) = \frac{2}{r \sum h^2} |\sum_j h_j (x_j - \bar x) e^{-2 \pi i f j / r}|^2`; without the 2 at zero and
    at the Nyquist frequency, which have no counterpart at a negative frequency.

    From windows X (w, s, c) at the ``rate`` r; the frequencies are ``first`` to ``last``, not included, of 0 to s // 2.
    """
    by_products = last - first <= MOST_BY_PRODUCTS
    return _by_products(X, rate, first, last) if by_products else _by_transform(X, rate, first, last)


def _by_products(X: NDArray, rate: float, first: int, last: int) -> Squares:
    r"""With :math:`u_j = x_j + x_{s-j}` and :math:`v_j = x_j - x_{s-j}`, sums of :math:`u_j \cos` and :math:`v_j \sin`.

    That is half the products. The cosines are made orthogonal to a constant, which removes the mean; so that a large
    mean costs no digits, the middle sample is subtracted first. Sums of integers are exact: there it is subtracted from
    the sums alone, because the differences do not contain it.
    """
    (w, s, c), dtype = X.shape, computed_in(X.dtype)
    half = (s - 1) // 2  # samples after the first that have a mirror image; the middle one of an even number has none
    key = (s, rate, first, last, dtype.char)
    cosines, sines = cache.get(("waves", *key), lambda: _waves(*key), keep=32)
    batch = max(1, min(w, BATCH_BYTES // max(1, s * c * dtype.itemsize)))
    for i in range(0, w, batch):
        some = X[i : i + batch]
        n = len(some)
        if i == 0 or n < batch:
            moved, u, v = (np.empty((rows, n, c), dtype) for rows in (s, s // 2 + 1, half))
            Z = np.empty((2, last - first, n, c), dtype)
        moved[...] = some.swapaxes(0, 1)  # samples first: one product of matrices, however few channels
        middle, mirrored = moved[s // 2].copy(), moved[: s - half - 1 : -1]
        if X.dtype.kind == "f":
            moved -= middle
            middle = 0 * middle
        np.add(moved[1 : half + 1], mirrored, out=u[1 : half + 1])
        np.subtract(moved[1 : half + 1], mirrored, out=v)
        u[0], u[half + 1 :] = moved[0] - middle, 0
        u[1 : half + 1] -= 2 * middle
        np.matmul(cosines, u.reshape(len(u), n * c), out=Z[0].reshape(-1, n * c))
        np.matmul(sines, v.reshape(half, n * c), out=Z[1].reshape(-1, n * c))
        np.square(Z, out=Z)
        yield slice(i, i + n), Z


def _waves(s: int, rate: float, first: int, last: int, dtype: str) -> tuple[NDArray, NDArray]:
    """Tapered cosines (f, s // 2 + 1) and sines (f, half): the products with a window are the roots of its power."""
    half, j = (s - 1) // 2, np.arange(s)
    phase = 2 * np.pi * ((np.arange(first, last)[:, None] * j) % s) / s
    each = np.array([np.sqrt(0.5) if k == 0 or 2 * k == s else 1.0 for k in range(first, last)])[:, None]
    cosines, sines = (each * _taper(s, rate) * wave(phase) for wave in (np.cos, np.sin))
    cosines -= cosines.mean(axis=1, keepdims=True)
    return cosines[:, : s // 2 + 1].astype(dtype), sines[:, 1 : half + 1].astype(dtype)


def _by_transform(X: NDArray, rate: float, first: int, last: int) -> Squares:
    from scipy.fft import rfft  # keeps float32, where that of NumPy takes eight times as long

    (w, s, c), dtype = X.shape, computed_in(X.dtype)
    batch = max(1, BATCH_BYTES // max(1, s * c * dtype.itemsize))
    mean, taper = np.full((1, s), 1 / s, dtype), _taper(s, rate)[:, None].astype(dtype)
    scratch = np.empty((min(batch, w), s, c), dtype)
    for i in range(0, w, batch):
        some = X[i : i + batch]
        tapered = np.subtract(some, np.matmul(mean, some), out=scratch[: len(some)])
        tapered *= taper
        S = rfft(tapered, axis=1).view(dtype)[:, first:last]  # real and imaginary parts side by side
        np.square(S, out=S)
        if first == 0:
            S[:, 0] /= 2
        if s % 2 == 0 and last == s // 2 + 1:
            S[:, -1] /= 2
        yield slice(i, i + len(some)), S.reshape(len(some), -1, c, 2).transpose(3, 1, 0, 2)


def _taper(s: int, rate: float) -> NDArray[np.float64]:
    """The periodic Hann window, times the square root of the normalization of powers."""
    h = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(s) / s) if s > 1 else np.ones(1)
    return h * np.sqrt(2 / (rate * (h**2).sum()))


def log(P: NDArray, out: NDArray | None = None) -> NDArray:
    """Natural logarithm, with a minimum far below any real power; P is overwritten."""
    return np.log(np.maximum(P, _TINY[P.dtype.itemsize], out=P), out=out)
