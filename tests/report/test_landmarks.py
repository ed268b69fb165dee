"""Which channels carry what is common: as loops say, and only those that do."""

import numpy as np
import pytest

from dlcca.report import landmarks as at_landmarks
from tests.reference import report as literal
from tests.report.stores import CHANNELS, night, stored


def test_the_share_of_a_channel_is_as_the_loops_say():
    rng = np.random.default_rng(0)
    E, X = rng.standard_normal((60, 2)), rng.standard_normal((60, 3))
    X[:, 0] += 2 * E[:, 0]
    fold = np.arange(60) // 12
    made = at_landmarks.channel_r2(E, X, fold, k=5)
    np.testing.assert_allclose(made, [literal.explained(E, x, fold, 5) for x in X.T], rtol=1e-9, atol=1e-12)


def test_channels_of_the_model_in_a_run_are_ranked_by_what_they_carry(tmp_path):
    found = night(2000)
    at = found.landmarks
    eeg, ecg = at_landmarks.channels_in_store(
        str(stored(tmp_path / "run.zarr", found)), found.embedding[at], found.time[at]
    )
    assert (eeg.name, ecg.name, eeg.count) == ("eeg", "ecg", CHANNELS)
    assert eeg.labels == [f"EEG{i}" for i in range(1, CHANNELS + 1)]
    assert eeg.r2[0] > 0.95
    assert eeg.r2[-1] < 0.1
    assert eeg.ranked[:3].tolist() == [0, 1, 2]
    assert 0 < eeg.share < 1


def test_a_run_without_a_model_has_no_channels(tmp_path):
    from dlcca.storage import run

    found = night(300, landmarks=50)
    run.write(tmp_path / "run.zarr", found)
    assert at_landmarks.channels_in_store(str(tmp_path / "run.zarr"), found.embedding[found.landmarks], None) == []


def test_a_channel_that_never_changes_carries_nothing():
    E = np.random.default_rng(0).standard_normal((100, 2))
    (view,) = at_landmarks.view_channels({"a": np.ones((100, 2))}, E, None)
    assert view.r2.tolist() == [0, 0]


@pytest.mark.parametrize("landmarks", [5, at_landmarks.FEWEST_LANDMARKS - 1])
def test_few_landmarks_cannot_tell(landmarks):
    E = np.random.default_rng(0).standard_normal((landmarks, 2))
    (view,) = at_landmarks.view_channels({"a": E}, E, None)
    assert view.r2 is None
    assert view.share is None


def test_a_channel_with_several_features_is_told_once():
    E = np.random.default_rng(0).standard_normal((200, 2))
    X = np.column_stack([E[:, 0], np.random.default_rng(1).standard_normal(200), 2 * E[:, 0], E[:, 1]])
    names = ["II at 0 s", "II b at 0 s", "II at 0.1 s", "II b at 0.1 s"]
    (view,) = at_landmarks.view_channels({"a": X}, E, None, {"a": {"channels": ["II", "II b"], "feature_names": names}})
    assert list(view.r2_by_channel) == ["II", "II b"]
    assert view.r2_by_channel["II"] == pytest.approx(view.r2[[0, 2]].mean())
    assert view.labels == names


def test_features_of_no_single_channel_are_told_one_by_one():
    E = np.random.default_rng(0).standard_normal((200, 2))
    names = ["principal component 1", "principal component 2"]
    (view,) = at_landmarks.view_channels({"a": E}, E, None, {"a": {"channels": ["II", "V"], "feature_names": names}})
    assert sorted(view.r2_by_channel) == names


def test_of_very_many_channels_some_are_looked_at():
    E = np.random.default_rng(0).standard_normal((50, 2))
    (view,) = at_landmarks.view_channels({"a": np.repeat(E, 400, axis=1)}, E, None)
    assert (view.count, len(view.labels)) == (800, at_landmarks.MOST_CHANNELS)
    assert view.labels[-1] == "channel 800"
