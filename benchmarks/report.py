"""The report of a long run: how long it takes to make, how much memory, how large it is, and how quickly it opens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import GIB, PeakMemory, Row, Took, left_out, share, single_threaded
from tests.report.stores import night, stored

#: What a report of a million rows may take, and the file itself.
MADE_S, OPENED_S, MOST_BYTES = 30.0, 3.0, 6e6
ROWS, QUICK_ROWS = 1_000_000, 20_000


def rows(quick: bool) -> Iterator[Row]:
    n = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "night.html"
        store = stored(Path(scratch) / "night.zarr", night(n, landmarks=4000))
        with PeakMemory() as memory:
            made = command(["report", str(store), "--out", str(page), "--quiet"])
        text = f"dlcca report of {n:,} rows"
        yield share("report", f"{text}, the whole command", made.wall, MADE_S, "<= 1")
        yield share("report", f"{text}, the same by the processor", made.cpu, MADE_S, "<= 1", unit="CPU s")
        yield share("report", f"{text}: memory of the process", memory.children / GIB, 1, "<= 1", unit="GiB")
        yield share("report", f"{text}: the file", page.stat().st_size / 1e6, MOST_BYTES / 1e6, "<= 1", unit="MB")
        yield from opening(page, f"{text}, opened in Chromium until all is drawn")


def command(arguments: list[str]) -> Took:
    """A verb, with all that it takes to start it."""
    wall, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "dlcca", *arguments], check=True, env=single_threaded())
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Took(time.perf_counter() - wall, cpu)


def opening(page: Path, text: str) -> Iterator[Row]:
    """From asking for the page until two frames have been drawn after it was loaded; the best of three."""
    binary = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        binary = None
    if binary is None:
        yield left_out("report", "no Chromium or no playwright here")
        return
    from tests.browser.conftest import FLAGS, PATIENCE_MS

    seconds = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=binary, args=list(FLAGS), timeout=PATIENCE_MS)
        for _ in range(3):
            shown = browser.new_page(viewport={"width": 1280, "height": 900})
            began = time.perf_counter()
            shown.goto(page.as_uri(), timeout=PATIENCE_MS)
            shown.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seconds.append(time.perf_counter() - began)
            shown.close()
        browser.close()
    yield share("report", text, min(seconds), OPENED_S, "<= 1")
