"""Schema migrations of the SQLite file; a file of a newer version is not touched."""

from __future__ import annotations

import sqlite3
import time

from ..errors import StoreError

# "scou" in ASCII; distinguishes our files from other SQLite databases.
APPLICATION_ID = 0x73636F75

Migrations = tuple[tuple[str, ...], ...]
"""The statements of each step; the number of steps is the schema version."""

_RETRY_PAUSE_SECONDS = 0.02
# A released step never changes: files with it exist. Later changes are further steps.
MIGRATIONS: Migrations = (
    (
        """CREATE TABLE records (
            sequence INTEGER PRIMARY KEY AUTOINCREMENT,
            space TEXT NOT NULL,
            key TEXT NOT NULL,
            version INTEGER NOT NULL,
            text TEXT NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            UNIQUE (space, key)
        )""",
        "CREATE INDEX records_by_age ON records (space, updated)",
    ),
)


def migrate(
    connection: sqlite3.Connection,
    steps: Migrations = MIGRATIONS,
    *,
    application_id: int = APPLICATION_ID,
) -> None:
    """Bring a file up to date in one transaction; refuse newer and foreign files."""
    # The usual case takes no lock, so that opening a store never waits for a writer.
    if (
        _schema_version(connection) == len(steps)
        and _read_pragma(connection, "application_id") == application_id
    ):
        return
    _refuse_foreign(connection, newest=len(steps), application_id=application_id)
    # WAL mode is a property of the file and cannot be changed inside a transaction.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read the version again: another process may have migrated while we waited for the lock.
        for step in steps[_schema_version(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {application_id}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def migrate_with_retry(
    connection: sqlite3.Connection,
    steps: Migrations = MIGRATIONS,
    *,
    timeout_seconds: float,
    application_id: int = APPLICATION_ID,
) -> None:
    """Migrate the file, even if several processes create it at the same time."""
    # SQLite's busy timeout does not cover a change of the journal mode: it fails at once if another
    # process is doing the same.
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            return migrate(connection, steps, application_id=application_id)
        except sqlite3.OperationalError as error:
            # The low byte is the primary code; the rest are variants such as SQLITE_BUSY_RECOVERY.
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_PAUSE_SECONDS)


def _refuse_foreign(connection: sqlite3.Connection, *, newest: int, application_id: int) -> None:
    version = _schema_version(connection)
    if version > newest:
        raise StoreError(
            f"The store was written by a newer version (schema {version}; this version knows"
            f" {newest}).",
            hint="Upgrade toolscout, or name another file; this one was not changed.",
        )
    # A new, empty file has no tables and no id yet; only a file with tables can be foreign.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and _read_pragma(connection, "application_id") != application_id:
        raise StoreError(
            "The file is an SQLite database of another program.",
            hint="Name another file for the store; this one was not changed.",
        )


def _schema_version(connection: sqlite3.Connection) -> int:
    return _read_pragma(connection, "user_version")


def _read_pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
