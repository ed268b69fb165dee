"""Recordings as Python meets them: MNE objects and stores of views, straight into a fit."""

import numpy as np
import pytest

from dlcca import LocalCCA, from_mne, open_model, open_views, transform
from dlcca.errors import DataError, SettingsError
from dlcca.recordings.view_array import ViewArray
from dlcca.storage.views import Reason

mne = pytest.importorskip("mne")

RATE = 100.0
RECIPE = {"window_s": 0.1, "step_s": 0.05, "scaling": "standard"}


def raw_of(n=6000, seed=0, bad=None, factor=1.0):
    """Two EEG and two misc channels that follow two common movements."""
    rng = np.random.default_rng(seed)
    smooth = lambda d: np.sin(np.cumsum(0.15 * rng.standard_normal((d, n)), axis=1))  # noqa: E731
    z = smooth(2)
    X = np.concatenate([z + 0.5 * smooth(2), z[::-1] + 0.5 * smooth(2)]) + 0.01 * rng.standard_normal((4, n))
    info = mne.create_info(["E1", "E2", "M1", "M2"], RATE, ["eeg", "eeg", "misc", "misc"], verbose="error")
    raw = mne.io.RawArray(factor * X, info, verbose="error")
    if bad is not None:
        raw.set_annotations(mne.Annotations([bad[0]], [bad[1]], ["BAD_cough"]))
    return raw


def test_windows_of_a_raw_become_views_of_the_picked_channels():
    raw = raw_of(bad=(10.0, 1.0))
    views = from_mne(raw, {"eeg": "eeg", "other": ["M1", 3]}, window_s=0.1, scaling="none")
    assert list(views) == ["eeg", "other"]
    assert views["eeg"].shape == (590, 20)
    np.testing.assert_allclose(views["eeg"][0].reshape(10, 2), raw.get_data()[:2, :10].T, rtol=1e-5)
    np.testing.assert_allclose(views["other"][-1].reshape(10, 2), raw.get_data()[2:, -10:].T, rtol=1e-5)
    np.testing.assert_allclose(views.time[[0, 99, 100]], [0, 9.9, 11.0])
    assert (views.clock.reason == Reason.MARKED).sum() == 10
    assert (views.segments == (views.time > 10)).all()
    whole = views.on_clock(views["eeg"])
    assert whole.shape == (600, 20)
    assert (np.isnan(whole).all(axis=1) == (views.clock.reason > 0)).all()


def test_channels_marked_as_bad_are_left_out_of_a_type_and_kept_by_name():
    raw = raw_of(1000)
    raw.info["bads"] = ["E2"]
    views = from_mne(raw, {"type": "eeg", "names": ["E1", "E2"]}, window_s=0.1)
    assert (views["type"].shape[1], views["names"].shape[1]) == (10, 20)
    raw.info["bads"] = ["E1", "E2"]
    with pytest.raises(DataError, match="all channels of this type are marked as bad"):
        from_mne(raw, {"type": "eeg"})


@pytest.mark.parametrize("neighborhoods", ["knn", "time"])
def test_a_model_of_a_raw_takes_the_raw_of_the_next_day(tmp_path, neighborhoods):
    views = from_mne(raw_of(bad=(10.0, 1.0)), {"eeg": "eeg", "other": "misc"}, **RECIPE)
    model = LocalCCA(neighborhoods=neighborhoods, window=16, landmarks=150, random_state=0).fit(views)
    model.save(tmp_path / "model.zarr")
    model = open_model(tmp_path / "model.zarr")
    again = from_mne(raw_of(bad=(10.0, 1.0)), model=model)
    for name in views:
        np.testing.assert_array_equal(again[name], views[name])
    shifted = from_mne(
        raw_of(2000, seed=1, factor=3.0), model=model
    )  # scaled as on the first day: three times as large
    assert np.std(shifted["eeg"]) > 2
    assert len(transform(model, shifted)) == len(shifted["eeg"])
    assert model.outside(shifted).mean() > 0.5


def test_a_fit_of_a_raw_does_not_cross_its_gaps():
    views = from_mne(raw_of(2000, bad=(9.0, 2.0)), {"eeg": "eeg", "other": "misc"}, **RECIPE)
    model = LocalCCA(window=20, landmarks="all", random_state=0).fit(views)
    joined = LocalCCA(window=20, landmarks="all", random_state=0).fit(dict(views))
    edge = int(np.flatnonzero(views.segments)[0])
    differ = np.array([not np.allclose(a, b) for a, b in zip(model.correlations_, joined.correlations_, strict=True)])
    assert differ[edge - 5 : edge + 5].all()
    assert not differ[: edge - 20].any()
    assert not differ[edge + 20 :].any()


def test_large_views_stay_on_disk_and_give_the_same(monkeypatch):
    options = {"neighborhoods": "time", "window": 16, "landmarks": 60, "random_state": 0}
    views = from_mne(raw_of(3000, bad=(9.0, 2.0)), {"eeg": "eeg", "other": "misc"}, **RECIPE)
    here = LocalCCA(**options).fit(views)
    monkeypatch.setattr("dlcca.recordings.recorded_views.IN_MEMORY_BYTES", 0)
    on_disk = open_views(views.store)
    assert isinstance(on_disk["eeg"], ViewArray)
    there = LocalCCA(**options).fit(on_disk)
    assert there.embedding_.shape == here.embedding_.shape
    np.testing.assert_allclose(there.embedding_.compute(), here.embedding_, atol=1e-3)
    assert there.recordings_.facts == here.recordings_.facts


def test_what_cannot_be_is_refused(tmp_path):
    raw = raw_of(1000)
    with pytest.raises(SettingsError, match="either views"):
        from_mne(raw)
    with pytest.raises(SettingsError, match="has no channel 'E9'"):
        from_mne(raw, {"eeg": ["E9"]})
    with pytest.raises(SettingsError, match="picks channel 7; there are 4"):
        from_mne(raw, {"eeg": [7]})
    with pytest.raises(SettingsError, match="windows_s is not a setting; did you mean 'window_s'"):
        from_mne(raw, {"eeg": "eeg"}, windows_s=1)
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = LocalCCA(neighborhoods="knn", n_neighbors=40, random_state=0).fit([X, X])
    with pytest.raises(SettingsError, match="fitted to arrays"):
        from_mne(raw, model=model)
