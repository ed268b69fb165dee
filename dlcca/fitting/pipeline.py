"""All stages of a run, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlcca.engine.work import Tell
from dlcca.fitting import (
    axes,
    bandwidth,
    checks,
    embed,
    index_queries,
    indexes,
    kernel,
    lanczos,
    landmarks,
    links,
    metric,
    neighborhood_rows,
    neighbors,
    scan,
    sharing,
    spectrum,
)
from dlcca.fitting.job import Job
from dlcca.recordings import input_integrity as inputs
from dlcca.storage import places
from dlcca.storage.run import FORM

STAGES: dict[str, Callable[..., Any]] = {
    "scan": scan.run,
    "landmarks": landmarks.run,
    "axes": axes.run,
    "near": links.run,
    "shards": index_queries.run,
    "neighborhoods": neighbors.run,
    "members": neighborhood_rows.run,
    "metric": metric.run,
    "chance": sharing.run,
    "units": bandwidth.run_units,
    "kernel": kernel.run,
    "spectrum": spectrum.run,
    "embedding": embed.run,
    "checks": checks.run,
}


def refuse_place(job: Job) -> None:
    """An error if the store of a job holds something else, or overlaps with a view that is not made for this run."""
    made_here = job.clock.rstrip("/") == f"{job.address.rstrip('/')}/{places.RECORDINGS}"
    inputs = [] if made_here else [f"{source.address}/{source.path}".rstrip("/") for source in job.sources]
    places.refuse_store(job.address, FORM, inputs=inputs, setting="store")


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Do what is missing of every stage. An input that has changed since it was first read is refused."""
    refuse_place(job)
    if scan.moments_stage(job).missing():  # the views may have changed since they were read in another run
        forget(client)
    for stage in STAGES.values():
        stage(job, client, tell)
    inputs.confirm(job, client, tell)  # it may have changed on the way


def forget(client: Any = None) -> None:
    """Empty what this process and the workers keep of stages that they have read.

    It is kept by fingerprints, which are the same if the views have changed in few rows.
    """
    if client is not None:
        client.run(forget)
    for kept in (landmarks.forget, axes.forget, indexes.forget, kernel.forget, lanczos.forget):
        kept()
