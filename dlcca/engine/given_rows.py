"""Row numbers that the user gave: kept in the store of the run, so that tasks carry their name and not the numbers."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock
from dlcca.settings.fit import Settings
from dlcca.storage import cache, manifest
from dlcca.storage.files import files_at

FOLDER = "stages/given"
#: Bytes of row numbers that a task may carry itself.
FEW_BYTES = 10_000


@dataclass(frozen=True)
class Kept:
    """An array in the store of a run; NumPy reads it where an array is needed."""

    address: str  # of the run
    digest: str
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        found = cache.get(("rows", self.address, self.digest), lambda: _read(self.address, self.digest))
        return np.array(found, dtype=dtype)


def as_arrays(settings: Settings) -> Settings:
    """The settings with all row numbers as arrays of int64, however they were given: equal rows have equal digests."""
    given = {name: np.asarray(value) for name, value in settings.options().items() if np.ndim(value) > 0}
    return settings.with_options(**{n: X.astype(np.int64) if X.dtype.kind in "iu" else X for n, X in given.items()})


def carried(job: Any) -> Any:
    """A job as it is sent with tasks: large arrays of its settings are in the store."""
    settings = getattr(job, "settings", None)
    options = settings.options() if isinstance(settings, Settings) else {}
    kept = {name: _keep(job.address, X) for name, X in options.items() if getattr(X, "nbytes", 0) > FEW_BYTES}
    return replace(job, settings=job.settings.with_options(**kept)) if kept else job


def digest(X: Any) -> str:
    """SHA-256 of an array, its shape and its dtype; of one that is kept, without reading it."""
    return X.digest if isinstance(X, Kept) else manifest.digest(np.asarray(X))


def file_content(X: NDArray) -> bytes:
    """An array as the content of its file."""
    content = io.BytesIO()
    np.save(content, X, allow_pickle=False)
    return content.getvalue()


def array_in(content: bytes | None, name: str) -> NDArray | None:
    """The array in a file that is named for its digest; None if it is damaged or not there."""
    try:
        X = np.load(io.BytesIO(content or b""), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return None
    return X if digest(X) == name else None


def _keep(address: str, X: NDArray) -> Kept:
    files, kept = files_at(address), Kept(address, digest(X), X.shape)
    if f"{kept.digest}.npy" not in files.names(FOLDER):
        files.put(f"{FOLDER}/{kept.digest}.npy", file_content(X))
    return kept


def _read(address: str, name: str) -> NDArray:
    if (X := array_in(files_at(address).get(f"{FOLDER}/{name}.npy"), name)) is None:
        raise DamagedBlock(
            f"the rows that were given for {address} are damaged or gone; give them again in a new store."
        )
    return X
