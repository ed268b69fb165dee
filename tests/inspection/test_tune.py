"""`dlcca.tune` chooses options without a truth, from wherever it begins, and writes them into a run file."""

import json
import tomllib

import matplotlib
import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import dlcca
from dlcca import LocalCCA, simulate
from dlcca.cli import app
from dlcca.errors import DataError, SettingsError
from dlcca.fitting import runner
from dlcca.inspection.tuning import descent, margin_of, with_options
from dlcca.inspection.tuning_trials import found_twice
from dlcca.settings import runfile
from dlcca.storage import run as run_store
from dlcca.trust.scores import agreement, held_out_neighbors, min_view_r2
from tests.reference import agreement as literal
from tests.support.scores import recovery

POOR = {"n_neighbors": 10, "ridge": 1.0, "bandwidth": "median", "n_links": 4, "fusion": "view"}
RUN = """# a run
[store]
path = "run.zarr"
[views.a]
source = "a.zarr"
[views.b]
source = "b.zarr"
[neighborhoods]
kind = "knn"
n_neighbors = 10  # far too few
[kernel]
fusion = 'view'
"""


@pytest.fixture(scope="module")
def torus():
    return simulate.torus(800, noise=0.02, random_state=3)


@pytest.fixture(scope="module")
def tuned(torus):
    return dlcca.tune(torus[0], start={"neighborhoods": "knn", "n_components": 2, **POOR})


def test_what_is_common_is_found_from_poor_values(torus, tuned):
    views, truth = torus
    found = LocalCCA(**tuned.options, random_state=0).fit(views).embedding_
    assert recovery(found, truth.z) > 0.98
    assert max(recovery(found, private) for private in truth.nuisance) < 0.05


def test_the_curves_hold_every_option_with_where_it_began_and_the_default(tuned):
    assert set(tuned.curves) == {"n_neighbors", "ridge", "bandwidth", "n_links", "fusion"}
    assert all(POOR[name] in curve.candidates for name, curve in tuned.curves.items())
    assert {64, 10} <= set(tuned.curves["n_neighbors"].candidates)
    fusion = tuned.curves["fusion"]
    assert fusion.chosen == "alternating"
    assert max(fusion.criterion) == fusion.criterion[fusion.candidates.index("alternating")]


def test_neighbors_are_searched_among_rows_that_match_the_kernel():
    views, _truth = simulate.torus(3000, random_state=0)
    options = dlcca.tune(views, start={"neighborhoods": "knn", "landmarks": 600}).options
    k, links = options["n_neighbors"], options["n_links"]
    assert options["neighbor_rows"] == max(1000, -(-k * 600 // links))
    given = dlcca.tune(views, start={"neighborhoods": "knn", "landmarks": 600, "neighbor_rows": "all"}).options
    assert given["neighbor_rows"] == "all"


def test_options_that_are_not_tuned_are_kept(torus):
    views = [X[:300] for X in torus[0]]
    start = LocalCCA(3, neighborhoods="knn", landmarks=200, rank=2)
    options = dlcca.tune(views, start=start).options
    assert (options["n_components"], options["landmarks"], options["rank"]) == (3, 200, 2)
    assert options["neighborhoods"] == "knn"


def test_it_is_told_in_sentences_and_drawn(tuned):
    said = str(tuned)
    assert "tried on 800 of 800 rows" in said
    assert "fusion = 'alternating'" in said
    assert said.count("<- chosen") == len(tuned.curves)
    matplotlib.use("Agg")
    assert tuned.plot("ridge").get_xlabel() == "ridge"
    assert tuned.settings.neighborhoods.kind == "knn"
    assert tuned.cost > 0


def test_the_same_seed_chooses_the_same(torus):
    views = [X[:200] for X in torus[0]]
    one, two = (dlcca.tune(views, start={"neighborhoods": "knn"}, random_state=4).curves for _ in range(2))
    assert one == two


def test_a_ridge_that_leaves_no_room_for_chance_is_left_in_windows_of_time():
    views, _ = simulate.pendulums(200, n_projections=20, noise=0.02, random_state=1)
    tuned = dlcca.tune(views, start={"window": 150, "ridge": 1e-9})
    ridge = tuned.curves["ridge"]
    assert ridge.criterion[ridge.candidates.index(1e-9)] == 0
    assert tuned.options["ridge"] >= 0.03
    assert tuned.options["window"] < 100


def test_a_default_is_left_only_for_what_is_clearly_better():
    worth = {10: 0.50, 20: 0.51, 30: 0.60}
    near = descent({"k": (10, 20)}, lambda options: worth[options["k"]], {"k": 0.02})
    far = descent({"k": (10, 20, 30)}, lambda options: worth[options["k"]], {"k": 0.02})
    assert (near["k"].chosen, far["k"].chosen) == (10, 30)
    assert near["k"].criterion == (0.50, 0.51)
    assert margin_of(0.02, 500) == 2 * margin_of(0.02, 2000) == 2 * margin_of(0.02, 10**6)


def test_a_coordinate_of_a_few_rows_counts_for_nothing():
    E = np.random.default_rng(0).standard_normal((400, 2))
    E[:, 1] = 0
    E[7, 1] = 20
    np.testing.assert_allclose(found_twice([E, E]), [1, 0], atol=1e-9)


def test_rows_of_arrays_on_disk_are_read_in_stretches(tmp_path, torus, monkeypatch):
    monkeypatch.setattr("dlcca.inspection.tuning.MOST_ROWS", 400)
    views = [zarr.create_array(tmp_path / f"{v}.zarr", data=X) for v, X in enumerate(torus[0])]
    tuned = dlcca.tune(views, start={"neighborhoods": "knn", "fusion": "view"})
    assert (tuned.rows, tuned.of_rows) == (400, 800)
    assert tuned.options["fusion"] == "alternating"


def test_what_cannot_be_tuned_is_refused(torus):
    with pytest.raises(DataError, match="two views"):
        dlcca.tune(torus[0][:1])
    with pytest.raises(DataError, match="cannot be halved"):
        dlcca.tune([X[:20] for X in torus[0]])
    with pytest.raises(SettingsError, match="row numbers"):
        dlcca.tune(torus[0], start={"neighborhoods": np.zeros((800, 8), int)})


def test_the_command_writes_a_run_file_and_leaves_the_rest_of_it(tmp_path, torus):
    for name, X in zip("ab", torus[0], strict=True):
        zarr.create_array(tmp_path / f"{name}.zarr", data=X)
    (tmp_path / "run.toml").write_text(RUN)
    result = CliRunner().invoke(app, ["tune", str(tmp_path / "run.toml"), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    text = (tmp_path / "tuned.toml").read_text()
    content = tomllib.loads(text)
    assert document["options"]["fusion"] == content["kernel"]["fusion"] == "alternating"
    assert document["options"]["n_neighbors"] == content["neighborhoods"]["n_neighbors"]
    assert content["metric"]["ridge"] == document["options"]["ridge"]
    assert text.startswith("# a run\n")
    assert "# far too few" in text
    assert content["views"] == tomllib.loads(RUN)["views"]


def test_the_command_refuses_a_folder_in_which_paths_would_mean_others(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    result = CliRunner().invoke(app, ["tune", str(tmp_path / "run.toml"), "--out", str(tmp_path / "x" / "t.toml")])
    assert result.exit_code == 2
    assert "relative" in result.output


def test_a_section_that_is_one_line_is_left_to_the_user():
    with pytest.raises(SettingsError, match="line by line"):
        with_options('kernel = {fusion = "view"}\n', {"fusion": "auto"})


def test_lines_are_changed_where_they_are_and_added_where_not():
    text = '[kernel]\n  n_links=4 # few\nbandwidth = "a # b"\n[cluster]\nworkers = 2'
    made = with_options(text, {"n_links": 32, "bandwidth": "quantile", "fusion": "auto", "ridge": 0.03})
    assert made == (
        '[kernel]\nfusion = "auto"\nn_links = 32 # few\nbandwidth = "quantile"\n[cluster]\nworkers = 2\n\n'
        "[metric]\nridge = 0.03\n"
    )


def test_the_criteria_are_those_of_the_formulas():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 2))
    B = A @ rng.standard_normal((2, 2)) + 0.5 * rng.standard_normal((60, 2))
    fold = np.arange(60) % 3
    views = [A @ rng.standard_normal((2, 3)), B]
    near = [held_out_neighbors(X, fold, 4) for X in views]
    assert [sorted(row) for row in near[0]] == literal.held_out_neighbors(views[0], fold, 4)
    np.testing.assert_allclose(agreement(A, B), literal.agreement(A, B), atol=1e-10)
    np.testing.assert_allclose(min_view_r2(A, near), literal.min_view_r2(A, near), atol=1e-10)


def test_the_tuned_run_has_a_store_of_its_own(tmp_path, torus):
    for name, X in zip("ab", torus[0], strict=True):
        zarr.create_array(tmp_path / f"{name}.zarr", data=X[:150])
    (tmp_path / "run.toml").write_text(RUN)
    for expected in ("run-tuned.zarr", "run-tuned-2.zarr"):  # the second time, the first store is there
        result = CliRunner().invoke(app, ["tune", str(tmp_path / "run.toml"), "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["store"] == expected
        for file in ("run.toml", "tuned.toml"):
            asked = runfile.read(tmp_path / file)
            runner.run(*runner.prepared(asked.store, asked.views, asked.settings, asked.seed))
        assert run_store.is_finished(tmp_path / expected)


@pytest.mark.parametrize("name", ["run.toml", "other.toml", "a.zarr"])
def test_the_command_replaces_no_file_but_one_that_it_wrote(tmp_path, name):
    (tmp_path / "run.toml").write_text(RUN)
    (tmp_path / "other.toml").write_text(RUN)
    (tmp_path / "a.zarr").write_text("mine")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    result = CliRunner().invoke(app, ["tune", str(tmp_path / "run.toml"), "--out", str(tmp_path / name)])
    assert result.exit_code in (2, 4)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
