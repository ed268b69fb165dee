"""A finished run comes back as it was written, or not at all."""

import json
import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import zarr

from dlcca.errors import DataError, StorageError, StoreFileError
from dlcca.storage import places
from dlcca.storage import run as run_store
from dlcca.storage.run import ARRAYS, Run, fingerprint
from tests.support.runs import made_up


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "run.zarr"
    run_store.write(path, made_up())
    return path


def chunk(path: Path, name: str = "embedding") -> Path:
    """The first chunk of an array."""
    return next(file for file in sorted((path / name / "c").rglob("*")) if file.is_file())


def same(one: Run, other: Run) -> bool:
    pairs = [(getattr(one, f.name), getattr(other, f.name)) for f in fields(Run)]
    return all(x.dtype == y.dtype and np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in pairs)


def test_a_run_comes_back_as_it_was_written(path):
    run = run_store.read(path)
    assert same(run, made_up(created=run.created))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_are_kept(tmp_path, dtype):
    run_store.write(tmp_path / "run.zarr", made_up(embedding=np.ones((200, 3), dtype)))
    assert run_store.read(tmp_path / "run.zarr").embedding.dtype == dtype


def test_what_json_cannot_say_is_stored_as_nothing(tmp_path):
    quality = {"top_correlation": np.float32(np.nan), "pieces": np.int64(2)}
    run_store.write(tmp_path / "run.zarr", made_up(quality=quality))
    assert run_store.read(tmp_path / "run.zarr").quality == {"top_correlation": None, "pieces": 2}


def test_the_layout_is_the_one_that_others_rely_on(path):
    group = zarr.open_group(path, mode="r")
    assert group.metadata.zarr_format == 3
    assert {name: group[name].shape for name in ("embedding", "time", "eigenvalues", "landmarks")} == {
        "embedding": (200, 3),
        "time": (200,),
        "eigenvalues": (3,),
        "landmarks": (100,),
    }
    assert group["quality/correlations"].shape == (100, 4)
    assert group["quality"].attrs["n_common"] == 1
    assert {"settings", "choices", "fingerprint", "versions", "format", "version", "manifest"} <= set(group.attrs)
    assert set(group.attrs["manifest"]) == {*ARRAYS, "quality"}


@pytest.mark.parametrize("name", ARRAYS)
def test_every_codec_chain_ends_in_a_checksum(path, name):
    codecs = json.loads((path / name / "zarr.json").read_text())["codecs"]
    assert codecs[-1]["name"] == "crc32c"


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


DAMAGE = {"a flipped bit": flip, "a truncated chunk": cut, "an empty chunk": lambda f: f.write_bytes(b"")}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("damage", [*DAMAGE, "a missing chunk"])
def test_a_damaged_array_is_named_and_never_read(path, name, damage):
    DAMAGE.get(damage, Path.unlink)(chunk(path, name))
    with pytest.raises(StoreFileError, match=f"'{name}'"):
        run_store.read(path)
    found = run_store.damages(path)
    assert [entry for entry, complaint in found.items() if complaint] == [name]


def test_a_missing_array_is_named(path):
    for file in sorted((path / "landmarks").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    with pytest.raises(StoreFileError, match="'landmarks'"):
        run_store.read(path)


def edit(path: Path, change) -> None:
    header = json.loads((path / "zarr.json").read_text())
    change(header["attributes"])
    (path / "zarr.json").write_text(json.dumps(header))


def test_changed_settings_are_noticed(path):
    edit(path, lambda attributes: attributes["settings"]["metric"].update(ridge=0.5))
    for look in (run_store.read, run_store.describe, run_store.damages):
        with pytest.raises(StoreFileError, match="header"):
            look(path)


def test_changed_warnings_are_noticed(path):
    edit(path / "quality", lambda attributes: attributes.update(warnings=["none"]))
    with pytest.raises(StoreFileError, match="'quality'"):
        run_store.read(path)
    assert run_store.damages(path)["quality"] is not None


def test_another_version_is_refused_by_its_number(path):
    edit(path, lambda attributes: attributes.update(version=99))
    with pytest.raises(StoreFileError, match="version 99"):
        run_store.read(path)


def test_a_store_without_a_header_is_not_finished(path):
    edit(path, lambda attributes: attributes.clear())
    with pytest.raises(StoreFileError, match="not a dlcca run"):
        run_store.read(path)


def test_a_header_that_is_no_json_is_refused(path):
    (path / "zarr.json").write_text("{")
    with pytest.raises(StoreFileError, match="header"):
        run_store.read(path)


def test_nothing_there_is_said_so(tmp_path):
    with pytest.raises(StoreFileError, match="there is no run"):
        run_store.read(tmp_path / "nothing.zarr")


def test_a_run_replaces_an_earlier_one(path):
    run_store.write(path, made_up(n=50))
    assert len(run_store.read(path).embedding) == 50
    assert [entry.name for entry in path.parent.iterdir()] == ["run.zarr"]


@pytest.mark.parametrize("kind", ["folder", "file", "group", "model"])
def test_what_is_not_a_run_is_left_alone(tmp_path, kind):
    path = tmp_path / "run.zarr"
    if kind == "folder":
        path.mkdir()
        (path / "thesis.txt").write_text("the only copy")
    elif kind == "file":
        path.write_text("the only copy")
    else:
        zarr.create_group(path).attrs.update({"format": "dlcca-model"} if kind == "model" else {})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StorageError, match="not a dlcca run"):
        run_store.write(path, made_up())
    assert sorted(tmp_path.rglob("*")) == before


class Stopped(BaseException):
    """As Ctrl-C is, no Exception."""


def stop(*_, **__):
    raise Stopped


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("where", ["write_array", "seal"])
def test_a_write_that_is_stopped_leaves_nothing_or_the_earlier_run(tmp_path, monkeypatch, earlier, where):
    path = tmp_path / "run.zarr"
    if earlier:
        run_store.write(path, made_up())
    monkeypatch.setattr(run_store, where, stop)
    with pytest.raises(Stopped):
        run_store.write(path, made_up(n=50))
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.zarr"] * earlier
    assert not earlier or len(run_store.read(path).embedding) == 200


def test_a_write_stopped_between_the_two_moves_puts_the_earlier_run_back(path, monkeypatch):
    rename = os.rename

    def second_fails(source, target):
        if Path(source).name == "new":
            raise Stopped
        rename(source, target)

    monkeypatch.setattr(places.os, "rename", second_fails)
    with pytest.raises(Stopped):
        run_store.write(path, made_up(n=50))
    assert len(run_store.read(path).embedding) == 200
    assert [entry.name for entry in path.parent.iterdir()] == ["run.zarr"]


def test_a_disk_that_fails_is_a_storage_error(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_store, "seal", full)
    with pytest.raises(StorageError, match="No space left"):
        run_store.write(tmp_path / "run.zarr", made_up())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        run_store.write(tmp_path / "file" / "run.zarr", made_up())


def test_arrays_that_do_not_fit_together_are_refused():
    with pytest.raises(DataError, match="do not fit together"):
        made_up(eigenvalues=np.ones(7))


def test_headers_alone_tell_what_is_in_a_run(path):
    chunk(path).unlink()
    found = run_store.describe(path)
    assert found["shapes"]["embedding"] == [200, 3]
    assert found["n_common"] == 1
    assert found["bytes"] > 0


VIEWS = {"left": np.arange(6.0).reshape(3, 2), "right": np.ones((3, 1))}
SETTINGS = {"metric": {"ridge": 0.03}}


@pytest.mark.parametrize(
    ("views", "settings"),
    [
        ({**VIEWS, "left": VIEWS["left"] + 1e-12}, SETTINGS),
        ({**VIEWS, "left": VIEWS["left"].astype(np.float32)}, SETTINGS),
        ({**VIEWS, "left": VIEWS["left"].reshape(2, 3)}, SETTINGS),
        ({"Left": VIEWS["left"], "right": VIEWS["right"]}, SETTINGS),
        (dict(reversed(VIEWS.items())), SETTINGS),
        (VIEWS, {"metric": {"ridge": 0.04}}),
    ],
    ids=["values", "dtype", "shape", "name", "order", "settings"],
)
def test_the_fingerprint_tells_inputs_apart(views, settings):
    assert fingerprint(views, settings) != fingerprint(VIEWS, SETTINGS)


def test_the_fingerprint_does_not_depend_on_the_layout_in_memory():
    columns = {name: np.asfortranarray(X) for name, X in VIEWS.items()}
    assert fingerprint(columns, dict(SETTINGS)) == fingerprint(VIEWS, SETTINGS)
