"""Recordings to views: what is in the store is what is in the files, window by window."""

from datetime import UTC, datetime

import numpy as np
import pytest
import scipy.signal

from dlcca.errors import StaleStage, StorageError
from dlcca.recordings import ingest
from dlcca.storage.views import Reason, read_clock, recordings_of
from tests.recordings.fakes import ArraySignal, ingested, noise, open_fake, recipe, write


def test_two_signals_of_one_rate_become_raw_windows(tmp_path):
    X = noise(1000, 3)
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b", "c"], 100.0))
    left = recipe(file, channels=["a", "b"], window_s=0.1, scaling="none")
    right = recipe(file, channels=["c"], scaling="none")
    header, group = ingested(tmp_path / "views.zarr", left=left, right=right)
    assert header["rows"] == header["windows"] == 100
    np.testing.assert_allclose(group["views/left"][...], X[:, :2].reshape(100, 20), rtol=1e-6)
    np.testing.assert_allclose(group["views/right"][...], X[:, 2].reshape(100, 10), rtol=1e-6)
    np.testing.assert_allclose(group["time"][...], np.arange(100) * 0.1)
    assert not group["reason"][...].any()
    assert not group["segment"][...].any()


def test_channels_come_in_the_order_in_which_they_are_wanted(tmp_path):
    X = noise(100, 3)
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b", "c"], 10.0))
    header, group = ingested(tmp_path / "v.zarr", x=recipe(file, channels=["c", "a"], window_s=0.1, scaling="none"))
    assert header["views"]["x"]["channels"] == ["c", "a"]
    np.testing.assert_allclose(group["views/x"][...], X[:, [2, 0]], rtol=1e-6)


def test_overlapping_windows_share_their_samples(tmp_path):
    X = noise(200, 1)
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a"], 10.0))
    _, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=0.8, step_s=0.3, scaling="none"), block=7)
    expected = np.lib.stride_tricks.sliding_window_view(X[:, 0], 8)[::3]
    np.testing.assert_allclose(group["views/x"][...], expected, rtol=1e-6)


def test_windows_apart_leave_samples_between_them_out(tmp_path):
    X = noise(200, 1)
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a"], 10.0))
    _, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=0.2, step_s=0.7, scaling="none"), block=3)
    np.testing.assert_allclose(
        group["views/x"][...], np.lib.stride_tricks.sliding_window_view(X[:, 0], 2)[::7], rtol=1e-6
    )


FEATURES = {
    "raw": "raw",
    "delay": {"kind": "delay", "delay_s": 0.05, "n_delays": 4},
    "bandpower": "bandpower",
    "spectrogram": {"kind": "spectrogram", "segment_s": 0.25},
    "covariance": "covariance",
}


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("scaling", ["robust", "standard"])
def test_the_answer_does_not_depend_on_the_blocks(kind, scaling, tmp_path):
    X = noise(3000, 3).cumsum(axis=0)
    X[1000:1100, 1] = X[1000, 1]
    X[2000, 2] = np.nan
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b", "c"], 100.0))
    made = recipe(file, window_s=1.0, step_s=0.25, features=FEATURES[kind], scaling=scaling)
    one, other = (ingested(tmp_path / f"{rows}.zarr", x=made, block=rows)[1] for rows in (1000, 31))
    np.testing.assert_array_equal(one["reason"][...], other["reason"][...])
    np.testing.assert_array_equal(one["segment"][...], other["segment"][...])
    assert one["views/x"].shape == (one["rows"].shape[0], other["views/x"].shape[1])
    # Sketches of few numbers each are exact but for the interpolation between ranks.
    tolerance = 0.02 if scaling == "robust" else 1e-4
    np.testing.assert_allclose(one["views/x"][...], other["views/x"][...], rtol=tolerance, atol=tolerance)


def test_log_band_powers_in_the_store_are_those_of_scaled_windows(tmp_path):
    X = noise(2560, 2) * [1, 1000] + [0, 5e4]
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b"], 256.0))
    features = {"kind": "bandpower", "bands": {"low": [4, 8], "high": [8, 30]}}
    header, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0, features=features, scaling="standard"))
    Z = ((X - X.mean(axis=0)) / X.std(axis=0)).reshape(10, 256, 2)
    f, P = scipy.signal.welch(Z, 256.0, nperseg=256, axis=1)
    expected = [np.log(P[:, (f >= a) & (f < b)].sum(axis=1)) for a, b in ((4, 8), (8, 30))]
    np.testing.assert_allclose(group["views/x"][...], np.concatenate(expected, axis=1), atol=2e-3)
    assert header["views"]["x"]["feature_names"][1] == "log power of b, low 4-8 Hz"


def test_robust_scaling_takes_median_and_quartiles_of_each_channel(tmp_path):
    X = noise(20_000, 2) * [2, 30] + [5, -7]
    X[::50] += 1e4
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b"], 100.0))
    header, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=0.01), block=1500)
    low, median, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    scale = (high - low) / 1.3489795
    np.testing.assert_allclose(header["views"]["x"]["center"], median, atol=0.01 * scale.max())
    np.testing.assert_allclose(header["views"]["x"]["scale"], scale, rtol=0.01)
    np.testing.assert_allclose(group["views/x"][...], (X - median) / scale, atol=0.02, rtol=0.02)


def test_principal_components_take_the_place_of_features(tmp_path):
    X = noise(500, 4) @ np.random.default_rng(1).standard_normal((4, 4))
    file = write(tmp_path / "a.npz", ArraySignal(X, list("abcd"), 10.0))
    made = recipe(file, window_s=0.1, scaling="none", pca_components=2)
    _, group = ingested(tmp_path / "v.zarr", x=made, block=60)
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    found = group["views/x"][...]
    np.testing.assert_allclose(np.abs((found.T @ U[:, :2]) / s[:2]), np.eye(2), atol=1e-4)


def test_channels_of_two_rates_in_one_view_lie_side_by_side(tmp_path):
    fast, slow = noise(1000, 1), noise(100, 1, seed=1)
    file = write(tmp_path / "a.npz", ArraySignal(fast, ["f"], 100.0), ArraySignal(slow, ["s"], 10.0))
    header, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=0.5, scaling="none"))
    expected = np.hstack([fast.reshape(20, 50), slow.reshape(20, 5)])
    np.testing.assert_allclose(group["views/x"][...], expected, rtol=1e-6)
    assert header["views"]["x"]["rates"] == [100.0, 10.0]


def test_the_scaling_of_an_earlier_store_can_be_used(tmp_path):
    X, Y = noise(1000, 2) * 3 + 1, noise(1000, 2, seed=1) * 100
    first = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b"], 10.0))
    second = write(tmp_path / "b.npz", ArraySignal(Y, ["a", "b"], 10.0))
    header, _ = ingested(tmp_path / "a.zarr", x=recipe(first, window_s=0.1))
    earlier, recipes = recordings_of(str(tmp_path / "a.zarr")), {"x": recipe(second, window_s=0.1)}
    job, line = ingest.prepared(str(tmp_path / "b.zarr"), recipes, open_fake, scaling=earlier.scaling)
    again = ingest.run(job, line)
    assert again["views"]["x"]["scale"] == header["views"]["x"]["scale"]


def test_the_header_says_what_was_read_and_when_it_began(tmp_path):
    start = datetime(2026, 3, 1, 22, 0, 0, 500_000, tzinfo=UTC)
    file = write(tmp_path / "a.npz", ArraySignal(noise(100, 1), ["a"], 10.0, start_s=0.25, kinds=["eeg"]), start=start)
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0))
    assert header["start"] == "2026-03-01T22:00:00.750000+00:00"
    assert header["files"][0]["signals"][0]["samples"] == 100
    assert header["views"]["x"]["kinds"] == ["eeg"]
    assert header["reasons"] == {**{reason.name.lower(): 0 for reason in Reason}, "valid": 10}
    assert read_clock(str(tmp_path / "v.zarr")).start == header["start"]


def test_a_killed_ingestion_goes_on_where_it_was(tmp_path):
    file = write(tmp_path / "a.npz", ArraySignal(noise(1000, 2), ["a", "b"], 10.0))
    made, told = recipe(file, window_s=1.0), []

    def killed(stage, done, blocks):
        if (stage, done) == ("drafts", 4):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingested(tmp_path / "v.zarr", x=made, block=10, on_progress=killed)
    _, group = ingested(tmp_path / "v.zarr", x=made, block=10, on_progress=lambda *said: told.append(said))
    assert told[0] == ("drafts", 4, 10)
    _, whole = ingested(tmp_path / "w.zarr", x=made, block=10)
    np.testing.assert_array_equal(group["views/x"][...], whole["views/x"][...])


def test_a_second_call_does_nothing(tmp_path):
    file = write(tmp_path / "a.npz", ArraySignal(noise(1000, 2), ["a", "b"], 10.0))
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0))
    told: list = []
    assert (
        ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0), on_progress=lambda *said: told.append(said))[0]
        == header
    )
    assert told == []


def test_other_settings_or_files_are_refused_and_what_is_there_stays(tmp_path):
    file = write(tmp_path / "a.npz", ArraySignal(noise(1000, 2), ["a", "b"], 10.0))
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0))
    with pytest.raises(StaleStage, match="other files, or with other settings"):
        ingested(tmp_path / "v.zarr", x=recipe(file, window_s=2.0))
    write(tmp_path / "a.npz", ArraySignal(noise(1000, 2, seed=9), ["a", "b"], 10.0))
    with pytest.raises(StaleStage):
        ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0))
    assert ingest.store.describe(str(tmp_path / "v.zarr")) == header


def test_a_folder_of_something_else_is_not_written_into(tmp_path):
    file = write(tmp_path / "a.npz", ArraySignal(noise(100, 1), ["a"], 10.0))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters.txt").write_text("dear")
    with pytest.raises(StorageError, match="no store of views"):
        ingested(tmp_path / "mine", x=recipe(file, window_s=1.0))


@pytest.mark.slow
def test_workers_give_the_same_to_the_bit(tmp_path):
    from distributed import Client, LocalCluster

    file = write(tmp_path / "a.npz", ArraySignal(noise(2000, 3), ["a", "b", "c"], 10.0))
    made = recipe(file, window_s=1.0, step_s=0.5, features="covariance", pca_components=3)
    _, alone = ingested(tmp_path / "v.zarr", x=made, block=37)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    with cluster, Client(cluster) as client:
        _, shared = ingested(tmp_path / "w.zarr", client=client, x=made, block=37)
    np.testing.assert_array_equal(alone["views/x"][...], shared["views/x"][...])
