"""The documentation, built as `make docs` does and looked at in a browser."""

import subprocess
import sys

import pytest

from tests.support.doc_pages import PAGES, ROOT

pytestmark = pytest.mark.slow

#: Pages that are looked at on a wide screen too, and of which pictures are kept.
SHOWN = ("index", "explanation/method", "explanation/peers", "reference/settings", "tutorials/sleep")
BROKEN = "[...document.querySelectorAll('img')].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
FLAT = "[...document.querySelectorAll('math')].filter(m => !m.getBoundingClientRect().width).length"


def built(out):
    """Builds the site; a warning is an error, as in the Makefile."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-E", "-q", "-b", "html"]
    done = subprocess.run([*command, str(ROOT / "docs"), str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def look(found, site, name, width):
    """A page that fits its window, with all of its pictures and formulas."""
    found.page.goto((site / f"{name}.html").as_uri())
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is too wide"
    assert found.page.evaluate(BROKEN) == [], name
    assert found.page.evaluate(FLAT) == 0, name
    if name in SHOWN:
        found.shot(f"docs-{name.replace('/', '-')}-{width}")


# One test and not several: the site would be built in each process that the tests are spread over.
def test_every_page_can_be_read_without_the_network(tmp_path, opened):
    pytest.importorskip("sphinx", reason="sphinx is not installed (pip install -e .[docs])")
    built(tmp_path)
    pages = [str(page.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES if page.name != "README.md"]
    assert [name for name in pages if not (tmp_path / f"{name}.html").exists()] == []
    for width, names in ((1280, SHOWN), (390, pages)):
        with opened(tmp_path / "index.html", width=width) as found:
            for name in names:
                look(found, tmp_path, name, width)
            assert found.errors == []
            assert [url for url in found.requests if not url.startswith(("file:", "data:", "blob:"))] == []
