"""Fourteen nights of a laboratory where all that can happen to a file does, and the system changes on the tenth."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import zarr

from dlcca import open_model, open_views
from dlcca.fitting import transform as transforming
from dlcca.numerics.coordinates import change
from dlcca.storage import transformed
from tests.pipelines.nights import day_of, pipeline_file, recorded, run_night, sensors, start_of, write

pytestmark = pytest.mark.slow

CHANGED_ON = 10


@dataclass
class Fortnight:
    """What came of it."""

    folder: Path
    summaries: dict[int, Any] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)  # results, once for each block of coordinates

    def rows(self, query: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.folder / "state" / "catalog.sqlite")) as base:
            base.row_factory = sqlite3.Row
            return [dict(row) for row in base.execute(query)]

    def line(self, kind: str, name: str) -> str:
        """The only line of the history of this kind about a file."""
        query = f"SELECT text FROM history WHERE kind = '{kind}' AND path LIKE '%/{name}'"
        (row,) = self.rows(query)
        return row["text"]


def deliver(folder: Path, night: int) -> None:
    """The files that arrive in a night."""
    arriving = folder / "incoming"
    system = {"changed": night >= CHANGED_ON}
    if night != 5:
        recorded(folder, night, **system)
    if night == 3:
        (arriving / "night-03-1.edf").write_bytes(b"\x00\xff not a recording" * 500)
    if night == 4:
        whole = recorded(folder, 4, 1).read_bytes()
        (arriving / "night-04-1.edf").write_bytes(whole[: len(whole) - 2000])
    if night == 6:
        recorded(folder, 4, 1)  # sent once more, and whole now
        (arriving / "copy-of-4.edf").write_bytes((arriving / "night-04-0.edf").read_bytes())
    if night == 7:
        recorded(folder, 5)  # two nights late
    if night == 8:
        X, _ = sensors(8, 1)
        X[:, 4] = 0.5  # R2 is dead
        write(arriving / "night-08-1.edf", X, start_of(8, 1))
    if night == 11:
        recorded(folder, 9, 1)  # late, and of the time before the change
    if night == 13:
        X, _ = sensors(12, 7, changed=True)
        write(arriving / "night-12-0.edf", X, start_of(12))  # another export of what was embedded a night ago


GOOD = [(night, 0) for night in range(1, 15)] + [(4, 1), (9, 1)]


@pytest.fixture(scope="module")
def fortnight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("laboratory")
    file = pipeline_file(folder)
    made = Fortnight(folder)
    compute = transforming.compute

    def counting(job, stage, block):
        made.computed.append(Path(job.address).name)
        compute(job, stage, block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transforming, "compute", counting)
        for night in range(1, 15):
            deliver(folder, night)
            made.summaries[night] = run_night(file, night)
    return made


def test_every_good_file_is_embedded_exactly_once(fortnight):
    done = fortnight.rows("SELECT path, result, rows, valid, model FROM recordings WHERE status = 'done'")
    assert sorted(Path(row["path"]).name for row in done) == sorted(f"night-{n:02d}-{p}.edf" for n, p in GOOD)
    assert all(row["rows"] == row["valid"] == 640 for row in done)
    superseded = fortnight.rows("SELECT result FROM recordings WHERE status = 'superseded' AND result IS NOT NULL")
    expected = [Path(row["result"]).name for row in done + superseded]
    assert sorted(fortnight.computed) == sorted(expected)  # one block each, and no block twice


def test_every_bad_file_is_in_the_history_with_its_reason(fortnight):
    assert "night-03-1.edf is refused" in fortnight.line("refused", "night-03-1.edf")
    assert "it was cut short" in fortnight.line("refused", "night-04-1.edf")
    assert "'R2' (flat)" in fortnight.line("refused", "night-08-1.edf")
    assert "has the same content as" in fortnight.line("duplicate", "copy-of-4.edf")
    assert "has changed" in fortnight.line("changed", "night-12-0.edf")
    assert "replaced by the new content" in fortnight.line("superseded", "night-12-0.edf")
    bad = fortnight.rows("SELECT path, status FROM recordings WHERE status != 'done'")
    assert sorted((Path(row["path"]).name, row["status"]) for row in bad) == [
        ("night-03-1.edf", "refused"),
        ("night-04-1.edf", "refused"),
        ("night-08-1.edf", "refused"),
        ("night-12-0.edf", "superseded"),
    ]


def test_the_alarm_rings_in_the_tenth_night_and_in_no_other(fortnight):
    rang = [night for night, summary in fortnight.summaries.items() if summary.alarms]
    assert rang == [CHANGED_ON]
    (text,) = fortnight.summaries[CHANGED_ON].alarms
    assert f"night-10-0.edf of {day_of(10)} differs from the data of model 1: 100% of its rows are outside" in text


def test_exit_codes_tell_what_each_night_was_like(fortnight):
    codes = {night: summary.exit_code for night, summary in fortnight.summaries.items()}
    assert {night: code for night, code in codes.items() if code} == {3: 3, 4: 3, 8: 3, CHANGED_ON: 5}


def test_the_refit_is_promoted_and_used_from_the_next_night_on(fortnight):
    models = fortnight.rows("SELECT version, status, because FROM models ORDER BY version")
    assert [(row["version"], row["status"]) for row in models] == [(1, "kept"), (2, "current")]
    assert fortnight.summaries[CHANGED_ON].refit["promoted"]
    used = fortnight.rows("SELECT path, model FROM recordings WHERE status = 'done'")
    later = {Path(row["path"]).name for row in used if row["model"] == 2}
    assert later == {f"night-{n}-0.edf" for n in (11, 12, 13, 14)} | {"night-09-1.edf"}
    assert (fortnight.folder / "models" / "current.zarr").resolve().name == "v0002.zarr"


def test_axes_of_the_nights_before_and_after_the_change_are_the_same(fortnight):
    (before,) = fortnight.rows("SELECT result, views, model FROM recordings WHERE path LIKE '%night-09-0.edf'")
    (after,) = fortnight.rows("SELECT model FROM recordings WHERE path LIKE '%night-11-0.edf'")
    assert (before["model"], after["model"]) == (1, 2)
    state = fortnight.folder / "state"
    then = zarr.open_group(str(state / before["result"]), mode="r")["embedding"][:]
    now = open_model(fortnight.folder / "models" / "v0002.zarr").transform(open_views(state / before["views"]))
    correlations = change(now, then).correlations
    assert correlations.min() >= 0.95, correlations


def test_coordinates_tell_what_both_sensors_saw_before_and_after(fortnight):
    for night in (9, 11):
        embedding = zarr.open_group(str(fortnight.folder / f"published/zarr/{day_of(night)}.zarr"))["embedding"][:640]
        z = sensors(night, changed=night >= CHANGED_ON)[1].reshape(-1, 4).mean(axis=1)
        assert abs(np.corrcoef(embedding[:, 0], z)[0, 1]) > 0.97


def test_every_day_is_published_whole_in_both_forms(fortnight):
    published = fortnight.folder / "published"
    assert sorted(link.name for link in (published / "zarr").glob("*.zarr")) == [
        f"{day_of(n)}.zarr" for n in range(1, 15)
    ]
    for night in range(1, 15):
        place = str(published / "zarr" / f"{day_of(night)}.zarr")
        assert set(transformed.damages(place).values()) == {None}
        store = zarr.open_group(place, mode="r")
        table = pq.read_table(published / f"parquet/date={day_of(night)}/rows.parquet")
        assert table.num_rows == store["time"].shape[0] == 640 * sum(n == night for n, _ in GOOD)
        np.testing.assert_array_equal(table["c1"].to_numpy(), store["embedding"][:, 0])
        files = [Path(told["path"]).name for told in store.attrs["recordings"]]
        assert files == [f"night-{n:02d}-{p}.edf" for n, p in sorted(GOOD) if n == night]
        assert table["time"][0].as_py() == start_of(night)


def test_a_changed_file_is_published_in_place_of_what_it_was(fortnight):
    (row,) = fortnight.rows("SELECT content FROM recordings WHERE path LIKE '%night-12-0.edf' AND status = 'done'")
    told = zarr.open_group(str(fortnight.folder / f"published/zarr/{day_of(12)}.zarr")).attrs["recordings"]
    assert [entry["content"] for entry in told] == [row["content"]]


def test_late_files_are_published_under_their_own_day(fortnight):
    assert fortnight.summaries[7].published == [day_of(5), day_of(7)]
    assert fortnight.summaries[11].published == [day_of(9), day_of(11)]
    (drift,) = fortnight.rows(
        "SELECT alarm, drift.model FROM drift JOIN recordings ON recordings.id = recording WHERE path LIKE '%09-1.edf'"
    )
    assert drift == {"alarm": 0, "model": 2}  # the new model knows the old system as well


def test_the_catalog_keeps_the_summary_of_every_night(fortnight):
    runs = fortnight.rows("SELECT exit_code, summary FROM runs ORDER BY id")
    assert [row["exit_code"] for row in runs] == [s.exit_code for s in fortnight.summaries.values()]
    assert json.loads(runs[9]["summary"])["alarms"] == fortnight.summaries[10].alarms
