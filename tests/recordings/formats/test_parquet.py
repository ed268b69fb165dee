"""Parquet: row groups, the index of pandas, and what its metadata says."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.recordings.formats.reading import all_of, in_pieces, sent

N = 300
RNG = np.random.default_rng(0)


def table(**columns):
    return pd.DataFrame({"ecg (mV)": RNG.standard_normal(N), "k": np.arange(N, dtype="i2"), **columns})


def test_columns_are_read_by_row_groups(tmp_path):
    frame = table(time=np.arange(N) / 256, label="walk")
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=77)
    recording = open_recording(tmp_path / "x.parquet")
    (signal,) = recording.signals
    assert [(channel.name, channel.unit) for channel in signal.channels] == [("ecg", "mV"), ("k", "")]
    assert (signal.rate, signal.n) == (256, N)
    assert "'label'" in recording.notes[0]
    np.testing.assert_array_equal(in_pieces(signal), frame[["ecg (mV)", "k"]])
    np.testing.assert_array_equal(sent(signal).read(70, 240, [1]), frame[["k"]][70:240])
    np.testing.assert_array_equal(signal.read(70, 240, [1, 1, 0])[:, 2], frame["ecg (mV)"][70:240])


def test_other_columns_of_the_row_group_that_is_kept_are_read_anew(tmp_path):
    frame = table()
    frame.to_parquet(tmp_path / "x.parquet")
    (signal,) = open_recording(tmp_path / "x.parquet", rate=1).signals
    for columns in ([0], [1], [1, 0], [0]):
        np.testing.assert_array_equal(signal.read(5, 9, columns), frame.iloc[5:9, columns])


def test_an_index_of_time_stamps_gives_start_rate_and_breaks(tmp_path):
    frame = table().set_index(pd.date_range("2024-05-31T22:30", periods=N, freq="4ms", tz="UTC"))
    frame = pd.concat([frame[:100], frame[150:]])
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=40)
    recording = open_recording(tmp_path / "x.parquet")
    first, second = recording.signals
    assert recording.start == datetime(2024, 5, 31, 22, 30, tzinfo=UTC)
    assert (first.n, first.rate, second.n, round(second.start_s, 9)) == (100, 250, 150, 0.6)
    np.testing.assert_array_equal(in_pieces(second)[:, 1], np.arange(150, N))


def test_metadata_of_the_file_and_its_columns_are_heard(tmp_path):
    field = pa.field("x", pa.float32(), metadata={"unit": "uV"})
    schema = pa.schema([field], metadata={"sampling_rate": "128", "start": "2024-01-01T00:00:00"})
    pq.write_table(pa.table({"x": RNG.standard_normal(N).astype("f4")}, schema=schema), tmp_path / "x.parquet")
    recording = open_recording(tmp_path / "x.parquet")
    assert (recording.signals[0].rate, recording.start) == (128, datetime(2024, 1, 1))
    assert recording.signals[0].channels[0].unit == "uV"
    assert recording.signals[0].read(0, 2, [0]).dtype == np.float32


def test_attrs_of_a_frame_are_heard(tmp_path):
    frame = table()
    frame.attrs["fs"] = 50
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_recording(tmp_path / "x.parquet").signals[0].rate == 50


def test_numbers_that_are_missing_are_nan(tmp_path):
    columns = {"a": pa.array([1, None, 3], pa.int64()), "b": [True, False, None], "c": [0.5, float("nan"), None]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    (signal,) = open_recording(tmp_path / "x.parquet", rate=1).signals
    np.testing.assert_array_equal(all_of(signal), [[1, 1, 0.5], [np.nan, 0, np.nan], [3, np.nan, np.nan]])


def test_bad_files_are_refused(tmp_path):
    table(time=np.arange(N)[::-1] / 10).to_parquet(tmp_path / "back.parquet")
    with pytest.raises(DataError, match="goes backwards at row 2"):
        open_recording(tmp_path / "back.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "back.parquet").read_bytes()[:-50])
    with pytest.raises(DataError, match=r"cut\.parquet"):
        open_recording(tmp_path / "cut.parquet")
    table()[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(DataError, match="no rows"):
        open_recording(tmp_path / "none.parquet")
    pd.DataFrame({"a": ["x"]}).to_parquet(tmp_path / "text.parquet")
    with pytest.raises(DataError, match="no column of numbers"):
        open_recording(tmp_path / "text.parquet", rate=1)


def test_a_missing_rate_is_asked_for(tmp_path):
    table().to_parquet(tmp_path / "x.parquet")
    with pytest.raises(SettingsError, match="give rate"):
        open_recording(tmp_path / "x.parquet")
    with pytest.raises(SettingsError, match="did you mean 'k'"):
        open_recording(tmp_path / "x.parquet", time_column="kk")
