"""A real browser for pages: Debian's Chromium, driven by Playwright; without one these tests skip."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: Pictures of what the tests saw, to be looked at; not committed.
SCREENSHOTS = Path(__file__).parent / "screenshots"
#: As root and without a screen; and nothing that would call home.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: A busy machine may take long to do anything; nothing is asserted about how long.
PATIENCE_MS = 180_000


@dataclass
class Opened:
    """A page in the browser, and what went wrong in it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)  # besides the file itself

    def keeps_out(self) -> list[tuple[str, list[str]]]:
        """What axe-core finds that would keep someone out: the rule, and the elements that break it."""
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
        )
        found = axe.Axe().run(self.page).response["violations"]
        serious = [rule for rule in found if rule["impact"] in ("serious", "critical")]
        return [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in serious]

    def shot(self, name: str, *, full: bool = True) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"), full_page=full)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser."""
    why = "playwright is not installed (pip install -e .[dev])"
    playwright = pytest.importorskip("playwright.sync_api", reason=why)
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if binary is None:
        pytest.skip("there is no Chromium here; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=binary, args=list(FLAGS), timeout=PATIENCE_MS)
        yield browser
        browser.close()


Open = Callable[..., Any]


@pytest.fixture
def opened(chromium) -> Open:
    """Opens a file as a context manager, which gives an `Opened`."""

    @contextmanager
    def open_file(path: Path, width: int = 1280, height: int = 900, **options: Any) -> Iterator[Opened]:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        found = Opened(page)
        page.on("console", lambda said: found.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("request", lambda asked: found.requests.append(asked.url))
        try:
            page.goto(path.as_uri())
            found.requests = [url for url in found.requests if not url.startswith(("file:", "data:", "blob:"))]
            yield found
        finally:
            context.close()

    return open_file


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Where reports are made."""
    with tempfile.TemporaryDirectory(prefix="dlcca-browser-") as place:
        yield Path(place)
