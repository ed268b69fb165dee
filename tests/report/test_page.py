"""The report stands on its own: one file, readable anywhere, that says first what matters."""

import base64
import hashlib
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from dlcca.errors import StorageError
from dlcca.report import figures, overview, page, panels
from tests.support.runs import made_up

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Tags(HTMLParser):
    """Opens and closes tags, and keeps what is seen on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    tags.close()
    return tags


@pytest.fixture(scope="module")
def html() -> str:
    return page.render(made_up(), title="<b>Tea & toast</b>", lead="A sentence more.", marks={"beat": 0.32})


def test_the_html_is_well_formed(html):
    assert parsed(html).open == []


def test_nothing_is_loaded_and_one_script_runs(html):
    tags = parsed(html).seen
    assert not re.search(r"https?://|@import|url\((?!#)", html)
    assert not {tag for tag, _ in tags} & {"link", "iframe", "object", "embed"}
    loaded = [attrs.get(key) for _, attrs in tags for key in ("src", "href", "xlink:href") if attrs.get(key)]
    assert all(target.startswith(("#", "data:")) for target in loaded)
    assert [attrs for tag, attrs in tags if tag == "script" and "type" not in attrs] == [{}]


def test_the_policy_lets_that_one_script_run_and_nothing_be_loaded(html):
    policy = next(attrs["content"] for tag, attrs in parsed(html).seen if "http-equiv" in attrs)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}'" in policy


def test_no_two_elements_have_one_name_and_all_references_lead_somewhere(html):
    names = [attrs["id"] for _, attrs in parsed(html).seen if "id" in attrs]
    assert len(names) == len(set(names))
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(names)


def test_what_was_found_comes_first(html):
    assert re.search(r"<h1>(.*?)</h1>", html).group(1) == "These two views share one variable"
    assert "97 % of 100 landmarks" in html
    assert "A sentence more." in html


def test_text_is_escaped(html):
    assert "<b>Tea" not in html
    assert "&lt;b&gt;Tea &amp; toast" in html


def test_there_are_no_warnings_where_there_is_nothing_to_warn_of(html):
    assert 'class="warning"' not in html


def test_figures_that_matter_are_there(html):
    text = parsed(html).text
    for words in ("coordinate 1", "time [s]", "frequency [Hz]", "eigenvalue", "correlation", "chance", "beat"):
        assert words in text


def test_how_much_is_reproduced_by_halves_is_beside_the_coordinates(html):
    assert "reproduced" not in html
    quality = {**made_up().quality, "from_halves": [0.98, 0.71, 0.4]}
    told = page.render(made_up(quality=quality))
    for words in ("coordinate 1 (0.98 reproduced)", "coordinate 2 (0.71 reproduced)", "and 0.40 of coordinate 3."):
        assert words in told
    assert "reproduced on half of the samples" in parsed(told).text  # the measure, with what it means


def test_settings_choices_versions_and_fingerprint_are_there(html):
    run, text = made_up(), parsed(html).text
    assert run.fingerprint in text
    assert "chosen: two views" in text
    assert all(f"{name} {number}" in text for name, number in run.versions.items())


def test_warnings_stand_above_every_figure():
    html = page.render(made_up(warnings=["the kernel falls into 3 < 4 pieces."]))
    assert "The kernel falls into 3 &lt; 4 pieces." in html
    assert html.index('class="warning"') < html.index("<svg")


def titles(run) -> list[str]:
    return [panel.title for panel in panels.panels(overview.of_run(run))]


def test_uneven_time_has_no_spectra():
    assert "Spectra of the coordinates" in titles(made_up())
    uneven = np.sort(np.random.default_rng(0).uniform(size=200))
    assert "Spectra of the coordinates" not in titles(made_up(time=uneven))


def test_samples_without_a_clock_have_no_spectra():
    static = made_up(time_unit="sample", settings={"neighborhoods": {"kind": "knn"}})
    assert "Spectra of the coordinates" not in titles(static)


@pytest.mark.parametrize("q", [1, 2, 20])
def test_any_number_of_coordinates_can_be_drawn(q):
    assert parsed(page.render(made_up(q=q))).open == []


def test_one_view_and_no_measures_can_be_drawn():
    run = made_up(views={"only": 3}, quality={}, correlations=np.empty((100, 0)), choices=[], settings={})
    assert parsed(page.render(run)).open == []


def test_a_long_line_keeps_its_extremes():
    y = np.random.default_rng(0).standard_normal(100_003)
    x, drawn = figures.envelope(np.arange(len(y)), y)
    assert len(x) == len(drawn) < 4 * figures.LINE_POINTS
    assert (drawn.min(), drawn.max()) == (y.min(), y.max())


@pytest.mark.parametrize("kind", ["time", "knn"])
def test_a_large_run_makes_a_file_below_6_mb(kind):
    n = 300_000
    noise = np.random.default_rng(0).standard_normal((n, 5))
    run = made_up(
        n=n,
        q=5,
        embedding=noise,
        time=np.arange(n),
        time_unit="sample",
        landmarks=np.arange(2000) * 100,
        correlations=np.ones((2000, 8)),
        settings={"neighborhoods": {"kind": kind}},
    )
    assert len(page.render(run).encode()) < 6e6


def test_the_same_run_gives_the_same_page():
    run = made_up()
    assert page.render(run) == page.render(run)


def test_a_report_is_replaced_and_nothing_else_is_left(tmp_path, html):
    path = tmp_path / "deep" / "report.html"
    page.write(path, html)
    page.write(path, html + "\n")
    assert path.read_text(encoding="utf-8") == html + "\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize("foreign", [b"<html>mine</html>", b"\xff\xfe\x00"])
def test_a_file_that_is_not_a_report_is_left_alone(tmp_path, html, foreign):
    path = tmp_path / "report.html"
    path.write_bytes(foreign)
    with pytest.raises(StorageError, match="not a dlcca report"):
        page.write(path, html)
    assert path.read_bytes() == foreign


def test_a_write_that_fails_leaves_the_earlier_report(tmp_path, html, monkeypatch):
    path = tmp_path / "report.html"
    page.write(path, html)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StorageError, match="No space left"):
        page.write(path, "other")
    assert path.read_text(encoding="utf-8") == html
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
