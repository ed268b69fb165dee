"""Views of different rates, starts and clocks: window t is the same time in all of them."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from tests.recordings.fakes import ArraySignal, ingested, recipe, write

START = datetime(2026, 3, 1, 22, 0, 0)
HOUR = 3600.0


def moments(n: int, rate: float, start_s: float, drift_ppm: float) -> np.ndarray:
    """When samples were taken, in true seconds."""
    return start_s + np.arange(n) / rate * (1 + drift_ppm * 1e-6)


@pytest.fixture(params=["start of the file", "start of the signal"])
def two_views(request, tmp_path):
    """An hour of the true time in each sample, at 256 and 100 Hz, 0.4 s apart, one clock 50 ppm slow."""
    later, within = (0.4, 0.0) if request.param == "start of the file" else (0.0, 0.4)
    t = moments(int(HOUR * 256), 256.0, 0.0, 0.0)
    u = moments(int((HOUR - 1) * 100), 100.0, 0.4, 50.0)
    one = write(tmp_path / "one.npz", ArraySignal(t, ["t"], 256.0), start=START)
    other = write(
        tmp_path / "other.npz",
        ArraySignal(u, ["t"], 100.0, start_s=within, drift_ppm=50.0),
        start=START + timedelta(seconds=later),
    )
    return tmp_path, one, other


@pytest.mark.parametrize(("resample", "samples"), [("nearest", 0.5), ("linear", 0.01)])
def test_samples_of_an_hour_land_within_half_a_sample_of_the_clock(two_views, resample, samples):
    folder, one, other = two_views
    common = {"window_s": 1.0, "scaling": "none", "resample": resample}
    header, group = ingested(folder / f"{resample}.zarr", a=recipe(one, **common), b=recipe(other, **common))
    assert header["rows"] >= 3598
    begin = group["time"][...][group["rows"][...]][:, None]
    for name, rate in (("a", 256), ("b", 100)):
        off = group[f"views/{name}"][...] - (begin + np.arange(rate) / rate)
        rounding = 5e-4  # float32 holds 3600 s to 0.24 ms, and two of them are mixed
        assert np.abs(off).max() <= samples / rate + rounding


def test_pulses_at_the_same_moments_fall_into_the_same_windows_and_places(tmp_path):
    pulses = np.arange(5.03, HOUR - 5, 7.13)

    def seen(t):
        after = np.searchsorted(pulses, t).clip(1, len(pulses) - 1)
        nearest = np.minimum(np.abs(t - pulses[after]), np.abs(t - pulses[after - 1]))
        return np.exp(-0.5 * (nearest / 0.02) ** 2)

    t, u = moments(int(HOUR * 256), 256.0, 0.0, 0.0), moments(int((HOUR - 1) * 100), 100.0, 0.4, 50.0)
    one = write(tmp_path / "one.npz", ArraySignal(seen(t), ["p"], 256.0), start=START)
    other = write(
        tmp_path / "other.npz", ArraySignal(seen(u), ["p"], 100.0, drift_ppm=50.0), start=START + timedelta(seconds=0.4)
    )
    common = {"window_s": 0.5, "scaling": "none", "flat_s": 0.0, "saturated_s": 0.0}
    _, group = ingested(tmp_path / "v.zarr", a=recipe(one, **common), b=recipe(other, **common))
    A, B = group["views/a"][...], group["views/b"][...]
    clear = (A.max(axis=1) > 0.9) & (A.argmax(axis=1) > 20) & (A.argmax(axis=1) < 108)  # a whole pulse in the window
    assert clear.sum() > 300
    A, B = A[clear], B[clear]
    at_256 = (A * np.arange(128)).sum(axis=1) / A.sum(axis=1) / 256
    at_100 = (B * np.arange(50)).sum(axis=1) / B.sum(axis=1) / 100
    assert np.abs(at_256 - at_100).max() < 0.5 / 100 + 0.5 / 256
    assert np.abs(np.mean(at_256 - at_100)) < 0.001


def test_without_the_declared_drift_the_views_would_part(tmp_path):
    t, u = moments(int(HOUR * 256), 256.0, 0.0, 0.0), moments(int((HOUR - 1) * 100), 100.0, 0.0, 50.0)
    one = write(tmp_path / "one.npz", ArraySignal(t, ["t"], 256.0))
    other = write(tmp_path / "other.npz", ArraySignal(u, ["t"], 100.0))  # does not say that it drifts
    common = {"window_s": 1.0, "scaling": "none"}
    _, group = ingested(tmp_path / "v.zarr", a=recipe(one, **common), b=recipe(other, **common))
    assert np.abs(group["views/a"][-1, 0] - group["views/b"][-1, 0]) > 0.15


def test_windows_before_a_view_begins_are_a_gap_and_the_clock_begins_with_the_first(tmp_path):
    one = write(tmp_path / "one.npz", ArraySignal(np.random.default_rng(0).random(100), ["a"], 10.0), start=START)
    late = START + timedelta(seconds=2.5)
    other = write(tmp_path / "other.npz", ArraySignal(np.random.default_rng(1).random(100), ["a"], 10.0), start=late)
    header, group = ingested(tmp_path / "v.zarr", a=recipe(one, window_s=1.0), b=recipe(other))
    assert group["reason"][...].tolist() == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert group["segment"][...].tolist() == [-1, -1, -1, 0, 0, 0, 0, 0, 0, 0, -1, -1]
    assert header["start"] == "2026-03-01T22:00:00+00:00"
