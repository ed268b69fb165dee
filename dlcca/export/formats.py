"""The formats of an export: Parquet and CSV tables, an xarray Dataset (NetCDF, Zarr), and an MNE Raw (FIF).

A table has a line for each row, written as it is read: ``time`` (a time stamp, where the start of the recording is
known), ``seconds`` or ``sample``, ``c1``, ``c2``, ..., ``reason`` ("valid" where there are coordinates) and
``outside``.
"""

from __future__ import annotations

import csv
import importlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

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
    def open(cls, address: str) -> Results:
        form = transformed.FORM if transformed.is_transformed(str(address)) else run_store.FORM
        return cls(str(address), form, *open_sealed(address, form))

    @property
    def names(self) -> list[str]:
        """Of the coordinates: c1, c2, ..."""
        return [f"c{i}" for i in range(1, self.group["embedding"].shape[1] + 1)]

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.group["embedding"].dtype)

    @property
    def in_seconds(self) -> bool:
        """Whether time is in seconds; if not, it is the numbers of samples."""
        return self.header["time_unit"] == "s"

    @property
    def start(self) -> datetime | None:
        """When time was 0, if that is known; a time without a zone is taken as UTC."""
        said = self.header.get("start")
        if said is None or not self.in_seconds:
            return None
        found = datetime.fromisoformat(said)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    @cached_property
    def time(self) -> NDArray:
        """Of all rows, (n,)."""
        return read_array(self.group, "time", self.header["manifest"]["time"], self.address, self.form)

    def lazy(self, name: str) -> Any:
        """An array of all rows as a Dask array, checked when it is read."""
        return lazy_array(self.group, self.header, name, self.address, self.form)

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

    def stamps(self, seconds: NDArray) -> NDArray:
        """Times as datetime64 in microseconds, UTC; only where the start is known."""
        assert self.start is not None
        start = np.datetime64(self.start.astimezone(UTC).replace(tzinfo=None), "us")
        return start + np.rint(np.asarray(seconds) * 1e6).astype("timedelta64[us]")

    @property
    def rows_at_once(self) -> int:
        """Whole chunks, and at least `LEAST_ROWS`."""
        chunk = int(self.group["embedding"].chunks[0])
        return chunk * max(1, -(-LEAST_ROWS // chunk))

    def blocks(self) -> Iterator[dict[str, NDArray]]:
        """All rows in order, some at a time: ``time``, ``embedding``, ``reason`` and ``outside``.

        There is an error at the end if they are not those that were written.
        """
        names = [name for name in ("embedding", "time", "reason", "outside") if name in self.group]
        manifest = self.header["manifest"]
        for _, part in read_rows(self.group, names, manifest, self.address, self.form, step=self.rows_at_once):
            b = len(part["time"])
            yield {"reason": np.zeros(b, np.uint8), "outside": np.zeros(b, bool), **part}


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
    arrow = needed("pyarrow", "parquet", "writing Parquet")
    parquet = needed("pyarrow.parquet", "parquet", "writing Parquet")
    results = Results.open(str(store))
    places.refuse_file(out, is_known_parquet, "a Parquet file written by dlcca export", inputs=[store])
    with (
        atomic_file(out) as temporary,
        parquet.ParquetWriter(str(temporary), _schema(arrow, results), compression="zstd") as file,
    ):
        for block in results.blocks():
            columns = {name: arrow.array(X, from_pandas=True) for name, X in _columns(results, block).items()}
            file.write_table(arrow.table(columns).cast(file.schema))


def to_csv(store: str | Path, out: str | Path) -> None:
    """Write the rows of a store as CSV; coordinates that are not known are left empty."""
    results = Results.open(str(store))
    digits = 9 if results.dtype.itemsize <= 4 else 17  # as many as the number has
    places.refuse_file(out, is_csv_export, "a CSV file written by dlcca export", inputs=[store])
    with atomic_file(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        lines: Any = None
        for block in results.blocks():
            columns = _columns(results, block)
            if lines is None:
                lines = csv.writer(file)
                lines.writerow(columns)
            lines.writerows(zip(*(_texts(X, digits) for X in columns.values()), strict=True))


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


def _columns(results: Results, block: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    if results.start is not None:
        made["time"] = results.stamps(block["time"])
    made["seconds" if results.in_seconds else "sample"] = block["time"]
    made |= dict(zip(results.names, block["embedding"].T, strict=True))
    words = np.array([REASONS[code] for code in range(max(REASONS) + 1)])
    return made | {"reason": words[block["reason"]], "outside": block["outside"]}


def _schema(arrow: Any, results: Results) -> Any:
    number = arrow.float32() if results.dtype.itemsize <= 4 else arrow.float64()
    fields = [("time", arrow.timestamp("us", tz="UTC"))] if results.start is not None else []
    count = arrow.int64() if results.group["time"].dtype.kind in "iu" else arrow.float64()
    fields.append(("seconds", arrow.float64()) if results.in_seconds else ("sample", count))
    fields += [(name, number) for name in results.names]
    schema = arrow.schema([*fields, ("reason", arrow.string()), ("outside", arrow.bool_())])
    return schema.with_metadata({"dlcca_store": results.address, "dlcca_fingerprint": results.header["fingerprint"]})


def _texts(X: np.ndarray, digits: int) -> list[Any]:
    """The cells of a column."""
    if X.dtype.kind == "M":
        return [f"{stamp}Z" for stamp in np.datetime_as_string(X)]
    if X.dtype.kind == "f":
        digits = 17 if X.dtype.itemsize > 4 else digits
        return ["" if x != x else f"{x:.{digits}g}" for x in X.tolist()]
    return ["true" if x else "false" for x in X.tolist()] if X.dtype.kind == "b" else X.tolist()


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
        flags = {"flag_values": list(REASONS), "flag_meanings": " ".join(REASONS.values())}
        variables["reason"] = (*variables["reason"], flags)
    when = time if results.start is None else results.stamps(time)
    about = {} if results.start is not None else {"long_name": "seconds" if results.in_seconds else "sample"}
    names = np.array(results.names, dtype=object)  # of any length: Zarr has no settled form for texts of a fixed one
    coordinates: dict[str, Any] = {"time": ("time", when, about), "coordinate": names}
    attributes = {"source": results.address, "fingerprint": results.header["fingerprint"]}
    if results.start is not None:
        coordinates["seconds"] = ("time", time)
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
    if results.in_seconds:
        rate = 1 / results.step
    elif rate is None:
        raise SettingsError(f"the rows of {store} are counted in samples; say their rate in Hz (rate, or --rate).")
    blocks = list(results.blocks())
    E, reason, outside = (np.concatenate([b[name] for b in blocks]) for name in ("embedding", "reason", "outside"))
    data = E.T.astype(np.float64)
    names = [f"common{i}" for i in range(1, len(data) + 1)]
    info = mne.create_info(names, rate, "misc", verbose="error")
    raw = mne.io.RawArray(data, info, verbose="error")
    if results.start is not None:
        raw.set_meas_date(results.start.astimezone(UTC))
    spans = _spans(reason, lambda code: f"BAD_{REASONS[code].upper()}") + _spans(outside, lambda _: "outside")
    marks = mne.Annotations(
        [first / rate for first, _, _ in spans],
        [(last - first) / rate for first, last, _ in spans],
        [text for _, _, text in spans],
        orig_time=raw.info["meas_date"],
    )
    return raw.set_annotations(marks, verbose="error")


def is_mne_export(path: Path) -> bool:
    """Whether a FIF file is one of coordinates, by the names of its channels."""
    import warnings

    mne = needed("mne", "eeg", "an MNE Raw")
    try:
        with warnings.catch_warnings():  # of names that do not end as MNE would have them
            warnings.simplefilter("ignore")
            names = mne.io.read_raw_fif(path, verbose="error").ch_names
    except Exception:  # whatever a file that is not FIF makes of the reader
        return False
    return names == [f"common{i}" for i in range(1, len(names) + 1)]


def _spans(codes: np.ndarray, text: Any) -> list[tuple[int, int, str]]:
    """Runs of one code other than 0: first row, the one after the last, and their text."""
    edges = np.flatnonzero(np.diff(codes.astype(np.int16), prepend=-1, append=-1))
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return [(first, last, text(int(codes[first]))) for first, last in pairs if codes[first]]
