"""Row numbers that the user gave. Stages that need them run in the process that has them; tasks carry their digests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dlcca.settings.fit import Settings
from dlcca.storage import manifest

#: Bytes of row numbers that a task may carry itself.
FEW_BYTES = 10_000


@dataclass(frozen=True)
class Digest:
    """What tasks know of an array that they do not need."""

    digest: str
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]


def carried(job: Any) -> Any:
    """A job as it is sent with tasks: of large arrays in its settings the digests."""
    settings = getattr(job, "settings", None)
    options = settings.options() if isinstance(settings, Settings) else {}
    given = {name: np.asarray(rows) for name, rows in options.items() if np.ndim(rows) > 0}
    large = {name: Digest(digest(X), X.shape) for name, X in given.items() if X.nbytes > FEW_BYTES}
    return replace(job, settings=job.settings.with_options(**large)) if large else job


def digest(X: Any) -> str:
    """SHA-256 of an array, its shape and its dtype; of whole numbers however they were given."""
    if isinstance(X, Digest):
        return X.digest
    X = np.asarray(X)
    return manifest.digest(X.astype(np.int64) if X.dtype.kind in "iu" else X)
