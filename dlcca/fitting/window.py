"""``window="auto"`` for views on disk: some stretches of rows are read, and the length is chosen by them."""

from __future__ import annotations

from dataclasses import replace

from dlcca.engine import given_rows
from dlcca.fitting.in_memory import with_window
from dlcca.fitting.job import Job, Source, make_job
from dlcca.settings.auto import Choices


def chosen_job(
    address: str, sources: tuple[Source, ...], choices: Choices, seed: int, clock: str = ""
) -> tuple[Job, Choices]:
    """The job of these choices (see `make_job`), and the choices with a window too, if it was "auto"."""
    asked = choices.settings.neighborhoods
    if asked.window != "auto":
        return make_job(address, sources, choices.settings, seed, clock), choices
    # Any window does for a job that only reads: the shortest fits every recording.
    job = make_job(address, sources, choices.settings.with_options(window=2), seed, clock)
    settled = with_window(choices, job.n, lambda rows: [job.read(v, rows) for v in range(job.K)], job.segments)
    return replace(job, settings=given_rows.as_arrays(settled.settings)), settled
