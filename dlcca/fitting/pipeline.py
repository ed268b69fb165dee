"""All stages of a fit, in their order: the one list of them."""

from typing import Any

from dlcca.engine.stage import Stage, StagePlan
from dlcca.engine.work import OnProgress
from dlcca.fitting import (
    checks,
    distances,
    embed,
    gram,
    kernel,
    landmarks,
    links,
    metric,
    neighborhood_rows,
    neighbors,
    readout,
    scan,
    sharing,
    spectrum,
)
from dlcca.fitting.job import Job, places_read
from dlcca.recordings import input_integrity
from dlcca.storage import cache, places
from dlcca.storage.run import FORM

STAGES: tuple[Stage, ...] = (
    scan.SCAN,
    scan.MOMENTS,
    landmarks.LANDMARKS,
    landmarks.POINTS,
    links.AXES,
    links.LINKS,
    neighbors.SUBSET,
    neighbors.INDEX_QUERIES,
    neighbors.MERGED,
    neighbors.NEIGHBORHOODS,
    neighbors.RECALL,
    neighborhood_rows.SURVEY,
    neighborhood_rows.MEMBERS,
    metric.METRIC,
    sharing.CHANCE,
    distances.UNITS,
    kernel.KERNEL,
    kernel.BANDWIDTH,
    gram.COLUMNS,
    gram.GRAM,
    spectrum.SPECTRUM,
    readout.READOUT,
    embed.COORDINATES,
    embed.SIGNS,
    embed.EMBEDDING,
    sharing.STRENGTH,
    checks.CHECKS,
)


def on_disk() -> list[str]:
    """Names on disk in the order of the stages, each after what it leaves on the way."""
    return [name for stage in STAGES for name in (*stage.scratch, stage.name)]


def refuse_place(job: Job) -> None:
    """An error if the store of a job holds something else, or overlaps with a view that is not made for this run."""
    places.refuse_store(job.address, FORM, inputs=places_read(job.address, job.clock, job.sources), setting="store")


def run(job: Job, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Compute what is missing of every stage. An input that has changed since it was first read is refused."""
    refuse_place(job)
    if scan.MOMENTS.of(job).missing():  # the views may have changed since they were read in another run
        forget(client)
    compute(job, client, on_progress)
    input_integrity.confirm(job, client, on_progress)  # it may have changed on the way


def compute(job: Job, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Run every stage in its order."""
    for stage in STAGES:
        stage.run(job, client, on_progress)


def forget(client: Any = None) -> None:
    """Empty what this process and the workers keep of stages that they have read.

    It is kept by fingerprints, which are the same if the views have changed in few rows.
    """
    if client is not None:
        client.run(cache.clear)
    cache.clear()


def costs(job: Job) -> list[StagePlan]:
    """What each stage will take; the seal at the end is written by the client."""
    sealed = StagePlan("finish", 1, reads=float(job.n) * job.q * job.itemsize, writes=job.n * 8.0)
    return [made for made in (*(stage.plan(job) for stage in STAGES), sealed) if made.tasks]
