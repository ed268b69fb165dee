"""Tables with a line for each row: when, the coordinates, why there are none, and whether it is like the fit's.

Columns: ``time`` (a time stamp, where the start of the recording is known), ``seconds`` or ``sample``, ``c1``, ``c2``,
..., ``reason`` ("valid" where there are coordinates) and ``outside``. They are written as they are read, some rows at
a time.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.errors import StorageError
from dlcca.export.results import Block, Results, needed
from dlcca.storage import places


def to_parquet(store: str | Path, out: str | Path) -> None:
    """The rows of a store as a Parquet file, a row group for each part that is read."""
    arrow = needed("pyarrow", "parquet", "writing Parquet")
    parquet = needed("pyarrow.parquet", "parquet", "writing Parquet")
    results = Results.open(str(store))
    places.refuse_file(out, is_known_parquet, "a Parquet file written by dlcca export", inputs=[store])
    with written_whole(out) as place, parquet.ParquetWriter(place, _schema(arrow, results), compression="zstd") as file:
        for block in results.blocks():
            columns = {name: arrow.array(X, from_pandas=True) for name, X in _columns(results, block).items()}
            file.write_table(arrow.table(columns).cast(file.schema))


def to_csv(store: str | Path, out: str | Path) -> None:
    """The rows of a store as text with commas; coordinates that are not known are left empty."""
    results = Results.open(str(store))
    digits = 9 if results.dtype.itemsize <= 4 else 17  # as many as the number has
    places.refuse_file(out, is_csv_export, "a CSV file written by dlcca export", inputs=[store])
    with written_whole(out) as place, open(place, "w", newline="", encoding="utf-8") as file:
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


_FIRST_LINE = re.compile(rb"(time,)?(seconds|sample)(,c\d+)*,reason,outside\r?\n")


def _columns(results: Results, block: Block) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    if results.start is not None:
        made["time"] = results.stamps(block.time)
    made["seconds" if results.in_seconds else "sample"] = block.time
    made |= {name: block.embedding[:, i] for i, name in enumerate(results.names)}
    words = np.array([results.reasons[code] for code in range(max(results.reasons) + 1)])
    return made | {"reason": words[block.reason], "outside": block.outside}


def _schema(arrow: Any, results: Results) -> Any:
    number = arrow.float32() if results.dtype.itemsize <= 4 else arrow.float64()
    fields = [("time", arrow.timestamp("us", tz="UTC"))] if results.start is not None else []
    kept = results.group["time"].dtype.kind
    fields.append(("seconds", arrow.float64()) if results.in_seconds else ("sample", _count(arrow, kept)))
    fields += [(name, number) for name in results.names]
    schema = arrow.schema([*fields, ("reason", arrow.string()), ("outside", arrow.bool_())])
    return schema.with_metadata({"dlcca_store": results.address, "dlcca_fingerprint": results.header["fingerprint"]})


def _count(arrow: Any, kind: str) -> Any:
    return arrow.int64() if kind in "iu" else arrow.float64()


def _texts(X: np.ndarray, digits: int) -> list[Any]:
    """The cells of a column."""
    if X.dtype.kind == "M":
        return [f"{stamp}Z" for stamp in np.datetime_as_string(X)]
    if X.dtype.kind == "f":
        digits = 17 if X.dtype.itemsize > 4 else digits
        return ["" if x != x else f"{x:.{digits}g}" for x in X.tolist()]
    return ["true" if x else "false" for x in X.tolist()] if X.dtype.kind == "b" else X.tolist()


@contextmanager
def written_whole(out: str | Path) -> Iterator[str]:
    """A place beside ``out`` that becomes it if all goes well, and is removed if not."""
    place = Path(os.path.realpath(out))  # a link stays, and what it points to is replaced
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield str(beside)
        os.replace(beside, place)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error
    finally:
        beside.unlink(missing_ok=True)
