"""The formats of an export: Parquet and CSV tables, an xarray Dataset (NetCDF, Zarr), and an MNE Raw (FIF).

A table has a line for each row, written as it is read: ``time`` (a time stamp, where the start of the recording is
known), ``seconds`` or ``sample``, ``c1``, ``c2``, ..., ``reason`` ("valid" where there are coordinates) and
``outside``.
"""

import csv
import importlib
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.storage import places, transformed
from dlcca.storage import run as run_store
from dlcca.storage.files import atomic_file
from dlcca.storage.formats import Format, lazy_array, open_sealed, read_array, read_rows
from dlcca.storage.views import Reason

#: Format -> the suffix of its files.
FORMATS = {"parquet": ".parquet", "csv": ".csv", "netcdf": ".nc", "zarr": ".zarr", "mne": "_raw.fif"}
_ALIASES = {"fif": "mne", "nc": "netcdf", "pq": "parquet"}
#: Rows that are read at a time, at least.
LEAST_ROWS = 65_536
#: Steps of time that differ by less, as a share of a step, are one step.
EVEN = 1e-3
#: What the codes of `reason` mean.
REASONS = {reason.value: reason.name.lower() for reason in Reason}
_FIRST_LINE = re.compile(rb"(time,)?(seconds|sample)(,c\d+)*,reason,outside\r?\n")


@dataclass(frozen=True)
class Results:
    """A finished run, or new recordings that went through a model."""

    address: str
    form: Format
    group: Any  # zarr.Group
    header: dict[str, Any]

    @classmethod
    def open(cls, address: str) -> Self:
        form = transformed.FORM if transformed.is_transformed(str(address)) else run_store.FORM
        return cls(str(address), form, *open_sealed(address, form))

    @property
    def unit(self) -> str:
        return "seconds" if self.header["time_unit"] == "s" else "sample"

    @property
    def start(self) -> datetime | None:
        """When time was 0, if that is known; a time without a zone is taken as UTC."""
        said = self.header.get("start")
        if said is None or self.unit == "sample":
            return None
        found = datetime.fromisoformat(said)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    @cached_property
    def time(self) -> NDArray:
        """Of all rows, (n,)."""
        return read_array(self.group, "time", self.header["manifest"]["time"], self.address, self.form)

    @property
    def rows_at_once(self) -> int:
        """Whole chunks, and at least `LEAST_ROWS`."""
        chunk = int(self.group["embedding"].chunks[0])
        return chunk * max(1, -(-LEAST_ROWS // chunk))

    @property
    def step(self) -> float:
        """Between two rows, in the unit of time; an error if it is not always the same."""
        steps = np.diff(self.time)
        if not len(steps):
            raise DataError(f"{self.address} has {len(self.time)} row; the rate needs at least 2.")
        step = float(np.median(steps))
        if not step > 0 or np.abs(steps - step).max() > EVEN * step:
            raise DataError(f"the rows of {self.address} are not evenly spaced in time, as this format needs.")
        return step

    def blocks(self) -> Iterator[dict[str, NDArray]]:
        """All rows in order, some at a time: ``time``, ``embedding``, ``reason`` and ``outside``.

        There is an error at the end if they are not those that were written.
        """
        names = [name for name in ("embedding", "time", "reason", "outside") if name in self.group]
        manifest = self.header["manifest"]
        for _, part in read_rows(self.group, names, manifest, self.address, self.form, step=self.rows_at_once):
            b = len(part["time"])
            yield {"reason": np.zeros(b, np.uint8), "outside": np.zeros(b, bool), **part}

    def tables(self) -> Iterator[dict[str, NDArray]]:
        """The columns of a table, some rows at a time."""
        return (columns(block, self.start, self.unit) for block in self.blocks())


def columns(part: dict[str, NDArray], start: datetime | None, unit: str = "seconds") -> dict[str, NDArray]:
    """The columns of a table for some rows, by name; time stamps if it is known when time was 0."""
    stamped = {} if start is None else {"time": stamps(part["time"], start)}
    coordinates = {f"c{i}": X for i, X in enumerate(part["embedding"].T, start=1)}
    reason = np.array([*REASONS.values()])[part["reason"]]
    return {**stamped, unit: part["time"], **coordinates, "reason": reason, "outside": part["outside"]}


def stamps(seconds: NDArray, start: datetime) -> NDArray:
    """Times as datetime64 in microseconds, UTC."""
    begin = np.datetime64(start.astimezone(UTC).replace(tzinfo=None), "us")
    return begin + np.rint(seconds * 1e6).astype("timedelta64[us]")


def needed(package: str, extra: str, what: str) -> Any:
    """An optional package, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise SettingsError(f"{what} needs {package.split('.')[0]}: pip install 'dlcca[{extra}]' ({error}).") from error


def write(store: str, to: str, out: str | Path, *, rate: float | None = None) -> None:
    """Write the coordinates of a store in a format of `FORMATS`; "xarray" is NetCDF, or Zarr if the name ends so.

    An earlier export in the same format is replaced; anything else at the place is refused, a Zarr group too. ``rate``
    (Hz) is for MNE, where rows are counted in samples.
    """
    place, to = Path(out), format_of(to, out)
    if to == "parquet":
        to_parquet(store, place)
    elif to == "csv":
        to_csv(store, place)
    elif to == "zarr":
        places.refuse_new(place, inputs=[store], setting="--out")
        to_xarray(store).to_zarr(str(place), mode="w-", consolidated=False)
    elif to == "netcdf":
        places.refuse_file(place, is_netcdf_export, "a NetCDF file written by dlcca export", inputs=[store])
        dataset = to_xarray(store)
        needed("h5netcdf", "xarray", "writing NetCDF")
        with atomic_file(place) as temporary:
            dataset.to_netcdf(str(temporary), engine="h5netcdf")
    else:
        places.refuse_file(place, is_mne_export, "an MNE file written by dlcca export", inputs=[store])
        if not place.name.endswith((".fif", ".fif.gz")):
            raise SettingsError(f"--out {place}: MNE needs a name that ends in .fif, as {place.stem}_raw.fif.")
        raw = to_mne(store, rate=rate)
        place = Path(os.path.realpath(place))
        place.parent.mkdir(parents=True, exist_ok=True)
        raw.save(place, fmt="single", overwrite=True, verbose="error")


def format_of(to: str, out: str | Path) -> str:
    """The name in `FORMATS` of a format, or an alias of it."""
    if to == "xarray":
        return "zarr" if str(out).rstrip("/").endswith(".zarr") else "netcdf"
    found = _ALIASES.get(to, to)
    if found not in FORMATS:
        raise SettingsError(f"--to {to}: not a format; {suggest(to, [*FORMATS, 'xarray'])}")
    return found


def to_parquet(store: str | Path, out: str | Path) -> None:
    """Write the rows of a store as a Parquet file, a row group for each block that is read."""
    results = Results.open(str(store))
    metadata = {"dlcca_store": results.address, "dlcca_fingerprint": results.header["fingerprint"]}
    needed("pyarrow", "parquet", "writing Parquet")
    places.refuse_file(out, is_known_parquet, "a Parquet file written by dlcca export", inputs=[store])
    with atomic_file(out) as temporary:
        write_table(temporary, results.tables(), metadata)


def write_table(place: Path, tables: Iterable[dict[str, NDArray]], metadata: dict[str, str]) -> None:
    """Write the columns of tables as one Parquet file, with a row group for each; stamps are in UTC, NaN is null."""
    arrow, parquet = (needed(name, "parquet", "writing Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    made = (arrow.table({name: arrow.array(X, from_pandas=True) for name, X in arrays.items()}) for arrays in tables)
    first, utc = next(made), {"time": arrow.timestamp("us", tz="UTC")}
    schema = arrow.schema([(field.name, utc.get(field.name, field.type)) for field in first.schema], metadata=metadata)
    with parquet.ParquetWriter(str(place), schema, compression="zstd") as file:
        for table in chain([first], made):
            file.write_table(table.cast(schema))


def to_csv(store: str | Path, out: str | Path) -> None:
    """Write the rows of a store as CSV; coordinates that are not known are left empty."""
    results = Results.open(str(store))
    places.refuse_file(out, is_csv_export, "a CSV file written by dlcca export", inputs=[store])
    with atomic_file(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        for number, table in enumerate(results.tables()):
            if not number:
                lines.writerow(table)
            lines.writerows(zip(*map(_texts, table.values()), strict=True))


def is_known_parquet(path: Path, mark: str = "dlcca_store") -> bool:
    """Whether a file is one that `to_parquet` wrote, or a pipeline, by a key of its metadata."""
    import pyarrow
    import pyarrow.parquet

    try:
        return mark.encode() in (pyarrow.parquet.read_schema(path).metadata or {})
    except (OSError, pyarrow.ArrowException):
        return False


def is_csv_export(path: Path) -> bool:
    """Whether a file is one that `to_csv` wrote, by its first line."""
    return _FIRST_LINE.match(places.starts_with(path, 1 << 16)) is not None


def _texts(X: np.ndarray) -> list[Any]:
    """The cells of a column; numbers with as many digits as they have."""
    match X.dtype.kind:
        case "M":
            return [f"{stamp}Z" for stamp in np.datetime_as_string(X)]
        case "f":
            digits = 17 if X.dtype.itemsize > 4 else 9
            return ["" if x != x else f"{x:.{digits}g}" for x in X.tolist()]
        case "b":
            return ["true" if x else "false" for x in X.tolist()]
    return X.tolist()


def to_xarray(store: str | Path) -> Any:
    """A Dataset with ``embedding`` over (time, coordinate), ``reason`` and ``outside``; Dask arrays.

    ``time`` is a time stamp (UTC) where the start of the recording is known, otherwise seconds or samples.
    """
    xarray = needed("xarray", "xarray", "an xarray Dataset")
    results = Results.open(str(store))
    group, time, start = results.group, results.time, results.start
    dims, of_store = ("time", "coordinate"), (results.address, results.form)
    flags = {"reason": {"flag_values": list(REASONS), "flag_meanings": " ".join(REASONS.values())}}
    variables = {
        name: (dims[: group[name].ndim], lazy_array(group, results.header, name, *of_store), flags.get(name))
        for name in ("embedding", "reason", "outside", "distance")
        if name in group
    }
    # Of any length: Zarr has no settled form for texts of a fixed one.
    names = np.array([f"c{i}" for i in range(1, group["embedding"].shape[1] + 1)], dtype=object)
    coordinates: dict[str, Any] = {"coordinate": names}
    if start is None:
        coordinates["time"] = ("time", time, {"long_name": results.unit})
    else:
        coordinates |= {"time": ("time", stamps(time, start)), "seconds": ("time", time)}
    attributes = {"source": results.address, "fingerprint": results.header["fingerprint"]}
    if results.header.get("start"):
        attributes["start"] = results.header["start"]
    return xarray.Dataset(variables, coordinates, attrs=attributes)


def is_netcdf_export(path: Path) -> bool:
    """Whether a file is a NetCDF file that `write` wrote."""
    h5netcdf = needed("h5netcdf", "xarray", "writing NetCDF")
    try:
        with h5netcdf.File(path, "r") as file:
            return {"source", "fingerprint"} <= set(file.attrs) and "embedding" in file.variables
    except (OSError, ValueError, KeyError):
        return False


def to_mne(store: str | Path, *, rate: float | None = None) -> Any:
    """A Raw (in memory) of channels common1, common2, ... of the type misc, one sample for each row.

    Its rate is that of the rows; ``rate`` (Hz) says it where rows are counted in samples. Rows without coordinates are
    NaN, under annotations BAD_GAP, BAD_MISSING and so on; rows unlike those of the fit are annotated as "outside". Time
    0 of the Raw is the start of the recording's first window.
    """
    mne = needed("mne", "eeg", "an MNE Raw")
    results = Results.open(str(store))
    if results.unit == "seconds":
        rate = 1 / results.step
    elif rate is None:
        raise SettingsError(f"the rows of {store} are counted in samples; say their rate in Hz (rate, or --rate).")
    blocks = list(results.blocks())
    E, reason, outside = (np.concatenate([b[name] for b in blocks]) for name in ("embedding", "reason", "outside"))
    names = [f"common{i}" for i in range(1, E.shape[1] + 1)]
    info = mne.create_info(names, rate, "misc", verbose="error")
    raw = mne.io.RawArray(E.T.astype(np.float64), info, verbose="error")
    if results.start is not None:
        raw.set_meas_date(results.start.astimezone(UTC))
    spans: list[tuple[float, float, str]] = []  # runs of one code: start, duration, text
    for codes, texts in ((reason, [f"BAD_{word.upper()}" for word in REASONS.values()]), (outside, ["", "outside"])):
        edges = np.flatnonzero(np.diff(codes.astype(np.int16), prepend=-1, append=-1)).tolist()
        runs = ((first, last - first, int(codes[first])) for first, last in pairwise(edges))
        spans += [(first / rate, length / rate, texts[code]) for first, length, code in runs if code]
    marks = mne.Annotations(*([span[i] for span in spans] for i in range(3)), orig_time=raw.info["meas_date"])
    return raw.set_annotations(marks, verbose="error")


def is_mne_export(path: Path) -> bool:
    """Whether a FIF file is one of coordinates, by the names of its channels."""
    mne = needed("mne", "eeg", "an MNE Raw")
    try:
        with warnings.catch_warnings():  # of names that do not end as MNE would have them
            warnings.simplefilter("ignore")
            names = mne.io.read_raw_fif(path, verbose="error").ch_names
    except Exception:  # whatever a file that is not FIF makes of the reader
        return False
    return names == [f"common{i}" for i in range(1, len(names) + 1)]
