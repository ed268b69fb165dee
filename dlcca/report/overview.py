"""All that a report shows of a result, from a run in memory or from a store that is read some rows at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from dlcca.report import landmarks as at_landmarks
from dlcca.report import rows as result_rows
from dlcca.report.landmarks import Strength, ViewChannels, strengths
from dlcca.report.rows import Block, Coloring, RowSummary, picked_rows, some_landmarks, summarize
from dlcca.report.time_axis import TimeAxis
from dlcca.storage import event_log as events
from dlcca.storage import run as run_store
from dlcca.storage.files import files_at
from dlcca.storage.formats import open_sealed
from dlcca.storage.run import Run

Picked = Sequence[int] | NDArray  # row numbers
#: Arrays of a run that have an entry for each row.
BY_ROW = ("embedding", "time", "reason", "strength")


@dataclass(frozen=True, kw_only=True)
class Overview(Run):
    """A result, ready to be drawn; the arrays of all rows may be those of a store, which are not read again."""

    rows: RowSummary
    time_axis: TimeAxis
    has_clock: bool  # whether the order of the rows means something
    strengths: list[Strength]  # measures of common strength, the best first
    channels: list[ViewChannels] = field(default_factory=list)
    colorings: list[Coloring] = field(default_factory=list)
    cost: dict[str, Any] = field(default_factory=dict)  # by stage: seconds, peak_bytes, tasks
    events: list[dict[str, Any]] = field(default_factory=list)  # what happened in the run
    stored_bytes: int | None = None

    @property
    def n(self) -> int:
        return int(self.embedding.shape[0])

    @property
    def q(self) -> int:
        """Coordinates of the result; at most `rows.COORDINATES` are drawn."""
        return len(self.eigenvalues)

    @property
    def drawn_landmarks(self) -> NDArray:
        """Positions in the sample of the landmarks that are drawn, (l,)."""
        return self.rows.sample.at(some_landmarks(self.landmarks))


def of_run(run: Run, *, also: Picked = ()) -> Overview:
    """From a run in memory; the rows in ``also`` have to be in the sample."""
    return _overview(run, [(0, {name: getattr(run, name) for name in ("time", "embedding", "reason")})], also)


def of_store(address: str, *, known: Mapping[str, NDArray] | None = None, also: Picked = ()) -> Overview:
    """From a finished run on disk or in object storage.

    ``known`` are arrays (n,) of numbers or labels, by name, to colour points by; the rows in ``also`` have to be in the
    sample.
    """
    group, header = open_sealed(address, run_store.FORM)
    run, digests = run_store.read(address, lazy=BY_ROW), header["manifest"]
    names = [name for name in ("embedding", "time", "reason") if name in digests]
    found = _overview(run, result_rows.read_blocks(group, names, digests, address, run_store.FORM), also)
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
        cost=header.get("cost", {}),
        events=happened,
        stored_bytes=files_at(address).size(),
    )


def _overview(run: Run, blocks: Iterable[Block], also: Picked) -> Overview:
    n, q = run.embedding.shape
    # The order of rows means nothing for nearest neighbours of counted samples.
    has_clock = run.time_unit == "s" or run.settings.get("neighborhoods", {}).get("kind") != "knn"
    rows = summarize(blocks, n, q, picked_rows(n, run.landmarks, also), run.landmarks, has_clock=has_clock)
    first, last = float(rows.stretches.begin[0]), float(rows.stretches.end[-1])
    measured = rows.mark_time, run.correlations, run.local, run.quality.get("null_edge")
    return Overview(
        **vars(run),
        rows=rows,
        time_axis=TimeAxis(run.time_unit, first, last, run.start),
        has_clock=has_clock,
        strengths=strengths(*measured) if len(run.views) > 1 else [],
    )
