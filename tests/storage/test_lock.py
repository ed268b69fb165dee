"""Who may write to a store: on a disk, and in object storage."""

import os
import subprocess
import sys
import threading
import time
import wave
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import StorageError, StoreInUse
from dlcca.storage import files, lock
from dlcca.storage import run as run_store
from dlcca.storage.files import files_at
from dlcca.storage.lock import Process, start_of, surroundings, this_process
from dlcca.storage.manifest import sealed
from tests.support.runs import made_up


@pytest.fixture(params=["disk", "s3"])
def store(request, tmp_path):
    """An address on a disk, and one in a bucket."""
    return str(tmp_path / "run.zarr") if request.param == "disk" else f"{request.getfixturevalue('bucket')}/run.zarr"


def leave(store, process, number=0):
    """A lock of some process."""
    content = {**vars(process), "doing": "dlcca run", "since": "2026-01-02T03:04:05+00:00", "token": "t"}
    assert files_at(store).create(lock.name_of(number), sealed(content))


@pytest.fixture
def other():
    """A process that does nothing."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def of(process):
    return Process(*surroundings(), process.pid, start_of(process.pid))


ELSEWHERE = Process("elsewhere", "another boot", "another space", 77, "1")


def test_a_store_is_held_to_the_end_of_the_block_and_then_given_free(store):
    with lock.held(store, "dlcca run") as held:
        found = lock.holder(store)
        assert found.process == this_process()
        assert (found.doing, found.is_dead) == ("dlcca run", False)
        assert held.owner == found
    assert lock.holder(store) is None
    with pytest.raises(KeyError), lock.held(store, "dlcca run"):
        raise KeyError
    assert lock.holder(store) is None


def test_nothing_is_left_of_a_store_that_was_only_locked(tmp_path):
    with lock.held(str(tmp_path / "run.zarr"), "dlcca run"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_whoever_holds_a_store_holds_what_is_in_it(store):
    with lock.held(store, "dlcca run") as outer:
        for place in (store, f"{store}/", f"{store}/recordings"):
            with lock.held(place, "an ingestion") as inner:
                assert inner is outer
        assert lock.holder(store) is not None


def test_another_thread_is_another_one(store):
    with lock.held(store, "dlcca run"), ThreadPoolExecutor(1) as pool:
        refused = pool.submit(lambda: lock.held(store, "dlcca run").__enter__()).exception()
    assert isinstance(refused, StoreInUse)


def test_one_that_is_alive_is_named_with_host_pid_start_and_age(store, other):
    leave(store, of(other))
    with pytest.raises(StoreInUse) as refused, lock.held(store, "dlcca run"):
        pass
    assert refused.value.exit_code == 4
    host = os.uname().nodename
    assert f"{store} is in use by dlcca run with pid {other.pid} on {host}, since 2026-01-0" in str(refused.value)
    assert "days ago; last heartbeat" in str(refused.value)
    about = lock.holder(store).facts()
    assert (about["host"], about["pid"], about["dead"]) == (host, other.pid, False)
    assert about["age_s"] > 86400


def test_one_that_is_gone_is_taken_over(store, other):
    leave(store, of(other), 7)
    other.kill()  # and nobody has asked how it ended: a zombie
    while start_of(other.pid) is not None:
        time.sleep(0.01)
    with lock.held(store, "dlcca run") as held:
        assert held.owner.number == 8
        assert lock.numbers(store) == [8]


def test_a_pid_that_is_used_again_is_another_process(store, other):
    leave(store, Process(*surroundings(), other.pid, "an earlier start"))
    with lock.held(store, "dlcca run") as held:
        assert held.owner.number == 1


def test_a_pid_that_is_counted_elsewhere_says_nothing(store):
    """In another container the pid of a live owner is not there, or somebody else's."""
    host, boot, _ = surroundings()
    leave(store, Process(host, boot, "pid:[another]", 999_999, "1"))
    with pytest.raises(StoreInUse), lock.held(store, "dlcca run"):
        pass


def test_one_on_another_machine_is_dead_after_a_while_without_a_sign_of_life(store, monkeypatch):
    leave(store, ELSEWHERE)
    with pytest.raises(StoreInUse, match="on elsewhere"), lock.held(store, "dlcca run"):
        pass
    monkeypatch.setattr(lock, "DEAD_S", -1.0)
    with lock.held(store, "dlcca run") as held:
        assert held.owner.number == 1


def test_age_is_by_the_clock_of_the_storage(tmp_path, monkeypatch):
    store = str(tmp_path / "run.zarr")
    leave(store, ELSEWHERE)
    monkeypatch.setattr(time, "time", lambda: 4e9)  # the clock of this machine is wrong by decades
    assert lock.holder(store).silent_s < 60
    an_hour_ago = os.stat(tmp_path / "run.zarr/stages/lock/00000.json").st_mtime - 3600
    os.utime(tmp_path / "run.zarr/stages/lock/00000.json", (an_hour_ago, an_hour_ago))
    assert 3600 <= lock.holder(store).silent_s < 3700
    assert [p.name for p in (tmp_path / "run.zarr/stages/lock").iterdir()] == ["00000.json"]


def test_signs_of_life_keep_a_lock_young(store, monkeypatch):
    monkeypatch.setattr(lock, "RENEW_S", 0.05)
    renewed = threading.Event()
    kind = type(files_at(store))
    renew = kind.renew

    def noticed(*arguments):
        renew(*arguments)
        renewed.set()

    monkeypatch.setattr(kind, "renew", noticed)
    with lock.held(store, "dlcca run") as held:
        if not store.startswith("s3"):
            os.utime(f"{store}/{held.owner.name}", (0, 0))
        renewed.clear()
        assert renewed.wait(60)
        assert held.owner.silent_s < 60
        held.confirm()


@pytest.mark.parametrize("how", ["thread", "asked"])
def test_one_that_was_taken_over_is_told_and_leaves_the_other_alone(store, other, monkeypatch, how):
    monkeypatch.setattr(lock, "RENEW_S", 0.05 if how == "thread" else -1.0 / 2)
    if how == "asked":
        monkeypatch.setattr(lock.Lock, "keep", lambda self: None)  # as of a thread that has not woken yet
    with lock.held(store, "dlcca run") as held:
        leave(store, of(other), held.owner.number + 1)
        end = time.monotonic() + 60
        while how == "thread" and held.lost is None and time.monotonic() < end:
            time.sleep(0.05)
        for ask in (held.confirm, lambda: lock.confirm(f"{store}/recordings")):
            with pytest.raises(
                StoreInUse, match=rf"was taken over by dlcca run with pid {other.pid} .*Was it suspended"
            ):
                ask()
    assert lock.holder(store).process.pid == other.pid


def test_whoever_holds_nothing_has_nothing_to_confirm(store):
    lock.confirm(store)
    assert lock.holder(store) is None


def test_of_many_that_create_one_file_one_does(store):
    contents = [f"{i}".encode() for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda content: files_at(store).create("stages/lock/00000.json", content), contents))
    assert sum(made) == 1


def test_a_storage_without_conditions_lets_the_last_one_win(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    class Careless(MemoryFileSystem):
        """Overwrites, whatever it is told."""

        protocol = "careless"
        store: ClassVar[dict] = {}
        pseudo_dirs: ClassVar[list] = [""]

        def pipe_file(self, path, value, mode="overwrite", **more):
            super().pipe_file(path, value, mode="overwrite", **more)

    fsspec.register_implementation("careless", Careless, clobber=True)
    monkeypatch.setattr(files, "SETTLE_S", 0.5)
    start = threading.Barrier(4)

    def create(i):
        start.wait()
        return files_at("careless://run.zarr").create("stages/lock/00000.json", f"{i}".encode())

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(create, range(4))) == 1


def test_a_run_is_not_replaced_while_another_process_writes_to_it(tmp_path, other):
    place = tmp_path / "run.zarr"
    run_store.write(place, made_up())
    leave(str(place), of(other))
    with pytest.raises(StoreInUse):
        run_store.write(place, made_up(n=50))
    assert len(run_store.read(place).embedding) == 200


RECORDINGS = """
[store]
path = "run.zarr"
[views.left]
source = "left.npy"
window_s = 0.2
reader = { rate = 50.0 }
"""


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("run", "run.toml"), "run.zarr"),
        (("ingest", "run.toml"), "run.zarr"),  # the views are in the run
        (("ingest", "sound.wav", "--out", "views.zarr"), "views.zarr"),
    ],
)
def test_every_verb_that_writes_is_refused_and_writes_nothing(tmp_path, monkeypatch, other, arguments, place):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "left.npy", np.random.default_rng(0).standard_normal((500, 2)))
    (tmp_path / "run.toml").write_text(RECORDINGS)
    with wave.open(str(tmp_path / "sound.wav"), "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(100)
        sound.writeframes(np.random.default_rng(0).integers(-9999, 9999, (1000, 2), dtype=np.int16).tobytes())
    leave(str(tmp_path / place), of(other))
    told = CliRunner().invoke(app, list(arguments))
    assert told.exit_code == 4, told.output
    assert f"with pid {other.pid}" in told.stderr
    files = [file.name for file in (tmp_path / place).rglob("*") if file.is_file()]
    assert files == ["00000.json"]


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be"), lock.held(str(tmp_path / "file/run.zarr"), "dlcca run"):
        pass
