"""A night as a Prefect flow: its steps are tasks, and what is to be computed is computed by the cluster of a file.

Prefect says when a night begins, and shows how far it is. All that must hold when a night is killed, or when two begin
at once, is in the catalog and its lock, here as elsewhere: so a step is not repeated by Prefect, but by the next night.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before Prefect is imported, which asks for them then: it would tell its makers of its use. Say 0 to let it.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

from prefect import State, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.flows import EntrypointType
from prefect.schedules import Cron
from prefect.states import Completed, Failed

from dlcca.pipelines import lock, reports, settings
from dlcca.pipelines.nightly_run import begun, nightly


def as_task(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
    """A step as a task of this name.

    The arguments stay out of Prefect's sight: it would copy and hash them, and a catalog is neither.
    """
    return task(lambda: step(*arguments), name=name, cache_policy=NO_CACHE, persist_result=False)()


@flow(name="dlcca-night", validate_parameters=False, persist_result=False)
def night(pipeline: str, cluster: str | None = None) -> State[Any]:
    """Everything that `dlcca pipeline run` does; a run fails when that would end with another exit code than 0."""
    say = get_run_logger().info
    try:
        with begun(pipeline, "prefect", cluster, say) as (opened, summary):
            nightly(opened, summary, as_task)
        as_task("reports", reports.draw, pipeline, say)
    except lock.Busy as busy:
        says_so = f"{pipeline}: {busy}; this one leaves."
        fails = settings.read(pipeline).pipeline.busy == "fail"
        return Failed(message=says_so) if fails else Completed(name="Left", message=says_so)
    document = summary.document()
    if summary.exit_code:
        return Failed(message=f"exit code {summary.exit_code}: {document['text']}")
    return Completed(message=document["text"])


def serve(pipeline: str | Path, schedule: str, cluster: str | None = None, timezone: str = "UTC") -> None:
    """Have Prefect's server begin a night whenever ``schedule`` (of cron) says so, and do it; returns when stopped.

    The server is the one of PREFECT_API_URL. Nights do not overlap: one that would is left out.
    """
    asked = settings.read(pipeline)
    parameters = {"pipeline": str(asked.path), "cluster": _absolute(cluster)}
    night.serve(
        name=asked.pipeline.name,
        schedule=Cron(schedule, timezone=timezone),
        parameters=parameters,
        limit=1,
        # By its module: a path would be that of the folder in which this was started.
        entrypoint_type=EntrypointType.MODULE_PATH,
        print_starting_message=False,
    )


def _absolute(cluster: str | None) -> str | None:
    """A cluster file by its full path, for a flow runs where it likes; an address stays one."""
    return str(Path(cluster).resolve()) if cluster is not None and Path(cluster).exists() else cluster
