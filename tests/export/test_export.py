"""Coordinates for other tools: what is read back by them is what is in the store."""

import json
import sys
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import export
from dlcca.cli import app
from dlcca.errors import DataError, SettingsError, StorageError, StoreFileError
from dlcca.export import formats
from dlcca.storage import run as run_store
from dlcca.storage.views import Reason
from tests.support.runs import made_up

START = "2026-03-01T22:00:00.250000+01:00"


def gappy(n=200, q=3, **changed):
    """A run of a recording with a gap and a stretch that was marked; every row is a tenth of a second."""
    reason = np.zeros(n, np.uint8)
    reason[20:30], reason[30:33] = Reason.GAP, Reason.MARKED
    embedding = np.random.default_rng(0).normal(size=(n, q)).astype(np.float32)
    embedding[reason > 0] = np.nan
    facts = {"embedding": embedding, "time": np.arange(n) * 0.1, "reason": reason, "start": START}
    return made_up(n, q, **{**facts, **changed})


@pytest.fixture
def store(tmp_path):
    run_store.write(tmp_path / "run.zarr", gappy())
    return str(tmp_path / "run.zarr")


@pytest.fixture(params=["one part", "many parts"])
def in_parts(request, monkeypatch):
    """Few rows at a time, so that there are several parts."""
    if request.param == "many parts":
        monkeypatch.setattr(formats.Results, "rows_at_once", 64)


def check_table(table):
    run = gappy()
    assert list(table.columns) == ["time", "seconds", "c1", "c2", "c3", "reason", "outside"]
    stamps = pd.to_datetime(table["time"], utc=True)
    assert stamps.iloc[0] == pd.Timestamp(START)
    assert stamps.iloc[15] - stamps.iloc[0] == pd.Timedelta("1.5s")
    np.testing.assert_array_equal(table["seconds"], run.time)
    np.testing.assert_array_equal(table[["c1", "c2", "c3"]].to_numpy(np.float32), run.embedding)
    assert table["reason"].tolist() == [Reason(code).name.lower() for code in run.reason]
    assert not table["outside"].any()


@pytest.mark.usefixtures("in_parts")
def test_parquet_has_every_row_with_its_time_stamp(store, tmp_path):
    export.to_parquet(store, tmp_path / "run.parquet")
    check_table(pd.read_parquet(tmp_path / "run.parquet"))


@pytest.mark.usefixtures("in_parts")
def test_csv_has_every_row_with_its_time_stamp(store, tmp_path):
    export.to_csv(store, tmp_path / "run.csv")
    check_table(pd.read_csv(tmp_path / "run.csv"))


def test_parquet_is_written_in_row_groups_of_the_parts_that_are_read(store, tmp_path, monkeypatch):
    from pyarrow.parquet import ParquetFile

    monkeypatch.setattr(formats.Results, "rows_at_once", 64)
    export.to_parquet(store, tmp_path / "run.parquet")
    assert ParquetFile(tmp_path / "run.parquet").num_row_groups == 4


def test_rows_that_are_counted_have_a_sample_and_no_time_stamp(tmp_path):
    run_store.write(tmp_path / "run.zarr", made_up(50, 2, time=np.arange(50), time_unit="sample"))
    for name, read in (("run.parquet", pd.read_parquet), ("run.csv", pd.read_csv)):
        result = CliRunner().invoke(
            app,
            ["export", str(tmp_path / "run.zarr"), "--to", name.partition(".")[2], "--out", str(tmp_path / name)],
        )
        assert result.exit_code == 0, result.output
        table = read(tmp_path / name)
        assert list(table.columns) == ["sample", "c1", "c2", "reason", "outside"]
        assert table["sample"].dtype == np.int64
        np.testing.assert_array_equal(table[["c1", "c2"]], made_up(50, 2).embedding)


def test_a_dataset_is_lazy_and_has_the_time(store):
    import dask.array as da

    made = export.to_xarray(store)
    assert isinstance(made["embedding"].data, da.Array)
    assert made["embedding"].dims == ("time", "coordinate")
    assert made["coordinate"].to_numpy().tolist() == ["c1", "c2", "c3"]
    assert made["time"].to_numpy()[0] == np.datetime64("2026-03-01T21:00:00.250000")
    np.testing.assert_array_equal(made["seconds"], gappy().time)
    np.testing.assert_array_equal(made["embedding"], gappy().embedding)
    assert made["reason"].attrs["flag_meanings"].split()[:2] == ["valid", "gap"]
    second = made["embedding"].sel(time=slice("2026-03-01T21:00:01", "2026-03-01T21:00:01"))
    assert second.shape == (10, 3)


def test_a_dataset_is_written_as_zarr(store, tmp_path):
    import xarray

    export.write(store, "xarray", tmp_path / "made.zarr")
    opened = xarray.open_zarr(tmp_path / "made.zarr", consolidated=False)
    np.testing.assert_array_equal(opened["embedding"], gappy().embedding)
    with pytest.raises(StorageError, match="exists"):
        export.write(store, "xarray", tmp_path / "made.zarr")


@pytest.mark.parametrize("to", ["xarray", "netcdf"])
def test_a_dataset_is_written_as_netcdf_and_comes_back_as_it_was(store, tmp_path, to):
    import xarray

    export.write(store, to, tmp_path / "made.nc")
    expected = export.to_xarray(store).compute()
    with xarray.open_dataset(tmp_path / "made.nc", engine="h5netcdf") as opened:
        found = opened.load()
    assert set(found.variables) == set(expected.variables)
    assert found.sizes == expected.sizes
    for name, variable in expected.variables.items():
        assert found[name].dims == variable.dims, name
        np.testing.assert_array_equal(found[name], variable, err_msg=name)
    assert found["embedding"].dtype == np.float32
    assert found["time"].to_numpy()[0] == np.datetime64("2026-03-01T21:00:00.250000")
    assert found["reason"].attrs["flag_meanings"] == expected["reason"].attrs["flag_meanings"]
    assert found.attrs == expected.attrs
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("made")] == ["made.nc"]


def test_netcdf_of_rows_that_are_counted_has_their_numbers(tmp_path):
    import xarray

    run_store.write(tmp_path / "run.zarr", made_up(50, 2, time=np.arange(50), time_unit="sample"))
    export.write(tmp_path / "run.zarr", "netcdf", tmp_path / "made.nc")
    with xarray.open_dataset(tmp_path / "made.nc", engine="h5netcdf") as opened:
        assert opened["time"].attrs["long_name"] == "sample"
        np.testing.assert_array_equal(opened["time"], np.arange(50))
        np.testing.assert_array_equal(opened["embedding"], made_up(50, 2).embedding)


def test_a_raw_has_common_channels_and_bad_annotations(store, tmp_path):
    mne = pytest.importorskip("mne")
    export.write(store, "mne", tmp_path / "run_raw.fif")
    raw = mne.io.read_raw_fif(tmp_path / "run_raw.fif", verbose="error")
    assert raw.ch_names == ["common1", "common2", "common3"]
    assert set(raw.get_channel_types()) == {"misc"}
    assert raw.info["sfreq"] == pytest.approx(10)
    assert raw.info["meas_date"] == datetime(2026, 3, 1, 21, 0, 0, 250000, tzinfo=UTC)
    found = [(m["description"], round(m["onset"], 6), round(m["duration"], 6)) for m in raw.annotations]
    assert found == [("BAD_GAP", 2.0, 1.0), ("BAD_MARKED", 3.0, 0.3)]
    np.testing.assert_array_equal(raw.get_data().T.astype(np.float32), gappy().embedding)


def test_a_raw_of_counted_rows_needs_their_rate(tmp_path):
    pytest.importorskip("mne")
    run_store.write(tmp_path / "run.zarr", made_up(50, 2, time=np.arange(50), time_unit="sample"))
    with pytest.raises(SettingsError, match="say their rate in Hz"):
        export.to_mne(tmp_path / "run.zarr")
    assert export.to_mne(tmp_path / "run.zarr", rate=25.0).info["sfreq"] == 25


def test_a_raw_of_uneven_rows_is_refused(tmp_path):
    pytest.importorskip("mne")
    run_store.write(tmp_path / "run.zarr", gappy(time=np.arange(200) ** 1.5))
    with pytest.raises(DataError, match="not evenly spaced"):
        export.to_mne(tmp_path / "run.zarr")


def test_a_missing_chunk_is_never_exported_as_zeros(store, tmp_path):
    (chunk,) = [path for path in (tmp_path / "run.zarr" / "embedding" / "c").rglob("*") if path.is_file()]
    chunk.unlink()
    for to, out in (("parquet", "a.parquet"), ("csv", "a.csv")):
        with pytest.raises(StoreFileError, match=r"'embedding' .* damaged or incomplete"):
            export.write(store, to, tmp_path / out)
        assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]  # and nothing half done is left


@pytest.mark.parametrize(
    ("package", "to", "extra"),
    [
        ("pyarrow", "parquet", "parquet"),
        ("xarray", "xarray", "xarray"),
        ("h5netcdf", "netcdf", "xarray"),
        ("mne", "mne", "eeg"),
    ],
)
def test_a_missing_package_is_an_error_that_names_the_extra(store, tmp_path, monkeypatch, package, to, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsError, match=rf"needs {package}: pip install 'dlcca\[{extra}\]'"):
        export.write(store, to, tmp_path / "out.fif")


def test_the_command_says_what_it_wrote_and_refuses_what_it_does_not_know(store, tmp_path):
    run = CliRunner().invoke
    made = run(app, ["export", store, "--to", "csv", "--out", str(tmp_path / "run.csv"), "--json"])
    assert (made.exit_code, json.loads(made.stdout)["format"]) == (0, "csv")
    wrong = run(app, ["export", store, "--to", "parket", "--out", str(tmp_path / "run.x")])
    assert wrong.exit_code == 2
    assert "did you mean 'parquet'" in wrong.output
    gone = run(app, ["export", str(tmp_path / "no.zarr"), "--to", "csv", "--out", str(tmp_path / "run.csv")])
    assert gone.exit_code == 3


def test_rows_outside_are_told(tmp_path):
    from dlcca import LocalCCA, simulate
    from dlcca.fitting import transform
    from dlcca.fitting.job import Source

    views = simulate.torus(400, common="big", random_state=0)[0]
    LocalCCA(neighborhoods="knn", landmarks=100, random_state=0).fit(views).save(tmp_path / "model.zarr")
    sources = {}
    for number, X in enumerate(views, start=1):
        X[5] += 50
        zarr.save_array(str(tmp_path / f"{number}.zarr"), X)
        sources[f"view {number}"] = Source(f"view {number}", str(tmp_path / f"{number}.zarr"))
    transform.run(transform.prepared(str(tmp_path / "new.zarr"), str(tmp_path / "model.zarr"), sources))
    export.to_csv(tmp_path / "new.zarr", tmp_path / "new.csv")
    table = pd.read_csv(tmp_path / "new.csv")
    assert table["outside"][5]
    assert table["outside"].sum() < 5
    assert "distance" in export.to_xarray(tmp_path / "new.zarr")
