"""Zarr: plain arrays, groups, and what xarray writes."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.recordings.formats.reading import all_of, in_pieces, sent

X = np.random.default_rng(0).standard_normal((60, 3))


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_is_read_by_slices_with_its_attributes(tmp_path, version):
    array = zarr.create_array(
        str(tmp_path / "x.zarr"), shape=X.shape, chunks=(7, 2), dtype="f8", zarr_format=version,
        attributes={"fs": 256, "channels": ["a", "b", "c"], "units": "mV", "start": "2024-01-01T10:00:00"},
    )  # fmt: skip
    array[...] = X
    recording = open_recording(tmp_path / "x.zarr")
    (signal,) = recording.signals
    assert recording.start == datetime(2024, 1, 1, 10)
    assert (signal.rate, signal.names, signal.channels[1].unit) == (256, ["a", "b", "c"], "mV")
    np.testing.assert_array_equal(in_pieces(signal), X)
    np.testing.assert_array_equal(all_of(sent(signal)), X)


def test_views_in_a_group_keep_their_rates_starts_and_drifts(tmp_path):
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    for name, rate, start, drift in (("eeg", 256, 0.0, 0.0), ("resp", 100, 0.4, 50.0)):
        array = group.create_array(name, shape=X.shape, dtype="f4")
        array.attrs.update(rate=rate, start_s=start, drift_ppm=drift)
        array[...] = X
    eeg, resp = open_recording(tmp_path / "x.zarr").signals
    assert (eeg.rate, resp.rate, resp.start_s, resp.drift_ppm) == (256, 100, 0.4, 50)
    assert resp.names == ["resp.0", "resp.1", "resp.2"]
    with pytest.raises(SettingsError, match="did you mean 'eeg'"):
        open_recording(tmp_path / "x.zarr", array="eg")


@pytest.mark.filterwarnings("ignore::Warning")  # xarray and Zarr warn of how texts are written
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dims", [("time", "channel"), ("channel", "time")])
def test_coordinates_of_xarray_give_times_and_names(tmp_path, version, dims):
    times = pd.date_range("2024-01-01", periods=80, freq="4ms")
    times = times[:20].append(times[40:])
    data = xr.DataArray(X, dims=("time", "channel"), coords={"time": times, "channel": ["a", "b", "c"]}, name="x")
    data.attrs["units"] = "mV"
    data.transpose(*dims).to_dataset().to_zarr(tmp_path / "x.zarr", zarr_format=version, consolidated=False)
    recording = open_recording(tmp_path / "x.zarr")
    first, second = recording.signals
    assert recording.start == datetime(2024, 1, 1)
    assert (first.rate, first.n, second.n, second.start_s) == (250, 20, 40, 0.16)
    assert (first.names, first.channels[0].unit) == (["a", "b", "c"], "mV")
    np.testing.assert_array_equal(np.concatenate([all_of(first), in_pieces(second)]), X)


def test_a_time_coordinate_of_seconds_keeps_its_beginning(tmp_path):
    data = xr.DataArray(X, dims=("time", "c"), coords={"time": 5 + np.arange(60) / 10}, name="x")
    data.to_dataset().to_zarr(tmp_path / "x.zarr", consolidated=False)
    (signal,) = open_recording(tmp_path / "x.zarr").signals
    assert (signal.rate, signal.start_s) == (10, 5)


def test_a_folder_that_is_not_zarr_is_refused(tmp_path):
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(DataError, match=r"x\.zarr"):
        open_recording(tmp_path / "x.zarr")
    zarr.open_group(str(tmp_path / "y.zarr"), mode="w")
    with pytest.raises(DataError, match="no arrays"):
        open_recording(tmp_path / "y.zarr")


def test_zarr_is_known_without_its_ending(tmp_path):
    zarr.create_array(str(tmp_path / "x"), shape=X.shape, dtype="f8")[...] = X
    np.testing.assert_array_equal(all_of(open_recording(tmp_path / "x", rate=1).signals[0]), X)
