"""NumPy files: mapped, chosen by name, and refused where they hold anything but real numbers."""

from datetime import datetime

import numpy as np
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.recordings.formats.reading import all_of, in_pieces, sent
from tests.support.recordings import shared

X = np.random.default_rng(0).standard_normal((50, 3))


def saved(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    return tmp_path / "x.npy"


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "i2", "u1", "i8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_comes_back_whatever_its_type_and_order(tmp_path, dtype, order):
    array = np.asarray(10 * X, dtype=dtype, order=order)
    (signal,) = open_recording(saved(tmp_path, array), rate=100).signals
    np.testing.assert_array_equal(in_pieces(signal), array)
    np.testing.assert_array_equal(signal.read(3, 9, [2, 0]), array[3:9][:, [2, 0]])
    assert signal.read(0, 1, [0]).dtype.kind == "f"
    assert (signal.names, signal.rate, signal.n) == (["0", "1", "2"], 100, 50)


def test_an_array_is_mapped_and_a_signal_sent_elsewhere_opens_it_again(tmp_path):
    (signal,) = open_recording(saved(tmp_path, X), rate=100).signals
    assert isinstance(signal.source.opened.array(), np.memmap)
    np.testing.assert_array_equal(all_of(sent(signal)), X)
    assert set(sent(signal).source.opened.__getstate__()) == {"open_array", "args"}  # and carries no samples with it


def test_what_is_read_belongs_to_the_reader_of_it(tmp_path):
    path = saved(tmp_path, X)
    (signal,) = open_recording(path, rate=100).signals
    all_of(signal)[:] = 0
    np.testing.assert_array_equal(all_of(signal), X)
    np.testing.assert_array_equal(np.load(path), X)


def test_nan_are_samples(tmp_path):
    holes = X.copy()
    holes[5:9, 1] = np.nan
    np.testing.assert_array_equal(all_of(open_recording(saved(tmp_path, holes), rate=1).signals[0]), holes)


def test_one_axis_is_one_channel_and_three_are_frames(tmp_path):
    assert open_recording(saved(tmp_path, X[:, 0]), rate=1).signals[0].names == ["0"]
    frames = X.reshape(25, 2, 3)
    (signal,) = open_recording(saved(tmp_path, frames), rate=1).signals
    np.testing.assert_array_equal(all_of(signal), frames.reshape(25, 6))
    assert signal.names == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]


def test_channels_by_rows_are_told_by_an_option_or_by_their_names(tmp_path):
    (signal,) = open_recording(saved(tmp_path, X.T.copy()), rate=1, time_axis=1).signals
    np.testing.assert_array_equal(in_pieces(signal), X)
    np.testing.assert_array_equal(signal.read(4, 6, [1]), X[4:6, [1]])
    (signal,) = open_recording(tmp_path / "x.npy", rate=1, names=["a", "b", "c"]).signals
    np.testing.assert_array_equal(all_of(signal), X)
    assert "time_axis=1" in open_recording(tmp_path / "x.npy", rate=1).notes[0]


def test_options_say_what_the_file_does_not(tmp_path):
    path = saved(tmp_path, X)
    options = {"start": "2024-05-31T22:30:00", "start_s": 0.4, "drift_ppm": 50, "names": ["a", "b", "c"], "unit": "uV"}
    recording = open_recording(path, rate=256, **options)
    (signal,) = recording.signals
    assert recording.start == datetime(2024, 5, 31, 22, 30)
    assert (signal.start_s, signal.drift_ppm, signal.names) == (0.4, 50, ["a", "b", "c"])
    assert {channel.unit for channel in signal.channels} == {"uV"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "give rate"),
        ({"rate": 0}, "not positive"),
        ({"rate": "fast"}, "not a number"),
        ({"rate": float("nan")}, "not a finite number"),
        ({"rate": 1, "start": "yesterday"}, "2024-05-31T22:30:00"),
        ({"rate": 1, "names": ["a"]}, "1 names were given"),
        ({"rate": 1, "unit": ["a", "b"]}, "2 units were given"),
        ({"rate": 1, "time_axis": 2}, "time_axis = 2"),
        ({"rat": 1}, "did you mean 'rate'"),
    ],
)
def test_an_option_that_means_nothing_is_an_error(tmp_path, options, complaint):
    with pytest.raises(SettingsError, match=complaint):
        open_recording(saved(tmp_path, X), **options)


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.array([{"a": 1}, None]), "Python objects"),
        (X + 1j, "complex"),
        (np.array(["a", "b"]), "no samples"),
        (np.zeros((0, 3)), "empty"),
        (np.float64(3), "single number|no samples"),
        (np.zeros(4, dtype=[("a", float), ("b", int)]), "no numbers"),
    ],
)
def test_anything_but_real_numbers_is_refused(tmp_path, array, complaint):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=complaint):
        open_recording(tmp_path / "x.npy", rate=1)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"\x80\x04N.")
    with pytest.raises(DataError, match="pickle"):
        open_recording(tmp_path / "x.npy", rate=1)


def test_a_file_that_is_cut_off_is_refused(tmp_path):
    path = saved(tmp_path, X)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="complete"):
        open_recording(path, rate=1)
    np.savez(tmp_path / "x.npz", x=X)
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:-100])
    with pytest.raises(DataError):
        open_recording(tmp_path / "x.npz", rate=1)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_one_length_become_signals_and_the_rest_is_noted(tmp_path, save):
    save(tmp_path / "x.npz", left=X, right=np.asfortranarray(X[:, :2]), beats=np.arange(5), fs=[250.0], who="me")
    recording = open_recording(tmp_path / "x.npz")
    assert [signal.names for signal in recording.signals] == [["left.0", "left.1", "left.2"], ["right.0", "right.1"]]
    assert {signal.rate for signal in recording.signals} == {250}
    np.testing.assert_array_equal(in_pieces(recording.signals[0]), X)
    np.testing.assert_array_equal(all_of(sent(recording.signals[1])), X[:, :2])
    notes = " ".join(recording.notes)
    assert "'beats' has 5 samples" in notes
    assert isinstance(recording.signals[0].source.opened.array(), np.memmap) == (save is np.savez)


def test_names_units_and_rates_of_one_array_are_found_by_its_name(tmp_path):
    extra = {"ecg_leads": ["II", "V", "aVR"], "ecg_units": ["mV"] * 3, "hr": np.arange(4.0), "hr_fs": 1.0}
    np.savez(tmp_path / "x.npz", ecg=X, fs=250, **extra)
    ecg, hr = open_recording(tmp_path / "x.npz").signals
    assert (ecg.names, ecg.rate) == (["ecg.II", "ecg.V", "ecg.aVR"], 250)
    assert {channel.unit for channel in ecg.channels} == {"mV"}
    assert (hr.names, hr.rate, hr.n) == (["hr"], 1, 4)


def test_an_array_of_times_gives_the_rate_and_the_breaks(tmp_path):
    t = np.r_[np.arange(20), np.arange(30, 60)] / 10
    np.savez(tmp_path / "x.npz", x=X, t=t)
    first, second = open_recording(tmp_path / "x.npz").signals
    assert (first.n, first.rate, first.start_s) == (20, 10, 0)
    assert (second.n, second.rate, second.start_s) == (30, 10, 3)
    np.testing.assert_array_equal(all_of(second), X[20:])


def test_the_rate_of_the_file_is_not_that_of_an_array_of_another_length(tmp_path):
    np.savez(tmp_path / "x.npz", ecg=X, hr=np.arange(5), fs=250)
    with pytest.raises(SettingsError, match="how often 'hr'"):
        open_recording(tmp_path / "x.npz", array="hr")
    assert open_recording(tmp_path / "x.npz", array="hr", rate=1).signals[0].rate == 1
    with pytest.raises(SettingsError, match="did you mean 'ecg'"):
        open_recording(tmp_path / "x.npz", array="ecgs")


def test_the_beats_of_bidmc_are_read_with_their_leads():
    recording = open_recording(shared("bidmc-sample", "bidmc_20.npz"))
    ecg, ppg, _resp = recording.signals
    assert ecg.names == ["ecg.II", "ecg.V", "ecg.AVR"]
    assert (ecg.n, ecg.rate, ppg.names) == (60001, 125, ["ppg"])
    with np.load(recording.path) as file:
        np.testing.assert_array_equal(ecg.read(60000, 60001, [0, 1, 2]), file["ecg"][60000:])


def test_one_shoe_of_the_gait_recording_is_chosen_by_its_name():
    (left,) = open_recording(shared("gait-imu", "gait.npz"), array="left").signals
    assert left.names == ["acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z"]
    assert (left.n, left.rate) == (7928, 204.8)
    both = open_recording(left.source.path, array=["left", "right"]).signals
    assert [signal.names[0] for signal in both] == ["left.acc_x", "right.acc_x"]
