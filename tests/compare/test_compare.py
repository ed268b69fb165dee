"""`dlcca compare`: the baselines on the views of a finished run, beside a control, kept in the run."""

import json

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import simulate
from dlcca.cli import app
from dlcca.compare import Truth, compare, read_truth
from dlcca.errors import StoreFileError
from dlcca.fitting import runner
from dlcca.recordings import ingest
from dlcca.settings.runfile import read
from dlcca.storage import comparison
from dlcca.storage import run as run_store

KNN = """
[store]
path = "run.zarr"
[views.left]
source = "left.zarr"
[views.right]
source = "right.zarr"
[neighborhoods]
kind = "knn"
n_neighbors = 32
"""
METHODS = [
    "local CCA",
    "diffusion maps of left",
    "diffusion maps of right",
    "diffusion maps of all views",
    "kernel CCA",
    "alternating diffusion",
    "linear CCA",
]


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def done(folder, text=KNN):
    """A finished run of what a run file says, without a cluster."""
    (folder / "run.toml").write_text(text)
    asked = read(folder / "run.toml")
    clock = asked.ingested if asked.recordings else ""
    if asked.recordings:
        ingest.run(*ingest.prepared(asked.ingested, asked.recordings))
    runner.run(*runner.prepared(asked.store, asked.views, asked.settings, asked.seed, clock))
    return folder / "run.toml"


@pytest.fixture(scope="module")
def torus(tmp_path_factory):
    """A run on two tori that share an angle, and what is known of them."""
    folder = tmp_path_factory.mktemp("torus")
    views, truth = simulate.torus(600, random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        zarr.create_array(folder / f"{name}.zarr", data=X)
    z = np.arctan2(truth.z[:, 1], truth.z[:, 0]) if np.ndim(truth.z) == 2 and truth.z.shape[1] == 2 else truth.z.ravel()
    np.savez(folder / "truth.npz", z=z, side=np.where(np.sin(z) > 0, "up", "down"))
    done(folder)
    return folder


@pytest.fixture(scope="module")
def made(torus):
    result = dlcca(
        "compare", torus / "run.toml", "--out", torus / "out", "--truth", f"{torus}/truth.npz:z", "--circular"
    )
    assert result.exit_code == 0, result.output
    return result, json.loads((torus / "out" / "compare.json").read_text())


def test_every_method_has_a_line_and_ours_comes_first(made):
    result, document = made
    assert [entry["method"] for entry in document["methods"]] == METHODS
    for name in METHODS:
        assert name in result.stdout
    assert (document["rows"], document["of_rows"], document["folds"]) == (600, 600, "blocked")


def test_what_is_common_is_told_and_seen_by_every_view_until_they_are_shifted(made):
    ours = made[1]["methods"][0]
    assert ours["score"] > 0.95
    assert ours["control"] < 0.6
    assert ours["min_view_r2"] > 0.9
    # Coordinates are means over the views of a function of each, so each view sees half even of what is not common.
    assert ours["min_view_r2_control"] < 0.6
    assert ours["gain"] == pytest.approx(ours["min_view_r2"] - ours["min_view_r2_control"])
    assert ours["shared_bits"] > 2 > ours["shared_bits_control"]


def test_what_one_view_alone_sees_is_not_called_common(made):
    alone = made[1]["methods"][1]
    assert alone["min_view_r2"] < 0.2
    assert alone["r2_to_local_cca"] < 0.6
    assert made[1]["methods"][0]["score"] > alone["score"] + 0.3


def test_the_comparison_is_kept_in_the_run_and_shown_by_its_report(made, torus):
    run = run_store.read(torus / "run.zarr")
    kept = comparison.of_run(torus / "run.zarr", run.fingerprint)
    assert kept is not None
    assert [entry["method"] for entry in kept.table] == METHODS
    np.testing.assert_array_equal(kept.coordinates[0], run.embedding)
    assert dlcca("report", torus / "run.zarr", "--out", torus / "report.html").exit_code == 0
    for page in ("report.html", "out/compare.html"):
        text = (torus / page).read_text(encoding="utf-8")
        assert "Beside other methods" in text
        assert "alternating diffusion" in text
    assert dlcca("verify", torus / "run.zarr").exit_code == 0
    assert run_store.damages(torus / "run.zarr")["compare"] is None


def test_a_comparison_with_an_earlier_run_is_not_shown_with_this_one(made, torus):
    assert comparison.of_run(torus / "run.zarr", "another fingerprint") is None


def test_labels_and_json(torus):
    result = dlcca("compare", torus / "run.toml", "--out", torus / "labels", "--rows", 200, "--json",
                   "--truth", f"{torus}/truth.npz:side", "--labels")  # fmt: skip
    document = json.loads(result.stdout)
    assert document["score"] == "balanced accuracy"
    assert (document["rows"], document["of_rows"]) == (200, 600)
    assert document["methods"][0]["score"] > 0.9


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--rows", "10"], 2, "at least 50"),
        (["--rows", "20000"], 2, "10000 rows at most"),
        (["--circular"], 2, "--truth"),
        (["--truth", "{}/truth.npz:z", "--circular", "--labels"], 2, "not both"),
        (["--folds", "blokced"], 2, "did you mean 'blocked'"),
        (["--truth", "{}/short.npy"], 3, "has 10 values; the run has 600 rows"),
        (["--truth", "{}/unknown.npy"], 3, "known in 0 of the compared rows"),
        (["--truth", "{}/constant.npy"], 3, "has one value"),
    ],
)
def test_what_cannot_be_compared_is_told(torus, arguments, code, words):
    np.save(torus / "short.npy", np.zeros(10))
    np.save(torus / "unknown.npy", np.full(600, np.nan))
    np.save(torus / "constant.npy", np.ones(600))
    said = [argument.format(torus) for argument in arguments]
    result = dlcca("compare", torus / "run.toml", "--out", torus / "never", *said)
    assert result.exit_code == code, result.output
    assert words in result.stderr


def test_a_run_that_is_not_done_or_was_done_otherwise_is_refused(torus):
    (torus / "new.toml").write_text(KNN.replace("run.zarr", "new.zarr"))
    result = dlcca("compare", torus / "new.toml", "--out", torus / "never")
    assert result.exit_code == 3
    assert "there is no finished run" in result.stderr
    (torus / "other.toml").write_text(KNN.replace("32", "40"))
    result = dlcca("compare", torus / "other.toml", "--out", torus / "never")
    assert result.exit_code == 2
    assert "other settings" in result.stderr


def test_a_file_that_is_not_ours_is_not_replaced(torus, tmp_path):
    (tmp_path / "compare.html").write_text("mine")
    assert dlcca("compare", torus / "run.toml", "--out", tmp_path).exit_code == 4
    assert (tmp_path / "compare.html").read_text() == "mine"


def test_a_damaged_comparison_is_found(tmp_path):
    made = comparison.Comparison("f", np.arange(5), [{"method": "a"}, {"method": "b"}], [np.ones((5, 2)), None])
    zarr.create_group(tmp_path / "run.zarr")
    comparison.write(tmp_path / "run.zarr", made)
    kept = comparison.read(tmp_path / "run.zarr")
    assert kept.coordinates[1] is None
    np.testing.assert_array_equal(kept.coordinates[0], np.ones((5, 2)))
    (tmp_path / "run.zarr" / "compare" / "coordinates" / "0" / "c" / "0" / "0").unlink()
    assert "damaged" in str(comparison.damages(tmp_path / "run.zarr")["compare"])
    with pytest.raises(StoreFileError, match="coordinates/0"):
        comparison.read(tmp_path / "run.zarr")


RECORDED = """
[store]
path = "run.zarr"
[views.left]
source = "left.npy"
window_s = 0.2
reader = { rate = 50.0 }
[views.right]
source = "right.npy"
reader = { rate = 50.0 }
[neighborhoods]
window = 6
"""


def test_recordings_with_gaps_are_compared_where_they_are_valid(tmp_path):
    t = np.arange(4000) / 50
    rng = np.random.default_rng(0)
    common = np.sin(2 * np.pi * 0.31 * t + np.sin(0.4 * t))
    X = np.stack([common, np.cos(t), common**2], axis=1) + 0.02 * rng.standard_normal((4000, 3))
    Y = np.stack([common**3, np.sin(1.7 * t)], axis=1) + 0.02 * rng.standard_normal((4000, 2))
    X[1500:1530] = np.nan
    np.save(tmp_path / "left.npy", X)
    np.save(tmp_path / "right.npy", Y)
    np.save(tmp_path / "truth.npy", common[::10])
    asked = read(done(tmp_path, RECORDED))
    made = compare(asked, rows=200, truth=read_truth(f"{tmp_path}/truth.npy", "value"))
    reason = run_store.read(tmp_path / "run.zarr").reason
    assert len(made.rows) <= 200
    assert (reason[made.rows] == 0).all()
    ours = made.table[0]
    assert ours["score"] > 0.8
    assert ours["note"] == ""
    assert ours["control"] is not None


def test_sorted_rows_are_held_out_and_shuffled_at_random(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 40)
    corners = 2 * rng.standard_normal((2, 6, 4))
    for name, points in zip(("left", "right"), corners, strict=True):
        zarr.create_array(tmp_path / f"{name}.zarr", data=points[labels] + 0.5 * rng.standard_normal((240, 4)))
    asked = read(done(tmp_path))
    made = compare(asked, truth=Truth(labels, "label", "corner"))
    assert (made.facts["folds"], made.facts["control"]) == ("random", "shuffled")
    ours = made.table[0]
    assert ours["score"] > 0.6
    # A shift would pair each label with always the same other, and hide nothing.
    assert ours["control"] < ours["score"]
    assert ours["min_view_r2"] > ours["min_view_r2_control"]


def test_one_view_is_compared_with_its_diffusion_map_and_has_no_control(tmp_path):
    views, _ = simulate.torus(200, random_state=0)
    zarr.create_array(tmp_path / "left.zarr", data=views[0])
    text = KNN.replace('[views.right]\nsource = "right.zarr"\n', "")
    made = compare(read(done(tmp_path, text)))
    assert [entry["method"] for entry in made.table] == METHODS[:2]
    assert all(entry["min_view_r2"] is None and entry["control"] is None for entry in made.table)
    assert "one view" in made.table[0]["note"]


def test_a_method_that_cannot_do_with_the_views_does_not_spoil_the_others(tmp_path):
    views, _ = simulate.torus(200, random_state=0)
    zarr.create_array(tmp_path / "left.zarr", data=views[0])
    zarr.create_array(tmp_path / "right.zarr", data=views[1][:, :1])
    made = compare(read(done(tmp_path, KNN)))
    linear = next(entry for entry in made.table if entry["method"] == "linear CCA")
    assert linear["note"].startswith("1 coordinates")
    assert linear["min_view_r2"] is not None
