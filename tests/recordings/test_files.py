"""Files that do not fit together are named and refused, or put in order, and never dropped in silence."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings import ingest_job
from tests.recordings.fakes import ArraySignal, ingested, noise, open_fake, recipe, write

START = datetime(2026, 3, 1, 22, 0, 0)


def file(folder, name, after_s=0.0, n=100, names=("a", "b"), rate=10.0, **more):
    start = None if after_s is None else START + timedelta(seconds=after_s)
    seed = int(sum(map(ord, name)))
    return write(folder / name, ArraySignal(noise(n, len(names), seed), list(names), rate, **more), start=start)


def test_channels_missing_from_one_file_are_named_with_it(tmp_path):
    one, other = file(tmp_path, "one.npz"), file(tmp_path, "two.npz", 20, names=("a", "c"))
    with pytest.raises(DataError, match=r"two\.npz lacks channel 'b', which .*one\.npz has.*'a', 'c'"):
        ingested(tmp_path / "v.zarr", x=recipe(one, other, channels=["a", "b"]))


def test_channels_missing_from_one_file_do_not_matter_if_nobody_wants_them(tmp_path):
    one, other = file(tmp_path, "one.npz"), file(tmp_path, "two.npz", 20, names=("c", "a"))
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(one, other, channels=["a"], window_s=1.0))
    assert header["rows"] == 20


def test_channels_may_come_in_another_order_in_another_file(tmp_path):
    X, Y = noise(10, 2), noise(10, 2, seed=1)
    one = write(tmp_path / "one.npz", ArraySignal(X, ["a", "b"], 10.0), start=START)
    other = write(tmp_path / "two.npz", ArraySignal(Y, ["b", "a"], 10.0), start=START + timedelta(seconds=1))
    _, group = ingested(tmp_path / "v.zarr", x=recipe(one, other, window_s=0.1, scaling="none"))
    np.testing.assert_allclose(group["views/x"][...], np.concatenate([X, Y[:, ::-1]]), rtol=1e-6)


def test_overlapping_files_are_refused_with_both_names(tmp_path):
    one, other = file(tmp_path, "one.npz"), file(tmp_path, "two.npz", 7.5)
    with pytest.raises(DataError, match=r"two\.npz begins 2\.5 s before .*one\.npz ends"):
        ingested(tmp_path / "v.zarr", x=recipe(one, other))


def test_files_out_of_order_are_put_in_order_and_it_is_said(tmp_path):
    late, early = file(tmp_path, "a_late.npz", 30), file(tmp_path, "b_early.npz", 0)
    header, group = ingested(tmp_path / "v.zarr", x=recipe(late, early, window_s=1.0))
    assert any("order of their starts: b_early.npz, a_late.npz" in note for note in header["notes"])
    assert group["segment"][...].tolist() == [0] * 10 + [-1] * 20 + [1] * 10


def test_a_pattern_names_files_and_one_that_matches_nothing_is_an_error(tmp_path):
    for number in range(3):
        file(tmp_path, f"night{number}.npz", 10 * number)
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(str(tmp_path / "night*.npz"), window_s=1.0))
    assert header["rows"] == 30
    with pytest.raises(DataError, match=r"no file matches .*day\*\.npz"):
        ingested(tmp_path / "w.zarr", x=recipe(str(tmp_path / "day*.npz")))


def test_a_file_named_twice_is_refused(tmp_path):
    one = file(tmp_path, "one.npz")
    with pytest.raises(DataError, match="twice"):
        ingested(tmp_path / "v.zarr", x=recipe(one, one))


def test_files_that_do_not_say_when_they_began_follow_each_other_as_named(tmp_path):
    one, other = file(tmp_path, "one.npz", None), file(tmp_path, "two.npz", None)
    header, group = ingested(tmp_path / "v.zarr", x=recipe(other, one, window_s=1.0))
    assert any("one after another, as named" in note for note in header["notes"])
    assert group["segment"][...].tolist() == [0] * 10 + [1] * 10
    assert header["start"] is None


def test_files_of_which_only_some_say_when_they_began_are_refused(tmp_path):
    one, other = file(tmp_path, "one.npz", 0), file(tmp_path, "two.npz", None)
    with pytest.raises(DataError, match=r"two\.npz has no start time"):
        ingested(tmp_path / "v.zarr", x=recipe(one, other))


def test_rates_that_change_from_file_to_file_are_refused(tmp_path):
    one, other = file(tmp_path, "one.npz"), file(tmp_path, "two.npz", 20, rate=20.0)
    with pytest.raises(DataError, match=r"different rates: 10 Hz in .*one\.npz, 20 Hz in .*two\.npz"):
        ingested(tmp_path / "v.zarr", x=recipe(one, other))


def test_views_of_different_times_are_refused(tmp_path):
    one, other = file(tmp_path, "one.npz"), file(tmp_path, "two.npz", 86400)
    with pytest.raises(DataError, match="ends 86390 s before view 'b' begins"):
        ingested(tmp_path / "v.zarr", a=recipe(one), b=recipe(other))


def test_a_recording_shorter_than_a_window_is_refused(tmp_path):
    with pytest.raises(DataError, match="lasts 10 s, less than one window"):
        ingested(tmp_path / "v.zarr", x=recipe(file(tmp_path, "one.npz"), window_s=30.0))


def test_a_header_that_lies_about_its_length_is_noticed(tmp_path, monkeypatch):
    one = file(tmp_path, "one.npz", n=1000)
    read = ArraySignal.read
    monkeypatch.setattr(
        ArraySignal,
        "read",
        lambda self, a, b, c: read(self, a, b, c)[: max(0, 700 - a)] if b > 4 and a == 0 else read(self, a, b, c),
    )
    with pytest.raises(DataError, match="shorter than its header says"):
        ingested(tmp_path / "v.zarr", x=recipe(one, window_s=1.0))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window_s": 0.25}, r"window_s = 0\.25 is 2\.5 samples at 10 Hz.*0\.2 or 0\.3 would fit"),
        ({"window_s": 0.5, "step_s": 0.33}, r"step_s = 0\.33 is 3\.3 samples.*0\.3 or 0\.4 would fit"),
        ({"channels": []}, "chooses no channels"),
        ({"channels": ["EEG*"]}, r"no channel 'EEG\*'; There are 'a', 'b'"),
        ({"channels": ["type:ecg"]}, r"no channel 'type:ecg'"),
        ({"window_s": 0.5, "features": {"kind": "bandpower", "bands": {"x": [6, 8]}}}, "half the rate"),
        ({"window_s": 0.5, "features": {"kind": "delay", "n_delays": 9}}, "at most 5 delays"),
        (
            {"window_s": 0.5, "features": {"kind": "delay", "delay_s": 0.04}},
            "delay_s = 0.04 is less than half a sample",
        ),
        ({"window_s": 0.5, "features": {"kind": "spectrogram", "segment_s": 2.0}}, "segment of 20 samples"),
        ({"window_s": 0.5, "pca_components": 99}, "at most 10"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(tmp_path, values, message):
    with pytest.raises(SettingsError, match=message):
        ingested(tmp_path / "v.zarr", x=recipe(file(tmp_path, "one.npz"), **values))


def test_a_pca_of_more_features_than_a_worker_holds_is_refused_before_samples_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest_job, "MOST_FEATURES", 9)
    made = recipe(file(tmp_path, "one.npz"), window_s=0.5, pca_components=2)
    with pytest.raises(DataError, match="has 10 features; a PCA is for at most 9"):
        ingest_job.prepared(str(tmp_path / "v.zarr"), {"x": made}, open_fake)


def test_rates_that_do_not_fit_can_be_resampled(tmp_path):
    t = np.arange(1000) / 30.0
    X = write(tmp_path / "one.npz", ArraySignal(t, ["t"], 30.0))
    common = {"window_s": 0.25, "scaling": "none"}
    with pytest.raises(SettingsError, match="resample"):
        ingested(tmp_path / "a.zarr", x=recipe(X, **common))
    for how, off in (("nearest", 0.5 / 30), ("linear", 1e-5)):
        _, group = ingested(tmp_path / f"{how}.zarr", x=recipe(X, resample=how, **common))
        begin = group["time"][...][group["rows"][...]][:, None]
        assert group["views/x"].shape[1] == 7
        assert np.abs(group["views/x"][...] - begin - np.arange(7) / 30).max() <= off + 1e-5


def test_views_that_disagree_about_the_window_are_refused(tmp_path):
    one = file(tmp_path, "one.npz")
    with pytest.raises(SettingsError, match=r"window_s differs .*1 in 'a', 2 in 'b'"):
        ingested(tmp_path / "v.zarr", a=recipe(one, window_s=1.0), b=recipe(one, window_s=2.0))


def test_covariances_of_channels_that_were_not_sampled_together_are_refused(tmp_path):
    X = write(tmp_path / "a.npz", ArraySignal(noise(100, 1), ["f"], 10.0), ArraySignal(noise(50, 1), ["s"], 5.0))
    with pytest.raises(SettingsError, match="sampled together"):
        ingested(tmp_path / "v.zarr", x=recipe(X, window_s=1.0, features="covariance"))


def test_a_name_that_two_signals_have_at_the_same_time_is_refused(tmp_path):
    X = write(tmp_path / "a.npz", ArraySignal(noise(100, 1), ["a"], 10.0), ArraySignal(noise(100, 1), ["a"], 10.0))
    with pytest.raises(DataError, match="'a' is twice in"):
        ingested(tmp_path / "v.zarr", x=recipe(X))


def test_starts_in_whole_seconds_that_overlap_by_less_are_taken_to_follow_at_once(tmp_path):
    one, other = file(tmp_path, "one.npz", n=104), file(tmp_path, "two.npz", 10)
    header, group = ingested(tmp_path / "v.zarr", x=recipe(one, other, window_s=0.1, scaling="none"))
    assert any("two.npz begins 0.4 s before" in note and "follow at once" in note for note in header["notes"])
    assert group["reason"][...].tolist() == [0] * 204
    assert group["segment"][...].tolist() == [0] * 104 + [1] * 100


def test_starts_that_are_exact_may_not_overlap_unless_it_is_allowed(tmp_path):
    one, other = file(tmp_path, "one.npz", 0.25, n=104), file(tmp_path, "two.npz", 10.25)
    with pytest.raises(DataError, match=r"two\.npz begins 0\.4 s before .*overlap_s"):
        ingested(tmp_path / "v.zarr", x=recipe(one, other, window_s=0.1))
    header, _ = ingested(tmp_path / "w.zarr", x=recipe(one, other, window_s=0.1, overlap_s=0.5))
    assert header["rows"] == 204
    with pytest.raises(SettingsError, match="overlap_s = -1"):
        recipe(one, overlap_s=-1)


def test_a_second_of_overlap_is_no_rounding(tmp_path):
    one, other = file(tmp_path, "one.npz", n=110), file(tmp_path, "two.npz", 10)
    with pytest.raises(DataError, match=r"two\.npz begins 1 s before"):
        ingested(tmp_path / "v.zarr", x=recipe(one, other, window_s=0.1))
