"""All that a report tells of a result, from a run in memory or from a store that is read some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report import channels, coloring, reading, strength
from dlcca.report.channels import ViewChannels
from dlcca.report.coloring import Coloring
from dlcca.report.gathering import Block, Gathered, gather, picked_rows, some_landmarks
from dlcca.report.moments import Moments
from dlcca.report.strength import Strength
from dlcca.storage import event_log as events
from dlcca.storage import run as run_store
from dlcca.storage.arrays import open_sealed, read_array
from dlcca.storage.run import Run

#: Of a run, as it is: told in the report, but not drawn.
FACTS = ("n_common", "quality", "warnings", "views", "settings", "choices", "fingerprint", "versions", "created")
#: Small arrays of a run, by their names in the store, and how they are called here.
SMALL = {"eigenvalues": "eigenvalues", "landmarks": "landmarks", "quality/correlations": "correlations"}

#: The channels of all views at some landmarks, from the coordinates (l, q) and the moments (l,) there.
ChannelsAt = Callable[[NDArray, NDArray | None], list[ViewChannels]]


@dataclass(frozen=True)
class Overview:
    """A result, ready to be told and drawn."""

    rows: Gathered
    moments: Moments
    has_clock: bool  # whether the order of the rows means something
    q: int  # coordinates of the result; at most `gathering.COORDINATES` are gathered
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
        """Moments of all landmarks, (L,)."""
        return self.rows.mark_time

    @property
    def drawn_landmarks(self) -> NDArray[np.int64]:
        """Where in the sample the landmarks are that are drawn, (l,)."""
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
    known : what is known of every row from elsewhere, (n,) each, numbers or labels; points may be coloured by it
    views : the channels of the views, (n, d) each, if they are at hand
    also : rows that have to be among those that are picked
    """
    at = some_landmarks(run.landmarks)
    there = {name: X[at] for name, X in (views or {}).items()}
    return _gathered(
        [Block(0, run.time, run.embedding, run.reason)],
        run.embedding.shape,
        {name: getattr(run, name) for name in SMALL.values()},
        {**{fact: getattr(run, fact) for fact in FACTS}, "time_unit": run.time_unit, "start": run.start},
        lambda E, time: channels.of_arrays(there, E, time),
        lambda sample: coloring.of_rows(known or {}, sample.rows),
        also,
    )


def of_store(
    address: str, *, known: Mapping[str, NDArray] | None = None, also: Sequence[int] | NDArray = ()
) -> Overview:
    """From a finished run on disk or in object storage; ``known`` and ``also`` as in `of_run`."""
    group, header = open_sealed(address, run_store.FORM)
    told, digests = run_store.describe(address), header["manifest"]
    arrays = {mine: read_array(group, name, digests[name], address, run_store.FORM) for name, mine in SMALL.items()}
    names = ["embedding", "time", *(["reason"] if "reason" in digests else [])]
    blocks = (
        Block(first, part["time"], part["embedding"], part.get("reason"))
        for first, part in reading.rows_of(group, names, digests, address, run_store.FORM)
    )
    return _gathered(
        blocks,
        group["embedding"].shape,
        arrays,
        {
            **told,
            "start": header.get("start"),
            "stored_bytes": told["bytes"],
            "events": _events(address),
            "local": strength.in_store(group, digests, address, len(arrays["landmarks"])),
        },
        lambda E, time: channels.in_store(address, E, time),
        lambda sample: coloring.of_rows(known or {}, sample.rows) + coloring.of_recordings(address, sample),
        also,
    )


def has_clock(time_unit: str, settings: Mapping[str, Any]) -> bool:
    """Whether the order of the rows means something; neighbours in state need none."""
    return time_unit == "s" or settings.get("neighborhoods", {}).get("kind") != "knn"


def _gathered(
    blocks: Iterable[Block],
    shape: tuple[int, int],
    arrays: Mapping[str, NDArray],
    told: Mapping[str, Any],
    channels_at: ChannelsAt,
    colored: Callable[[Any], list[Coloring]],
    also: Sequence[int] | NDArray,
) -> Overview:
    (n, q), landmarks = shape, arrays["landmarks"]
    in_order = has_clock(told["time_unit"], told["settings"])
    rows = gather(blocks, n, q, picked_rows(n, landmarks, also), landmarks, has_clock=in_order)
    at = rows.sample.at(some_landmarks(landmarks))
    return Overview(
        rows=rows,
        moments=Moments(told["time_unit"], rows.first_time, rows.last_time, told.get("start")),
        has_clock=in_order,
        q=q,
        eigenvalues=arrays["eigenvalues"],
        landmarks=landmarks,
        correlations=arrays["correlations"],
        strengths=_strengths(rows.mark_time, arrays["correlations"], told),
        channels=channels_at(rows.sample.embedding[at], rows.sample.time[at] if in_order else None),
        colorings=colored(rows.sample),
        **{fact: told[fact] for fact in FACTS},
        **{fact: told[fact] for fact in ("cost", "events", "stored_bytes") if fact in told},
    )


def _strengths(time: NDArray, correlations: NDArray, told: Mapping[str, Any]) -> list[Strength]:
    if len(told["views"]) < 2:
        return []
    return strength.of_landmarks(time, correlations, told.get("local", {}), told["quality"].get("null_edge"))


def _events(address: str) -> list[dict[str, Any]]:
    """What happened in the run; a damaged log keeps no one from a report."""
    try:
        return events.read(address)
    except ValueError:
        return []
