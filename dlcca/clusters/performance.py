"""Dask's own report of what its workers did, made while they work; a page to be opened in a browser later."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dlcca.clusters.messages import Say

LACKING = "Dask's performance report is not kept: it needs bokeh (pip install bokeh)"


@contextmanager
def reported(client: Any, keep: Callable[[bytes], None], say: Say) -> Iterator[None]:
    """Have a report made of what is done in the block, and kept; nothing listens for it, and no run fails by it."""
    if find_spec("bokeh") is None:
        say(f"{LACKING}.")
        yield
        return
    from distributed import performance_report

    with tempfile.TemporaryDirectory(prefix="dlcca-report-") as folder, client.as_current():
        page = Path(folder) / "performance.html"
        report: Any = performance_report(filename=str(page))
        if not _tried(report.__enter__, say):
            yield
            return
        yield  # of a run that fails there is no report: its cluster may no longer answer
        if _tried(lambda: report.__exit__(None, None, None), say):
            _tried(lambda: keep(page.read_bytes()), say)


def _tried(step: Callable[[], Any], say: Say) -> bool:
    try:
        step()
    except Exception as error:  # a scheduler elsewhere may lack bokeh, or be of another version
        say(f"Dask's performance report is not kept: {type(error).__name__}: {error}.")
        return False
    return True
