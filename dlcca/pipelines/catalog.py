"""The catalog of a pipeline in SQLite: its tables, transactions, and the lock that lets one run work at a time."""

import json
import os
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlcca.errors import StorageError, StoreFileError
from dlcca.storage import places

Row = dict[str, Any]
Values = Sequence[Any] | Mapping[str, Any]

#: Seconds that a change waits for another process that is writing.
TIMEOUT_S = 30.0
#: The catalog, in the state folder.
FILE = "catalog.sqlite"
#: In each folder of a pipeline: a file with two lines, the pipeline it belongs to and the path of the folder.
OWNER = ".dlcca-pipeline"
#: In the state folder: output of runs that cron starts; it may exist before the catalog.
CRON_LOG = "cron.log"

VERSION = 1
#: All times are text, ISO 8601 in UTC.
TABLES = (
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        verb TEXT NOT NULL,      -- run, backfill or any other command that changes something
        started TEXT NOT NULL,
        ended TEXT,              -- NULL while it runs, and forever if it was killed
        host TEXT NOT NULL, pid INTEGER NOT NULL,
        exit_code INTEGER, summary TEXT,  -- JSON of summary.Summary
        reported INTEGER NOT NULL DEFAULT 0  -- whether the summary covers everything since the last such run
    )""",
    """CREATE TABLE files (     -- as they were last seen
        path TEXT PRIMARY KEY,
        size INTEGER NOT NULL, stamp TEXT NOT NULL,  -- the stamp changes when the file changes
        parts TEXT NOT NULL,     -- JSON: all files of the recording, this one first, sidecars last
        n_read INTEGER NOT NULL, -- how many of them a reader is given
        content TEXT,            -- SHA-256; NULL until it was read
        state TEXT NOT NULL, reason TEXT,  -- waiting, known, unreadable or gone; closed for a folder
        first_seen TEXT NOT NULL
    )""",
    "CREATE INDEX files_by_content ON files (content)",
    """CREATE TABLE recordings ( -- contents, each of which is embedded once
        id INTEGER PRIMARY KEY,
        content TEXT NOT NULL UNIQUE,
        path TEXT NOT NULL,      -- where it was first seen
        size INTEGER NOT NULL, first_seen TEXT NOT NULL,
        modified TEXT,           -- modification time of the file
        start TEXT, ends TEXT,   -- of the recording, if its header has them
        day TEXT,                -- of its partition
        status TEXT NOT NULL, reason TEXT,  -- new, done, refused, held, failed, superseded, gone
        replaces INTEGER REFERENCES recordings (id),
        attempts INTEGER NOT NULL DEFAULT 0,
        settings TEXT,           -- fingerprint of the settings it was embedded with
        model INTEGER,
        views TEXT, result TEXT, -- paths relative to the state folder
        rows INTEGER, valid INTEGER, outside INTEGER, run INTEGER REFERENCES runs (id), finished TEXT
    )""",
    "CREATE INDEX recordings_by_status ON recordings (status)",
    "CREATE INDEX recordings_by_day ON recordings (day)",
    """CREATE TABLE models (
        version INTEGER PRIMARY KEY,
        generation INTEGER NOT NULL,  -- models of one generation share their preprocessing and axes
        status TEXT NOT NULL, reason TEXT,  -- fitting, current, kept, rejected (with the reason), removed
        because TEXT NOT NULL,        -- why it was fitted
        parent INTEGER, created TEXT NOT NULL, settings TEXT NOT NULL,  -- fingerprint
        address TEXT,                 -- path relative to the folder of models, like the next two
        rows_store TEXT, held_store TEXT, -- the rows of its fit, if they are kept, and those held out of it
        n_rows INTEGER,
        last_drift INTEGER NOT NULL DEFAULT 0,  -- alarms up to this one were known when it was fitted
        measures TEXT                 -- JSON: baseline, comparison, change of the axes
    )""",
    """CREATE TABLE training (       -- which recordings a model was fitted to
        model INTEGER NOT NULL, recording INTEGER NOT NULL, PRIMARY KEY (model, recording)
    )""",
    """CREATE TABLE partitions (     -- published days
        day TEXT PRIMARY KEY,
        version TEXT NOT NULL,        -- fingerprint of the content
        recordings INTEGER NOT NULL, rows INTEGER NOT NULL,
        models TEXT NOT NULL, published TEXT NOT NULL  -- models: JSON
    )""",
    """CREATE TABLE replaced (       -- paths that are no longer referred to
        folder TEXT NOT NULL,         -- state or zarr
        path TEXT NOT NULL,           -- relative to it
        since TEXT NOT NULL,
        PRIMARY KEY (folder, path)
    )""",
    """CREATE TABLE drift (
        id INTEGER PRIMARY KEY,
        recording INTEGER NOT NULL, model INTEGER NOT NULL, run INTEGER,
        measured TEXT NOT NULL,
        outside REAL, distance REAL, correlation_change REAL, eigenvalue_change REAL,
        alarm INTEGER NOT NULL, text TEXT NOT NULL,
        probe TEXT,                   -- JSON
        UNIQUE (recording, model)
    )""",
    """CREATE TABLE history (        -- events
        id INTEGER PRIMARY KEY,
        run INTEGER, at TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, recording INTEGER, path TEXT, day TEXT
    )""",
    "CREATE INDEX history_by_recording ON history (recording)",
)


def iso(moment: datetime) -> str:
    """A time as text in the catalog; such texts sort like the times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def refuse_other_state(state: Path) -> None:
    """An error if the state folder contains something else: parts of it are removed by name."""

    def is_ours(folder: Path) -> bool:
        # A killed run may have left a temporary file of the owner.
        ours = (file.name in (OWNER, CRON_LOG) or file.name.startswith(f".{OWNER}.") for file in folder.iterdir())
        return (folder / FILE).is_file() or all(ours)

    places.refuse_folder(state, is_ours=is_ours, noun="the state of a pipeline", setting="[pipeline] state")


def _connect(path: Path, timeout_s: float) -> sqlite3.Connection:
    """Open a database without implicit transactions; its folder is made if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    except (sqlite3.DatabaseError, OSError) as error:
        raise StorageError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error


class Catalog(AbstractContextManager["Catalog"]):
    """The tables above; rows are dicts. A context manager that closes the database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base = _connect(path, TIMEOUT_S)
        self._base.row_factory = sqlite3.Row
        try:
            # WAL: readers do not wait for a run. FULL: committed changes survive a power failure.
            self.do("PRAGMA journal_mode = WAL")
            self.do("PRAGMA synchronous = FULL")
            if not self.value("PRAGMA user_version"):
                with self.change():
                    if not self.value("PRAGMA user_version"):  # else another process was faster
                        for statement in (*TABLES, f"PRAGMA user_version = {VERSION}"):
                            self.do(statement)
            if (found := self.value("PRAGMA user_version")) != VERSION:
                reads = f"has version {found}; this dlcca reads version {VERSION}. Use the dlcca that wrote it."
                raise StoreFileError(f"the catalog {path} {reads}")
        except BaseException:
            self._base.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._base.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of SQLite as errors with an exit code."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "not a database" in text or "malformed" in text:
                raise StoreFileError(
                    f"the catalog {self.path} is damaged ({text}): restore it from a backup. Published days are intact."
                ) from error
            hint = "Run again when this is repaired."
            raise StorageError(f"the catalog {self.path} cannot be used: {text}. {hint}") from error

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction."""
        with self._errors(), self._base:  # which commits, or rolls back after an error
            self._base.execute("BEGIN IMMEDIATE")
            yield

    def all(self, query: str, values: Values = ()) -> list[Row]:
        """The rows of a query."""
        with self._errors():
            return [dict(row) for row in self._base.execute(query, values)]

    def one(self, query: str, values: Values = ()) -> Row | None:
        """The first row of a query, or None."""
        return next(iter(self.all(query, values)), None)

    def value(self, query: str, values: Values = ()) -> Any:
        """The first value of the first row of a query, or None."""
        return next(iter((self.one(query, values) or {}).values()), None)

    def do(self, statement: str, values: Values = ()) -> int:
        """Execute a statement; the id of an inserted row."""
        with self._errors():
            return int(self._base.execute(statement, values).lastrowid or 0)

    def do_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement for each of many rows."""
        with self._errors():
            self._base.executemany(statement, rows)

    def insert(self, table: str, row: Mapping[str, Any]) -> int:
        """Insert a row; its id."""
        names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        return self.do(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)

    def update(self, table: str, row: Mapping[str, Any], **where: Any) -> None:
        """Set columns of the rows whose other columns have the values of ``where``."""
        names = ", ".join(f"{name} = ?" for name in row)
        which = " AND ".join(f"{name} = ?" for name in where)
        self.do(f"UPDATE {table} SET {names} WHERE {which}", [*row.values(), *where.values()])

    def begin_run(self, verb: str, now: datetime) -> int:
        """Insert a run; its id."""
        row = {"verb": verb, "started": iso(now), "host": socket.gethostname(), "pid": os.getpid()}
        return self.insert("runs", row)

    def end_run(self, run: int, now: datetime, document: Mapping[str, Any], *, reported: bool) -> None:
        """Store how a run ended. ``reported``: its summary covers everything that no earlier summary covers."""
        row = {"ended": iso(now), "exit_code": document["exit_code"], "summary": json.dumps(document, default=str)}
        self.update("runs", {**row, "reported": int(reported)}, id=run)


class Busy(StorageError):
    """Another run of the pipeline is in progress."""


@contextmanager
def locked(state: Path) -> Iterator[None]:
    """Hold the lock of a state folder; `Busy` if another process holds it."""
    # The write lock of an empty database: the operating system releases it when a process is killed.
    path = state / "lock.sqlite"
    with closing(_connect(path, timeout_s=0)) as base:
        try:
            base.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Busy("another run of this pipeline is in progress") from error
            raise StorageError(f"the lock {path} cannot be acquired: {error}.") from error
        yield
