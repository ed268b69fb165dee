"""A store of views as it is read: valid windows only, scaled as if written so, and never zeros for what is missing."""

import json
import shutil

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import DamagedBlock, DataError, StoreFileError
from dlcca.fitting.job import Source
from dlcca.recordings import ingest
from dlcca.storage.views import read_clock, recordings_of
from tests.recordings.fakes import ArraySignal, noise, open_fake, recipe, write
from tests.recordings.fakes import ingested as made_of


@pytest.fixture
def store(tmp_path):
    """Windows of three samples, some of them missing, in blocks of seven."""
    X = noise(300, 2) * [3.0, 50.0] + [10.0, -4.0]
    X[[31, 32, 100, 200]] = np.nan
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b"], 10.0))
    made_of(tmp_path / "v.zarr", x=recipe(file, window_s=0.3), block=7)
    return tmp_path / "v.zarr", X


def literal(place, X):
    """Every valid window by itself, every channel scaled."""
    group = zarr.open_group(str(place), mode="r")
    center, scale = group["scaling/x/center"][...], group["scaling/x/scale"][...]
    return np.array([((X[3 * t : 3 * t + 3] - center) / scale).ravel() for t in group["rows"][...]])


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_rows_are_the_valid_windows_scaled(store):
    place, X = store
    view = Source("x", f"{place}/views/x").open()
    assert (view.shape, view.ndim, view.dtype, len(view)) == ((97, 6), 2, np.float32, 97)
    np.testing.assert_allclose(view[...], literal(place, X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "rows", [slice(3, 40), slice(0, 0), slice(90, None), slice(None, None, 9), np.array([5, 2, 96, 5]), 12, -1]
)
def test_any_rows_can_be_asked_for(store, rows):
    view = Source("x", f"{store[0]}/views/x").open()
    np.testing.assert_array_equal(view[rows], view[...][rows])
    np.testing.assert_array_equal(view[rows, 1:3] if not isinstance(rows, int) else view[rows], _columns(view, rows))


def _columns(view, rows):
    return view[...][rows] if isinstance(rows, int) else view[...][rows][:, 1:3]


def test_a_source_gives_the_same_however_the_array_is_named(store):
    place, _ = store
    one, other = Source("x", f"{place}/views/x"), Source("x", str(place), "views/x")
    np.testing.assert_array_equal(one.read(slice(10, 50)), other.read(np.arange(10, 50)))


def test_a_chunk_that_is_missing_does_not_pass_for_zeros(store):
    place, _ = store
    (place / "views" / "x" / "c" / "5" / "0").unlink()
    source = Source("x", f"{place}/views/x")
    source.read(slice(0, 20))
    with pytest.raises(StoreFileError, match=r"windows 35 to 41 of .* are missing"):
        source.read(slice(0, 60))


def test_a_clock_whose_checksums_are_lost_is_not_read_unchecked(store):
    place, _ = store
    (place / "stages" / "clock" / "done" / "00000.json").unlink()
    for read in (read_clock, recordings_of):
        with pytest.raises(DamagedBlock, match="block 0 of stage 'clock'"):
            read(str(place))


def test_views_that_are_not_finished_are_not_read(store):
    place, _ = store
    group = zarr.open_group(str(place), mode="a")
    header = dict(group.attrs)
    group.attrs.put({})
    moved = place.with_name("moved.zarr")
    shutil.move(place, moved)
    with pytest.raises(DataError, match="not finished"):
        Source("x", f"{moved}/views/x").open()
    assert header["rows"] == 97


@pytest.mark.parametrize("features", ["raw", "covariance"])
def test_a_store_of_views_can_be_asked_how_it_is(tmp_path, features):
    file = write(tmp_path / "a.npz", ArraySignal(noise(300, 2), ["a", "b"], 10.0))
    made_of(tmp_path / "v.zarr", x=recipe(file, window_s=0.5, features=features), block=7)
    status = dlcca("status", tmp_path / "v.zarr", "--json")
    assert (status.exit_code, json.loads(status.stdout)["rows"]) == (0, 60)
    assert "60 of 60 windows" in dlcca("status", tmp_path / "v.zarr").stdout
    assert dlcca("verify", tmp_path / "v.zarr").exit_code == 0
    chunk = tmp_path / "v.zarr" / "views" / "x" / "c" / "3" / "0"
    content = bytearray(chunk.read_bytes())
    content[5] ^= 1
    chunk.write_bytes(content)
    damaged = dlcca("verify", tmp_path / "v.zarr", "--json")
    assert damaged.exit_code == StoreFileError.exit_code
    assert "block 3" in damaged.stderr


def test_an_ingestion_that_was_stopped_says_how_far_it_came(tmp_path):
    def killed(stage, done, blocks):
        if (stage, done) == ("drafts", 4):
            raise KeyboardInterrupt

    file = write(tmp_path / "a.npz", ArraySignal(noise(1000, 2), ["a", "b"], 10.0))
    with pytest.raises(KeyboardInterrupt):
        made_of(tmp_path / "v.zarr", x=recipe(file, window_s=1.0), block=10, on_progress=killed)
    (stage,) = ingest.progress(str(tmp_path / "v.zarr"))
    assert (stage.name, stage.done, stage.blocks) == ("drafts", 4, 10)
    assert "4 of 10 blocks" in dlcca("status", tmp_path / "v.zarr").stdout
    assert dlcca("verify", tmp_path / "v.zarr").exit_code == 0


def test_principal_components_of_an_earlier_store_are_used_for_new_recordings(tmp_path):
    mixing = np.random.default_rng(5).standard_normal((4, 4))
    X, Y = noise(500, 4) @ mixing, noise(400, 4, seed=1)
    first = write(tmp_path / "a.npz", ArraySignal(X, list("abcd"), 10.0))
    second = write(tmp_path / "b.npz", ArraySignal(Y, list("abcd"), 10.0))
    _, old = made_of(tmp_path / "a.zarr", x=recipe(first, window_s=0.1, pca_components=2))
    job, line = ingest.prepared(
        str(tmp_path / "b.zarr"),
        {"x": recipe(second, window_s=0.1, pca_components=2)},
        open_fake,
        scaling=recordings_of(str(tmp_path / "a.zarr")).scaling,
    )
    ingest.run(job, line)
    center, scale, mean, P = (old[f"scaling/x/{part}"][...] for part in ("center", "scale", "mean", "components"))
    found = Source("x", str(tmp_path / "b.zarr" / "views" / "x")).open()[...]
    np.testing.assert_allclose(found, ((Y - center) / scale - mean) @ P, rtol=1e-4, atol=1e-4)
    assert not (tmp_path / "b.zarr" / "stages" / "drafts" / "draft_0").exists()
