"""Models of a pipeline: refits by amount and age, those that are rejected, the way back, and beginning anew."""

import json
from datetime import timedelta

import numpy as np
import pytest
import zarr

from dlcca import LocalCCA, open_model, open_views
from dlcca.errors import SettingsError
from dlcca.numerics.coordinates import change
from dlcca.pipelines import nightly_run, versions
from dlcca.pipelines.context import opened
from dlcca.pipelines.retention import retain
from dlcca.pipelines.settings import RefitSection
from dlcca.pipelines.versions import Standing, objections
from tests.pipelines.nights import day_of, morning_after, pipeline_file, recorded, run_night, sensors, start_of, write

pytestmark = pytest.mark.slow


def catalog(file, query):
    with opened(file) as flow:
        return flow.catalog.all(query)


def models(file):
    rows = catalog(file, "SELECT version, status FROM models ORDER BY version")
    return [(row["version"], row["status"]) for row in rows]


def embedding(folder, number):
    return zarr.open_group(str(folder / "published" / "zarr" / f"{day_of(number)}.zarr"), mode="r")["embedding"][:]


def test_new_rows_bring_a_refit_which_can_be_taken_back_and_days_done_again(tmp_path):
    file = pipeline_file(tmp_path, "[refit]\nnew_rows = 0.5\n[retention]\nreplaced_days = 1\n")
    recorded(tmp_path, 1)
    assert run_night(file, 1).refit is None
    recorded(tmp_path, 2)
    summary = run_night(file, 2)
    assert summary.refit["promoted"]
    assert "640 new rows, the model was fitted to 512" in summary.refit["because"]
    assert summary.exit_code == 0
    before = embedding(tmp_path, 2)
    open_by_a_reader = zarr.open_group(str((tmp_path / f"published/zarr/{day_of(2)}.zarr").resolve()), mode="r")

    with nightly_run.begun(file, "rollback") as (flow, _):
        assert versions.rollback(flow) == {"from": 2, "to": 1}
    assert models(file) == [(1, "current"), (2, "kept")]
    assert (tmp_path / "models" / "current.zarr").resolve().name == "v0001.zarr"
    with nightly_run.begun(file, "rollback") as (flow, _), pytest.raises(SettingsError, match="model 7 cannot be used"):
        versions.rollback(flow, 7)
    with nightly_run.begun(file, "rollback") as (flow, _):
        versions.rollback(flow, 2)

    filled = nightly_run.backfill(file, first=day_of(2), clock=lambda: morning_after(3))
    assert [path.rsplit("/", 1)[-1] for path in filled.done] == ["night-02-0.edf"]
    assert filled.published == [day_of(2)]
    used = catalog(file, "SELECT path, model FROM recordings ORDER BY path")
    assert [row["model"] for row in used] == [1, 2]
    assert change(embedding(tmp_path, 2), before).correlations.min() > 0.95
    assert not np.array_equal(embedding(tmp_path, 2), before)
    np.testing.assert_array_equal(open_by_a_reader["embedding"][:], before)  # who had it open reads on

    with opened(file, clock=lambda: morning_after(3) + timedelta(hours=1)) as flow:
        retain(flow)
    assert open_by_a_reader["embedding"][:].shape == before.shape
    with opened(file, clock=lambda: morning_after(6)) as flow:
        assert len(retain(flow, dry=True).paths) == 2  # the partition and the result that were replaced
        assert len(retain(flow).paths) == 2
        assert len(retain(flow).paths) == 0
    assert len(list((tmp_path / "published/zarr/.versions").iterdir())) == 2
    assert len(list((tmp_path / "state/results").iterdir())) == 2


def test_an_old_model_is_fitted_again_and_old_rows_that_are_too_many_are_stood_for_by_landmarks(tmp_path):
    file = pipeline_file(
        tmp_path, "[refit]\nage_days = 2.5\nmost_rows = 700\n[retention]\nmodels = 1\nviews_days = 2.5\n"
    )
    recorded(tmp_path, 1)
    run_night(file, 1)
    recorded(tmp_path, 2)
    assert run_night(file, 2).refit is None
    recorded(tmp_path, 4)
    summary = run_night(file, 4)
    assert "model 1 is 3 days old" in summary.refit["because"]
    assert summary.refit["promoted"]
    assert min(summary.refit["axes"]) > 0.95
    assert models(file) == [(1, "removed"), (2, "current")]  # only one is kept
    assert catalog(file, "SELECT rows_store FROM models WHERE version = 2") == [{"rows_store": None}]
    kept = catalog(file, "SELECT path, views FROM recordings ORDER BY path")
    assert [row["views"] is None for row in kept] == [True, False, False]
    recorded(tmp_path, 5)
    assert run_night(file, 5).alarms == []  # the model is of use
    recorded(tmp_path, 8)
    again = run_night(file, 8)  # and can be fitted again, from landmarks alone
    assert again.refit["promoted"]
    assert open_model(tmp_path / "models" / "current.zarr").model_.n_landmarks < 400


def test_a_model_that_does_worse_on_held_out_rows_is_not_used(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    X, _ = sensors(2)
    X[:, 3:] = np.roll(X[:, 3:], 700, axis=0)  # each sensor sees what it always did, but their clocks have come apart
    write(tmp_path / "incoming" / "apart.edf", X, start_of(2))
    summary = run_night(file, 2)
    (alarm,) = summary.alarms
    assert "a correlation differs by" in alarm
    assert "outside" not in alarm
    assert summary.exit_code == 5
    assert not summary.refit["promoted"]
    assert any("in the new recordings the agreement" in text for text in summary.refit["objections"])
    assert models(file) == [(1, "current"), (2, "rejected")]
    (row,) = catalog(file, "SELECT reason FROM models WHERE version = 2")
    assert row["reason"] == "; ".join(summary.refit["objections"])
    assert (tmp_path / "models" / "current.zarr").resolve().name == "v0001.zarr"
    quiet = run_night(file, 3)
    assert (quiet.refit, quiet.exit_code) == (None, 0)  # the same alarm does not bring another refit


def test_each_rule_of_the_comparison_can_object():
    asked, well = RefitSection(), Standing(0.01, 0.95)
    assert objections(well, well, [0.99, 0.97], [], asked) == []
    assert "3.5% of the held-out rows are outside" in objections(Standing(0.035, 0.95), well, [1.0], [], asked)[0]
    assert "views on held-out rows is 0.80" in objections(Standing(0.01, 0.8), well, [1.0], [], asked)[0]
    assert "in the new recordings the agreement" in objections(Standing(0.01, 0.95, 0.1), well, [1.0], [], asked)[0]
    assert "has the correlation 0.42" in objections(well, well, [0.99, 0.42], [], asked)[0]
    assert "nothing common" in objections(well, well, [1.0], ["nothing common found"], asked)[0]
    assert objections(Standing(0.0, None), Standing(0.0, None), [float("nan")], [], asked) == []


def test_other_settings_are_refused_until_everything_is_begun_anew(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    run_night(file, 1)
    recorded(tmp_path, 2)
    pipeline_file(tmp_path, "[spectrum]\nn_components = 3\n")
    with pytest.raises(SettingsError, match="are not those of model 1") as caught:
        run_night(file, 2)
    assert "backfill pipeline.toml --anew" in str(caught.value)
    (run,) = catalog(file, "SELECT exit_code FROM runs ORDER BY id DESC LIMIT 1")
    assert run["exit_code"] == 2
    with pytest.raises(SettingsError, match="--anew is for all days"):
        nightly_run.backfill(file, first=day_of(1), anew=True)
    summary = nightly_run.backfill(file, anew=True, clock=lambda: morning_after(3))
    assert summary.published == [day_of(1), day_of(2)]
    assert embedding(tmp_path, 1).shape == embedding(tmp_path, 2).shape == (640, 3)
    assert models(file) == [(1, "kept"), (2, "current")]
    assert run_night(file, 4).is_news is False


def test_a_pipeline_may_begin_with_a_model_that_is_there(tmp_path):
    first = tmp_path / "first"
    file = pipeline_file(first)
    recorded(first, 1)
    run_night(file, 1)
    second = tmp_path / "second"
    file = pipeline_file(second, "[model]\nstart = '../first/models/current.zarr'\n")
    recorded(second, 2)
    summary = run_night(file, 2)
    assert summary.exit_code == 0
    assert models(file) == [(1, "current")]
    model = open_model(first / "models" / "v0001.zarr")
    (row,) = catalog(file, "SELECT views FROM recordings")
    views = open_views(second / "state" / row["views"])
    np.testing.assert_allclose(embedding(second, 2), model.transform(views), atol=1e-6)
    (kept,) = catalog(file, "SELECT measures FROM models")
    assert len(json.loads(kept["measures"])["baseline"]) == 1  # the first recording stands for those of the fit
    recorded(second, 3, changed=True)
    changed = run_night(file, 3)
    assert changed.alarms
    assert changed.refit["promoted"]  # without any old rows: the landmarks stand for them


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # a model of noise, which is not the question here
def test_a_model_of_arrays_or_of_other_views_is_no_beginning(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    LocalCCA(neighborhoods="knn", n_neighbors=40, random_state=0).fit([X, X]).save(tmp_path / "arrays.zarr")
    file = pipeline_file(tmp_path, "[model]\nstart = 'arrays.zarr'\n")
    recorded(tmp_path, 1)
    with pytest.raises(SettingsError, match="without recordings"):
        run_night(file, 1)
