"""New recordings in the coordinates of a fitted model, in a Zarr group.

::

    STORE                attributes: views (those that are present), model, start (ISO), time_unit, counts, fingerprint,
    │                    versions, and what every header has (`formats`)
    ├── embedding        (n, q) NaN where a row is not valid
    ├── time             (n,) in samples; of recordings, in seconds since `start`
    ├── reason           (n,) why a row is NaN, 0 where it is not: see `dlcca.storage.views.Reason`
    ├── distance         (n,) to the samples of the fit; beyond 1 is outside
    └── outside          (n,) whether it is

A published day has one more array.
"""

from __future__ import annotations

from typing import Any

from dlcca.errors import StoreFileError
from dlcca.storage import formats
from dlcca.storage.formats import Format, is_form, open_sealed

FORM = Format("dlcca-transformed", 1, noun="store of coordinates", error=StoreFileError, renew="transform again")
ARRAYS = ("embedding", "time", "reason", "distance", "outside")


def is_transformed(address: str) -> bool:
    """Whether a finished store of coordinates is there."""
    return is_form(address, FORM)


def describe(address: str) -> dict[str, Any]:
    """The header of a finished store of coordinates."""
    return open_sealed(address, FORM)[1]


def damages(address: str) -> dict[str, str | None]:
    """For every array what is wrong with it, None if nothing is; a damaged header is an error."""
    return formats.damages(address, FORM, ARRAYS)
