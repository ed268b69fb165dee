"""Small recordings in Zarr and jobs on them, for the tests of stages and of their faults."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import Crc32cCodec

from dlcca.engine import row_blocks
from dlcca.fitting import pipeline
from dlcca.fitting.job import Job, Source, make_job, settled
from dlcca.settings.fit import Settings

KNN = {"neighborhoods": "knn", "landmarks": 45, "n_neighbors": 20, "n_links": 10, "n_components": 3}
TIME = {"neighborhoods": "time", "landmarks": 60, "window": 9, "n_components": 3}


def recordings(K: int, n: int = 150, dtype: str = "float64") -> list[np.ndarray]:
    """K views (n, 4) of two common movements and one that is the view's own, with a mean and a little noise."""
    rng = np.random.default_rng(K)
    wander = lambda d: np.sin(np.cumsum(0.3 * rng.standard_normal((n, d)), axis=0))  # noqa: E731
    common = wander(2)
    views = []
    for _ in range(K):
        hidden = np.hstack([common, wander(1)])
        seen = np.tanh(hidden @ rng.standard_normal((3, 4))) + 0.1 * hidden @ rng.standard_normal((3, 4))
        views.append((seen + 0.01 * rng.standard_normal((n, 4)) + 3).astype(dtype))
    return views


def written(folder: Path, views: list[np.ndarray], *chunk_rows: int) -> tuple[Source, ...]:
    """The views as Zarr arrays whose chunks carry checksums; the chunks may differ from view to view."""
    sources = []
    for v, X in enumerate(views):
        rows = chunk_rows[v % len(chunk_rows)]
        place = folder / f"view{v + 1}.zarr"
        array = zarr.create_array(
            str(place), shape=X.shape, dtype=X.dtype, chunks=(rows, X.shape[1]), compressors=[Crc32cCodec()]
        )
        array[...] = X
        sources.append(Source(f"view {v + 1}", str(place)))
    return tuple(sources)


def small_job(folder: Path, views: list[np.ndarray], *chunk_rows: int, block_rows: int = 40, **options: object) -> Job:
    """A job in blocks of about so many rows (whole chunks), written to ``folder``."""
    sources = written(folder, views, *(chunk_rows or (7,)))
    return job_on(folder / "run.zarr", sources, block_rows=block_rows, **options)


def job_on(place: Path, sources: tuple[Source, ...], *, block_rows: int = 40, **options: object) -> Job:
    """A job on views that are there already."""
    settings = settled(Settings.from_options(**options), sources).settings
    usual = row_blocks.MOST_ROWS, row_blocks.LEAST_ROWS
    row_blocks.MOST_ROWS = row_blocks.LEAST_ROWS = block_rows
    try:
        return make_job(str(place), sources, settings, seed=0)
    finally:
        row_blocks.MOST_ROWS, row_blocks.LEAST_ROWS = usual


def embedding(job: Job) -> np.ndarray:
    return zarr.open_array(f"{job.address}/embedding", mode="r")[...]


def run_until(job: Job, last: str) -> None:
    """Run the stages up to one of them."""
    for stage in pipeline.STAGES:
        stage.run(job)
        if stage.name == last:
            return
    raise ValueError(f"{last!r} is no stage")


def patch_stage(monkeypatch: pytest.MonkeyPatch, name: str, **changed: Any) -> None:
    """Have `pipeline` run a stage with other functions."""
    assert name in pipeline.on_disk()
    stages = [replace(stage, **changed) if stage.name == name else stage for stage in pipeline.STAGES]
    monkeypatch.setattr(pipeline, "STAGES", tuple(stages))
