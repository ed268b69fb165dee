"""The table and the page: what is written can be read, by programs and in a browser."""

import json

from matplotlib.figure import Figure

from dlcca.reproduce import Row, results

ROWS = [
    Row("|corr| with z", "≥ 0.97", "0.990", True),
    Row("a < b & c", "≤ 0.1", "0.200", False),
    Row("kernel CCA", "reported", "0.1 / 0.2", None),
]


def test_rows_survive_the_file(tmp_path):
    results.write_table(ROWS, tmp_path)
    content = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert [Row(**entry) for entry in content] == ROWS


def test_a_bar_in_a_cell_does_not_end_it(tmp_path):
    results.write_table(ROWS, tmp_path)
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "| figure | expected | got | met |"
    assert len(lines) == 2 + len(ROWS)
    assert {line.replace("\\|", "").count("|") for line in lines} == {5}


def test_bounds_include_their_ends():
    assert results.at_least("x", 0.97, 0.97) == Row("x", "≥ 0.97", "0.970", True)
    assert results.at_least("x", 0.9699, 0.97).met is False
    assert results.at_most("x", 0.15, 0.15) == Row("x", "≤ 0.15", "0.150", True)
    assert results.at_most("x", float("nan"), 0.15).met is False


def test_the_page_escapes_and_links(tmp_path):
    plate = results.Plate("one.png", 'a "caption"', Figure())
    results.write_page([results.Section("Title", "Text", ROWS, [plate])], tmp_path)
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "a &lt; b &amp; c" in html
    assert '<img src="one.png" alt="a &#34;caption&#34;">' in html
    assert "1 of 2 expectations are met; 1 further" in html
    assert 'class="missed"' in html
    assert (tmp_path / "one.png").exists()
