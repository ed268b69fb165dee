"""All that a report shows of a result, from a run in memory or from a store that is read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report import landmarks as at_landmarks
from dlcca.report import rows as result_rows
from dlcca.report.landmarks import Strength, ViewChannels, strengths
from dlcca.report.rows import Block, Coloring, RowSummary, picked_rows, some_landmarks, summarize
from dlcca.report.time_axis import TimeAxis
from dlcca.storage import event_log as events
from dlcca.storage import run as run_store
from dlcca.storage.formats import open_sealed, read_array
from dlcca.storage.run import Run

Picked = Sequence[int] | NDArray  # row numbers
#: Attributes of a run that are copied.
FACTS = ("n_common", "quality", "warnings", "views", "settings", "choices", "fingerprint", "versions", "created")
#: Small arrays of a run: names in the store, and here.
SMALL = {"eigenvalues": "eigenvalues", "landmarks": "landmarks", "quality/correlations": "correlations"}


@dataclass(frozen=True)
class Overview:
    """A result, ready to be drawn."""

    rows: RowSummary
    time_axis: TimeAxis
    has_clock: bool  # whether the order of the rows means something
    q: int  # coordinates of the result; at most `rows.COORDINATES` are drawn
    eigenvalues: NDArray  # (q,) without the trivial 1
    landmarks: NDArray  # (L,) row numbers
    correlations: NDArray  # (L, r)
    n_common: int
    quality: dict[str, Any]
    warnings: list[str]
    views: dict[str, int]  # names and channels
    settings: dict[str, Any]
    choices: list[str]
    fingerprint: str
    versions: dict[str, str]
    created: str
    strengths: list[Strength] = field(default_factory=list)  # measures of common strength, the best first
    channels: list[ViewChannels] = field(default_factory=list)
    colorings: list[Coloring] = field(default_factory=list)
    cost: dict[str, Any] = field(default_factory=dict)  # by stage: seconds, peak_bytes, tasks
    events: list[dict[str, Any]] = field(default_factory=list)  # what happened in the run
    stored_bytes: int | None = None

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def drawn_landmarks(self) -> NDArray[np.int64]:
        """Positions in the sample of the landmarks that are drawn, (l,)."""
        return self.rows.sample.at(some_landmarks(self.landmarks))


def of_run(run: Run, *, also: Picked = ()) -> Overview:
    """From a run in memory; the rows in ``also`` have to be in the sample."""
    arrays = {name: getattr(run, name) for name in SMALL.values()}
    facts = {name: getattr(run, name) for name in (*FACTS, "time_unit", "start", "local")}
    return _overview([Block(0, run.time, run.embedding, run.reason)], run.embedding.shape, arrays, facts, also)


def of_store(address: str, *, known: Mapping[str, NDArray] | None = None, also: Picked = ()) -> Overview:
    """From a finished run on disk or in object storage.

    Parameters
    ----------
    known : arrays (n,) of numbers or labels, by name, to colour points by
    also : rows that have to be in the sample
    """
    group, header = open_sealed(address, run_store.FORM)
    facts, digests = run_store.describe(address), header["manifest"]

    def read(names: Mapping[str, str]) -> dict[str, NDArray]:
        known = {name: digests[name] for name in names if name in digests}
        return {names[name]: read_array(group, name, known[name], address, run_store.FORM) for name in known}

    facts |= {"start": header.get("start"), "local": read(at_landmarks.LOCAL)}
    blocks = result_rows.blocks_of_store(group, digests, address, run_store.FORM)
    found = _overview(blocks, group["embedding"].shape, read(SMALL), facts, also)
    sample, at = found.rows.sample, found.drawn_landmarks
    time = sample.time[at] if found.has_clock else None
    try:
        happened = events.read(address)
    except ValueError:  # a damaged log is left out
        happened = []
    return replace(
        found,
        channels=at_landmarks.channels_in_store(address, sample.embedding[at], time),
        colorings=result_rows.colorings(known or {}, sample.rows) + result_rows.annotation_colorings(address, sample),
        cost=facts["cost"],
        events=happened,
        stored_bytes=facts["bytes"],
    )


def _overview(
    blocks: Iterable[Block], shape: tuple[int, int], arrays: Mapping[str, Any], facts: Mapping[str, Any], also: Picked
) -> Overview:
    (n, q), landmarks = shape, arrays["landmarks"]
    # The order of rows means nothing for nearest neighbours of counted samples.
    has_clock = facts["time_unit"] == "s" or facts["settings"].get("neighborhoods", {}).get("kind") != "knn"
    rows = summarize(blocks, n, q, picked_rows(n, landmarks, also), landmarks, has_clock=has_clock)
    first, last = float(rows.stretches.begin[0]), float(rows.stretches.end[-1])
    measured = arrays["correlations"], facts["local"], facts["quality"].get("null_edge")
    return Overview(
        rows=rows,
        time_axis=TimeAxis(facts["time_unit"], first, last, facts["start"]),
        has_clock=has_clock,
        q=q,
        strengths=strengths(rows.mark_time, *measured) if len(facts["views"]) > 1 else [],
        **arrays,
        **{fact: facts[fact] for fact in FACTS},
    )
