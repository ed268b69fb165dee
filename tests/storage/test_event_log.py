"""What happened in a run, kept with it."""

import json
import threading
from datetime import datetime

import pytest

from dlcca.storage import event_log
from dlcca.storage.files import files_at
from dlcca.storage.manifest import group_attributes


@pytest.fixture(params=["disk", "s3"])
def store(request, tmp_path):
    return str(tmp_path / "run.zarr") if request.param == "disk" else f"{request.getfixturevalue('bucket')}/run.zarr"


def names(store):
    return [event["event"] for event in event_log.read(store)]


def test_events_are_lines_of_json_with_their_times_and_a_seal(store):
    with event_log.recording(store, "dlcca run") as log:
        assert event_log.current() is log
        log.far("near", 0, 4)
        log.note("retry", stage="near", block=2, error="it fell")
        log.far("near", 4, 4)
        said = []
        log.warned(said.append)("a job is gone")
    assert event_log.current() is None
    assert said == ["a job is gone"]
    lines = files_at(store).get(event_log.FILE).decode().splitlines()
    told = [json.loads(line) for line in lines]
    assert [event["event"] for event in told] == [
        "started",
        "stage started",
        "retry",
        "stage finished",
        "warning",
        "finished",
        "sealed",
    ]
    times = [datetime.fromisoformat(event["time"]) for event in told[:-1]]
    assert times == sorted(times)
    assert all(time.tzinfo is not None for time in times)
    assert told[5]["retries"] == 1
    assert event_log.damages(store, expected=True) == {}


def test_a_later_run_adds_to_the_events_of_the_earlier(store):
    for _ in range(2):
        with event_log.recording(store, "dlcca run") as log:
            log.far("near", 0, 1)
            log.far("near", 1, 1)
    assert names(store) == ["started", "stage started", "stage finished", "finished"] * 2


def test_a_run_that_fails_says_so(store):
    def fails():
        with event_log.recording(store, "dlcca run") as log:
            log.far("near", 0, 4)
            raise KeyError("what")

    with pytest.raises(KeyError):
        fails()
    assert names(store)[-1] == "failed"
    assert event_log.read(store)[-1]["kind"] == "KeyError"


def test_whoever_is_refused_before_anything_was_done_leaves_nothing_behind(tmp_path):
    with pytest.raises(KeyError), event_log.recording(str(tmp_path / "run.zarr"), "dlcca run"):
        raise KeyError("what")
    assert list(tmp_path.iterdir()) == []


def test_how_far_a_stage_is_is_noted_at_its_ends_and_once_a_minute(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(event_log.time, "monotonic", lambda: now[0])
    with event_log.recording(str(tmp_path / "run.zarr"), "dlcca run") as log:
        log.far("scan", 5, 5)
        for done in range(301):  # a block a second
            now[0] = float(done)
            log.far("near", done, 300)
    told = [(event["event"], event.get("done")) for event in event_log.read(str(tmp_path / "run.zarr"))]
    middle = [("blocks done", done) for done in (60, 120, 180, 240)]
    expected = [("stage found finished", None), ("stage started", 0), *middle, ("stage finished", None)]
    assert told == [("started", None), *expected, ("finished", None)]


def test_events_may_come_from_any_thread(tmp_path):
    store = str(tmp_path / "run.zarr")
    with event_log.recording(store, "dlcca run") as log:
        log.far("near", 0, 1)
        threads = [threading.Thread(target=lambda: [log.note("retry", block=b) for b in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names(store).count("retry") == 400
    assert log.counts["retry"] == 400


def test_events_that_are_damaged_are_left_out_and_the_run_goes_on(tmp_path):
    store = str(tmp_path / "run.zarr")
    with event_log.recording(store, "dlcca run") as log:
        log.far("near", 0, 1)
    file = tmp_path / "run.zarr" / event_log.FILE
    file.write_bytes(file.read_bytes().replace(b"near", b"neaR"))
    assert "is damaged" in event_log.damages(store, expected=True)[event_log.FILE]
    with event_log.recording(store, "dlcca run") as log:
        log.far("near", 0, 1)
    assert names(store) == ["started", "warning", "stage started", "finished"]
    file.unlink()
    assert "is missing" in event_log.damages(store, expected=True)[event_log.FILE]
    assert event_log.damages(store, expected=False) == {}


def test_of_very_many_lines_the_oldest_that_say_how_far_a_stage_was_are_left_out(tmp_path, monkeypatch):
    store = str(tmp_path / "run.zarr")
    monkeypatch.setattr(event_log, "MOST_LINES", 40)
    with event_log.recording(store, "dlcca run") as log:
        log.far("near", 0, 1)
        for done in range(100):
            log.note("blocks done", done=done)
        log.note("retry", block=1)
    kept = event_log.read(store)
    assert len(kept) <= 40
    assert [event["event"] for event in kept][:2] == ["started", "stage started"]
    assert max(event["done"] for event in kept if event["event"] == "blocks done") == 99
    assert names(store)[-2:] == ["retry", "finished"]


def test_a_report_is_kept_and_its_damage_is_found(store):
    with event_log.recording(store, "dlcca run") as log:
        log.far("near", 0, 1)
        log.keep_report(b"<html></html>")
    assert files_at(store).get(event_log.REPORT) == b"<html></html>"
    assert group_attributes(files_at(store).get("log/zarr.json")) == {}
    assert event_log.damages(store, expected=True) == {}
    files_at(store).put(event_log.REPORT, b"<html><html>")
    assert "is damaged" in event_log.damages(store, expected=True)[event_log.REPORT]


def test_a_run_that_only_seals_what_a_killed_one_has_done_leaves_its_events(tmp_path):
    """The killed one may have been too quick to write any."""
    with event_log.recording(str(tmp_path), "a run") as recorder:
        recorder.far("scan", 3, 3)
    assert [event["event"] for event in event_log.read(str(tmp_path))][-1] == "finished"
    assert event_log.damages(str(tmp_path), expected=True) == {}


def test_a_run_that_is_refused_leaves_no_events(tmp_path):
    with pytest.raises(ValueError, match="refused"), event_log.recording(str(tmp_path), "a run"):
        raise ValueError("refused")
    assert list(tmp_path.iterdir()) == []
