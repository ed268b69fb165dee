"""Blocks that are written after their stage was begun again, by a worker that has outlived its run."""

import json
import pickle

import numpy as np
import pytest

from dlcca.errors import DamagedBlock, StoreInUse
from dlcca.fitting import runner, verification
from dlcca.storage import blocks, cache, lock
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at
from dlcca.storage.manifest import ATTEMPT, known_stage, sealed

ROWS, BLOCKS = 4, 3
ARRAYS = {"plain": ((12, 2), "float64", ROWS), "/embedding": ((12, 2), "float64", ROWS)}
OLD, NEW = 1.0, 2.0  # what blocks of the two settings hold


@pytest.fixture(params=["local", "object"])
def address(request, tmp_path):
    return str(tmp_path / "run.zarr") if request.param == "local" else f"{request.getfixturevalue('bucket')}/run.zarr"


@pytest.fixture(autouse=True)
def no_network_file_system(monkeypatch):
    monkeypatch.setattr(blocks, "SETTLE_S", 0.0)


def begun(address, fingerprint, value=OLD):
    """A stage as its run has sent it to a worker, which has written block 2; the run is dead."""
    with lock.held(address, "a run"):
        stage = pickle.loads(pickle.dumps(prepared(address, fingerprint)))
        write(stage, 2, value)
        return stage


def prepared(address, fingerprint):
    return Blocks(address, "metric", fingerprint, BLOCKS).prepare(ARRAYS, says=fingerprint)


def write(stage, block, value):
    X = np.full((ROWS, 2), value)
    stage.write(block, {"plain": (block * ROWS, X), "/embedding": (block * ROWS, X)}, {"value": value})


def assert_all(stage, value):
    """Nothing but blocks of one setting, and nothing wrong with them."""
    assert stage.missing() == []
    assert stage.check(whole=True) == []
    for array in ARRAYS:
        np.testing.assert_array_equal(stage.read_all(array), value)
    assert {stage.facts(block)["value"] for block in range(BLOCKS)} == {value}


def begun_again(address, fingerprint):
    """What ``--from metric`` does, up to the first block."""
    runner.forget(address, "metric")
    return prepared(address, fingerprint)


@pytest.mark.parametrize("finished", [0, 1, 3])
def test_a_late_block_of_other_settings_is_not_written(finished, address):
    late = begun(address, "old")
    with lock.held(address, "a run"):
        stage = begun_again(address, "new")
        for block in range(finished):
            write(stage, block, NEW)
        with pytest.raises(StoreInUse, match=r"block 0 of stage 'metric' in .* replaced by another one"):
            write(late, 0, OLD)
        for block in stage.missing():
            write(stage, block, NEW)
        assert_all(stage, NEW)
    with pytest.raises(StoreInUse):
        write(late, 0, OLD)
    assert_all(Blocks(address, "metric", "new", BLOCKS), NEW)


def test_a_late_block_is_not_written_where_its_stage_is_gone(address):
    late = begun(address, "old")
    runner.forget(address, "metric")
    with pytest.raises(StoreInUse):
        write(late, 0, OLD)


@pytest.mark.parametrize("moment", ["before the new block", "after it"])
def test_a_late_block_that_was_stopped_between_its_check_and_its_write_harms_nothing(moment, address, monkeypatch):
    late = begun(address, "old")
    with lock.held(address, "a run"):
        stage = begun_again(address, "new")
        late_first = moment == "before the new block"
        for is_late in (late_first, not late_first):
            if is_late:  # it has seen its own stage.json
                with monkeypatch.context() as checked:
                    checked.setattr(Blocks, "_confirm", lambda stage, block: None)
                    X = np.full((ROWS, 2), OLD)
                    late.write(0, {"plain": (0, X)}, {"value": OLD})
            else:
                for block in range(BLOCKS):
                    write(stage, block, NEW)
        assert_all(stage, NEW)
    assert_all(Blocks(address, "metric", "new", BLOCKS), NEW)


def test_a_late_block_of_the_same_settings_is_not_written_when_its_run_was_resumed(address):
    late = begun(address, "same", NEW)
    with lock.held(address, "a run"):
        stage = prepared(address, "same")
        assert stage.missing() == [0, 1]  # what was finished before is kept
        with pytest.raises(StoreInUse):
            write(late, 1, OLD)
        for block in stage.missing():
            write(stage, block, NEW)
        assert_all(stage, NEW)


def test_a_finished_stage_is_left_as_it_is_by_the_next_run(address):
    with lock.held(address, "a run"):
        stage = prepared(address, "same")
        for block in range(BLOCKS):
            write(stage, block, NEW)
    before = files_at(address).get("stages/metric/stage.json")
    with lock.held(address, "a run"):
        assert_all(prepared(address, "same"), NEW)
    assert files_at(address).get("stages/metric/stage.json") == before


@pytest.mark.parametrize("foreign", ["fingerprint", "generation"])
def test_a_record_of_another_stage_or_lock_counts_as_missing(foreign, address):
    with lock.held(address, "a run"):
        stage = prepared(address, "new")
        for block in range(BLOCKS):
            write(stage, block, NEW)
        name = "stages/metric/done/00001.json"
        record = json.loads(files_at(address).get(name))
        del record["sum"]
        files_at(address).put(name, sealed({**record, foreign: "another"}))
        assert stage.missing() == [1]
        assert not stage.is_finished(1)
        assert "1 blocks of stage 'metric'" in stage.check(whole=True)[0]
        with pytest.raises(DamagedBlock, match=r"block 1 of stage 'metric' in .* is not finished"):
            stage.read("plain", 1)
        write(stage, 1, NEW)
        assert_all(stage, NEW)


def test_another_process_that_has_read_the_stage_before_finds_it_begun_again(address):
    begun(address, "same")
    reader = Blocks(address, "metric", "same", BLOCKS)
    np.testing.assert_array_equal(reader.read("plain", 2), OLD)
    known = cache.find(reader._key)
    with lock.held(address, "a run"):
        stage = begun_again(address, "same")
        write(stage, 2, NEW)
    cache.clear()
    cache.put(reader._key, known)  # as if it had been done elsewhere
    np.testing.assert_array_equal(reader.read("plain", 2), NEW)


def test_what_another_one_has_put_into_object_storage_is_replaced_only_after_another_look(bucket):
    files, asked = files_at(bucket), []
    files.put_confirmed("c/0/0", [b"first"], lambda: asked.append("look"))
    assert asked == ["look"]

    def look():
        asked.append("look")
        if len(asked) > 2:
            raise StoreInUse("replaced")

    with pytest.raises(StoreInUse):
        files.put_confirmed("c/0/0", [b"late"], look)
    assert files.get("c/0/0") == b"first"
    files.put_confirmed("c/0/0", [b"second"], lambda: None)
    assert files.get("c/0/0") == b"second"


def test_every_attempt_has_a_folder_of_its_own(address):
    seen = set()
    for fingerprint in ("first", "second", "third"):
        with lock.held(address, "a run"):
            stage = begun_again(address, fingerprint)
            write(stage, 0, NEW)
        seen.add(stage.path("plain"))
        assert known_stage(address, "metric")["attempt"] == stage.attempt
    assert len(seen) == 3
    assert "stages/metric/plain" in seen
    assert not any(files_at(address).get(f"{path}/zarr.json") for path in seen - {stage.path("plain")})


def test_what_a_late_worker_has_left_is_neither_damage_nor_foreign_to_verify(tmp_path):
    address = str(tmp_path / "run.zarr")
    late = begun(address, "old")
    with lock.held(address, "a run"):
        stage = begun_again(address, "new")
        for block in range(BLOCKS):
            write(stage, block, NEW)
    left = tmp_path / "run.zarr" / late.path("plain") / "c/0/0"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"a chunk of the old settings")
    files_at(address).put("stages/metric/done/00000.json", b"its record")
    found = verification.look(address)
    assert found.damages == {}
    assert found.strangers == []
    files_at(address).put(ATTEMPT, b"{}")
    assert list(verification.look(address).damages) == [ATTEMPT]
    with lock.held(address, "a run"):
        runner.forget(address, "metric")
    assert not left.exists()
    assert verification.look(address).damages == {}
