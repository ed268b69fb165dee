"""The catalog: what was seen, done, published and fitted, in SQLite; a change is there whole or not at all."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlcca.errors import StorageError, StoreFileError
from dlcca.pipelines import schema
from dlcca.storage import places

#: How long a change waits for another process that is writing, in seconds.
PATIENCE_S = 30.0


def iso(moment: datetime) -> str:
    """A time as the catalog keeps it; such texts sort as the times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def refuse_other_state(state: Path) -> None:
    """An error if the folder for the state of a pipeline holds something else: parts of it are removed by name."""

    def is_ours(folder: Path) -> bool:
        return (folder / FILE).is_file() or {file.name for file in folder.iterdir()} <= {OWNER, CRON_LOG}

    places.refuse_folder(state, is_ours=is_ours, noun="the state of a pipeline", setting="[pipeline] state")


#: The catalog, in the folder of the state.
FILE = "catalog.sqlite"
#: In each folder of a pipeline: a file with two lines, the pipeline it belongs to and where the folder was then.
OWNER = ".dlcca-pipeline"
#: In the folder of the state: what cron keeps of the output of runs, which it begins before there is a catalog.
CRON_LOG = "cron.log"


class Catalog:
    """The tables of `schema`; rows come as dicts. To be closed, or used in a ``with``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from error
        except OSError as error:
            raise StorageError(f"the catalog {path} cannot be opened: {error.strerror or error}.") from error
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._base.close()
            raise self._trouble(error) from error
        except BaseException:
            self._base.close()
            raise

    def close(self) -> None:
        self._base.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self) -> None:
        self._base.row_factory = sqlite3.Row
        # WAL: who asks for the status does not wait for a night. FULL: what was committed outlives a power cut.
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = FULL")
        self._bring_up_to_date()

    def _bring_up_to_date(self) -> None:
        found = self._base.execute("PRAGMA user_version").fetchone()[0]
        if found > schema.VERSION:
            raise StoreFileError(
                f"the catalog {self.path} has version {found}; this dlcca knows up to {schema.VERSION}. Use the dlcca "
                "that wrote it, or a newer one."
            )
        for number in range(found, schema.VERSION):
            script = f"BEGIN IMMEDIATE; {schema.STEPS[number]} PRAGMA user_version = {number + 1}; COMMIT;"
            try:
                self._base.executescript(script)
            except sqlite3.OperationalError:
                if self._base.in_transaction:
                    self._base.rollback()
                if self._base.execute("PRAGMA user_version").fetchone()[0] <= number:  # else another was quicker
                    raise

    def _trouble(self, error: sqlite3.DatabaseError) -> Exception:
        """What SQLite has against it, as an error with an exit code."""
        said = str(error)
        if "not a database" in said or "malformed" in said:
            return StoreFileError(
                f"the catalog {self.path} is damaged ({said}): restore it from a copy. Published days are not touched."
            )
        return StorageError(f"the catalog {self.path} cannot be used: {said}. Run again when this is mended.")

    @contextmanager
    def change(self) -> Iterator[None]:
        """Everything inside happens, or nothing of it."""
        try:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._base.rollback()
                raise
            self._base.commit()
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from error

    def all(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows that a query finds."""
        try:
            return [dict(row) for row in self._base.execute(query, values)]
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from error

    def one(self, query: str, values: Sequence[Any] = ()) -> dict[str, Any] | None:
        """The first row that a query finds."""
        found = self.all(query, values)
        return found[0] if found else None

    def value(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The only number or text that a query finds; None if it finds none."""
        found = self.one(query, values)
        return None if found is None else next(iter(found.values()))

    def do(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Change something; the number of a row that was inserted."""
        try:
            return int(self._base.execute(statement, values).lastrowid or 0)
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from error

    def do_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """One statement for many rows."""
        try:
            self._base.executemany(statement, rows)
        except sqlite3.DatabaseError as error:
            raise self._trouble(error) from error

    def insert(self, table: str, row: Mapping[str, Any]) -> int:
        """A new row; its number."""
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        return self.do(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))

    def update(self, table: str, row: Mapping[str, Any], **where: Any) -> None:
        """Change some values of the rows that are meant."""
        names = ", ".join(f"{name} = ?" for name in row)
        which = " AND ".join(f"{name} = ?" for name in where)
        self.do(f"UPDATE {table} SET {names} WHERE {which}", [*row.values(), *where.values()])

    def begin_run(self, verb: str, now: datetime) -> int:
        """A new run in the table of runs; its number."""
        row = {"verb": verb, "started": iso(now), "host": socket.gethostname(), "pid": os.getpid()}
        return self.insert("runs", row)

    def end_run(self, run: int, now: datetime, document: Mapping[str, Any], *, told: bool) -> None:
        """Keep how a run ended; ``told`` says that its summary is of all that no earlier one told of."""
        row = {"ended": iso(now), "exit_code": document["exit_code"], "summary": json.dumps(document, default=str)}
        self.update("runs", {**row, "told": int(told)}, id=run)
