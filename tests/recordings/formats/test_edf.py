"""EDF, EDF+ and BDF: real files, files written by edfio, and damaged ones."""

import pickle
from datetime import date, datetime, time
from pathlib import Path

import edfio
import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import edf, open_recording
from tests.support.recordings import shared

SAMPLES = "format-samples"


def everything(signal):
    return signal.read(0, signal.n, range(len(signal.channels)))


@pytest.fixture
def written(tmp_path):
    """A file of ten records of 1 s: three channels at 256 Hz and two at 32 Hz, and what they hold."""
    rng = np.random.default_rng(0)
    fast = rng.normal(scale=50, size=(2560, 3))
    slow = 100 + rng.normal(size=(320, 2))
    signals = [
        edfio.EdfSignal(fast[:, 0], 256, label="EEG Fpz-Cz", physical_dimension="uV"),
        edfio.EdfSignal(slow[:, 0], 32, label="Resp chest", physical_dimension="mmHg"),
        edfio.EdfSignal(fast[:, 1], 256, label="EOG horizontal", physical_dimension="uV"),
        edfio.EdfSignal(fast[:, 2], 256, label="EMG submental", physical_dimension="mV"),
        edfio.EdfSignal(slow[:, 1], 32, label="Temp rectal", physical_dimension="degC"),
    ]
    annotations = [edfio.EdfAnnotation(3.25, 1.5, "BAD_movement"), edfio.EdfAnnotation(7, None, "Lichter aus: äöü")]
    path = tmp_path / "written.edf"
    edfio.Edf(
        signals,
        recording=edfio.Recording(startdate=date(2027, 5, 6)),
        starttime=time(22, 30, 15),
        annotations=annotations,
    ).write(path)
    return str(path), fast, slow


def test_a_signal_for_each_rate_holds_what_was_written(written):
    path, fast, slow = written
    recording = open_recording(path)
    quick, calm = recording.signals
    assert (quick.rate, quick.n, quick.names) == (256, 2560, ["EEG Fpz-Cz", "EOG horizontal", "EMG submental"])
    assert (calm.rate, calm.n, calm.names) == (32, 320, ["Resp chest", "Temp rectal"])
    # Half a step of 16 bits over the range that each channel has.
    assert_allclose(everything(quick), fast, atol=np.ptp(fast) / 65535)
    assert_allclose(everything(calm), slow, atol=np.ptp(slow) / 65535)
    assert recording.notes == ()


def test_channels_have_the_units_and_kinds_of_their_labels(written):
    quick, calm = open_recording(written[0]).signals
    assert [(c.unit, c.kind) for c in quick.channels] == [("uV", "eeg"), ("uV", "eog"), ("mV", "emg")]
    assert [(c.unit, c.kind) for c in calm.channels] == [("mmHg", "resp"), ("degC", "temperature")]


def test_annotations_and_the_start_are_read(written):
    recording = open_recording(written[0])
    assert recording.start == datetime(2027, 5, 6, 22, 30, 15)
    marks = [(mark.onset_s, mark.duration_s, mark.text) for mark in recording.annotations]
    assert marks == [(3.25, 1.5, "BAD_movement"), (7.0, 0.0, "Lichter aus: äöü")]


def test_edf_plus_has_years_that_two_digits_cannot_tell(written):
    overwrite(written[0], 88, b"Startdate 06-MAY-2087")
    overwrite(written[0], 168, b"06.05.yy")
    assert open_recording(written[0]).start == datetime(2087, 5, 6, 22, 30, 15)


def test_a_start_that_is_none_is_left_open(written):
    overwrite(written[0], 88, b"Startdate X         ")
    overwrite(written[0], 168, b"00.00.00")
    assert open_recording(written[0]).start is None


@pytest.mark.parametrize("slab", [1, 3000, 1 << 21])  # smaller than a record, a record or two, all of them
@pytest.mark.parametrize(
    ("first", "last", "columns"), [(0, 2560, [0, 1, 2]), (255, 257, [2, 0]), (300, 1900, [1]), (7, 7, [0]), (3, 9, [])]
)
def test_any_piece_is_a_piece_of_the_whole(written, monkeypatch, slab, first, last, columns):
    signal = open_recording(written[0]).signals[0]
    whole = everything(signal)
    monkeypatch.setattr(edf, "_SLAB", slab)
    assert_array_equal(signal.read(first, last, columns), whole[first:last][:, columns])


@pytest.mark.parametrize(("first", "last"), [(-1, 5), (0, 2561), (9, 3)])
def test_samples_that_are_not_there_are_refused(written, first, last):
    with pytest.raises(DataError, match="2560"):
        open_recording(written[0]).signals[0].read(first, last, [0])


@pytest.mark.parametrize("slab", [1, 1 << 21])
def test_single_precision_is_the_same_to_its_last_digits(written, monkeypatch, slab):
    monkeypatch.setattr(edf, "_SLAB", slab)
    for signal in open_recording(written[0]).signals:
        columns = list(range(len(signal.channels)))
        X, x = signal.read(3, signal.n - 2, columns), signal.read_single(3, signal.n - 2, columns)
        assert (x.dtype, x.flags.c_contiguous) == (np.float32, True)
        assert_allclose(x, X, rtol=1e-6, atol=1e-6 * np.abs(X).max())


def test_a_signal_can_be_sent_to_another_process(written):
    signal = open_recording(written[0]).signals[1]
    assert_array_equal(everything(pickle.loads(pickle.dumps(signal))), everything(signal))


def test_bdf_holds_24_bits(tmp_path):
    x = np.random.default_rng(1).normal(scale=50, size=(2, 512))
    x[0, 0] = -262144  # its own lowest value: the sign must come along
    signals = [
        edfio.BdfSignal(row, 128, label=f"A{i + 1}", physical_dimension="uV", physical_range=(-262144, 262143))
        for i, row in enumerate(x)
    ]
    path = tmp_path / "written.bdf"
    edfio.Bdf(signals, annotations=[edfio.EdfAnnotation(1.5, None, "go")]).write(path)
    recording = open_recording(path)
    (signal,) = recording.signals
    assert recording.format == "BDF"
    assert_allclose(everything(signal).T, x, atol=524287 / (2**24 - 1))
    assert [(mark.onset_s, mark.text) for mark in recording.annotations] == [(1.5, "go")]


@pytest.mark.parametrize("name", ["test.edf", "test.bdf", "test_subsecond.edf"])
def test_real_samples_are_those_that_mne_reads(name):
    path = shared(SAMPLES, name)
    reader = mne.io.read_raw_bdf if name.endswith("bdf") else mne.io.read_raw_edf
    raw = reader(path, verbose="ERROR")
    (signal,) = open_recording(path).signals
    volts = {"uV": 1e-6}
    assert signal.names == raw.ch_names
    for i, channel in enumerate(signal.channels):
        if channel.name != "Status":  # of which MNE keeps the lower bits only
            assert_allclose(signal.read(0, signal.n, [i])[:, 0] * volts[channel.unit], raw[i][0][0], atol=1e-12)
    marks = raw.annotations
    found = open_recording(path).annotations
    assert_allclose([mark.onset_s for mark in found], marks.onset, atol=1e-6)
    assert [mark.text for mark in found] == list(marks.description)


@pytest.mark.parametrize(
    ("name", "channels", "rates", "seconds"),
    [
        ("test.edf", [139], [512], 6),
        ("test_uneven_samp.edf", [1, 1], [100, 12.8], 110),
        ("test.bdf", [73], [2048], 1),
        ("test_subsecond.edf", [1], [128], 698),
    ],
)
def test_real_files_have_the_channels_rates_and_lengths_they_are_known_for(name, channels, rates, seconds):
    signals = open_recording(shared(SAMPLES, name)).signals
    assert [len(signal.channels) for signal in signals] == channels
    assert [signal.rate for signal in signals] == rates
    assert [signal.duration_s for signal in signals] == pytest.approx([seconds] * len(signals))


def test_each_rate_of_a_real_file_keeps_its_wave():
    sine, block = open_recording(shared(SAMPLES, "test_uneven_samp.edf")).signals
    power = np.abs(np.fft.rfft(everything(sine)[:, 0]))
    assert np.fft.rfftfreq(sine.n, 1 / sine.rate)[power.argmax()] == pytest.approx(3.0)  # "3Hz +5/-5 V"
    assert everything(sine).max() == pytest.approx(5.0, abs=0.01)
    power = np.abs(np.fft.rfft(everything(block)[:, 0] - everything(block).mean()))
    assert np.fft.rfftfreq(block.n, 1 / block.rate)[power.argmax()] == pytest.approx(0.2, abs=0.01)  # "0.2Hz Blk"


def test_a_fraction_of_a_second_in_the_start_is_kept():
    recording = open_recording(shared(SAMPLES, "test_subsecond.edf"))
    assert recording.start == datetime(2020, 1, 24, 4, 5, 56, 394531)
    assert recording.signals[0].start_s == 0


def test_a_file_of_annotations_has_no_signals():
    recording = open_recording(shared(SAMPLES, "SC4001EC-Hypnogram.edf"))
    assert recording.signals == ()
    assert len(recording.annotations) == 154
    assert recording.annotations[1].text == "Sleep stage 1"
    assert (recording.annotations[1].onset_s, recording.annotations[1].duration_s) == (30630, 120)


# Breaks: a file without them, of which the times of the records are overwritten.


def with_record_times(path, times, variant):
    """The file at path, its ten records at other times, one digit each."""
    data = Path(path).read_bytes().replace(b"EDF+C", variant)
    begin = data.index(b"+0\x14\x14")
    for record, moment in enumerate(times):
        at = data.index(b"+%d\x14\x14" % record, begin)
        data = data[:at] + b"+%s\x14\x14" % moment + data[at + 4 :]
        begin = at + 4
    broken = Path(path).with_name("broken.edf")
    broken.write_bytes(data)
    return str(broken)


@pytest.fixture
def six_seconds(tmp_path):
    x = np.random.default_rng(2).normal(size=(6, 100))
    path = tmp_path / "six.edf"
    edfio.Edf(
        [edfio.EdfSignal(x.ravel(), 100, label="EEG Cz"), edfio.EdfSignal(x.ravel()[::10], 10, label="Resp")],
        annotations=[edfio.EdfAnnotation(0.5, None, "early"), edfio.EdfAnnotation(8.5, None, "late")],
        data_record_duration=1,
    ).write(path)
    return str(path), x


def test_breaks_divide_a_recording_into_signals_with_their_own_start(six_seconds):
    path, x = six_seconds
    recording = open_recording(with_record_times(path, [b"0", b"1", b"4", b"5", b"6", b"9"], b"EDF+D"))
    assert [(s.rate, s.start_s, s.n) for s in recording.signals] == [
        (100, 0, 200), (100, 4, 300), (100, 9, 100), (10, 0, 20), (10, 4, 30), (10, 9, 10)
    ]  # fmt: skip
    step = np.ptp(x) / 65535
    for signal, records in zip(recording.signals[:3], (x[:2], x[2:5], x[5:]), strict=True):
        assert_allclose(everything(signal)[:, 0], records.ravel(), atol=step)
    assert [mark.onset_s for mark in recording.annotations] == [0.5, 8.5]
    assert recording.notes == ()


def test_breaks_that_the_header_denies_are_kept_and_noted(six_seconds):
    recording = open_recording(with_record_times(six_seconds[0], [b"0", b"1", b"2", b"5", b"6", b"7"], b"EDF+C"))
    assert [(s.start_s, s.n) for s in recording.signals[:2]] == [(0, 300), (5, 300)]
    (note,) = recording.notes
    assert "1 breaks" in note


def test_time_that_goes_backwards_is_refused_where_breaks_are_declared(six_seconds):
    times = [b"0", b"1", b"4", b"2", b"3", b"9"]
    with pytest.raises(DataError, match="record 4 began at 2 s, before record 3 ended at 5 s"):
        open_recording(with_record_times(six_seconds[0], times, b"EDF+D"))
    recording = open_recording(with_record_times(six_seconds[0], times, b"EDF+C"))
    assert [s.n for s in recording.signals] == [600, 60]
    assert "record 4" in recording.notes[0]


# Damage: fields of the header overwritten, and bytes cut off or added.


def overwrite(path, at, text):
    data = bytearray(Path(path).read_bytes())
    data[at : at + len(text)] = text
    Path(path).write_bytes(data)


def test_a_file_cut_short_is_refused_or_read_up_to_its_last_whole_record(written):
    path, *_ = written
    data = Path(path).read_bytes()
    whole = everything(open_recording(path).signals[0])
    Path(path).write_bytes(data[: int(len(data) * 0.75)])
    with pytest.raises(
        DataError, match=r"holds 7 whole records of 1 s, and its header declares 10.*truncated = 'keep'"
    ):
        open_recording(path)
    recording = open_recording(path, truncated="keep")
    assert recording.signals[0].n == 7 * 256
    assert_array_equal(everything(recording.signals[0]), whole[: 7 * 256])
    assert "7 whole records" in recording.notes[0]


def test_a_header_that_declares_too_little_is_refused_too(written):
    overwrite(written[0], 236, b"8       ")
    with pytest.raises(DataError, match="holds 10 whole records of 1 s, and its header declares 8"):
        open_recording(written[0])
    assert open_recording(written[0], truncated="keep").signals[0].n == 2560


def test_a_recorder_that_was_not_stopped_leaves_the_length_to_the_file(written):
    overwrite(written[0], 236, b"-1      ")
    recording = open_recording(written[0])
    assert recording.signals[0].n == 2560
    assert "10 whole ones" in recording.notes[0]


def test_bytes_behind_the_last_record_are_noted(written):
    with Path(written[0]).open("ab") as file:
        file.write(b"xyz")
    recording = open_recording(written[0])
    assert recording.signals[0].n == 2560
    assert recording.notes == ("3 bytes after the last record were left out",)


N = 6  # signals in the header of `written`, annotations included


@pytest.mark.parametrize(
    ("at", "text", "complaint"),
    [
        (0, b"RIFF    ", "begins with b'RIFF    '"),
        (252, b"0   ", "declares 0 signals"),
        (252, b"5   ", "header of 1792 bytes, but one of 5 signals has 1536"),
        (252, b"many", "gives 'many' as its number of signals"),
        (236, b"1.5     ", "whole number"),
        (244, b"0       ", "records of 0 s"),
        (256 + 104 * N, b"nan     ", "no finite scale"),
        (256 + 120 * N, b"7       " * 2 * N, "digital 7 to 7"),
        (256 + 216 * N, b"0       ", "0 samples in a record of signal 1"),
    ],
)
def test_a_header_that_does_not_hold_together_is_refused(written, at, text, complaint):
    overwrite(written[0], at, text)
    with pytest.raises(DataError, match=complaint) as caught:
        open_recording(written[0])
    assert "written.edf" in str(caught.value)


def test_a_channel_without_a_range_is_given_as_stored_and_noted(written):
    overwrite(written[0], 256 + 104 * N, b"0       ")
    overwrite(written[0], 256 + 112 * N, b"0       ")
    recording = open_recording(written[0])
    assert recording.signals[0].channels[0].unit == ""
    assert_array_equal(everything(recording.signals[0])[:, 0] % 1, 0)
    assert "'EEG Fpz-Cz'" in recording.notes[0]


def test_channels_of_one_name_are_told_apart(written):
    overwrite(written[0], 256 + 2 * 16, b"EEG Fpz-Cz      ")
    recording = open_recording(written[0])
    assert recording.signals[0].names == ["EEG Fpz-Cz-0", "EEG Fpz-Cz-1", "EMG submental"]
    assert "'EEG Fpz-Cz'" in recording.notes[0]


def test_what_is_no_file_is_refused(tmp_path, written):
    empty = tmp_path / "empty.edf"
    empty.touch()
    cut = tmp_path / "cut.edf"
    cut.write_bytes(Path(written[0]).read_bytes()[:700])
    bare = tmp_path / "bare.edf"
    bare.write_bytes(Path(written[0]).read_bytes()[:1792])
    for path, complaint in [
        (tmp_path, "is a directory"),
        (tmp_path / "none.edf", "there is no file"),
        (empty, "0 bytes"),
        (cut, "ends inside its header"),
        (bare, "holds 0 whole records"),
    ]:
        with pytest.raises(DataError, match=complaint):
            open_recording(path, format="edf")
    with pytest.raises(DataError, match="not one whole record"):
        open_recording(bare, truncated="keep")


def test_an_unknown_way_to_treat_truncation_is_refused(written):
    with pytest.raises(SettingsError, match="did you mean 'keep'"):
        open_recording(written[0], truncated="keeps")
