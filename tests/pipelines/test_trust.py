"""Models that are not to be trusted: in use only by choice, and replaced by the first that is trusted."""

import json

import pytest
import zarr
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.pipelines import nightly_run
from dlcca.pipelines.context import opened
from tests.pipelines.nights import day_of, morning_after, pipeline_file, recorded, run_night

pytestmark = pytest.mark.slow

TOO_SHORT_S = 10  # so few rows that nothing common is found


def dlcca(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def models(file):
    with opened(file) as flow:
        rows = flow.catalog.all("SELECT version, status FROM models ORDER BY version")
    return [(row["version"], row["status"]) for row in rows]


def days(folder):
    return sorted(link.name.removesuffix(".zarr") for link in (folder / "published" / "zarr").glob("*.zarr"))


def model_of(folder, night):
    return zarr.open_group(str(folder / f"published/zarr/{day_of(night)}.zarr"), mode="r").attrs["models"]


def untrusted(folder, more=""):
    """A pipeline after a first night of which no trusted model could be made."""
    file = pipeline_file(folder, more)
    recorded(folder, 1, seconds=TOO_SHORT_S)
    return file, run_night(file, 1)


def test_a_first_model_that_is_not_trusted_is_not_used_and_the_next_night_fits_again(tmp_path):
    file, first = untrusted(tmp_path)
    assert (first.exit_code, first.done, first.published) == (5, [], [])
    assert models(file) == [(1, "rejected")]
    assert not (tmp_path / "models" / "current.zarr").exists()
    (doubt,) = first.doubts
    assert doubt.startswith("Model 1 is not trusted and not used: nothing common found")
    assert "1 recording waits for a model" in doubt
    assert "dlcca pipeline run pipeline.toml" in doubt

    quiet = run_night(file, 2)  # nothing is new: the same fit would find the same
    assert (quiet.exit_code, quiet.doubts) == (5, first.doubts)
    assert models(file) == [(1, "rejected")]

    recorded(tmp_path, 2)
    recorded(tmp_path, 3)
    trusted = run_night(file, 3)
    assert (trusted.exit_code, trusted.doubts) == (0, []), trusted.lines()
    assert models(file) == [(1, "rejected"), (2, "current")]
    assert trusted.published == [day_of(1), day_of(2), day_of(3)]
    assert (tmp_path / "models" / "current.zarr").resolve().name == "v0002.zarr"
    assert "Model 2 of" in dlcca("pipeline", "status", file).output
    assert "is in use and trusted" in dlcca("pipeline", "status", file).output
    assert run_night(file, 4).exit_code == 0


def test_status_and_page_say_that_no_model_is_in_use_and_why(tmp_path):
    file, first = untrusted(tmp_path)
    told = dlcca("pipeline", "status", file)
    assert told.exit_code == 0
    assert "No model is in use." in told.output
    assert first.doubts[0] in told.output
    facts = json.loads(dlcca("pipeline", "status", file, "--json").stdout)
    assert (facts["model"], facts["doubt"]) == (None, first.doubts[0])
    page = (tmp_path / "published" / "index.html").read_text()
    assert "model 1 is not trusted and not used" in page
    assert '<span class="bad">not trusted, not used</span>' in page


def test_the_rows_of_a_fit_that_is_not_trusted_are_not_kept(tmp_path):
    untrusted(tmp_path)
    assert sorted(path.name for path in (tmp_path / "models").glob("v*")) == ["v0001.zarr"]


def test_a_model_that_is_not_trusted_may_be_used_by_choice_and_everything_keeps_saying_so(tmp_path):
    file, _ = untrusted(tmp_path)
    assert dlcca("pipeline", "rollback", file).exit_code == 2  # only if it is named
    used = dlcca("pipeline", "rollback", file, "--to", 1)
    assert (used.exit_code, "Model 1 is in use." in used.output) == (0, True), used.output
    second = run_night(file, 2)
    assert (second.exit_code, second.published) == (5, [day_of(1)])
    (doubt,) = second.doubts
    assert doubt.startswith("Model 1 is in use and not trusted: nothing common found")
    assert "dlcca pipeline backfill pipeline.toml --anew" in doubt
    assert run_night(file, 3).exit_code == 5  # with nothing new as well
    assert "is in use and not trusted" in dlcca("pipeline", "status", file).output
    facts = json.loads(dlcca("pipeline", "status", file, "--json").stdout)
    assert (facts["model"]["version"], facts["model"]["trusted"]) == (1, False)
    assert '<span class="bad">in use, not trusted</span>' in (tmp_path / "published" / "index.html").read_text()

    recorded(tmp_path, 2)
    recorded(tmp_path, 3)
    cured = nightly_run.backfill(file, anew=True, clock=lambda: morning_after(4))  # the command that the message names
    assert (cured.exit_code, cured.doubts) == (0, []), cured.lines()
    assert models(file) == [(1, "kept"), (2, "current")]
    assert model_of(tmp_path, 1) == model_of(tmp_path, 3) == [2]


def test_a_refit_is_not_compared_with_a_model_that_is_not_trusted(tmp_path):
    file, _ = untrusted(tmp_path, "[refit]\nnew_rows = 0.5\n")
    dlcca("pipeline", "rollback", file, "--to", 1)
    run_night(file, 1)
    recorded(tmp_path, 2)
    recorded(tmp_path, 3)
    summary = run_night(file, 3)
    assert summary.refit["promoted"], summary.lines()
    assert "axes" not in summary.refit
    assert models(file) == [(1, "kept"), (2, "current")]
    after = run_night(file, 4)  # what the other model made is done again
    assert (after.exit_code, after.published) == (0, [day_of(1), day_of(2), day_of(3)])
    assert model_of(tmp_path, 1) == model_of(tmp_path, 2) == [2]


def test_a_model_to_begin_with_that_is_not_trusted_is_used_and_the_exit_code_says_so(tmp_path):
    untrusted(tmp_path / "first")
    file = pipeline_file(tmp_path / "second", "[model]\nstart = '../first/models/v0001.zarr'\n")
    recorded(tmp_path / "second", 1, seconds=TOO_SHORT_S)
    for night in (1, 2):
        summary = run_night(file, night)
        assert summary.exit_code == 5
        assert summary.doubts[0].startswith("Model 1 is in use and not trusted")


def test_recordings_that_came_last_are_part_of_the_next_fit_however_many_there_are(tmp_path):
    file, _ = untrusted(tmp_path, "[model]\nfirst_rows = 160\n")  # the first recording alone has as many
    recorded(tmp_path, 2)
    summary = run_night(file, 2)
    assert summary.exit_code == 0, summary.lines()
    assert models(file) == [(1, "rejected"), (2, "current")]
