"""The tables of the catalog, and how an older catalog becomes one of today."""

from __future__ import annotations


def _name(column: str) -> str:
    """SQL for the last name of a path."""
    return f"substr({column}, length(rtrim({column}, replace({column}, '/', ''))) + 1)"


#: Statements that lead from one version to the next; the first makes an empty catalog.
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE runs (          -- a night, or any other verb that changes something
        id INTEGER PRIMARY KEY,
        verb TEXT NOT NULL,
        started TEXT NOT NULL,   -- all times are ISO 8601 in UTC
        ended TEXT,              -- NULL while it runs, and for ever if it was killed
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        exit_code INTEGER,
        summary TEXT,            -- JSON, see summary.Summary
        told INTEGER NOT NULL DEFAULT 0  -- whether the summary tells of all that had not been told by then
    );
    CREATE TABLE files (         -- paths, as they were last seen
        path TEXT PRIMARY KEY,
        size INTEGER NOT NULL,
        stamp TEXT NOT NULL,     -- what tells without reading it that a file has not changed
        parts TEXT NOT NULL,     -- JSON: all files of the recording, this one first, sidecars last
        n_read INTEGER NOT NULL, -- how many of them a reader is given
        content TEXT,            -- SHA-256; NULL as long as it was not read
        state TEXT NOT NULL,     -- waiting, known, unreadable, gone; closed: a folder
        reason TEXT,
        first_seen TEXT NOT NULL
    );
    CREATE INDEX files_by_content ON files (content);
    CREATE TABLE recordings (    -- contents, each of which is embedded once
        id INTEGER PRIMARY KEY,
        content TEXT NOT NULL UNIQUE,
        path TEXT NOT NULL,      -- where it was first seen
        size INTEGER NOT NULL,
        modified TEXT,           -- when the file was last written
        first_seen TEXT NOT NULL,
        start TEXT,              -- of the recording, where it says so
        ends TEXT,
        day TEXT,                -- of the partition that it belongs to
        status TEXT NOT NULL,    -- new, done, refused, held, failed, superseded, gone
        reason TEXT,
        replaces INTEGER REFERENCES recordings (id),
        attempts INTEGER NOT NULL DEFAULT 0,
        settings TEXT,           -- fingerprint of the settings it was embedded with
        model INTEGER,
        views TEXT,              -- paths
        result TEXT,
        rows INTEGER,
        valid INTEGER,
        outside INTEGER,
        run INTEGER REFERENCES runs (id),
        finished TEXT
    );
    CREATE INDEX recordings_by_status ON recordings (status);
    CREATE INDEX recordings_by_day ON recordings (day);
    CREATE TABLE models (
        version INTEGER PRIMARY KEY,
        generation INTEGER NOT NULL,  -- models of one generation treat recordings alike and share their axes
        status TEXT NOT NULL,         -- fitting, current, kept, rejected, removed
        reason TEXT,                  -- why it was rejected
        because TEXT NOT NULL,        -- why it was fitted
        parent INTEGER,
        created TEXT NOT NULL,
        settings TEXT NOT NULL,       -- fingerprint
        address TEXT,
        rows_store TEXT,              -- the rows of its fit, where they are kept
        held_store TEXT,              -- the rows that were held out of it
        n_rows INTEGER,
        last_drift INTEGER NOT NULL DEFAULT 0,  -- alarms up to this one have been answered
        measures TEXT                 -- JSON: baseline, comparison, change of the axes
    );
    CREATE TABLE training (           -- which recordings a model was fitted to
        model INTEGER NOT NULL,
        recording INTEGER NOT NULL,
        PRIMARY KEY (model, recording)
    );
    CREATE TABLE partitions (
        day TEXT PRIMARY KEY,
        version TEXT NOT NULL,        -- fingerprint of what is in it
        recordings INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        models TEXT NOT NULL,         -- JSON
        published TEXT NOT NULL
    );
    CREATE TABLE replaced (           -- paths that nobody points to any more, and since when
        path TEXT PRIMARY KEY,
        since TEXT NOT NULL
    );
    CREATE TABLE drift (
        id INTEGER PRIMARY KEY,
        recording INTEGER NOT NULL,
        model INTEGER NOT NULL,
        run INTEGER,
        measured TEXT NOT NULL,
        outside REAL,
        distance REAL,
        correlation_change REAL,
        eigenvalue_change REAL,
        alarm INTEGER NOT NULL,
        text TEXT NOT NULL,
        probe TEXT,                   -- JSON
        UNIQUE (recording, model)
    );
    CREATE TABLE history (            -- what happened, a line each
        id INTEGER PRIMARY KEY,
        run INTEGER,
        at TEXT NOT NULL,
        kind TEXT NOT NULL,
        recording INTEGER,
        path TEXT,
        day TEXT,
        text TEXT NOT NULL
    );
    CREATE INDEX history_by_recording ON history (recording);
    """,
    # Paths become relative, to the folder of the state (views, result) or of the models, by their last name or two.
    # Models that are not trusted are no longer in use; after this step one is so only if somebody has chosen it.
    f"""
    UPDATE recordings SET views = 'views/' || {_name("views")}, result = 'results/' || {_name("result")};
    UPDATE models SET address = {_name("address")}, rows_store = {_name("rows_store")},
        held_store = {_name("held_store")};
    DROP TABLE replaced;
    CREATE TABLE replaced (      -- what nobody points to any more, and since when
        folder TEXT NOT NULL,    -- state or zarr
        path TEXT NOT NULL,      -- relative to it
        since TEXT NOT NULL,
        PRIMARY KEY (folder, path)
    );
    UPDATE models SET status = 'rejected',
        reason = (SELECT group_concat(value, '; ') FROM json_each(measures, '$.warnings'))
        WHERE status IN ('current', 'kept') AND json_array_length(measures, '$.warnings') > 0;
    """,
)
VERSION = len(STEPS)
