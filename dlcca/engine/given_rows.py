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


def as_arrays(settings: Settings) -> Settings:
    """The settings with all row numbers as arrays of int64, however they were given: equal rows have equal digests."""
    options = {name: value for name, value in settings.options().items() if not isinstance(value, Digest)}
    given = {name: np.asarray(value) for name, value in options.items() if np.ndim(value) > 0}
    return settings.with_options(**{n: X.astype(np.int64) if X.dtype.kind in "iu" else X for n, X in given.items()})


def carried(job: Any) -> Any:
    """A job as it is sent with tasks: of large arrays in its settings the digests."""
    settings = getattr(job, "settings", None)
    options = settings.options() if isinstance(settings, Settings) else {}
    large = {name: X for name, X in options.items() if getattr(X, "nbytes", 0) > FEW_BYTES}
    if not large:
        return job
    digests = {name: Digest(digest(X), X.shape) for name, X in large.items()}
    return replace(job, settings=job.settings.with_options(**digests))


def digest(X: Any) -> str:
    """SHA-256 of an array, its shape and its dtype."""
    return X.digest if isinstance(X, Digest) else manifest.digest(np.asarray(X))
