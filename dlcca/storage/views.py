"""Views that were made of recordings, in a Zarr group.

::

    STORE                attributes: start (ISO), step_s, window_s, views (channels, rates, features, scaling), files,
    │                    reasons, notes, fingerprint, and what every header has (`formats`)
    ├── time             (n,) seconds from the start of the recording to that of each window
    ├── reason           (n,) 0 for a valid window, otherwise why it is not: see `Reason`
    ├── segment          (n,) the unbroken stretch a valid window belongs to, counted from 0; -1 for an invalid one
    ├── rows             (r,) the numbers of the valid windows
    ├── views/NAME       (n, d) a row for every window, also those that are not valid; NaN where there are no samples.
    │                    Attribute `finished`: False if they are drafts, as they were before channels were scaled. Raw
    │                    samples that a file holds as whole numbers of at most 16 bits stay so; where there are none
    │                    is the smallest number
    ├── columns/NAME     (3, d) center, scale and bottom of each column: features are max((draft - center) / scale,
    │                    bottom); only of views that are not finished. (5, d) of whole numbers, with gain and bias: a
    │                    draft is then gain * number + bias
    └── scaling/NAME     how channels were made comparable: center, scale (c,), and mean, components of a PCA

Features are written in the one pass over the recordings, before their scale is known, and scaled when they are read.
`dlcca.recordings.view_array` does that, and leaves out what is not valid: a view that is read through it is an array
(r, d) of features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import StoreFileError
from dlcca.model import Recordings
from dlcca.storage.blocks import Blocks
from dlcca.storage.formats import Format, header_of, is_form, open_sealed, read_array
from dlcca.storage.manifest import known_stage

#: What a model keeps of the description of each view.
KEPT_OF_VIEWS = ("channels", "units", "rates", "feature_names", "recipe")
#: In the attributes of the array of a view.
MARK = "dlcca-view"
FORM = Format("dlcca-views", 1, noun="store of views", error=StoreFileError, renew="ingest again")
#: Stages that write arrays of the store, in one block.
_WHOLE = ("clock", "pca")


class Reason(IntEnum):
    """Why a window is not used; the first that holds, in this order."""

    VALID = 0
    GAP = 1
    """A view has no samples there, or has a break: between files, before its start, after its end."""
    MISSING = 2
    """A channel holds NaN or infinity."""
    MARKED = 3
    """An annotation that begins with BAD."""
    SATURATED = 4
    """A channel stays at its largest or smallest value."""
    FLAT = 5
    """A channel does not change."""


@dataclass(frozen=True)
class Clock:
    """The times of the windows, and which of them are rows of the views."""

    time: NDArray[np.float64]  # (n,) seconds, of every window
    reason: NDArray[np.uint8]  # (n,)
    segment: NDArray[np.int64]  # (n,), -1 where invalid
    rows: NDArray[np.int64]  # (r,) the valid windows
    start: str | None  # ISO

    @property
    def segments(self) -> NDArray[np.int64]:
        """The segment of each row of the views, (r,)."""
        return self.segment[self.rows]


def array_of_view(inputs: str, dtype: np.dtype, *, finished: bool) -> dict[str, Any]:
    """Options of Zarr for the array of a view: its attributes, and that rows which were never written are blank."""
    return {"attributes": {"of": MARK, "inputs": inputs, "finished": finished}, "fill_value": blank(dtype)}


def blank(dtype: np.dtype) -> float | int:
    """What is written where there are no samples."""
    return float("nan") if dtype.kind == "f" else int(np.iinfo(dtype).min)


#: Whether a finished store of views is at an address, and its header.
is_views, describe = partial(is_form, form=FORM), partial(header_of, form=FORM)


def read_arrays(address: str, names: Sequence[str]) -> list[NDArray]:
    """Small arrays of a finished store of views, compared with the checksums in its header or of its stages."""
    readers = _readers(address)
    if lacking := [name for name in names if name not in readers]:
        raise StoreFileError(f"{address} lacks {lacking[0]!r}. Restore it, or {FORM.renew}.")
    return [readers[name]() for name in names]


def _readers(address: str) -> dict[str, Callable[[], NDArray]]:
    """How each small array is read: by the digest in the header, or by the record of the stage that has written it."""
    group, header = open_sealed(address, FORM)
    readers: dict[str, Callable[[], NDArray]] = {}
    for name in _WHOLE:
        if (known := known_stage(address, name)) is not None:
            stage = Blocks(address, name, known["fingerprint"], known["n_blocks"])
            readers |= {array.removeprefix("/"): partial(stage.read, array, 0) for array in stage.parts(0)}
    for name, made in header.get("manifest", {}).items():
        readers[name] = partial(read_array, group, name, made, address, FORM)
    return readers


def recordings_of(address: str) -> Recordings:
    """How the views of a store were made: what a model keeps of them."""
    header = describe(address)
    views = {name: {key: view[key] for key in KEPT_OF_VIEWS} for name, view in header["views"].items()}
    names = [array for name in views for array in sorted(_readers(address)) if array.startswith(f"scaling/{name}/")]
    facts = {"window_s": header["window_s"], "step_s": header["step_s"], "views": views}
    return Recordings(facts, dict(zip(names, read_arrays(address, names), strict=True)))


def read_clock(address: str) -> Clock:
    """The clock of a finished store of views."""
    header = describe(address)
    time, reason, segment, rows = read_arrays(address, ("time", "reason", "segment", "rows"))
    if int((reason == 0).sum()) != len(rows) or len(rows) != header["rows"]:
        raise StoreFileError(f"the clock of {address} is damaged or incomplete. Restore it, or {FORM.renew}.")
    return Clock(time, reason, segment, rows, header["start"])
