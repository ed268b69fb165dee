"""The views of `problems` as plain arrays, for fits in memory; the same features, made with NumPy alone."""

from __future__ import annotations

from functools import cache

import numpy as np

from dlcca.recordings.formats import open_recording
from tests.realdata.problems import _heart, principal
from tests.support.recordings import shared

Views = list[np.ndarray]


@cache
def beats(record: int) -> Views:
    """ECG and PPG of a BIDMC record, one row per beat, 10 principal components each."""
    path = shared("bidmc-sample", f"bidmc_{record}.npz")
    ecg, ppg, rate = _heart(path)
    with np.load(path) as known:
        peaks = known["rpeaks"].astype(int)
    half, after = int(0.32 * rate), int(0.8 * rate)
    peaks = peaks[(peaks >= half) & (peaks + after <= len(ppg))]
    around = np.stack([ecg[r - half : r + half].ravel() for r in peaks])
    following = np.stack([ppg[r : r + after] for r in peaks])
    return [principal(around, 10), principal(following, 10)]


@cache
def feet() -> Views:
    """Inertial sensors on both shoes: windows of 51 samples, every fourth, 15 principal components each."""
    with np.load(shared("gait-imu", "gait.npz")) as known:
        sides = [known[side].astype(float) for side in ("left", "right")]
    starts = np.arange(0, len(sides[0]) - 51, 4)
    return [principal(np.stack([X[i : i + 51].ravel() for i in starts]), 15) for X in sides]


@cache
def mouse() -> Views:
    """A running mouse from the side and from below: 4 x 4 pixels averaged, 30 principal components each."""
    path = shared("mirror-mouse", "mirror_mouse.mp4")
    views = []
    for roi in ([0, 168, 0, 396], [168, 406, 0, 396]):
        (movie,) = open_recording(path, roi=roi, scale=4).signals
        views.append(principal(movie.read(0, movie.n, range(len(movie.channels))), 30))
    return views


@cache
def digits(one: str = "fou", other: str = "kar") -> Views:
    """Two kinds of features of 2000 handwritten digits, z-scores, 30 principal components each."""
    with np.load(shared("mfeat-digits", "mfeat.npz")) as known:
        views = [known[name].astype(float) for name in (one, other)]
    return [principal((X - X.mean(axis=0)) / X.std(axis=0), 30) for X in views]
