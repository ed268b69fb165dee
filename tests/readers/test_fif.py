"""FIF: a real file, files that MNE wrote, and damaged ones."""

import pickle
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dlcca.errors import DataError, SettingsError
from dlcca.readers import fif, from_mne
from tests.recordings import shared

BEGUN = datetime(2024, 3, 31, 1, 30, tzinfo=UTC)


def everything(signal):
    return signal.read(0, signal.n, range(len(signal.channels)))


@pytest.fixture
def raw():
    """Ten seconds that begin two seconds after the clock of the file."""
    x = np.random.default_rng(0).normal(scale=1e-5, size=(3, 1000))
    info = mne.create_info(["Cz", "EOG 1", "MEG 1"], 100.0, ["eeg", "eog", "mag"])
    raw = mne.io.RawArray(x, info, first_samp=200, verbose="ERROR")
    raw.set_meas_date(BEGUN)
    raw.set_annotations(mne.Annotations([3.5, 7], [0.5, 1], ["blink", "BAD_move"], orig_time=BEGUN))
    return raw


def saved(raw, tmp_path, name="night_raw.fif"):
    path = tmp_path / name
    raw.save(path, fmt="double", buffer_size_sec=1, verbose="ERROR")
    return str(path)


def test_samples_units_kinds_and_times_are_those_that_mne_has(raw, tmp_path):
    recording = fif.open(saved(raw, tmp_path))
    (signal,) = recording.signals
    assert [(c.name, c.unit, c.kind) for c in signal.channels] == [
        ("Cz", "V", "eeg"), ("EOG 1", "V", "eog"), ("MEG 1", "T", "mag")
    ]  # fmt: skip
    assert (signal.rate, signal.n, signal.start_s) == (100, 1000, 0)
    assert_allclose(everything(signal), raw.get_data().T, rtol=1e-12)
    assert_allclose(signal.read(40, 60, [2, 0]), raw.get_data()[[2, 0], 40:60].T, rtol=1e-12)
    assert recording.start == BEGUN + timedelta(seconds=2)
    assert [(m.onset_s, m.duration_s, m.text) for m in recording.annotations] == [
        (pytest.approx(1.5), 0.5, "blink"), (pytest.approx(5), 1, "BAD_move")
    ]  # fmt: skip
    assert recording.notes == ()


def test_nothing_is_loaded_until_it_is_asked_for(raw, tmp_path):
    (signal,) = fif.open(saved(raw, tmp_path)).signals
    signal.read(0, 10, [0])
    assert not signal._raw.preload
    assert_array_equal(everything(pickle.loads(pickle.dumps(signal))), everything(signal))


def test_a_name_that_mne_frowns_upon_is_no_matter(raw, tmp_path):
    path = Path(saved(raw, tmp_path)).rename(tmp_path / "night.fif")
    assert fif.open(str(path)).notes == ()


def test_breaks_in_the_acquisition_divide_a_recording(raw, tmp_path):
    raw.set_annotations(raw.annotations + mne.Annotations([5], [2], ["BAD_ACQ_SKIP"], orig_time=BEGUN))
    recording = fif.open(saved(raw, tmp_path))
    before, after = recording.signals
    assert (before.n, before.start_s, after.n, after.start_s) == (300, 0, 500, 5)
    assert_allclose(everything(after), raw.get_data()[:, 500:].T, rtol=1e-12)


def test_a_raw_without_a_date_keeps_its_annotations(raw):
    raw.set_meas_date(None)
    recording = from_mne.recording(raw)
    assert recording.start is None
    assert [m.onset_s for m in recording.annotations] == pytest.approx([1.5, 5])


def test_the_real_file_has_what_it_is_known_for():
    recording = fif.open(shared("format-samples", "brainvision_bin_raw.fif"))
    (signal,) = recording.signals
    assert (len(signal.channels), signal.rate, signal.duration_s) == (33, 1000, pytest.approx(7.9))
    assert recording.start == datetime(2013, 11, 14, 6, 2, 8, 815463, tzinfo=UTC)
    assert [c.kind for c in signal.channels].count("stim") == 1


def test_a_file_cut_short_is_refused(raw, tmp_path, capsys):
    path = Path(saved(raw, tmp_path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"night_raw.fif' ends after .* it was cut short"):
        fif.open(str(path))
    assert capsys.readouterr() == ("", "")


def test_what_is_not_fif_is_refused(tmp_path):
    (tmp_path / "empty_raw.fif").touch()
    (tmp_path / "text_raw.fif").write_text("time,value\n0,1\n" * 100)
    for name, complaint in [
        ("empty_raw.fif", "0 bytes"),
        ("text_raw.fif", "cannot be read as FIF"),
        ("none_raw.fif", "no file"),
        ("", "directory"),
    ]:
        with pytest.raises(DataError, match=complaint):
            fif.open(str(tmp_path / name))


def test_a_missing_package_is_named_with_the_extra_that_brings_it(raw, tmp_path, monkeypatch):
    path = saved(raw, tmp_path)
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(SettingsError, match=r"reading FIF needs mne: pip install 'dlcca\[eeg\]'"):
        fif.open(path)
