"""A run as a Prefect flow: its steps are tasks, computed by the cluster of a file.

Prefect starts runs and shows their progress. The catalog and its lock make a run safe when it is killed or when two
start at once, here as elsewhere: a failed step is not retried by Prefect, but by the next run.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before Prefect is imported, which reads them then: no usage reports. Set them otherwise to allow these.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")

from prefect import State, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.flows import EntrypointType
from prefect.schedules import Cron
from prefect.states import Completed, Failed

from dlcca.pipelines import page, settings
from dlcca.pipelines.catalog import Busy
from dlcca.pipelines.nightly_run import begun, nightly


def as_task(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
    """Run a step as a task of this name."""
    # The arguments are hidden from Prefect, which would copy and hash them: a catalog allows neither.
    return task(lambda: step(*arguments), name=name, cache_policy=NO_CACHE, persist_result=False)()


@flow(name="dlcca-night", validate_parameters=False, persist_result=False)
def night(pipeline: str, cluster: str | None = None) -> State[Any]:
    """What `dlcca pipeline run` does; the flow fails if the exit code is not 0."""
    say = get_run_logger().info
    try:
        with begun(pipeline, "prefect", cluster, say) as (opened, summary):
            nightly(opened, summary, as_task)
        as_task("reports", page.update_reports, pipeline, say)
    except Busy as busy:
        text = f"{pipeline}: {busy}; this one ends."
        fails = settings.read(pipeline).pipeline.busy == "fail"
        return Failed(message=text) if fails else Completed(name="Left", message=text)
    document = summary.document()
    if summary.exit_code:
        return Failed(message=f"exit code {summary.exit_code}: {document['text']}")
    return Completed(message=document["text"])


def serve(pipeline: str | Path, schedule: str, cluster: str | None = None, timezone: str = "UTC") -> None:
    """Have the Prefect server of PREFECT_API_URL start runs by a cron ``schedule``, until stopped."""
    read = settings.read(pipeline)
    if cluster is not None and Path(cluster).exists():
        cluster = str(Path(cluster).resolve())  # the working directory of a flow may be another
    night.serve(
        name=read.pipeline.name,
        schedule=Cron(schedule, timezone=timezone),
        parameters={"pipeline": str(read.path), "cluster": cluster},
        limit=1,  # runs do not overlap: one that would is skipped
        entrypoint_type=EntrypointType.MODULE_PATH,  # a path would depend on the working directory
        print_starting_message=False,
    )
