"""A report from a store that is read some rows at a time tells what one from memory tells."""

import json

import numpy as np
import pytest

from dlcca.errors import StoreFileError
from dlcca.report import explorer, overview, page
from dlcca.report import rows as result_rows
from dlcca.storage import run
from tests.report.stores import night, stored
from tests.report.test_page import parsed


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return str(stored(tmp_path_factory.mktemp("report") / "run.zarr", night(1500)))


@pytest.fixture(scope="module")
def html(store):
    return page.render(overview.of_store(store))


@pytest.mark.parametrize("at_once", [1, 96 << 20])
def test_a_store_is_told_as_the_run_in_memory_is(store, at_once, monkeypatch):
    monkeypatch.setattr(result_rows, "AT_ONCE", at_once)
    here, there = overview.of_run(run.read(store)), overview.of_store(store)
    np.testing.assert_array_equal(there.rows.sample.embedding, here.rows.sample.embedding)
    np.testing.assert_array_equal(there.rows.stretches.low, here.rows.stretches.low)
    np.testing.assert_array_equal(there.rows.mark_time, here.rows.mark_time)
    assert there.time_axis == here.time_axis
    assert (there.quality, there.views, there.n_common) == (here.quality, here.views, here.n_common)


def test_a_damaged_store_has_no_report(tmp_path):
    path = stored(tmp_path / "run.zarr", night(1500))
    next(file for file in (path / "embedding" / "c").rglob("*") if file.is_file()).unlink()  # reads as zeros
    with pytest.raises(StoreFileError, match=r"'embedding' of .* is damaged"):
        overview.of_store(str(path))


def test_rows_in_any_order_are_picked_from_an_array(store):
    group, header = run.open_sealed(store, run.FORM)
    rows = np.array([700, 3, 3, 1499])
    made = result_rows.read_picked(group, "time", rows, header["manifest"], store, run.FORM)
    np.testing.assert_array_equal(made, run.read(store).time[rows])


def test_what_the_stages_took_stands_beside_what_was_planned(store, html):
    heads, rows = page.costs(overview.of_store(store))
    assert heads == [
        "stage", "tasks", "workers' time", "by the clock", "planned", "largest memory", "planned",
    ]  # fmt: skip
    assert rows == [
        ("metric", "8", "12.5 s", "14 s", "10 s", "805 MB", "300 MB"),
        ("kernel", "16", "40 s", "–", "35 s", "1.34 GB", "700 MB"),
    ]
    text = parsed(html).text
    assert "61 s by the clock; 50 s had been planned, by rates that were measured here." in text
    assert "On the way: 1 task retried." in text


def test_a_run_without_a_plan_or_a_cost_tells_of_neither(tmp_path):
    found = overview.of_store(str(stored(tmp_path / "run.zarr", night(500), finished=False)))
    assert "What it took" not in page.render(found)


def test_gaps_are_told_and_counted(html):
    text = parsed(html).text
    assert "30 left out" in text
    assert "2 % of the rows were left out: 2 % gap." in text


def test_the_script_gets_numbers_that_it_can_read(store):
    known = {"depth": np.linspace(5, 6, 1500), "stage": np.where(np.arange(1500) < 700, "a", "b")}
    found = overview.of_store(store, known=known)
    made = json.loads(json.dumps(explorer.document(found), allow_nan=False))
    assert [c["name"] for c in made["colorings"][:3]] == ["depth", "stage", "EEG1"]
    assert {c["group"] for c in made["colorings"]} == {"What is known", "Channels of eeg", "Channels of ecg"}
    assert made["colorings"][1]["labels"] == ["a", "b"]
    assert made["colorings"][0]["low"] == pytest.approx(5.01, abs=1e-3)


def test_of_too_many_channels_those_that_carry_most_are_handed_over(store, monkeypatch):
    monkeypatch.setattr(explorer, "MOST_VALUES", 2 * 2 * 200)
    made = explorer.document(overview.of_store(store))
    assert [c["name"] for c in made["colorings"]] == ["EEG1", "EEG2", "ECG1", "ECG2"]
    note = explorer.content(overview.of_store(store))["note"]
    assert "The 2 channels of a view with the largest R² can be chosen." in note


def test_what_is_quantized_comes_back_within_a_step():
    import base64

    values = np.random.default_rng(0).uniform(-3, 7, 1000)
    values[5] = np.nan
    made = explorer._quantized(values)
    codes = np.frombuffer(base64.b64decode(made["values"]), np.uint8)
    back = made["low"] + codes / 254 * (made["high"] - made["low"])
    inside = (values > made["low"]) & (values < made["high"])
    assert codes[5] == 255
    assert np.abs(back - values)[inside].max() <= 10 / 254 / 2 + 1e-9


def test_a_data_block_cannot_be_ended_from_within():
    from dlcca.report.figures import data_block

    made = data_block({"name": "</script><script>alert(1)</script>"}, "x")
    assert made.count("<") == 2
    assert json.loads(made.split(">", 1)[1].rsplit("<", 1)[0])["name"].startswith("</script>")
