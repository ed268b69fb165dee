"""One place that knows every format by name."""

from __future__ import annotations

import os
from pathlib import Path

from dlcca.errors import SettingsError, suggest
from dlcca.export import mne_raw, tables, xarrays
from dlcca.storage import places

#: Format -> the ending that a file of it has.
FORMATS = {"parquet": ".parquet", "csv": ".csv", "netcdf": ".nc", "zarr": ".zarr", "mne": "_raw.fif"}
_ALSO = {"fif": "mne", "nc": "netcdf", "pq": "parquet"}


def write(store: str, to: str, out: str | Path, *, rate: float | None = None) -> None:
    """Write the coordinates of a store in a format of `FORMATS`; "xarray" is NetCDF, or Zarr if the name ends so.

    An earlier export in the same format is replaced; anything else at the place is refused, a Zarr group too. ``rate``
    (Hz) is for MNE, where rows are counted.
    """
    place, to = Path(out), format_of(to, out)
    refuse_occupied(store, to, place)
    if to == "parquet":
        tables.to_parquet(store, place)
    elif to == "csv":
        tables.to_csv(store, place)
    elif to == "zarr":
        xarrays.write_zarr(store, str(place))
    elif to == "netcdf":
        with tables.written_whole(place) as beside:
            xarrays.write_netcdf(store, beside)
    else:
        if not place.name.endswith((".fif", ".fif.gz")):
            raise SettingsError(f"--out {place}: MNE needs a name that ends in .fif, as {place.stem}_raw.fif.")
        made = mne_raw.to_mne(store, rate=rate)
        place = Path(os.path.realpath(place))
        place.parent.mkdir(parents=True, exist_ok=True)
        made.save(place, fmt="single", overwrite=True, verbose="error")


def refuse_occupied(store: str, to: str, place: Path) -> None:
    """An error if coordinates cannot be written there: something is there that is not an export in this format."""
    if to == "zarr":
        places.refuse_new(place, inputs=[store], setting="--out")
    elif to == "mne":
        places.refuse_file(place, mne_raw.is_export, "an MNE file written by dlcca export", inputs=[store])
    elif to == "netcdf":
        places.refuse_file(place, xarrays.is_export, "a NetCDF file written by dlcca export", inputs=[store])


def format_of(to: str, out: str | Path) -> str:
    """The format that is meant, by its usual name."""
    if to == "xarray":
        return "zarr" if str(out).rstrip("/").endswith(".zarr") else "netcdf"
    found = _ALSO.get(to, to)
    if found not in FORMATS:
        raise SettingsError(f"--to {to}: not a format; {suggest(to, [*FORMATS, 'xarray'])}")
    return found
