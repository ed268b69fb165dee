"""One view has nothing in common with another, and every output says so."""

import json
import re

import dask.array as da
import pandas as pd
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, open_model, simulate
from dlcca.cli import app
from dlcca.errors import Untrusted

KNN = {"neighborhoods": "knn", "landmarks": 60, "n_neighbors": 30, "random_state": 0}
SAYS = r"one view: nothing common can be tested; these are coordinates of this view alone \(Mahalanobis diffusion\)"


@pytest.fixture(scope="module")
def X():
    return simulate.torus(400, random_state=0)[0][0]


def said_nothing_common(model):
    assert model.n_common_ == 0
    assert model.settings_.metric.kind == "mahalanobis"
    assert model.quality_["top_correlation"] is None
    assert "one view: nothing common can be tested" in model.summary()
    assert "common dimension" not in model.summary()
    assert "correlation" not in model.summary()


@pytest.mark.parametrize(
    "given",
    [lambda X: [X], lambda X: X, pd.DataFrame, lambda X: {"only": X}, lambda X: [da.from_array(X, chunks=(150, -1))]],
    ids=["list", "array", "flat DataFrame", "dict", "Dask"],
)
def test_one_view_is_warned_of(given, X):
    with pytest.warns(Untrusted, match=SAYS):
        model = LocalCCA(**KNN).fit(given(X))
    said_nothing_common(model)
    assert not model.quality_["trusted"]
    assert any("metric" in reason and "mahalanobis" in reason for reason in model.warnings_)


@pytest.mark.parametrize("given", [lambda X: X, lambda X: [da.from_array(X, chunks=(150, -1))]], ids=["array", "Dask"])
def test_one_view_that_is_meant_to_be_one_is_noted(given, X, tmp_path):
    model = LocalCCA(**KNN, metric="mahalanobis").fit(given(X))
    said_nothing_common(model)
    assert model.quality_["trusted"]
    assert not model.warnings_
    assert any("nothing common can be tested" in note for note in model.notes_)
    model.save(tmp_path / "model.zarr")
    opened = open_model(tmp_path / "model.zarr")
    assert opened.summary() == model.summary()


RUN = """
[store]
path = "run.zarr"
[views.only]
source = "only.zarr"
[neighborhoods]
kind = "knn"
n_neighbors = 30
"""


def called(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.mark.parametrize("meant", [False, True], ids=["auto", "mahalanobis"])
def test_a_run_of_one_view_says_so_everywhere(meant, X, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    zarr.create_array(tmp_path / "only.zarr", data=X)
    (tmp_path / "run.toml").write_text(RUN + ('[metric]\nkind = "mahalanobis"\n' if meant else ""))
    made = called("run", "run.toml")
    assert made.exit_code == (0 if meant else 5)
    assert "nothing common can be tested" in made.output
    assert "share" not in made.output
    facts = json.loads(called("run", "run.toml", "--json").stdout)
    assert facts["n_common"] == 0
    assert facts["quality"]["trusted"] is meant
    assert any("nothing common can be tested" in text for text in facts["warnings"] + facts["quality"]["notes"])
    status = called("status", "run.zarr").output
    assert "at the typical landmark" not in status
    assert "not tested: one view" in status
    assert "not tested: one view" in called("status", "run.zarr/model").output
    assert called("report", "run.zarr").exit_code in (0, 5)
    page = next(tmp_path.rglob("*.html")).read_text()
    assert "nothing common can be tested" in page
    assert "not tested" in page
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.S)
    for claim in ("common coordinates", "what is common", "is common", "share nothing", "tell common from chance"):
        assert claim not in text
