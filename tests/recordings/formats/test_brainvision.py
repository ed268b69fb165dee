"""BrainVision: a real file, files written by pybv, and damaged ones."""

import pickle
import sys
import warnings
from datetime import datetime
from pathlib import Path

import numpy as np
import pybv
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.support.recordings import shared

RATE = 250


def everything(signal):
    return signal.read(0, signal.n, range(len(signal.channels)))


@pytest.fixture
def written(tmp_path):
    """Ten seconds of four channels, and what they hold in the units of the file."""
    x = np.random.default_rng(0).normal(scale=40, size=(4, 2500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that other units than µV are unusual
        write(x, tmp_path)
    return str(tmp_path / "night.vhdr"), x.T


def write(x, folder):
    pybv.write_brainvision(
        data=x * [[1e-6], [1e-6], [1e-6], [1]],  # pybv takes volts
        sfreq=RATE,
        ch_names=["Cz", "Fp1", "ECG", "skin"],
        fname_base="night",
        folder_out=str(folder),
        events=[{"onset": 500, "duration": 25, "description": 7, "type": "Stimulus", "channels": "all"}],
        unit=["µV", "µV", "µV", "ARU"],
        fmt="binary_float32",
        meas_date=datetime(2024, 2, 29, 23, 59, 58, 250000),
    )


def test_samples_come_in_the_units_of_the_file(written):
    path, x = written
    recording = open_recording(path)
    (signal,) = recording.signals
    assert [(c.name, c.unit, c.kind) for c in signal.channels] == [
        ("Cz", "µV", "eeg"), ("Fp1", "µV", "eeg"), ("ECG", "µV", "ecg"), ("skin", "ARU", "misc")
    ]  # fmt: skip
    assert (signal.rate, signal.n, signal.start_s) == (RATE, 2500, 0)
    assert_allclose(everything(signal), x, rtol=1e-6, atol=1e-4)
    assert_allclose(signal.read(100, 110, [2, 0]), x[100:110, [2, 0]], rtol=1e-6, atol=1e-4)
    assert signal.read(5, 5, [0]).shape == (0, 1)


def test_the_start_is_the_clock_on_the_wall_and_markers_are_annotations(written):
    recording = open_recording(written[0])
    assert recording.start == datetime(2024, 2, 29, 23, 59, 58, 250000)
    ((onset, duration, text),) = [(mark.onset_s, mark.duration_s, mark.text) for mark in recording.annotations]
    assert (onset, duration) == (2.0, 0.1)
    assert text.startswith("Stimulus/")


def test_a_signal_can_be_sent_to_another_process(written):
    (signal,) = open_recording(written[0]).signals
    assert_array_equal(everything(pickle.loads(pickle.dumps(signal))), everything(signal))


@pytest.mark.parametrize("ending", ["vhdr", "vmrk", "eeg"])
def test_a_recording_is_named_by_any_of_its_files(written, ending):
    assert open_recording(written[0].replace("vhdr", ending)).signals[0].n == 2500


def test_the_real_file_has_what_it_is_known_for():
    recording = open_recording(shared("format-samples", "test.vhdr"))
    (signal,) = recording.signals
    assert (len(signal.channels), signal.rate, signal.duration_s) == (32, 1000, pytest.approx(7.9))
    stored = np.fromfile(shared("format-samples", "test.eeg"), "<i2").reshape(-1, 32)
    assert_allclose(everything(signal), stored * 0.5, rtol=1e-12)  # the resolution of every channel, whatever its unit
    units = [channel.unit for channel in signal.channels]
    assert units[:3] == ["µV"] * 3  # two of them not given
    assert units[-6:] == ["BS", "µS", "ARU", "uS", "S", "C"]
    assert recording.start == datetime(2013, 11, 13, 16, 14, 3, 794232)
    assert len(recording.annotations) == 13
    assert recording.annotations[0].text == "Stimulus/S253"
    assert recording.annotations[0].onset_s == pytest.approx(0.486)


# Pauses: markers of new segments, written by hand.


def with_segments(path, *marks):
    vmrk = Path(path).with_suffix(".vmrk")
    lines = "".join(f"Mk{i + 10}={mark}\n" for i, mark in enumerate(marks))
    vmrk.write_text(vmrk.read_text("utf-8") + lines, "utf-8")


def test_a_pause_divides_the_recording_and_moves_later_markers(written):
    path, x = written
    with_segments(path, "New Segment,,1001,1,0,20240301000102250000", "Stimulus,S  9,1251,1,0")
    recording = open_recording(path)
    before, after = recording.signals
    assert (before.n, before.start_s, after.n, after.start_s) == (1000, 0, 1500, 64)
    assert_allclose(everything(after), x[1000:], rtol=1e-6, atol=1e-4)
    onsets = {mark.text: mark.onset_s for mark in recording.annotations}
    assert onsets["Stimulus/S  9"] == pytest.approx(65)
    assert recording.notes == ()


def test_a_pause_of_unknown_length_is_marked_as_bad(written):
    with_segments(written[0], "New Segment,,1001,1,0")
    recording = open_recording(written[0])
    assert [signal.start_s for signal in recording.signals] == [0, 4]
    (bad,) = [mark for mark in recording.annotations if mark.text.startswith("BAD_")]
    assert bad.onset_s < 4 < bad.onset_s + bad.duration_s
    assert "unknown length" in recording.notes[0]


# Damage.


def test_samples_cut_short_are_refused_or_read_up_to_the_last_whole_one(written):
    path, x = written
    eeg = Path(path).with_suffix(".eeg")
    eeg.write_bytes(eeg.read_bytes()[:20005])
    with pytest.raises(DataError, match=r"night.eeg' holds 1250 whole samples of every channel and 5 bytes more"):
        open_recording(path)
    recording = open_recording(path, truncated="keep")
    assert recording.signals[0].n == 1250
    assert_allclose(everything(recording.signals[0]), x[:1250], rtol=1e-6, atol=1e-4)
    assert "5 bytes" in recording.notes[0]


@pytest.mark.parametrize("points", [2400, 2600])
def test_a_header_that_declares_another_length_is_refused(written, points):
    vhdr = Path(written[0])
    vhdr.write_text(vhdr.read_text("utf-8").replace("[Common Infos]", f"[Common Infos]\nDataPoints={points}"), "utf-8")
    with pytest.raises(DataError, match=f"holds 2500 whole samples .* declares {points}"):
        open_recording(written[0])
    assert open_recording(written[0], truncated="keep").signals[0].n == 2500


def test_missing_samples_are_refused_and_missing_markers_noted(written):
    Path(written[0]).with_suffix(".vmrk").unlink()
    recording = open_recording(written[0])
    assert (recording.annotations, recording.start) == ((), None)
    assert "night.vmrk" in recording.notes[0]
    Path(written[0]).with_suffix(".eeg").unlink()
    with pytest.raises(DataError, match=r"keeps its samples in 'night.eeg', which is not beside it"):
        open_recording(written[0])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("Brain", "Train", "begins with 'Train"),
        ("NumberOfChannels=4", "NumberOfChannels=0", "declares 0 channels"),
        ("NumberOfChannels=4", "NumberOfChannels=four", "as numbers"),
        ("DataFile=", "Nothing=", "names no DataFile"),
        ("SamplingInterval=", "Nothing=", "cannot be read as BrainVision"),
        ("Ch1=Cz,,0.1,", "Ch1=Cz,,inf,", "'Cz' by inf"),
    ],
)
def test_a_header_that_does_not_hold_together_is_refused(written, old, new, complaint):
    vhdr = Path(written[0])
    text = vhdr.read_text("utf-8")
    assert old in text
    vhdr.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(DataError, match=complaint) as caught:
        open_recording(written[0])
    assert "night" in str(caught.value)


def test_samples_without_a_header_and_what_is_no_file_are_refused(tmp_path):
    (tmp_path / "alone.eeg").write_bytes(b"xxxx")
    (tmp_path / "empty.vhdr").touch()
    for name, complaint in [("alone.eeg", "alone.vhdr is not beside it"), ("empty.vhdr", "0 bytes"), ("", "directory")]:
        with pytest.raises(DataError, match=complaint):
            open_recording(tmp_path / name, format="brainvision")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(SettingsError, match=r"reading BrainVision needs mne: pip install 'dlcca\[eeg\]'"):
        open_recording(written[0])
