"""New recordings in the coordinates of a fitted model, in a Zarr group.

::

    STORE                attributes: views (those that were there), model, start (ISO), time_unit, counts, fingerprint,
    │                    versions, manifest (a SHA-256 for each array), format, version, checksum
    ├── embedding        (n, q) NaN where a row is not valid
    ├── time             (n,) in samples; of recordings, in seconds since `start`
    ├── reason           (n,) why a row is NaN, 0 where it is not: see `dlcca.storage.views.Reason`
    ├── distance         (n,) to what the fit has seen; beyond 1 is outside
    └── outside          (n,) whether it is
"""

from __future__ import annotations

import os
from typing import Any

from dlcca.errors import StoreFileError
from dlcca.storage.arrays import header_damages, is_form, open_sealed, read_array
from dlcca.storage.formats import Format

FORM = Format("dlcca-transformed", 1, noun="store of coordinates", error=StoreFileError, renew="transform again")
ARRAYS = ("embedding", "time", "reason", "distance", "outside")


def is_transformed(address: str) -> bool:
    """Whether a finished store of coordinates is there."""
    return is_form(address, FORM)


def describe(address: str) -> dict[str, Any]:
    """The header of a finished store of coordinates."""
    return open_sealed(address, FORM)[1]


def damages(address: str) -> dict[str, str | None]:
    """For every array what is wrong with it, None if nothing is; a bad header is an error."""
    if os.path.islink(address):  # of a published day, which may be pointed elsewhere before all of it is read
        address = os.path.realpath(address)
    group, header = open_sealed(address, FORM)
    found: dict[str, str | None] = dict(header_damages(address, header))
    for name, expected in (dict.fromkeys(ARRAYS, "") | header["manifest"]).items():  # a published day has one more
        try:
            read_array(group, name, expected, address, FORM)
            found.setdefault(name, None)
        except StoreFileError as error:
            found[name] = str(error)
    return found
