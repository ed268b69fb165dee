"""The page over all nights: what it tells, that it stands alone, that all can read it, that it never spoils a night."""

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import DataError
from dlcca.pipelines import nightly_run, page
from dlcca.pipelines.catalog import iso
from dlcca.pipelines.context import opened
from dlcca.pipelines.page import rounded_up
from tests.pipelines.nights import day_of, pipeline_file, recorded

FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)
EVIL = "<script>alert('1')</script> & \"more\""


class Read(HTMLParser):
    """Tags with their attributes, links, and how many were opened and not closed."""

    EMPTY = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def filled(folder: Path, reason: str = "it is no EDF file") -> Path:
    """A pipeline whose catalog tells of ten nights, of which two went wrong, and two models; the page of it."""
    with opened(pipeline_file(folder)) as flow:
        catalog = flow.catalog
        for i in range(10):
            now = FIRST + timedelta(days=i)
            day, refused, alarm = now.date().isoformat(), i == 3, i == 6
            run = catalog.begin_run("run", now)
            row = {"content": f"c{i}", "path": f"/data/{i}.edf", "size": 1, "first_seen": iso(now), "day": day}
            row |= {"status": "refused" if refused else "done", "reason": reason if refused else None, "run": run}
            number = catalog.insert("recordings", {**row, "finished": iso(now)})
            code = 3 if refused else 5 if alarm else 0
            document = {"exit_code": code, "news": True, "done": [] if refused else [row["path"]]}
            document |= {"published": [] if refused else [day], "text": f"night {i}\n{reason if refused else 'good'}"}
            catalog.end_run(run, now + timedelta(seconds=50), document, reported=True)
            if not refused:
                measured = {"outside": 0.6 if alarm else 0.01, "distance": 0.4, "correlation_change": 0.1}
                told = {"alarm": int(alarm), "text": f"{day} is unlike" if alarm else "like", "measured": iso(now)}
                catalog.insert("drift", {"recording": number, "model": 1 + (i > 6), "run": run, **measured, **told})
                partition = {"day": day, "version": "v", "recordings": 1, "rows": 640, "models": "[1]"}
                catalog.insert("partitions", {**partition, "published": iso(now)})
        for version, status in ((1, "kept"), (2, "current"), (3, "rejected")):
            row = {
                "version": version,
                "generation": 1,
                "status": status,
                "because": "it was due",
                "created": iso(FIRST),
            }
            why = "axes turn" if status == "rejected" else None
            catalog.insert("models", {**row, "settings": "s", "n_rows": 512, "reason": why})
        return page.write(flow)


def test_the_page_tells_of_nights_failures_drift_models_and_days(tmp_path):
    text = filled(tmp_path).read_text()
    assert "The run of 2026-10-10 02:00 was successful" in text
    assert text.count('<span class="bad">recordings refused (3)</span>') == 1
    assert text.count('<span class="bad">not to be trusted (5)</span>') == 1
    failures = text.partition('id="troubles"')[2].partition("</section>")[0]
    assert "3.edf" in failures
    assert "it is no EDF file" in failures
    models = text.partition('id="models"')[2].partition("</section>")[0]
    assert "Not used: axes turn" in models
    assert "in use" in models
    days = text.partition('id="days"')[2].partition("</section>")[0]
    assert days.count('<tr role="row"><th role="rowheader"') == 9


def test_drift_is_drawn_with_a_mark_for_each_recording_and_another_one_for_an_alarm(tmp_path):
    text = filled(tmp_path).read_text()
    drawn = text.partition('id="drift"')[2].partition("</section>")[0]
    figures = re.findall(r"<svg.*?</svg>", drawn, re.DOTALL)
    assert len(figures) == 3  # no eigenvalues were measured
    outside, distance, correlation = figures
    assert (outside.count("<circle"), outside.count('class="alarm"')) == (8, 1)
    assert (distance.count("<circle"), distance.count('class="alarm"')) == (9, 0)
    assert "highest 60%, alarm above 20%, 1 above it" in outside
    assert [f">{share}</text>" in outside for share in ("40%", "80%")] == [True, True]
    assert outside.count('class="change"') == 1
    assert "model 2</text>" in correlation
    assert "2026-10-07 is unlike" in drawn  # in words as well
    places = [float(number) for number in re.findall(r'c[xy]="([-\d.]+)"', "".join(figures))]
    assert 0 <= min(places)
    assert max(places) <= 360


@pytest.mark.parametrize(("value", "expected"), [(0.25, 0.4), (16.0, 20.0), (0.02, 0.02), (1.0, 1.0), (9.1, 10.0)])
def test_lines_of_height_are_at_tidy_numbers(value, expected):
    assert rounded_up(value) == pytest.approx(expected)


def test_the_page_stands_alone_and_is_well_formed(tmp_path):
    text = filled(tmp_path).read_text()
    read = Read(text)
    assert read.open == []
    assert not re.search(r"https?://|url\(|@import|<script|<link|<img|<iframe", text)
    assert "default-src 'none'" in text


def test_what_a_file_is_called_is_never_taken_for_html(tmp_path):
    text = filled(tmp_path, reason=EVIL).read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert Read(text).open == []


def test_those_who_listen_to_it_find_their_way(tmp_path):
    read = Read(filled(tmp_path).read_text())
    names = [name for name, _ in read.tags]
    assert read.all("html")[0]["lang"] == "en"
    assert [names.count(landmark) for landmark in ("header", "nav", "main", "footer", "h1")] == [1, 1, 1, 1, 1]
    assert read.all("nav")[0]["aria-label"]
    assert names.count("caption") == names.count("table") > 0
    assert all(head["scope"] in ("col", "row") for head in read.all("th"))
    assert all(svg["role"] == "img" and svg["aria-label"] for svg in read.all("svg"))
    ids = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    assert {link["href"][1:] for link in read.all("a") if link["href"].startswith("#")} <= ids
    assert {section["aria-labelledby"] for section in read.all("section")} <= ids


def luminance(color: str) -> float:
    """Relative luminance by the definition of WCAG 2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(theme):
    template = Path(page.__file__).with_name("page.html").read_text()
    block = re.findall(r":root \{(.*?)\}", template, re.DOTALL)[theme]
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    pairs = [(ink, ground) for ink in ("text", "soft", "accent", "good", "bad") for ground in ("page", "card")]
    for ink, ground in [*pairs, ("text", "bad-back"), ("text", "good-back")]:
        high, low = sorted((luminance(colors[ink]), luminance(colors[ground])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)


def test_a_page_of_nothing_says_so(tmp_path):
    with opened(pipeline_file(tmp_path)) as flow:
        text = page.write(flow).read_text()
    assert "There has been no run yet" in text
    assert Read(text).open == []


# Written by runs


@pytest.mark.slow
def test_a_run_leaves_a_page_whose_links_lead_somewhere(tmp_path):
    file = pipeline_file(tmp_path)
    recorded(tmp_path, 1)
    answer = CliRunner().invoke(app, ["pipeline", "run", str(file)])
    assert answer.exit_code == 0, answer.output
    place = tmp_path / "published" / "index.html"
    links = [link["href"] for link in Read(place.read_text()).all("a") if not link["href"].startswith("#")]
    assert sorted(links) == sorted(
        ["reports/model-0001.html", f"zarr/{day_of(1)}.zarr", f"parquet/date%3D{day_of(1)}/rows.parquet"]
    )
    assert all((place.parent / unquote(link)).exists() for link in links)
    assert "Model 1 of the pipeline laboratory" in (place.parent / "reports/model-0001.html").read_text()


def test_a_night_that_breaks_off_leaves_a_page_that_says_why(tmp_path):
    file = pipeline_file(tmp_path)
    with pytest.raises(DataError), nightly_run.begun(file, "run"):
        raise DataError("the sensor has fallen off")
    text = (tmp_path / "published" / "index.html").read_text()
    assert "ended with exit code 3" in text
    assert "the sensor has fallen off" in text


def test_a_page_that_cannot_be_written_is_a_line_of_the_history_and_no_more(tmp_path):
    file = pipeline_file(tmp_path)
    (tmp_path / "published").mkdir()
    mine = tmp_path / "published" / "index.html"
    mine.write_text("my own page")
    assert nightly_run.run(file).exit_code == 0
    assert mine.read_text() == "my own page"
    with opened(file) as flow:
        (line,) = flow.catalog.all("SELECT text FROM history WHERE kind = 'page'")
    assert "is not the page of a pipeline" in line["text"]


def test_no_page_is_written_where_none_is_asked_for(tmp_path):
    file = pipeline_file(tmp_path, more='[outputs]\npage = ""')
    nightly_run.run(file)
    assert not (tmp_path / "published" / "index.html").exists()
    answer = CliRunner().invoke(app, ["pipeline", "page", str(file)])
    assert answer.exit_code == 2
    assert "there is no path for a page" in answer.stderr
    out = tmp_path / "elsewhere" / "page.html"
    assert CliRunner().invoke(app, ["pipeline", "page", str(file), "--out", str(out)]).exit_code == 0
    assert "laboratory" in out.read_text()
