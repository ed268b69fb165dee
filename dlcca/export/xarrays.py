"""The coordinates as an xarray Dataset, read when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.export.results import Results, needed


def to_xarray(store: str | Path) -> Any:
    """A Dataset with ``embedding`` over (time, coordinate), ``reason`` and ``outside``; Dask arrays.

    ``time`` is a time stamp (UTC) where the start of the recording is known, otherwise seconds or samples.
    """
    xarray = needed("xarray", "xarray", "an xarray Dataset")
    results = Results.open(str(store))
    group, time = results.group, results.time
    variables: dict[str, Any] = {"embedding": (("time", "coordinate"), results.lazy("embedding"))}
    for name in ("reason", "outside", "distance"):
        if name in group:
            variables[name] = (("time",), results.lazy(name))
    if "reason" in variables:
        codes = results.reasons
        variables["reason"] = (
            *variables["reason"],
            {"flag_values": list(codes), "flag_meanings": " ".join(codes.values())},
        )
    when = time if results.start is None else results.stamps(time)
    about = {} if results.start is not None else {"long_name": "seconds" if results.in_seconds else "sample"}
    coordinates: dict[str, Any] = {"time": ("time", when, about), "coordinate": _names(results)}
    if results.start is not None:
        coordinates["seconds"] = ("time", time)
    return xarray.Dataset(variables, coordinates, attrs=_attributes(results))


def _names(results: Results) -> NDArray[np.object_]:
    """Names of the coordinates, as texts of any length: Zarr has no settled form for those of a fixed one."""
    return np.array(results.names, dtype=object)


def _attributes(results: Results) -> dict[str, Any]:
    """What is known of the store and fits a file."""
    kept = {"source": results.address, "fingerprint": results.header["fingerprint"]}
    return kept | {"start": results.header["start"]} if results.header.get("start") else kept


def write_netcdf(store: str | Path, out: str) -> None:
    """The Dataset as a NetCDF file."""
    made = to_xarray(store)
    needed("h5netcdf", "xarray", "writing NetCDF")
    made.to_netcdf(out, engine="h5netcdf")


def is_export(path: Path) -> bool:
    """Whether a file is one that `write_netcdf` wrote."""
    h5netcdf = needed("h5netcdf", "xarray", "writing NetCDF")
    try:
        with h5netcdf.File(path, "r") as file:
            return {"source", "fingerprint"} <= set(file.attrs) and "embedding" in file.variables
    except (OSError, ValueError, KeyError):
        return False


def write_zarr(store: str | Path, out: str) -> None:
    """The Dataset as a Zarr group as xarray lays it out."""
    to_xarray(store).to_zarr(out, mode="w-", consolidated=False)
