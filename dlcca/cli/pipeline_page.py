"""`dlcca pipeline page`: the nights of a pipeline on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Debug, Quiet
from dlcca.cli.pipeline import File

EXAMPLE = "Example: dlcca pipeline page pipeline.toml"


def page(
    file: File,
    out: Annotated[Path | None, typer.Option(help="The HTML file; [outputs] page if not said.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write the page of a pipeline: nights, failures and their reasons, drift, models, links to reports.

    It is one HTML file that needs no network; dlcca pipeline run writes it as well.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import page as pages
        from dlcca.pipelines import reports
        from dlcca.pipelines.context import opened

        with voice.progress() as step, opened(file, say=step) as flow:
            place = pages.placed(flow, out)
            reports.write_missing(flow, place)
            pages.write(flow, place)
        voice.say(f"The page is {place}.")
        voice.finish({"page": str(place)})
