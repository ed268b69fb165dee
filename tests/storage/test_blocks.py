"""Stages on disk: what is finished, what is damaged, and what the disk will not take."""

import contextlib
import json
import os
import pickle
import shutil
import subprocess

import numpy as np
import pytest

from dlcca.errors import DamagedBlock, StaleStage, StorageError
from dlcca.storage import cache, lock
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at, is_remote

ROWS, BLOCKS = 4, 3
ARRAYS = {"plain": ((10, 2), "float64", ROWS), "deep": ((10, 2, 3), "float32", ROWS), "flat": ((10,), "int64", ROWS)}
SAYS = "ten rows"


def stage_at(place, fingerprint="f", name="metric"):
    return Blocks(str(place), name, fingerprint, BLOCKS)


def parts_of(block):
    """The block's part of each array; no entry is zero, which a missing chunk would read as."""
    first, last = block * ROWS, min(10, (block + 1) * ROWS)
    rng = np.random.default_rng(block)
    return {
        "plain": (first, rng.uniform(1, 2, (last - first, 2))),
        "deep": (first, rng.uniform(1, 2, (last - first, 2, 3)).astype("float32")),
        "flat": (first, np.arange(first + 1, last + 1)),
    }


def chunk(place, array, block, name="metric"):
    folder = place / f"stages/{name}/{array}/c"
    found = sorted(
        file for file in folder.rglob("*") if file.is_file() and file.relative_to(folder).parts[0] == f"{block}"
    )
    assert len(found) == 1
    return found[0]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "run.zarr"


@pytest.fixture
def finished(place):
    """A stage with all its blocks."""
    stage = stage_at(place).prepare(ARRAYS, says=SAYS)
    for block in range(BLOCKS):
        stage.write(block, parts_of(block), {"rows": block, "means": [0.1, 1e-300, -3.0]})
    return stage


def test_what_was_written_is_read_block_by_block_and_together(finished):
    assert finished.missing() == []
    for block in range(BLOCKS):
        for array, (_first, X) in parts_of(block).items():
            found = finished.read(array, block)
            np.testing.assert_array_equal(found, X)
            assert found.dtype == X.dtype
        assert finished.facts(block) == {"rows": block, "means": [0.1, 1e-300, -3.0]}
    for array, (shape, _dtype, _rows) in ARRAYS.items():
        together = finished.read_all(array)
        assert together.shape == shape
        np.testing.assert_array_equal(together, np.concatenate([parts_of(b)[array][1] for b in range(BLOCKS)]))
    assert finished.check() == []


def test_a_stage_opened_again_finds_what_is_there(finished, place):
    again = stage_at(place).prepare(ARRAYS, says=SAYS)
    assert again.missing() == []
    np.testing.assert_array_equal(again.read("plain", 1), parts_of(1)["plain"][1])


def test_blocks_may_be_finished_in_any_order_and_the_others_are_missing(place):
    stage = stage_at(place).prepare(ARRAYS, says=SAYS)
    assert stage.missing() == [0, 1, 2]
    stage.write(2, parts_of(2), {})
    assert stage.missing() == [0, 1]
    with pytest.raises(DamagedBlock, match=r"block 0 of stage 'metric' in .* is not finished; run again"):
        stage.read("plain", 0)
    stage.write(0, parts_of(0), {})
    assert stage_at(place).missing() == [1]
    assert stage.check() == []


def test_a_block_written_twice_is_there_once_as_written_last(finished):
    new = {array: (first, 2 * X) for array, (first, X) in parts_of(1).items()}
    finished.write(1, new, {"rows": 7})
    np.testing.assert_array_equal(finished.read("deep", 1), new["deep"][1])
    assert finished.facts(1) == {"rows": 7}
    assert finished.missing() == []


def test_what_is_written_in_another_dtype_is_checked_as_it_is_kept(place):
    stage = stage_at(place).prepare(ARRAYS, says=SAYS)
    X = np.random.default_rng(0).uniform(1, 2, (4, 2, 3))
    stage.write(0, {"deep": (0, X)}, {})
    np.testing.assert_array_equal(stage.read("deep", 0), X.astype("float32"))


def test_a_block_of_nothing_but_zeros_is_finished_all_the_same(place):
    # Zarr keeps no chunk of them.
    stage = stage_at(place).prepare(ARRAYS, says=SAYS)
    stage.write(0, {"plain": (0, np.zeros((4, 2)))}, {})
    assert stage.missing() == [1, 2]
    np.testing.assert_array_equal(stage.read("plain", 0), 0)


def test_an_array_of_the_run_itself_lies_outside_of_the_stage(place):
    stage = stage_at(place).prepare({"/embedding": ((10, 2), "float64", ROWS)}, says=SAYS)
    first, X = parts_of(0)["plain"]
    stage.write(0, {"/embedding": (first, X)}, {})
    assert (place / "embedding/zarr.json").exists()
    np.testing.assert_array_equal(stage.read("/embedding", 0), X)


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("damage", ["flipped", "truncated", "emptied", "deleted"])
def test_a_damaged_chunk_is_named_with_its_block_array_and_stage(damage, array, finished, place):
    file = chunk(place, array, 1)
    content = bytearray(file.read_bytes())
    if damage == "deleted":
        file.unlink()
    else:
        content[5] ^= 4
        file.write_bytes({"flipped": content, "truncated": content[:-3], "emptied": b""}[damage])
    with pytest.raises(DamagedBlock, match=rf"block 1 of '{array}' in stage 'metric' of .*run\.zarr.* --from metric"):
        finished.read(array, 1)
    with pytest.raises(DamagedBlock):
        finished.read_all(array)
    (problem,) = finished.check()
    assert f"block 1 of {array!r}" in problem
    np.testing.assert_array_equal(finished.read(array, 0), parts_of(0)[array][1])


def test_a_chunk_that_took_the_place_of_another_is_damage_too(finished, place):
    # Whole and with a good checksum of its own: only the record tells.
    chunk(place, "plain", 1).write_bytes(chunk(place, "plain", 0).read_bytes())
    with pytest.raises(DamagedBlock, match="block 1 of 'plain'"):
        finished.read("plain", 1)


def test_an_array_that_is_gone_is_damage(finished, place):
    (place / "stages/metric/plain/zarr.json").unlink()
    with pytest.raises(DamagedBlock, match="block 0 of 'plain' in stage 'metric'"):
        stage_at(place).read("plain", 0)


def test_a_block_whose_record_is_gone_is_missing_again(finished, place):
    (place / "stages/metric/done/00001.json").unlink()
    assert finished.missing() == [1]
    with pytest.raises(DamagedBlock, match="block 1 of stage 'metric'"):
        finished.facts(1)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"facts": {}}', b"\xff\xfe", None], ids=repr)
def test_a_damaged_record_is_an_error_and_not_an_answer(damage, finished, place):
    file = place / "stages/metric/done/00001.json"
    if damage is None:  # a number changed, and JSON all the same
        damage = file.read_bytes().replace(b"0.1", b"0.7")
    file.write_bytes(damage)
    for read in (lambda: finished.facts(1), lambda: finished.read("plain", 1)):
        with pytest.raises(
            DamagedBlock, match=r"the record of block 1 of stage 'metric' in .* is damaged.*--from metric"
        ):
            read()


def test_a_damaged_stage_file_is_an_error(finished, place):
    (place / "stages/metric/stage.json").write_bytes(b'{"fingerprint": "f"')
    with pytest.raises(DamagedBlock, match=r"stage\.json of stage 'metric' in .* is damaged.*--from metric"):
        stage_at(place).prepare(ARRAYS, says=SAYS)


def test_other_settings_are_refused_with_both_described_and_nothing_is_lost(finished, place):
    other = stage_at(place, fingerprint="g")
    with pytest.raises(
        StaleStage, match=r"'metric' in .*run\.zarr.*\(ten rows there, eleven rows now\).*--from metric"
    ):
        other.prepare(ARRAYS, says="eleven rows")
    assert finished.missing() == []
    assert finished.check() == []


def test_a_stage_interrupted_while_it_was_made_starts_afresh(finished, place):
    (place / "stages/metric/stage.json").unlink()
    again = stage_at(place, fingerprint="g").prepare({"plain": ((10, 5), "float32", ROWS)}, says="other arrays")
    assert again.missing() == [0, 1, 2]
    assert again.array("plain").shape == (10, 5)
    assert not (place / "stages/metric/deep").exists()


@pytest.mark.parametrize("where", ["client", "worker"])
def test_a_stage_that_is_made_anew_with_other_chunks_is_written_in_these(place, where):
    X = np.arange(1.0, 17.0).reshape(8, 2)
    with lock.held(str(place), "a run"):
        earlier = Blocks(str(place), "metric", "f", 2).prepare({"plain": (X.shape, "float64", 4)}, says=SAYS)
        earlier.write(0, {"plain": (0, X[:4])}, {})
        known = cache.find(earlier._key)
    shutil.rmtree(place)
    with lock.held(str(place), "a run"):
        again = Blocks(str(place), "metric", "f", 4).prepare({"plain": (X.shape, "float64", 2)}, says=SAYS)
        if where == "worker":
            cache.put(again._key, known)  # it has only seen the earlier one
        for block in range(4):
            again.write(block, {"plain": (2 * block, X[2 * block : 2 * block + 2])}, {})
    cache.clear()  # as another process, which reads
    assert again.check(whole=True) == []
    np.testing.assert_array_equal(again.read_all("plain"), X)


def test_a_stage_whose_removal_was_interrupted_starts_afresh(finished, place, monkeypatch):
    def interrupted(folder, **_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            files_at(str(place)).remove("stages/metric")
    again = stage_at(place).prepare(ARRAYS, says=SAYS)
    assert again.missing() == [0, 1, 2]


def test_what_a_kill_leaves_behind_does_no_harm(finished, place):
    # Files that were being written: beside their places, under names of their own.
    (place / "stages/metric/done/.00001.json.1234").write_bytes(b"{")
    target = chunk(place, "plain", 1)
    target.with_name(f"{target.name}.1234.partial").write_bytes(b"123")
    again = stage_at(place).prepare(ARRAYS, says=SAYS)
    assert again.missing() == []
    assert again.check() == []


def test_a_stage_travels_to_a_worker_without_its_open_files(finished):
    finished.read("plain", 0)
    assert len(pickle.dumps(finished)) < 500
    there = pickle.loads(pickle.dumps(finished))
    assert there == finished
    np.testing.assert_array_equal(there.read("plain", 2), parts_of(2)["plain"][1])
    there.write(2, parts_of(2), {})


def test_a_place_under_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be"):
        stage_at(tmp_path / "file/run.zarr").prepare(ARRAYS, says=SAYS)


@contextlib.contextmanager
def mounted(folder, *options):
    """A small file system of its own."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def only_root():
    if os.geteuid():
        pytest.skip("only root may mount")


@pytest.mark.faults
def test_a_full_disk_is_an_error_that_names_the_block_and_finished_blocks_are_kept(tmp_path):
    only_root()
    with mounted(tmp_path / "small", "-o", "size=200k"):
        place = tmp_path / "small/run.zarr"
        stage = stage_at(place).prepare({"plain": ((12000, 2), "float64", 4000)}, says=SAYS)
        X = np.random.default_rng(0).uniform(1, 2, (4000, 2))  # 64 kB: a fourth of the disk, and it holds two
        fill = lambda: [stage.write(block, {"plain": (4000 * block, X)}, {}) for block in range(BLOCKS)]  # noqa: E731
        with pytest.raises(StorageError, match=r"block \d of 'plain' in stage 'metric' of .* No space left on device"):
            fill()
        done = [block for block in range(BLOCKS) if block not in stage.missing()]
        assert done
        assert stage.check() == []
        np.testing.assert_array_equal(stage.read("plain", done[-1]), X)


@pytest.mark.faults
def test_a_store_that_may_only_be_read_can_be_read_and_not_written(tmp_path):
    only_root()
    with mounted(tmp_path / "store"):
        place = tmp_path / "store/run.zarr"
        stage = stage_at(place).prepare(ARRAYS, says=SAYS)
        stage.write(0, parts_of(0), {})
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "store")], check=True)
        again = stage_at(place).prepare(ARRAYS, says=SAYS)
        np.testing.assert_array_equal(again.read("plain", 0), parts_of(0)["plain"][1])
        with pytest.raises(StorageError, match=r"block 1 of 'plain' in stage 'metric' of .* Read-only file system"):
            again.write(1, parts_of(1), {})
        with pytest.raises(StorageError, match=r"00001\.json cannot be written: Read-only file system"):
            again.write(1, {}, {})
        with pytest.raises(StorageError, match="Read-only file system"):
            stage_at(place, name="kernel").prepare(ARRAYS, says=SAYS)
        assert again.missing() == [1, 2]


@pytest.mark.parametrize("kind", ["folder", "file://", "memory://"])
def test_small_files_are_whole_by_name_wherever_they_are(kind, tmp_path):
    address = {
        "folder": f"{tmp_path}/run",
        "file://": f"file://{tmp_path}/run",
        "memory://": f"memory://{tmp_path}/run",
    }
    assert is_remote(address[kind]) == (kind == "memory://")
    files = files_at(address[kind])
    assert files.get("stages/a/stage.json") is None
    assert files.names("stages/a") == []
    files.put("stages/a/done/00001.json", b"one")
    files.put("stages/a/done/00000.json", b"zero")
    files.put("stages/a/done/00001.json", b"one again")
    assert files.get("stages/a/done/00001.json") == b"one again"
    assert files.names("stages/a/done") == ["00000.json", "00001.json"]
    files.remove("stages/a")
    files.remove("stages/a")
    assert files.names("stages/a/done") == []
    assert files.get("stages/a/done/00000.json") is None


def test_an_address_without_its_package_says_what_to_install(monkeypatch):
    import fsspec

    def lacking(address, **_):
        raise ImportError("no s3fs")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lacking)
    with pytest.raises(StorageError, match=r"s3://bucket/run needs a package.*dlcca\[s3\]"):
        files_at("s3://bucket/run")


def test_the_record_of_a_block_is_plain_json(finished, place):
    record = json.loads((place / "stages/metric/done/00002.json").read_text())
    assert record["facts"]["rows"] == 2
    assert record["parts"]["plain"]["first"] == 8
    assert record["parts"]["plain"]["rows"] == 2
