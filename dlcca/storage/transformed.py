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

from functools import partial

from dlcca.errors import StoreFileError
from dlcca.storage import formats
from dlcca.storage.formats import Format, header_of, is_form

FORM = Format("dlcca-transformed", 1, noun="store of coordinates", error=StoreFileError, renew="transform again")
ARRAYS = ("embedding", "time", "reason", "distance", "outside")
#: Whether a finished store of coordinates is at an address, its header, and what is wrong with each array.
is_transformed, describe = partial(is_form, form=FORM), partial(header_of, form=FORM)
damages = partial(formats.damages, form=FORM, required=ARRAYS)
