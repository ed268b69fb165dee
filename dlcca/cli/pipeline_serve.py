"""`dlcca pipeline serve`: a pipeline whose nights are begun by Prefect."""

from __future__ import annotations

from typing import Annotated

import typer

from dlcca.cli.console import speaking
from dlcca.cli.options import AsJson, Cluster, Debug, Quiet
from dlcca.cli.pipeline import File
from dlcca.cli.pipeline_install import At, When, chosen
from dlcca.errors import SettingsError

EXAMPLE = "Example: dlcca pipeline serve pipeline.toml --at 02:30"


def serve(
    file: File,
    at: At = None,
    schedule: When = None,
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="Of these times, as Europe/Berlin.")] = "UTC",
    cluster: Cluster = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Let Prefect begin the nights of a pipeline, and do them; ends when it is stopped.

    Needs dlcca[prefect] and a Prefect server (prefect server start) at PREFECT_API_URL. Every step is a task there.
    """
    with speaking(as_json, quiet, debug) as voice:
        from dlcca.pipelines import settings

        when = chosen(at, schedule)
        name = settings.read(file).pipeline.name
        try:
            from dlcca.pipelines import prefect_flow
        except ImportError as error:
            raise SettingsError(
                f"Prefect is not installed here ({error}): pip install 'dlcca[prefect]'. Cron and systemd need "
                "nothing: dlcca pipeline install."
            ) from error
        voice.say(f"{name}: nights begin at {when.expression} ({timezone}), as the deployment dlcca-night/{name}.")
        prefect_flow.serve(file, when.expression, cluster, timezone)
        voice.finish({"deployment": f"dlcca-night/{name}", "schedule": when.expression, "timezone": timezone})
