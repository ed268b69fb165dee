"""The axes along which links are nearest in each view, from the landmarks; read by every task that searches links."""

from __future__ import annotations

from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import landmarks
from dlcca.fitting.job import Job
from dlcca.numerics.distances import LEAST_SPREAD, MOST_CHANNELS, Axes, equalized


def is_needed(job: Job) -> bool:
    """Whether links are by distance, and not by the metric or to all landmarks."""
    by_distance = job.fusion.per_view and job.options["kernel"] == "sparse"
    return bool(by_distance and int(job.options["n_links"]) < landmarks.count(job))


def compute(job: Job, stage: Blocks, block: int) -> None:
    groups = range(landmarks.n_groups(job))
    found = [equalized(landmarks.points(job, g)[v] for g in groups) for v in range(job.K)]
    known = {v: axes for v, axes in enumerate(found) if axes is not None}
    parts = {f"centre_{v}": (0, axes.centre) for v, axes in known.items()}
    stage.write(block, parts | {f"turn_{v}": (0, axes.turn) for v, axes in known.items()}, {"views": list(known)})


def of(job: Job) -> list[Axes | None]:
    """The axes of every view; None for one that is searched as it is."""
    if not is_needed(job):
        return [None] * job.K
    stage = AXES.of(job)

    def read(v: int) -> Axes | None:
        known = v in stage.facts(0)["views"]
        return Axes(stage.read(f"centre_{v}", 0), stage.read(f"turn_{v}", 0)) if known else None

    return job.cached("axes", AXES.fingerprint(job), make=lambda: [read(v) for v in range(job.K)])


def _arrays(job: Job) -> Arrays:
    narrow = [(v, d) for v, d in enumerate(job.dims) if d <= MOST_CHANNELS]
    centres = {f"centre_{v}": ((d,), "float64", d) for v, d in narrow}
    return {**centres, **{f"turn_{v}": ((d, d), "float64", d) for v, d in narrow}}


def _cost(job: Job) -> dict[str, float]:
    m, squares = float(landmarks.count(job)), sum(d**2 for d in job.dims)
    return {
        "products": 2.0 * m * squares,
        "decompositions": float(sum(10 * d**3 for d in job.dims)),
        "reads": m * job.width * job.itemsize * job.K,
        "memory": landmarks.rows_of_group(job) * job.width * (job.itemsize + 16.0) + 40.0 * max(job.dims) ** 2,
    }


AXES = Stage(
    "axes",
    compute,
    after=[landmarks.POINTS],
    constants=["equalized", LEAST_SPREAD, MOST_CHANNELS],
    arrays=_arrays,
    is_needed=is_needed,
    cost=_cost,
    reads="the landmarks",
    leaves="the equalized axes of each view, where links are by distance",
)
