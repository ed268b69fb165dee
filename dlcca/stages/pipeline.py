"""All stages of a run, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlcca.stages import (
    axes,
    checking,
    embedding,
    kernel,
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
    """Do what is missing of every stage."""
    for stage in STAGES.values():
        stage(job, client, tell)
