"""All that a report shows of a result, from a run in memory or from a store that is read some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report import landmarks as at_landmarks
from dlcca.report import rows as result_rows
from dlcca.report.landmarks import Strength, ViewChannels
from dlcca.report.rows import Block, Coloring, RowSummary, picked_rows, some_landmarks, summarize
from dlcca.report.time_axis import TimeAxis
from dlcca.storage import event_log as events
from dlcca.storage import run as run_store
from dlcca.storage.formats import open_sealed, read_array
from dlcca.storage.run import Run

#: Attributes of a run that are copied.
FACTS = ("n_common", "quality", "warnings", "views", "settings", "choices", "fingerprint", "versions", "created")
#: Small arrays of a run: names in the store, and here.
SMALL = {"eigenvalues": "eigenvalues", "landmarks": "landmarks", "quality/correlations": "correlations"}

#: The channels of all views at some landmarks, from the coordinates (l, q) and the times (l,) there.
ChannelsAt = Callable[[NDArray, NDArray | None], list[ViewChannels]]


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
    def landmark_time(self) -> NDArray[np.float64]:
        """Times of all landmarks, (L,)."""
        return self.rows.mark_time

    @property
    def drawn_landmarks(self) -> NDArray[np.int64]:
        """Positions in the sample of the landmarks that are drawn, (l,)."""
        return self.rows.sample.at(some_landmarks(self.landmarks))


def of_run(
    run: Run,
    *,
    known: Mapping[str, NDArray] | None = None,
    views: Mapping[str, NDArray] | None = None,
    also: Sequence[int] | NDArray = (),
) -> Overview:
    """From a run in memory.

    Parameters
    ----------
    known : arrays (n,) of numbers or labels, by name, to colour points by
    views : the channels of the views, (n, d) each, if they are in memory
    also : rows that have to be in the sample
    """
    at = some_landmarks(run.landmarks)
    there = {name: X[at] for name, X in (views or {}).items()}
    return _overview(
        [Block(0, run.time, run.embedding, run.reason)],
        run.embedding.shape,
        {name: getattr(run, name) for name in SMALL.values()},
        {**{fact: getattr(run, fact) for fact in FACTS}, "time_unit": run.time_unit, "start": run.start},
        lambda E, time: at_landmarks.view_channels(there, E, time),
        lambda sample: result_rows.colorings(known or {}, sample.rows),
        also,
    )


def of_store(
    address: str, *, known: Mapping[str, NDArray] | None = None, also: Sequence[int] | NDArray = ()
) -> Overview:
    """From a finished run on disk or in object storage; ``known`` and ``also`` as in `of_run`."""
    group, header = open_sealed(address, run_store.FORM)
    facts, digests = run_store.describe(address), header["manifest"]
    arrays = {mine: read_array(group, name, digests[name], address, run_store.FORM) for name, mine in SMALL.items()}
    return _overview(
        result_rows.blocks_of_store(group, digests, address, run_store.FORM),
        group["embedding"].shape,
        arrays,
        {
            **facts,
            "start": header.get("start"),
            "stored_bytes": facts["bytes"],
            "events": _events(address),
            "local": at_landmarks.local_arrays(group, digests, address, len(arrays["landmarks"])),
        },
        lambda E, time: at_landmarks.channels_in_store(address, E, time),
        lambda sample: (
            result_rows.colorings(known or {}, sample.rows) + result_rows.annotation_colorings(address, sample)
        ),
        also,
    )


def has_clock(time_unit: str, settings: Mapping[str, Any]) -> bool:
    """Whether the order of the rows means something: not for nearest neighbours of counted samples."""
    return time_unit == "s" or settings.get("neighborhoods", {}).get("kind") != "knn"


def _overview(
    blocks: Iterable[Block],
    shape: tuple[int, int],
    arrays: Mapping[str, NDArray],
    facts: Mapping[str, Any],
    channels_at: ChannelsAt,
    colored: Callable[[Any], list[Coloring]],
    also: Sequence[int] | NDArray,
) -> Overview:
    (n, q), landmarks = shape, arrays["landmarks"]
    in_order = has_clock(facts["time_unit"], facts["settings"])
    rows = summarize(blocks, n, q, picked_rows(n, landmarks, also), landmarks, has_clock=in_order)
    at = rows.sample.at(some_landmarks(landmarks))
    return Overview(
        rows=rows,
        time_axis=TimeAxis(facts["time_unit"], rows.first_time, rows.last_time, facts.get("start")),
        has_clock=in_order,
        q=q,
        eigenvalues=arrays["eigenvalues"],
        landmarks=landmarks,
        correlations=arrays["correlations"],
        strengths=_strengths(rows.mark_time, arrays["correlations"], facts),
        channels=channels_at(rows.sample.embedding[at], rows.sample.time[at] if in_order else None),
        colorings=colored(rows.sample),
        **{fact: facts[fact] for fact in FACTS},
        **{fact: facts[fact] for fact in ("cost", "events", "stored_bytes") if fact in facts},
    )


def _strengths(time: NDArray, correlations: NDArray, facts: Mapping[str, Any]) -> list[Strength]:
    if len(facts["views"]) < 2:
        return []
    return at_landmarks.strengths(time, correlations, facts.get("local", {}), facts["quality"].get("null_edge"))


def _events(address: str) -> list[dict[str, Any]]:
    """The log of the run; a damaged one is left out."""
    try:
        return events.read(address)
    except ValueError:
        return []
