"""Potential coordinates: probabilities to arrive at the anchors, and their principal components, from the landmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.planning import Sizes, StagePlan
from dlcca.engine.stage import Arrays, Blocks, Stage
from dlcca.fitting import bandwidth, draft_model, gram, landmarks, units
from dlcca.fitting.job import Job
from dlcca.model import Model, fused_rows
from dlcca.numerics.landmarks import evenly
from dlcca.numerics.potential import ANCHORS, POWER, Components, arrivals, features, principal_components, transitions

#: Rows whose features (rows, anchors) are made at a time.
TILE_ROWS = 4096


def is_needed(job: Job) -> bool:
    return bool(job.options["coordinates"] == "potential")


def n_anchors(job: Job) -> int:
    return min(ANCHORS, landmarks.count(job))


def compute(job: Job, stage: Blocks, block: int) -> None:
    """Transition probabilities of the landmarks, and the components of their features."""
    grams, columns, _roots = gram.totals(job)
    m, q, asked = landmarks.count(job), int(job.options["n_components"]), job.options["diffusion_time"]
    time = None if isinstance(asked, str) else int(asked)
    found = arrivals(transitions(grams, columns), columns[0], evenly(m, n_anchors(job)), time)
    model = with_bandwidth(job)
    parts = [features(kernel_of(model, v), B) for v, B in enumerate(found.probabilities)]
    fitted = principal_components(parts, q)
    size = 1 / np.sqrt(max(float(fitted.variances[0]), np.finfo(float).tiny))  # the first coordinate has variance one
    arrays: dict[str, tuple[int, NDArray]] = {"slopes": (0, fitted.slopes)}
    for v, B in enumerate(found.probabilities):
        arrays |= {f"arrivals_{v}": (0, B), f"means_{v}": (0, fitted.means[v])}
        arrays[f"loadings_{v}"] = (0, fitted.loadings[v] * size)
    stage.write(block, arrays, {"time": found.time, "states": found.states})


def with_bandwidth(job: Job) -> Model:
    """The landmarks and metrics with the units of the kernels."""
    draft, sigma = units.model(job), bandwidth.sigmas(job)
    scales = np.array(sigma) if job.options["fusion"] == "alternating" else draft.units * sigma[0]
    return Model(**{**vars(draft), "units": scales})


def kernel_of(model: Model, v: int) -> Any:
    """Rows of a kernel at the landmarks themselves."""
    if model.fusion == "alternating":
        return model.view_rows(v, model.points[v])
    return fused_rows(model.distances(model.points), model.n_links)


def result(job: Job) -> tuple[list[NDArray[np.float64]], Components]:
    """Probabilities (m, a) of each kernel, and the components of the features."""
    return job.cached("potential", POTENTIAL.fingerprint(job), make=lambda: _read(job), keep=1)


def _read(job: Job) -> tuple[list[NDArray[np.float64]], Components]:
    stage = POTENTIAL.of(job)

    def each(name: str) -> list[NDArray]:
        return [stage.read(f"{name}_{v}", 0) for v in draft_model.kernels(job)]

    loadings, slopes = each("loadings"), stage.read("slopes", 0)
    return each("arrivals"), Components(each("means"), loadings, slopes, np.ones(slopes.shape[1]))


def diffusion_time(job: Job) -> int:
    """The diffusion time that was given or chosen."""
    return int(POTENTIAL.of(job).facts(0)["time"])


def _arrays(job: Job) -> Arrays:
    m, a, q = landmarks.count(job), n_anchors(job), int(job.options["n_components"])
    arrays: dict[str, Any] = {"slopes": ((len(draft_model.kernels(job)), q), "float64", len(draft_model.kernels(job)))}
    for v in draft_model.kernels(job):
        arrays |= {f"arrivals_{v}": ((m, a), "float64", m), f"means_{v}": ((a,), "float64", a)}
        arrays |= {f"loadings_{v}": ((a, q), "float64", a)}
    return arrays


def _cost(sizes: Sizes) -> StagePlan:
    one = float(sizes.m) ** 2 * 8
    return StagePlan(
        "potential",
        1 if sizes.potential else 0,
        products=8.0 * float(sizes.m) ** 3,
        reads=sizes.gram_groups * sizes.gram_pairs * one,
        memory=(sizes.gram_pairs + 6) * one,
    )


POTENTIAL = Stage(
    "potential",
    compute,
    after=[gram.GRAM, bandwidth.BANDWIDTH],
    options=["coordinates", "diffusion_time", "n_components"],
    constants=[ANCHORS, POWER],
    arrays=_arrays,
    is_needed=is_needed,
    says=lambda job: f"{job.options['n_components']} coordinates, diffusion time {job.options['diffusion_time']}",
    cost=_cost,
    reads="the L x L matrices",
    leaves="transition probabilities of the landmarks and their principal components, for potential coordinates",
)
