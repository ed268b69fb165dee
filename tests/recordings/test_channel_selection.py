"""Channels by name, by pattern and by type."""

import pytest

from dlcca.errors import SettingsError
from dlcca.recordings.formats.recording import Channel
from dlcca.recordings.timeline import chosen

CHANNELS = [
    Channel("EEG Fpz-Cz", kind="eeg"),
    Channel("EEG Pz-Oz", kind="eeg"),
    Channel("EOG", kind="eog"),
    Channel("ECG", kind="ecg"),
    Channel("A[1]", kind=""),
]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["EOG"], ["EOG"]),
        (["EEG *"], ["EEG Fpz-Cz", "EEG Pz-Oz"]),
        (["ECG", "EEG *", "ECG"], ["ECG", "EEG Fpz-Cz", "EEG Pz-Oz"]),
        (["type:ecg"], ["ECG"]),
        (["type:E?G"], ["EEG Fpz-Cz", "EEG Pz-Oz", "EOG", "ECG"]),
        (["A[1]"], ["A[1]"]),
        (["*"], [channel.name for channel in CHANNELS]),
    ],
)
def test_channels_are_found(wanted, found):
    assert chosen(CHANNELS, wanted, "view 'x'") == found


def test_a_wish_that_nothing_answers_suggests_the_nearest_or_lists_all():
    with pytest.raises(SettingsError, match=r"view 'x' has no channel 'EOGG'; did you mean 'EOG'\? There are 'EEG Fpz"):
        chosen(CHANNELS, ["EOGG"], "view 'x'")
    with pytest.raises(SettingsError, match=r"no channel 'resp\*'; There are 'EEG Fpz-Cz' \(eeg\), .*'A\[1\]'\."):
        chosen(CHANNELS, ["EOG", "resp*"], "view 'x'")
