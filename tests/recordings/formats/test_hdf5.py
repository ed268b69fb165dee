"""HDF5: attributes and small datasets say what the large ones are."""

from datetime import datetime

import h5py
import numpy as np
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.recordings.formats.reading import all_of, in_pieces, sent

X = np.random.default_rng(0).standard_normal((60, 4))


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.path = tmp_path / "x.h5"
        yield file


@pytest.mark.parametrize("key", ["rate", "fs", "sfreq", "sampling_rate", "Sampling Rate", "SamplingRate"])
def test_the_rate_is_found_under_its_usual_names(file, key):
    file["x"] = X
    file["x"].attrs[key] = 256
    file.close()
    assert open_recording(file.path).signals[0].rate == 256


def test_attributes_of_datasets_groups_and_the_file_are_all_heard(file):
    eeg = file.create_dataset("eeg/data", data=X, chunks=(7, 2), compression="gzip")
    file["eeg"].attrs["fs"] = 256.0
    eeg.attrs["channels"] = ["Fz", "Cz", "Pz", "Oz"]
    eeg.attrs["units"] = "uV"
    file["resp"] = np.arange(40.0)
    file["resp"].attrs.update(rate=100, start=0.4, drift_ppm=50)
    file.attrs["start"] = "2024-05-31T22:30:00"
    file.close()
    recording = open_recording(file.path)
    brain, breath = recording.signals
    assert recording.start == datetime(2024, 5, 31, 22, 30)
    assert (brain.rate, brain.names[0], brain.channels[0].unit) == (256, "eeg/data.Fz", "uV")
    assert (breath.rate, breath.start_s, breath.drift_ppm, breath.names) == (100, 0.4, 50, ["resp"])
    np.testing.assert_array_equal(in_pieces(brain), X)
    np.testing.assert_array_equal(brain.read(5, 9, [3, 1]), X[5:9][:, [3, 1]])
    np.testing.assert_array_equal(all_of(sent(brain)), X)


def test_datasets_that_begin_at_different_times_lie_on_one_clock(file):
    for name, start in (("a", "2024-05-31T22:30:00.4"), ("b", "2024-05-31T22:30:00")):
        file[name] = X
        file[name].attrs.update(rate=100, start=start)
    file.close()
    recording = open_recording(file.path)
    assert [round(signal.start_s, 9) for signal in recording.signals] == [0.4, 0]
    assert recording.start == datetime(2024, 5, 31, 22, 30)


def test_names_and_rates_may_be_datasets(file):
    file["data"], file["fs"] = X.T, 250
    file["ch_names"] = ["a", "b", "c", "d"]
    file.close()
    (signal,) = open_recording(file.path).signals
    assert (signal.names, signal.rate, signal.n) == (["a", "b", "c", "d"], 250, 60)  # names tell the axis
    np.testing.assert_array_equal(all_of(signal), X)


def test_a_file_of_netcdf_is_read_with_its_scales(file):
    file["x"] = (X * 100).astype("i2")
    file["x"].attrs.update(scale_factor=0.01, add_offset=1.0, _FillValue=np.int16(-5))
    file["time"] = np.arange(60) * 4
    file["time"].attrs["units"] = "milliseconds since 2024-01-01 00:00:00"
    file["time"].make_scale("time")
    file["x"].dims[0].attach_scale(file["time"])
    stored = file["x"][...]
    file.close()
    recording = open_recording(file.path)
    (signal,) = recording.signals
    assert (signal.rate, recording.start) == (250, datetime(2024, 1, 1))
    np.testing.assert_allclose(all_of(signal), np.where(stored == -5, np.nan, stored * 0.01 + 1))


def test_without_a_rate_the_error_names_the_option(file):
    file["x"] = X
    file.close()
    with pytest.raises(SettingsError, match="give rate"):
        open_recording(file.path)
    assert open_recording(file.path, rate=5).signals[0].rate == 5


def test_a_rate_that_is_asked_for_goes_before_that_of_the_file_and_says_so(file):
    file["x"] = X
    file["x"].attrs["fs"] = 250
    file.close()
    recording = open_recording(file.path, rate=125)
    assert recording.signals[0].rate == 125
    assert "250 Hz" in recording.notes[0]


def test_bad_files_are_refused(file, tmp_path):
    file["z"] = X + 1j
    file["x"] = X
    file.attrs["fs"] = 10
    file.close()
    assert "complex" in open_recording(file.path).notes[0]
    with pytest.raises(DataError, match="complex"):
        open_recording(file.path, array="z")
    (tmp_path / "cut.h5").write_bytes(file.path.read_bytes()[:3000])
    (tmp_path / "text.h5").write_text("hello")
    with h5py.File(tmp_path / "none.h5", "w") as empty:
        empty.create_group("g")
    for name in ("cut.h5", "text.h5", "none.h5"):
        with pytest.raises(DataError, match=name):
            open_recording(tmp_path / name)
