"""The end of a run: the small arrays, the quality, the model, and the seal that says it is finished."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from dlcca.choices import Choices
from dlcca.model import Model
from dlcca.quality import Quality, assess
from dlcca.stages import embedding, kernel, landmarks, members, metric, spectrum
from dlcca.stages.job import Job, fingerprint
from dlcca.stores import run as run_store
from dlcca.stores.arrays import digest_of_facts, plain, seal, write_array
from dlcca.stores.blocks import storing
from dlcca.stores.files import zarr_store


def model_of(job: Job) -> Model:
    """The fitted model, which gives any sample its coordinates."""
    sign, scale = embedding.sign_and_scale(job)
    draft, sigma = kernel.model(job), spectrum.sigmas(job)
    values = [V * sign for V in spectrum.values(job)]
    units = np.array(sigma) if job.options["fusion"] == "alternating" else draft.units * sigma[0]
    return Model(
        names=draft.names,
        fusion=draft.fusion,
        n_links=draft.n_links,
        points=draft.points,
        factors=draft.factors,
        units=units,
        weights=[np.ones(len(V)) for V in values],
        values=values,
        scale=scale,
    )


def quality_of(job: Job) -> Quality:
    return assess(metric.result(job), members.width(job), spectrum.eigenvalues(job))


def run(job: Job, choices: Choices) -> Quality:
    """Write what a finished run holds besides the embedding, and seal it."""
    with storing(f"the results in {job.address}"):
        return _write(job, choices)


def _write(job: Job, choices: Choices) -> Quality:
    import zarr

    group = zarr.open_group(zarr_store(job.address), mode="a", zarr_format=3)
    quality = quality_of(job)
    told = plain({**quality.measures, "n_common": quality.n_common, "warnings": quality.reasons})
    group.require_group("quality").attrs.update(told)
    small = {
        "time": np.arange(job.n),
        "eigenvalues": spectrum.eigenvalues(job)[1:],
        "landmarks": landmarks.rows(job),
        "quality/correlations": metric.result(job).correlations,
    }
    manifest = {name: write_array(group, name, X) for name, X in small.items() if _cleared(group, name)}
    manifest |= {"embedding": _embedding_digest(job), "quality": digest_of_facts(told)}
    facts = {
        "views": {source.name: d for source, d in zip(job.sources, job.dims, strict=True)},
        "settings": job.settings.to_dict(),
        "choices": choices.lines(),
        "fingerprint": fingerprint(job.inputs, job.settings.to_dict(), job.seed),
        "time_unit": "sample",
        "versions": run_store.versions(),
        "created": run_store._now(),
    }
    seal(group, run_store.FORM, {**plain(facts), "manifest": manifest})
    return quality


def _cleared(group: Any, name: str) -> bool:
    """Make room for an array that an earlier run may have left."""
    if name in group:
        del group[name]
    return True


def _embedding_digest(job: Job) -> str:
    """The digest that the store's reader asks for, made block by block."""
    stage, q = embedding.stage_of(job), int(job.options["n_components"])
    made = hashlib.sha256(f"{np.dtype(job.dtype).str}{(job.n, q)}".encode())
    for block in range(stage.n_blocks):
        made.update(np.ascontiguousarray(stage.read("/embedding", block)).data)
    return made.hexdigest()
