"""Looking at sources: what is new, the same, changed, half there or gone; and how little is read for it."""

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pytest

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines import sources
from dlcca.pipelines.context import opened
from dlcca.pipelines.recordings import discover
from tests.pipelines.nights import pipeline_file


@contextmanager
def looking(file, ahead_s=1.0):
    """The flow, so many seconds from now."""
    with opened(file, clock=lambda: datetime.now(UTC) + timedelta(seconds=ahead_s)) as flow:
        yield flow


def look(file, ahead_s=1.0):
    with looking(file, ahead_s) as flow:
        return discover(flow)


def statuses(file):
    with looking(file) as flow:
        rows = flow.catalog.all("SELECT path, status FROM recordings ORDER BY id")
    return [(Path(row["path"]).name, row["status"]) for row in rows]


def kinds(file):
    with looking(file) as flow:
        return [row["kind"] for row in flow.catalog.all("SELECT kind FROM history ORDER BY id")]


def put(folder, name, content=b"some samples"):
    path = folder / "incoming" / name
    path.write_bytes(content)
    return path


def names(paths):
    return [Path(path).name for path in paths]


def test_a_file_is_new_once_and_then_known(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    found = look(file)
    assert (found.files, names(found.new)) == (1, ["a.edf"])
    again = look(file)
    assert (again.files, again.new, again.changed, again.duplicates) == (1, [], [], [])
    assert statuses(file) == [("a.edf", "new")]


def test_the_same_content_under_two_names_is_one_recording(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    put(tmp_path, "b.edf")
    found = look(file)
    assert (names(found.new), names(found.duplicates)) == (["a.edf"], ["b.edf"])
    assert statuses(file) == [("a.edf", "new")]
    (tmp_path / "incoming" / "a.edf").rename(tmp_path / "incoming" / "c.edf")  # a new name, and nothing else
    found = look(file)
    assert (found.new, names(found.duplicates), found.gone) == ([], ["c.edf"], 1)


def test_a_file_that_is_removed_before_its_turn_is_given_up_and_taken_up_again_when_it_is_back(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    look(file)
    (tmp_path / "incoming" / "a.edf").rename(tmp_path / "a.edf")
    assert look(file).gone == 1
    assert statuses(file) == [("a.edf", "gone")]
    (tmp_path / "a.edf").rename(tmp_path / "incoming" / "b.edf")
    look(file)
    assert statuses(file) == [("b.edf", "new")]


def test_a_date_that_changes_without_the_content_means_nothing(tmp_path):
    file = pipeline_file(tmp_path)
    os.utime(put(tmp_path, "a.edf"), (1e9, 1e9))
    look(file)
    os.utime(tmp_path / "incoming" / "a.edf", (1.1e9, 1.1e9))
    found = look(file)
    assert (found.new, found.changed, found.duplicates) == ([], [], [])


def test_a_file_that_changes_replaces_what_it_was(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    look(file)
    put(tmp_path, "a.edf", b"other samples")
    assert names(look(file).changed) == ["a.edf"]
    assert statuses(file) == [("a.edf", "superseded"), ("a.edf", "new")]
    put(tmp_path, "a.edf")  # and back again
    assert names(look(file).changed) == ["a.edf"]
    assert statuses(file) == [("a.edf", "new"), ("a.edf", "superseded")]


def test_what_was_embedded_stands_until_its_successor_is(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    look(file)
    with looking(file) as flow:
        flow.catalog.update("recordings", {"status": "done"}, id=1)
    put(tmp_path, "a.edf", b"other samples")
    look(file)
    assert statuses(file) == [("a.edf", "done"), ("a.edf", "new")]
    with looking(file) as flow:
        assert flow.recordings("id = 2")[0]["replaces"] == 1


def test_a_file_waits_until_it_has_settled(tmp_path):
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace("settle_s = 0", "settle_s = 60"))
    put(tmp_path, "a.edf", b"half of the")
    assert names(look(file).waiting) == ["a.edf"]
    put(tmp_path, "a.edf", b"half of the samples, and the other half")
    assert names(look(file, ahead_s=30).waiting) == ["a.edf"]
    assert statuses(file) == []
    assert names(look(file, ahead_s=120).new) == ["a.edf"]
    assert kinds(file) == ["waiting", "new"]  # one line, however often it was looked at


def test_a_copy_whose_date_was_kept_has_to_settle_as_well(tmp_path):
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace("settle_s = 0", "settle_s = 60"))
    os.utime(put(tmp_path, "a.edf"), (1e9, 1e9))
    assert names(look(file).waiting) == ["a.edf"]


def test_a_clock_that_was_set_back_does_not_make_a_file_wait_for_ever(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    assert names(look(file, ahead_s=-3600).waiting) == ["a.edf"]
    assert names(look(file, ahead_s=-3600).new) == ["a.edf"]


@pytest.mark.parametrize(("marker", "name"), [("*.done", "a.edf.done"), ("_SUCCESS", "_SUCCESS")])
def test_a_marker_says_that_a_file_is_complete(tmp_path, marker, name):
    file = pipeline_file(tmp_path, sources=f"complete = 'marker'\nmarker = '{marker}'")
    put(tmp_path, "a.edf")
    assert names(look(file).waiting) == ["a.edf"]
    put(tmp_path, name, b"")
    assert names(look(file).new) == ["a.edf"]


def test_a_recording_of_several_files_is_complete_when_all_are_there(tmp_path):
    file = pipeline_file(tmp_path, sources="companions = '*_right.csv'")
    file.write_text(file.read_text().replace("incoming/*.edf", "incoming/*_left.csv"))
    put(tmp_path, "one_left.csv")
    assert names(look(file).waiting) == ["one_left.csv"]
    put(tmp_path, "one_right.csv", b"more")
    assert names(look(file).new) == ["one_left.csv"]
    put(tmp_path, "one_right.csv", b"something else")
    assert names(look(file).changed) == ["one_left.csv"]


def test_empty_files_and_pipes_are_not_opened(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "empty.edf", b"")
    os.mkfifo(tmp_path / "incoming" / "pipe.edf")  # opening it would wait for ever
    found = look(file)
    assert (found.files, names(found.waiting)) == (1, ["empty.edf"])


def test_an_object_that_was_removed_since_it_was_listed_is_tried_again(tmp_path, monkeypatch):
    fs, digest = fsspec.filesystem("memory"), sources.digest
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace("incoming/*.edf", f"memory://{tmp_path}/*.edf"))
    fs.pipe_file(f"{tmp_path}/a.edf", b"some samples")

    def removed(parts):
        fs.rm(f"{tmp_path}/a.edf")
        return digest(parts)

    with monkeypatch.context() as patch:
        patch.setattr(sources, "digest", removed)
        assert names(look(file).unreadable) == ["a.edf"]
    fs.pipe_file(f"{tmp_path}/a.edf", b"some samples")
    assert names(look(file).new) == ["a.edf"]


def test_a_file_that_is_removed_after_it_was_read_is_gone_in_the_next_run_and_stops_no_other(tmp_path, monkeypatch):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    put(tmp_path, "b.edf", b"other samples")

    def removed(parts, stamp):
        Path(parts[0]).unlink()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(sources, "has_stamp", removed)
        assert names(look(file).new) == ["a.edf", "b.edf"]
    assert look(file).gone == 2
    assert statuses(file) == [("a.edf", "gone"), ("b.edf", "gone")]


def test_ten_thousand_files_are_read_once_and_then_only_looked_at(tmp_path, monkeypatch):
    file = pipeline_file(tmp_path)
    for number in range(10_000):
        put(tmp_path, f"{number:05d}.edf", b"%d" % number)
    assert len(look(file).new) == 10_000
    monkeypatch.setattr(sources, "digest", lambda parts: pytest.fail(f"{parts} was read again"))
    found = look(file)
    assert (found.files, found.new, found.gone) == (10_000, [], 0)


def test_a_source_that_is_not_there_is_a_slip_at_first_and_a_lost_disk_later(tmp_path):
    file = pipeline_file(tmp_path)
    put(tmp_path, "a.edf")
    (tmp_path / "incoming").rename(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="there is no folder"):
        look(file)
    (tmp_path / "elsewhere").rename(tmp_path / "incoming")
    look(file)
    (tmp_path / "incoming").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="no longer exists: is its disk mounted"):
        look(file)
    with looking(file) as flow:
        assert flow.catalog.value("SELECT state FROM files") == "known"  # and not gone


@contextmanager
def as_nobody():
    """A folder of a user without rights, who then acts; a superuser may read everything."""
    folder = Path(tempfile.mkdtemp(prefix="dlcca-nobody-"))
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(sys.platform == "win32", reason="rights are other there")
def test_a_file_that_may_not_be_read_is_told_of_once_and_tried_again():
    with as_nobody() as folder:
        file = pipeline_file(folder)
        closed = put(folder, "a.edf")
        closed.chmod(0)
        assert names(look(file).unreadable) == ["a.edf"]
        assert look(file).unreadable == []
        with looking(file) as flow:
            text = flow.catalog.value("SELECT text FROM history")
        assert "cannot be read: Permission denied" in text
        closed.chmod(0o600)
        assert names(look(file).new) == ["a.edf"]
        (folder / "incoming").chmod(0)
        with pytest.raises(StorageError, match="cannot be read: Permission denied"):
            look(file)
        (folder / "incoming").chmod(0o700)


@pytest.mark.skipif(sys.platform == "win32", reason="rights are other there")
def test_a_folder_that_may_not_be_looked_into_is_told_of_once_and_its_files_are_not_gone():
    with as_nobody() as folder:
        file = pipeline_file(folder)
        file.write_text(file.read_text().replace("incoming/*.edf", "incoming/**/*.edf"))
        ward = folder / "incoming" / "ward 7"
        ward.mkdir()
        put(folder, "ward 7/a.edf")
        assert names(look(file).new) == ["a.edf"]
        for rights in (0, 0o600):  # may not be listed, or may be listed and not entered
            ward.chmod(rights)
            put(folder, "b.edf", b"%d" % rights)
            found = look(file)
            assert (names(found.unreadable), found.gone) == (["ward 7"], 0)
            assert "b.edf" in names(found.new + found.changed)  # what can be reached is taken
            assert (look(file).unreadable, statuses(file)[0]) == ([], ("a.edf", "new"))
            ward.chmod(0o700)
            assert (look(file).unreadable, look(file).gone) == ([], 0)
        with looking(file) as flow:
            told = flow.catalog.all("SELECT text FROM history WHERE kind = 'unreadable'")
        assert len(told) == 2
        assert "ward 7 cannot be read: Permission denied." in told[0]["text"]
