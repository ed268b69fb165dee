"""What may be wrong with the settings, the sources, the data, the clock and the disk: a line in the history, the exit
code for it, and nothing published by half."""

import errno
import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.pipelines import nightly_run, publish
from dlcca.pipelines.context import opened
from tests.pipelines.nights import day_of, morning_after, pipeline_file, recorded, run_night, sensors, start_of, write


def dlcca(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def lines(file, kind=None):
    found = json.loads(dlcca("pipeline", "history", file, "--json").stdout)["lines"]
    return [line["text"] for line in found if kind in (None, line["kind"])]


def published(folder):
    return sorted(path.name for path in (folder / "published").rglob("*") if path.name.endswith((".zarr", ".parquet")))


def test_an_unknown_key_ends_with_2_and_the_nearest_known_one(tmp_path):
    file = pipeline_file(tmp_path, "[outputs]\nparket = 'x'\n")
    done = dlcca("pipeline", "run", file)
    assert done.exit_code == 2
    assert "[outputs] parket is not a setting; did you mean 'parquet'?" in done.output
    told = dlcca("pipeline", "history", file)  # which can be read all the same
    assert (told.exit_code, told.stdout.count("did you mean 'parquet'?")) == (0, 1)
    assert "no run is possible with this file" in told.stderr
    assert published(tmp_path) == []
    file.write_text(file.read_text().replace("parket", "parquet"))
    assert dlcca("pipeline", "run", file).exit_code == 0
    assert len(lines(file, "error")) == 1
    with opened(file) as flow:
        assert [row["exit_code"] for row in flow.catalog.all("SELECT exit_code FROM runs")] == [2, 0]
    file.write_text("[pipeline")
    assert dlcca("pipeline", "run", file).exit_code == 2
    assert "is not TOML" in dlcca("pipeline", "history", file).stdout


def test_a_file_that_is_no_pipeline_gets_no_state(tmp_path):
    (tmp_path / "run.toml").write_text("[store]\npath = 'x'\n")
    assert dlcca("pipeline", "run", tmp_path / "run.toml").exit_code == 2
    assert dlcca("pipeline", "history", tmp_path / "run.toml").exit_code == 2
    assert not (tmp_path / "state").exists()


def test_a_source_that_does_not_exist_ends_with_2_and_a_line(tmp_path):
    file = pipeline_file(tmp_path)
    (tmp_path / "incoming").rmdir()
    done = dlcca("pipeline", "run", file)
    assert done.exit_code == 2
    (line,) = lines(file, "error")
    assert "there is no folder" in line
    assert dlcca("pipeline", "status", file).exit_code == 0


def test_a_catalog_that_is_none_or_too_new_ends_with_3(tmp_path):
    file = pipeline_file(tmp_path)
    assert dlcca("pipeline", "run", file).exit_code == 0
    with opened(file) as flow:
        flow.catalog.do("PRAGMA user_version = 99")
    done = dlcca("pipeline", "run", file)
    assert done.exit_code == 3
    assert "has version 99" in done.output
    for leftover in (tmp_path / "state").glob("catalog.sqlite*"):
        leftover.unlink()
    (tmp_path / "state" / "catalog.sqlite").write_bytes(b"this is not a database, but long enough to be one" * 100)
    done = dlcca("pipeline", "run", file)
    assert done.exit_code == 3
    assert "is damaged" in done.output


@pytest.mark.slow
def test_recordings_of_another_shape_than_the_model_are_refused_by_name(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    import edfio

    X, _ = sensors(2)
    other = [edfio.EdfSignal(X[:, i], 64, label=name) for i, name in enumerate(["L1", "L2", "Q1", "Q2"])]
    edfio.Edf(other).write(tmp_path / "incoming" / "other.edf")
    halved = [edfio.EdfSignal(X[::2, i], 32, label=f"{'LR'[i // 3]}{i % 3 + 1}") for i in range(6)]
    edfio.Edf(halved).write(tmp_path / "incoming" / "slow.edf")
    summary = run_night(file, 2)
    assert summary.exit_code == 3
    told = {Path(path).name: reason for path, reason in summary.reasons.items()}
    assert "'L3' is not in" in told["other.edf"]
    assert "32 Hz, and the model was fitted at 64 Hz" in told["slow.edf"]
    assert len(lines(file, "refused")) == 2
    assert published(tmp_path) == [f"{day_of(1)}-{version(tmp_path, 1)}.zarr", f"{day_of(1)}.zarr", "rows.parquet"]
    again = run_night(file, 3)
    assert (again.exit_code, again.refused) == (0, [])  # told once, and not tried again by itself


@pytest.mark.slow
def test_a_model_that_is_lost_is_no_fault_of_the_recordings_which_wait_for_it(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    recorded(tmp_path, 2)
    (tmp_path / "models" / "v0001.zarr").rename(tmp_path / "elsewhere")
    (tmp_path / f"published/zarr/{day_of(1)}.zarr").unlink()
    summary = run_night(file, 2)
    assert (summary.exit_code, summary.refused, summary.done) == (4, [], [])
    assert "model 1 cannot be used: there is no model" in summary.troubles[0]
    assert summary.published == [day_of(1)]  # what needs no model is done
    assert lines(file, "failed") == summary.troubles
    (tmp_path / "elsewhere").rename(tmp_path / "models" / "v0001.zarr")
    mended = run_night(file, 3)
    assert (mended.exit_code, mended.published) == (0, [day_of(2)])


def version(folder, number):
    return zarr.open_group(str(folder / f"published/zarr/{day_of(number)}.zarr")).attrs["fingerprint"][:16]


@pytest.mark.slow
def test_a_sensor_that_dies_in_the_night_is_held_back_by_the_gate_with_5(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    for number, dies_at in ((2, 800), (3, 2000)):  # of 2560 samples
        X, _ = sensors(number)
        X[dies_at:, 4] = 0.5
        write(tmp_path / "incoming" / f"dies-{number}.edf", X, start_of(number))
    summary = run_night(file, 2)
    assert (summary.exit_code, summary.alarms, summary.published) == (5, [], [day_of(3)])
    (line,) = lines(file, "held")
    assert "200 of its 640 windows are valid (440 flat); [gate] requires a share of 0.5" in line
    assert line.split(" is held back: ")[1] in "\n".join(summary.lines())


@pytest.mark.slow
def test_clocks_that_are_wrong_are_told_of(tmp_path):
    file = pipeline_file(tmp_path, "[gate]\nearliest = '2020-01-01'\n")
    recorded(tmp_path, 1)
    X, _ = sensors(3)
    write(tmp_path / "incoming" / "reset.edf", X, start_of(1).replace(year=1990))
    write(tmp_path / "incoming" / "ahead.edf", sensors(4)[0], start_of(1).replace(year=2080))
    summary = run_night(file, 1)
    assert (summary.exit_code, len(summary.done)) == (5, 1)
    told = {Path(path).name: reason for path, reason in summary.reasons.items()}
    assert "start is on 1990-01-01, before [gate] earliest = 2020-01-01: was its clock set back?" in told["reset.edf"]
    assert "its start is on 2080-01-01, which is in the future" in told["ahead.edf"]
    write(tmp_path / "incoming" / "twice.edf", sensors(5)[0], start_of(1) + timedelta(seconds=20))
    earlier = nightly_run.run(
        file, clock=lambda: morning_after(-1)
    )  # the machine's own clock has gone back by two days
    assert earlier.exit_code == 0
    earlier = nightly_run.run(file, clock=lambda: morning_after(-1))
    assert [Path(path).name for path in earlier.done] == ["twice.edf"]
    (line, _) = lines(file, "clock")
    assert "The clock of this machine was set back" in line
    (line,) = lines(file, "overlap")
    assert "two devices, or a clock that was set back?" in line


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only a superuser can mount a small disk")
def test_a_full_disk_publishes_nothing_by_half_and_the_next_night_makes_up_for_it(tmp_path):
    file = pipeline_file(tmp_path, "[outputs]\nzarr = 'small/zarr'\nparquet = 'small/parquet'\n")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], check=False)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        recorded(tmp_path, 1)
        run_night(file, 1)
        recorded(tmp_path, 2)
        with open(small / "ballast", "wb") as ballast:
            free = os.statvfs(small)
            ballast.write(b"x" * (free.f_bavail * free.f_frsize - 8192))
        before = zarr.open_group(str(small / f"zarr/{day_of(1)}.zarr"), mode="r")["embedding"][:]
        summary = run_night(file, 2)
        assert summary.exit_code == 4
        assert "No space left on device" in summary.troubles[0]
        assert any("No space left on device" in line for line in lines(file, "failed"))
        assert [path.name for path in sorted((small / "zarr").glob("*.zarr"))] == [f"{day_of(1)}.zarr"]
        assert [path.parent.name for path in (small / "parquet").glob("*/rows.parquet")] == [f"date={day_of(1)}"]
        np.testing.assert_array_equal(zarr.open_group(str(small / f"zarr/{day_of(1)}.zarr"))["embedding"][:], before)
        (small / "ballast").unlink()
        mended = run_night(file, 3)
        assert (mended.exit_code, mended.published, mended.done) == (0, [day_of(2)], [])  # embedded a night ago
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
def test_a_day_is_in_both_forms_or_in_none_if_there_is_no_room_for_the_second(tmp_path, monkeypatch):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)

    def full(day, place):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(publish, "write_zarr", full)  # the Parquet file is written before it
    summary = run_night(file, 1)
    assert (summary.exit_code, summary.published) == (4, [])
    assert "What was published before is unchanged" in summary.troubles[0]
    assert [path for path in (tmp_path / "published").rglob("*") if not path.name.startswith(".")] == [
        tmp_path / "published" / name for name in ("index.html", "parquet")
    ]
    monkeypatch.undo()
    assert run_night(file, 2).published == [day_of(1)]


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only a superuser can mount a small disk")
def test_a_state_that_fills_up_is_told_of_with_4(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    recorded(tmp_path, 2)
    views = tmp_path / "state" / "views"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(views)], check=False)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        summary = run_night(file, 2)
    finally:
        subprocess.run(["umount", str(views)], check=True)
    assert summary.exit_code == 4
    assert "No space left" in next(iter(summary.reasons.values()))
    assert summary.published == []
    mended = run_night(file, 3)
    assert (mended.exit_code, mended.published) == (0, [day_of(2)])


def test_what_is_no_pipeline_at_all_ends_with_2():
    assert dlcca("pipeline", "run", "there-is-no.toml").exit_code == 2


@pytest.mark.slow
def test_settings_that_fit_no_recording_are_wrong_themselves_and_once_mended_all_is_done(tmp_path):
    file = pipeline_file(tmp_path)
    right = file.read_text()
    file.write_text(right.replace('"L3"', '"L33"'))
    recorded(tmp_path, 1)
    done = dlcca("pipeline", "run", file)
    assert done.exit_code == 2
    assert "view 'left' has no channel 'L33'; did you mean 'L3'" in done.output
    assert published(tmp_path) == []
    file.write_text(right.replace("window_s = 0.0625", "window_s = 60"))
    assert run_night(file, 1).exit_code == 3  # of this the recording is to blame, as far as one can tell
    file.write_text(right)
    summary = run_night(file, 2)
    assert (summary.exit_code, summary.published) == (0, [day_of(1)])


@pytest.mark.faults
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only a superuser can mount a small disk")
def test_a_catalog_that_cannot_be_written_ends_with_4(tmp_path):
    file = pipeline_file(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(state)], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        done = dlcca("pipeline", "run", file)
    finally:
        subprocess.run(["umount", str(state)], check=True)
    assert done.exit_code == 4
    assert "catalog.sqlite cannot be used" in done.output
