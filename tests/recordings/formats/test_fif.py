"""FIF: a real file, files that MNE wrote, and damaged ones."""

import contextlib
import gzip
import pickle
import shutil
import struct
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import fif, open_recording
from tests.recordings.formats.reading import within
from tests.support.recordings import shared

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
    recording = open_recording(saved(raw, tmp_path))
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
    (signal,) = open_recording(saved(raw, tmp_path)).signals
    signal.read(0, 10, [0])
    assert not signal.source.raw.preload
    assert_array_equal(everything(pickle.loads(pickle.dumps(signal))), everything(signal))


def test_a_name_that_mne_frowns_upon_is_no_matter(raw, tmp_path):
    path = Path(saved(raw, tmp_path)).rename(tmp_path / "night.fif")
    assert open_recording(path).notes == ()


def test_breaks_in_the_acquisition_divide_a_recording(raw, tmp_path):
    raw.set_annotations(raw.annotations + mne.Annotations([5], [2], ["BAD_ACQ_SKIP"], orig_time=BEGUN))
    recording = open_recording(saved(raw, tmp_path))
    before, after = recording.signals
    assert (before.n, before.start_s, after.n, after.start_s) == (300, 0, 500, 5)
    assert_allclose(everything(after), raw.get_data()[:, 500:].T, rtol=1e-12)


def test_a_raw_without_a_date_keeps_its_annotations(raw):
    raw.set_meas_date(None)
    recording = fif.recording_of_raw(raw)
    assert recording.start is None
    assert [m.onset_s for m in recording.annotations] == pytest.approx([1.5, 5])


def test_the_real_file_has_what_it_is_known_for():
    recording = open_recording(shared("format-samples", "brainvision_bin_raw.fif"))
    (signal,) = recording.signals
    assert (len(signal.channels), signal.rate, signal.duration_s) == (33, 1000, pytest.approx(7.9))
    assert recording.start == datetime(2013, 11, 14, 6, 2, 8, 815463, tzinfo=UTC)
    assert [c.kind for c in signal.channels].count("stim") == 1


def test_a_file_cut_short_is_refused(raw, tmp_path, capsys):
    path = Path(saved(raw, tmp_path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"night_raw.fif' ends after .* it was cut short"):
        open_recording(path)
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
            open_recording(tmp_path / name, format="fif")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(raw, tmp_path, monkeypatch):
    path = saved(raw, tmp_path)
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(SettingsError, match=r"reading FIF needs mne: pip install 'dlcca\[eeg\]'"):
        open_recording(path)


def tags_of(content):
    """Where each tag of a file begins."""
    found, at = [], 0
    while at >= 0:
        found.append(at)
        length, following = struct.unpack(">ii", content[at + 8 : at + 16])
        at = following if following else at + 16 + length
    return found


def without_directory(content):
    """The file with the tag that says where its directory is (always the second) saying that there is none."""
    return content[:52] + struct.pack(">i", -1) + content[56:]


def changed(content, at, word):
    return content[:at] + struct.pack(">i", word) + content[at + 4 :]


@pytest.mark.parametrize("has_directory", [True, False])
def test_tags_that_lead_back_are_refused(raw, tmp_path, has_directory):
    path = Path(saved(raw, tmp_path))
    content = path.read_bytes() if has_directory else without_directory(path.read_bytes())
    tags = tags_of(content)
    assert len(tags) > 30
    for number, at in enumerate(tags[:-1]):
        for target in {at, tags[number // 2], tags[max(0, number - 1)]}:
            if target == 0:
                continue  # stands for the tag right behind
            path.write_bytes(changed(content, at + 12, target))
            with within(5), pytest.raises(DataError, match="lead in a circle"):
                open_recording(path)
        for size in (-16, -1, -(2**31)):
            path.write_bytes(changed(content, at + 8, size))
            with within(5), pytest.raises(DataError, match="is damaged"):
                open_recording(path)


def test_a_jump_back_that_is_no_circle_is_followed(raw, tmp_path):
    """Programs that change a file may put a tag at its end, and lead there and back."""
    path = Path(saved(raw, tmp_path))
    content = without_directory(path.read_bytes())
    tags = tags_of(content)
    moved, after = tags[3], tags[4]
    copy = content[moved : moved + 12] + struct.pack(">i", after) + content[moved + 16 : after]
    path.write_bytes(changed(content, tags[2] + 12, len(content)) + copy)
    (signal,) = open_recording(path).signals
    assert_allclose(everything(signal), raw.get_data().T, rtol=1e-12)


def test_tags_of_a_packed_file_are_followed_too(raw, tmp_path):
    path = Path(saved(raw, tmp_path, "night_raw.fif.gz"))
    content = without_directory(gzip.decompress(path.read_bytes()))
    assert open_recording(path).signals[0].n == 1000
    path.write_bytes(gzip.compress(changed(content, tags_of(content)[9] + 12, tags_of(content)[4])))
    with within(5), pytest.raises(DataError, match="lead in a circle"):
        open_recording(path)


@pytest.mark.parametrize("number", [0, 1])
def test_files_of_a_split_recording_that_lead_in_a_circle_are_refused(raw, tmp_path, number):
    path = tmp_path / "split_raw.fif"
    raw = mne.io.RawArray(np.tile(raw.get_data(), 100), raw.info, verbose="ERROR")
    raw.save(path, split_size="2MB", fmt="double", verbose="ERROR")
    parts = [path, tmp_path / "split_raw-1.fif"]
    assert open_recording(path).signals[0].n == raw.n_times
    name = b"split_raw-1.fif"
    assert name in parts[0].read_bytes()
    # The first part is followed by itself, or the second part is the first.
    if number == 0:
        parts[0].write_bytes(parts[0].read_bytes().replace(name, b"./split_raw.fif"))
    else:
        shutil.copy(parts[0], parts[1])
    with within(20), pytest.raises(DataError, match="split over files that lead in a circle"):
        open_recording(path)


def test_no_word_of_the_first_tags_of_a_real_file_keeps_the_reader_busy(tmp_path):
    content = Path(shared("format-samples", "brainvision_bin_raw.fif")).read_bytes()
    path = tmp_path / "x_raw.fif"
    for whole in (content, without_directory(content)):
        for at in range(0, 240, 4):
            for word in (0, 1, -1, 16, at, -(2**31), 2**31 - 1):
                path.write_bytes(changed(whole, at, word))
                with within(10), contextlib.suppress(DataError):
                    open_recording(path)
