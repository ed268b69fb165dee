"""NWB: a real file, files that pynwb wrote, and damaged ones."""

import pickle
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import h5py
import numpy as np
import pynwb
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pynwb.ecephys import ElectricalSeries

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.support.recordings import shared

BEGUN = datetime(2024, 3, 31, 3, 30, tzinfo=timezone(timedelta(hours=2)))


def everything(signal):
    return signal.read(0, signal.n, range(len(signal.channels)))


@pytest.fixture
def file():
    return pynwb.NWBFile(session_description="a night", identifier="night", session_start_time=BEGUN)


def series(file, name, data, **kwargs):
    made = pynwb.TimeSeries(name=name, data=data, **{"unit": "mV", **kwargs})
    file.add_acquisition(made)
    return made


def saved(file, tmp_path):
    path = str(tmp_path / "night.nwb")
    with pynwb.NWBHDF5IO(path, "w") as io:
        io.write(file)
    return path


def test_a_series_is_scaled_to_the_unit_it_declares(file, tmp_path):
    stored = np.random.default_rng(0).integers(-1000, 1000, size=(500, 3)).astype("i2")
    series(file, "ECG", stored, rate=250.0, starting_time=1.5, conversion=0.01, offset=2.0)
    recording = open_recording(saved(file, tmp_path))
    (signal,) = recording.signals
    assert [(c.name, c.unit, c.kind) for c in signal.channels] == [(f"ECG/{i}", "mV", "ecg") for i in range(3)]
    assert (signal.rate, signal.n, signal.start_s) == (250, 500, 1.5)
    assert_allclose(everything(signal), stored * 0.01 + 2)
    assert_allclose(signal.read(20, 40, [2, 0]), stored[20:40, [2, 0]] * 0.01 + 2)
    assert signal.read(5, 5, [0]).shape == (0, 1)
    assert recording.start == BEGUN
    assert recording.start.tzinfo is UTC
    assert_array_equal(everything(pickle.loads(pickle.dumps(signal))), everything(signal))
    with pytest.raises(DataError, match="500"):
        signal.read(490, 501, [0])


def test_electrodes_name_the_channels_and_have_gains_of_their_own(file, tmp_path):
    device = file.create_device("probe")
    group = file.create_electrode_group("shank", description="-", location="CA1", device=device)
    file.add_electrode_column("label", "what it is called")
    for label in ("top", "middle", "bottom"):
        file.add_electrode(group=group, location="CA1", label=label)
    region = file.create_electrode_table_region([2, 0], "the outer two")
    stored = np.arange(20).reshape(10, 2)
    file.add_acquisition(
        ElectricalSeries(
            name="lfp", data=stored, electrodes=region, rate=1000.0, conversion=1e-6, channel_conversion=[1.0, 2.0]
        )
    )
    (signal,) = open_recording(saved(file, tmp_path)).signals
    assert signal.names == ["lfp/bottom", "lfp/top"]
    assert_allclose(everything(signal), stored * [1e-6, 2e-6])
    assert_allclose(signal.read(0, 10, [1]), stored[:, [1]] * 2e-6)


def test_time_stamps_give_a_rate_and_the_breaks(file, tmp_path):
    x = np.random.default_rng(1).normal(size=100)
    series(file, "even", x, timestamps=10 + np.r_[np.arange(60), 100 + np.arange(40)] / 20)
    before, after = open_recording(saved(file, tmp_path)).signals
    assert (before.rate, before.n, after.n) == (pytest.approx(20), 60, 40)
    assert (before.start_s, after.start_s) == (pytest.approx(10), pytest.approx(15))
    assert_allclose(everything(after)[:, 0], x[60:])


def test_what_cannot_be_a_signal_is_left_out_by_name(file, tmp_path):
    series(file, "good", np.zeros(10), rate=10.0)
    series(file, "uneven", np.zeros(5), timestamps=[0.0, 0.1, 5.0, 5.05, 17.0])
    series(file, "cube", np.zeros((4, 3, 2)), rate=10.0)
    series(file, "unscaled", np.zeros(4), rate=10.0, conversion=float("inf"))
    recording = open_recording(saved(file, tmp_path))
    assert [signal.names for signal in recording.signals] == [["good"]]
    for name in ("uneven", "cube", "unscaled"):
        assert any(f"series '{name}' was left out" in note for note in recording.notes)


def test_a_file_of_nothing_useful_is_refused(file, tmp_path):
    series(file, "cube", np.zeros((4, 3, 2)), rate=10.0)
    with pytest.raises(DataError, match=r"no evenly sampled series of numbers .*'cube' was left out"):
        open_recording(saved(file, tmp_path))


def test_intervals_and_texts_are_annotations(file, tmp_path):
    series(file, "x", np.zeros(10), rate=1.0)
    file.add_trial(start_time=1.0, stop_time=3.0)
    file.add_epoch(2.0, 4.5, ["light", "on"])
    file.add_invalid_time_interval(start_time=6.0, stop_time=7.0)
    with pytest.warns(UserWarning, match="deprecated"):
        file.add_acquisition(pynwb.misc.AnnotationSeries(name="notes", data=["went to sleep"], timestamps=[5.0]))
    licks = pynwb.event.EventsTable(name="licks", description="-")
    licks.add_row(timestamp=8.0, duration=0.25, annotation="left")
    licks.add_row(timestamp=9.0, duration=float("nan"), annotation="")
    file.add_events_table(licks)
    marks = open_recording(saved(file, tmp_path)).annotations
    assert [(m.onset_s, m.duration_s, m.text) for m in marks] == [
        (1, 2, "trials"), (2, 2.5, "epochs: light, on"), (5, 0, "went to sleep"), (6, 1, "BAD_invalid_times"),
        (8, 0.25, "left"), (9, 0, "licks"),
    ]  # fmt: skip


def test_the_real_file_has_what_it_is_known_for():
    recording = open_recording(shared("format-samples", "1.5.1_timeseries_no_unit.nwb"))
    (signal,) = recording.signals
    assert (signal.names, signal.n, signal.rate) == (["test_timeseries"], 1, 1)
    assert recording.start == datetime(2022, 9, 1, 3, 43, 29, 963532, tzinfo=UTC)


def test_a_file_cut_short_or_of_another_kind_is_refused(file, tmp_path):
    series(file, "x", np.zeros(100000), rate=1.0)
    path = Path(saved(file, tmp_path))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (tmp_path / "text.nwb").write_text("time,value\n" * 100)
    (tmp_path / "empty.nwb").touch()
    with h5py.File(tmp_path / "plain.nwb", "w") as plain:
        plain["x"] = np.zeros(10)
    for name, complaint in [
        ("night.nwb", "cannot be read as NWB"),
        ("text.nwb", "cannot be read as NWB"),
        ("plain.nwb", "cannot be read as NWB"),
        ("empty.nwb", "0 bytes"),
        ("", "directory"),
        ("none.nwb", "no file"),
    ]:
        with pytest.raises(DataError, match=complaint):
            open_recording(tmp_path / name, format="nwb")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(file, tmp_path, monkeypatch):
    series(file, "x", np.zeros(10), rate=1.0)
    path = saved(file, tmp_path)
    monkeypatch.setitem(sys.modules, "pynwb", None)
    with pytest.raises(SettingsError, match=r"reading NWB needs pynwb: pip install 'dlcca\[nwb\]'"):
        open_recording(path)
