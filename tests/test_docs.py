"""The code in the README and in the documentation runs, page by page, as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=lambda p: p.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)
    assert names


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
