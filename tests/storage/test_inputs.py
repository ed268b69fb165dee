"""Zarr arrays of Python objects: refused everywhere, before anything in them is decoded."""

import json
import os
import pickle
import shutil

import numcodecs
import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, open_model, simulate
from dlcca.cli import app
from dlcca.errors import DataError, ModelFileError
from dlcca.storage.inputs import refuse_objects

DELTA = {"id": "delta", "dtype": "<f8", "astype": "<f8"}
PICKLE = {"id": "pickle", "protocol": 5}
#: Filters, dtype and compressor of an array of Zarr 2, and what the refusal names.
CASES = {
    "a filter": ([PICKLE], "<f8", None, "'pickle'"),
    "a second filter": ([DELTA, PICKLE], "<f8", None, "'pickle'"),
    "a compressor": (None, "<f8", PICKLE, "'pickle'"),
    "behind texts": ([{"id": "vlen-utf8"}, PICKLE], "|O", None, "'pickle'"),
    "of objects": ([PICKLE], "|O", None, "'pickle'"),
    "no codec": (None, "|O", None, r"'O' \(object\)"),
    "json": ([{"id": "json2"}], "|O", None, "'json2'"),
    "msgpack": ([{"id": "msgpack2"}], "|O", None, "'msgpack2'"),
    "arrays": ([{"id": "vlen-array", "dtype": "<f8"}], "|O", None, "'vlen-array'"),
}


class Touch:
    """An object that leaves a file behind when its pickle is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def written(path, filters, dtype, compressor, touched):
    path.mkdir(parents=True)
    metadata = {"zarr_format": 2, "shape": [300, 2], "chunks": [300, 2], "dtype": dtype, "order": "C"}
    metadata |= {"fill_value": 0, "filters": filters, "compressor": compressor}
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / "0.0").write_bytes(pickle.dumps(Touch(str(touched))))
    return path


@pytest.fixture(autouse=True)
def pickles_are_decoded(monkeypatch):
    """As a user may have told numcodecs: nothing but our own refusal is in the way."""
    if hasattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE"):
        monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True)


@pytest.mark.parametrize("case", CASES)
def test_an_array_of_objects_is_refused_by_every_verb_that_reads_one(case, tmp_path):
    *stored, named = CASES[case]
    written(tmp_path / "x.zarr", *stored, tmp_path / "touched")
    written(tmp_path / "group.zarr" / "x", *stored, tmp_path / "touched")
    (tmp_path / "group.zarr" / ".zgroup").write_text('{"zarr_format": 2}')
    views = "".join(f"[views.{name}]\nsource = 'x.zarr'\n" for name in "ab")
    (tmp_path / "run.toml").write_text(f"[store]\npath = 'run.zarr'\n{views}")
    out = ["--out", str(tmp_path / "out.zarr")]
    commands = [["plan", str(tmp_path / "run.toml")], ["run", str(tmp_path / "run.toml")]]
    commands += [["ingest", str(tmp_path / name), *out] for name in ("x.zarr", "group.zarr")]
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 3, done.output
        assert named.replace("\\", "") in done.stderr, command
        assert "is not decoded" in done.stderr
    assert not (tmp_path / "touched").exists()


def test_an_array_that_zarr_opens_is_refused_in_python(tmp_path):
    array = zarr.open_array(str(written(tmp_path / "x.zarr", *CASES["behind texts"][:3], tmp_path / "touched")))
    with pytest.raises(DataError):
        LocalCCA().fit([array, array])
    with pytest.raises(DataError, match="codec 'pickle'"):
        refuse_objects(array.metadata.to_dict(), "x")
    assert not (tmp_path / "touched").exists()


def test_a_model_with_an_array_of_objects_is_refused(tmp_path):
    views, _truth = simulate.pendulums(400, random_state=0)
    path = tmp_path / "model.zarr"
    LocalCCA().fit(views).save(path)
    shutil.rmtree(path / "factors_0")
    written(path / "factors_0", *CASES["a filter"][:3], tmp_path / "touched")
    with pytest.raises(ModelFileError, match="factors_0"):
        open_model(path)
    assert not (tmp_path / "touched").exists()


def test_codecs_within_shards_are_looked_at_and_numbers_and_texts_pass():
    inner = {"name": "numcodecs.pickle", "configuration": {}}
    with pytest.raises(DataError, match="codec 'pickle'"):
        refuse_objects({"codecs": [{"name": "sharding_indexed", "configuration": {"codecs": [inner]}}]}, "x")
    for array in (
        zarr.create_array({}, shape=(8, 2), shards=(4, 2), chunks=(2, 2), dtype="f8"),
        zarr.create_array({}, data=np.arange(6.0), zarr_format=2),
    ):
        refuse_objects(array.metadata.to_dict(), "x")
    refuse_objects({"dtype": "|O", "filters": [{"id": "vlen-utf8"}]}, "x")
