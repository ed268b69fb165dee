"""What the scale of the channels is made of: a summary of the good samples of each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.moments import Moments, combined
from dlcca.numerics.quantile_sketch import RANKS, summary
from dlcca.recordings.block_reader import Asked, Reads
from dlcca.recordings.formats.recording import Digital
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.json_arrays import packed
from dlcca.recordings.timeline import Piece

#: Samples whose moments are found together.
BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Good:
    """Samples of a piece without those that were marked, and as values with NaN where they are flat."""

    X: NDArray  # (n, c)
    digital: Digital | None
    asked: Asked | None  # how they were read, if they are all as they were read

    @property
    def values(self) -> NDArray[np.float32]:
        return values_of(self.X, self.digital)


def values_of(X: NDArray, digital: Digital | None) -> NDArray[np.float32]:
    """The values of samples that may be whole numbers."""
    return X if digital is None or X.dtype.kind == "f" else digital.values(X)


def unmarked(job: IngestJob, piece: Piece, X: NDArray, first: int) -> NDArray:
    """The samples that no BAD annotation covers; ``first`` is the number of the first."""
    kept = np.ones(len(X), bool)
    for begin, end in job.bad:
        low, high = ((t - piece.start_s) / piece.period_s - first for t in (begin, end))
        if high > 0 and low < len(X):
            kept[max(0, int(np.ceil(low))) : max(0, int(np.ceil(high)))] = False
    return X if kept.all() else X[kept]


def summed_up(good: Sequence[Good], reads: Reads, scaling: str, channels: int, blocks: int) -> dict[str, Any]:
    """Values at ranks, or means and squares."""
    n = sum(len(some.X) for some in good)
    if scaling == "none" or not n:
        return {}
    if scaling == "robust":
        values, counts = _ranked(good, reads, blocks)
        return {"values": packed(values.reshape(RANKS, channels)), "counts": packed(counts)}
    moments = _moments(good)
    if moments is None:
        return {}
    return {"rows": moments.count, "moments": packed(np.stack([moments.mean, moments.squares]))}


def _ranked(good: Sequence[Good], reads: Reads, blocks: int) -> tuple[NDArray, NDArray]:
    if len(good) == 1 and good[0].asked is not None:
        values, counts = reads.together(("ranks", blocks), partial(_ranks, blocks=blocks), good[0].asked)
        return values, counts
    if len(good) == 1:
        return _ranks(good[0].X, good[0].digital, blocks)
    return summary(np.concatenate([some.values for some in good]), blocks)


def _ranks(X: NDArray, digital: Digital | None, blocks: int) -> tuple[NDArray, NDArray]:
    return summary(X, blocks, partial(values_of, digital=digital))


def _moments(good: Sequence[Good]) -> Moments | None:
    """Of all samples; None if not one of them is finite in all channels."""
    parts = []
    for some in good:
        batch = max(1, BATCH_BYTES // max(1, 4 * some.X.shape[1]))
        for i in range(0, len(some.X), batch):
            values = values_of(some.X[i : i + batch], some.digital)
            finite = values[np.isfinite(values).all(axis=1)]
            if len(finite):
                parts.append(Moments.of(finite))
    return combined(parts) if parts else None
