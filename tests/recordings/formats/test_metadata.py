"""What names of channels say, as they are found in recordings of several fields."""

import pytest

from dlcca.recordings.formats.metadata import distinct, kind_of, kinds_of


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("EEG Fpz-Cz", "eeg"), ("Fp1", "eeg"), ("C3-M2", "eeg"), ("CPz", "eeg"), ("T7", "eeg"), ("EEG1", "eeg"),
        ("EOG horizontal", "eog"), ("E1-M2", "eog"), ("LOC", "eog"), ("HEOGL", "eog"), ("EOG 061", "eog"),
        ("EMG submental", "emg"), ("Chin1-Chin2", "emg"), ("LLeg", "emg"),
        ("ECG", "ecg"), ("EKG1-EKG2", "ecg"), ("II", "ecg"), ("MLII", "ecg"), ("V5", "ecg"), ("aVR", "ecg"),
        ("Resp oro-nasal", "resp"), ("THOR RES", "resp"), ("ABDO RES", "resp"), ("Flow Patient", "resp"),
        ("PLETH", "ppg"), ("SaO2", "spo2"), ("SpO2", "spo2"), ("ABP", "bp"), ("Temp rectal", "temperature"),
        ("acc_x", "acc"), ("gyr_z", "gyro"), ("Status", "stim"), ("STI 014", "stim"), ("Event marker", "stim"),
        ("", ""), ("3Hz +5/-5 V", ""), ("Ergo-Left", ""), ("EXG1", ""), ("Pressure", ""), ("Volume", ""),
    ],
)  # fmt: skip
def test_a_label_announces_a_kind(label, kind):
    assert kind_of(label) == kind


def test_many_sockets_are_a_cap_and_two_are_eyes():
    cap = [f"{letter}{number}" for letter in "ABE" for number in range(1, 9)]
    assert kinds_of([*cap, "Status"]) == ["eeg"] * 24 + ["stim"]
    assert kinds_of(["E1", "E2"]) == ["eog", "eog"]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "b", "a"], ["a-0", "b", "a-1"]),
        (["a", "a-0", "a"], ["a-1", "a-0", "a-2"]),  # a name that is there already is not given again
        (["", ""], ["-0", "-1"]),
    ],
)
def test_names_are_told_apart(labels, names):
    found, notes = distinct(labels)
    assert found == names
    assert len(notes) == (labels != names)
