"""The end of a run: the small arrays, the quality, the model, and the seal that says it is finished."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.fingerprint import fingerprint
from dlcca.engine.work import read_or_computed
from dlcca.fitting import (
    bandwidth,
    checks,
    embed,
    landmarks,
    metric,
    neighborhood_rows,
    neighbors,
    sharing,
    spectrum,
    strength,
)
from dlcca.fitting.embed import model_of
from dlcca.fitting.job import Job
from dlcca.settings.auto import Choices
from dlcca.storage import event_log
from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.storage.blocks import storing
from dlcca.storage.files import files_at, zarr_store
from dlcca.storage.formats import plain, seal, write_array
from dlcca.storage.manifest import digest_of_facts, put_group
from dlcca.storage.views import recordings_of
from dlcca.trust.quality import Quality, assess, with_hint
from dlcca.views import transposed


def quality_of(job: Job, choices: Choices | None = None) -> Quality:
    """How far the result can be trusted; the choices tell whether the user or "auto" chose the metric."""
    found = sharing.common(job, metric.METRIC.of(job))
    quality = assess(
        metric.result(job),
        neighborhood_rows.width(job),
        spectrum.eigenvalues(job),
        neighbor_recall=neighbors.neighbor_recall(job),
        common=found,
        checks=checks.result(job),
        one_is_meant=choices is None or "metric" not in choices.reasons,
    )
    quality = with_hint(quality, transposed(job.n, job.dims))
    return replace(quality, strength=strength.of_rows(job))


def run(job: Job, choices: Choices, cost: dict[str, Any] | None = None) -> Quality:
    """Write what a finished run holds besides the embedding, and seal it; ``cost`` is what each stage took."""
    with storing(f"the results in {job.address}"):
        return _write(job, choices, cost or {})


def _write(job: Job, choices: Choices, cost: dict[str, Any]) -> Quality:

    quality = quality_of(job, choices)
    told = plain({**quality.measures, "n_common": quality.n_common, "warnings": quality.reasons})
    group = _emptied(job)
    group.create_group("quality", attributes=told)
    clock = job.moments
    small = {
        "time": np.arange(job.n) if clock is None else clock.time,
        "eigenvalues": spectrum.eigenvalues(job)[1:],
        "landmarks": landmarks.rows(job) if clock is None else clock.rows[landmarks.rows(job)],
        "quality/correlations": metric.result(job).correlations,
        **{f"quality/{name}": X for name, X in quality.local.items()},
    }
    if clock is not None:
        small["reason"] = clock.reason
    if quality.strength is not None:
        small["strength"] = quality.strength
    manifest = {name: write_array(group, name, X) for name, X in small.items()}
    manifest |= {"embedding": _embedding_digest(job), "quality": digest_of_facts(told)}
    manifest["model"] = _write_model(group, job, choices, quality, small)
    facts = {
        "views": {source.name: d for source, d in zip(job.sources, job.dims, strict=True)},
        "settings": job.settings.to_dict(),
        "choices": choices.lines(),
        "fingerprint": fingerprint(job.inputs, job.settings.to_dict(), job.seed),
        "time_unit": "sample" if clock is None else "s",
        "start": None if clock is None else clock.start,
        "versions": run_store.versions(),
        "created": run_store._now(),
        "cost": cost,
        "stages": list(cost),
        "log": event_log.current() is not None,
    }
    seal(group, run_store.FORM, {**plain(facts), "manifest": manifest})
    return quality


def _write_model(group: Any, job: Job, choices: Choices, quality: Quality, small: dict[str, NDArray]) -> str:
    """The model as a group of its own, for new recordings; the checksum of its header."""
    sigma = bandwidth.sigmas(job)
    made = recordings_of(job.clock) if job.clock else None
    arrays = {
        "eigenvalues": small["eigenvalues"],
        "landmarks": small["landmarks"],
        "correlations": small["quality/correlations"],
        "bandwidth": np.asarray(sigma[0] if len(sigma) == 1 else sigma),
        **({} if made is None else made.scaling),
    }
    facts = {
        "params": job.settings.to_dict(),
        "settings": job.settings.to_dict(),
        "choices": choices.lines(),
        "n_common": quality.n_common,
        "quality": quality.measures,
        "warnings": quality.reasons,
        "versions": run_store.versions(),
        "recordings": None if made is None else made.facts,
    }
    return model_store.write(group.create_group("model"), model_of(job), arrays, plain(facts))


#: What is written here, and may be left of an earlier run; what is of each landmark goes with "quality".
RESULTS = ("time", "eigenvalues", "landmarks", "reason", "strength", "quality", "model")


def _emptied(job: Job) -> Any:
    """The group of the run, without what is written here, and without the header that would tell of it."""
    import zarr

    put_group(job.address, {})
    for name in RESULTS:
        files_at(job.address).remove(name)
    return zarr.open_group(zarr_store(job.address), mode="a", zarr_format=3)


def _embedding_digest(job: Job) -> str:
    """The digest that the store's reader asks for, made block by block."""
    stage, q = embed.EMBEDDING.of(job), int(job.options["n_components"])
    made = hashlib.sha256(f"{np.dtype(job.dtype).str}{(job.n_moments, q)}".encode())
    for block in range(stage.n_blocks):
        X = read_or_computed(embed.finish, job, stage, "/embedding", block)
        made.update(np.ascontiguousarray(X).data)
    return made.hexdigest()
