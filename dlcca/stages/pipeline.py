"""All stages of a run, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlcca.stages import (
    axes,
    checking,
    embedding,
    indexes,
    inputs,
    kernel,
    lanczos,
    landmarks,
    members,
    metric,
    near,
    neighborhoods,
    scales,
    scan,
    shards,
    sharing,
    spectrum,
)
from dlcca.stages.job import Job
from dlcca.stages.work import Tell

STAGES: dict[str, Callable[..., Any]] = {
    "scan": scan.run,
    "landmarks": landmarks.run,
    "axes": axes.run,
    "near": near.run,
    "shards": shards.run,
    "neighborhoods": neighborhoods.run,
    "members": members.run,
    "metric": metric.run,
    "chance": sharing.run,
    "units": scales.run_units,
    "kernel": kernel.run,
    "spectrum": spectrum.run,
    "embedding": embedding.run,
    "checks": checking.run,
}


def run(job: Job, client: Any = None, tell: Tell | None = None) -> None:
    """Do what is missing of every stage. An input that has changed since it was first read is refused."""
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
