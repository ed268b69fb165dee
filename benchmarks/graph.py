"""The graph of a run: facts, not timings. `tests/fitting/test_graph.py` holds them for other kinds of run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.large import job_for, write_views
from benchmarks.measure import Row, share
from dlcca.clusters.local import local_client
from dlcca.fitting import pipeline
from tests.fitting.graphs import GraphWatch


def rows(quick: bool) -> Iterator[Row]:
    n = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as scratch, local_client(workers=1) as client:
        job = job_for(Path(scratch), write_views(Path(scratch), n), landmarks=500 if quick else 2000)
        watch = GraphWatch.of(client)
        pipeline.run(job, client)
    text = f"{n:,} rows in {job.n_blocks} blocks"
    yield share("graph", f"{text}: tasks for each block in all", watch.tasks / job.n_blocks, 20, "< 1", unit="tasks")
    yield share("graph", f"{text}: the largest task", watch.largest_bytes / 1e6, 1, "< 1", unit="MB")
    yield share("graph", f"{text}: tasks at once", watch.most_at_once, 1e5, "< 1", unit="tasks")
