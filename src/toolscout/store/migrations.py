"""The shape of the file, step by step; a file from the future is left alone."""

from __future__ import annotations

import sqlite3

from ..errors import StoreError

# "scou" in ASCII: tells a file of ours from any other SQLite database.
APPLICATION_ID = 0x73636F75

Migrations = tuple[tuple[str, ...], ...]
"""Statements by the version of the file that they lead to."""

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


def migrate(connection: sqlite3.Connection, steps: Migrations = MIGRATIONS) -> None:
    """Bring a file up to date in one transaction; refuse what is newer or not ours.

    A step that was released never changes: what comes later is one more step.
    """
    if (
        _schema_version(connection) == len(steps)
        and _read_pragma(connection, "application_id") == APPLICATION_ID
    ):
        return
    _refuse_foreign(connection, newest=len(steps))
    # Write-ahead mode is a property of the file and cannot change inside a transaction.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        for step in steps[_schema_version(connection) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _refuse_foreign(connection: sqlite3.Connection, *, newest: int) -> None:
    version = _schema_version(connection)
    if version > newest:
        raise StoreError(
            f"The store was written by a newer version (its shape is {version}; this one knows"
            f" {newest}).",
            hint="Upgrade toolscout, or name another file; this one was not touched.",
        )
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and _read_pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(
            "The file is an SQLite database of something else.",
            hint="Name another file for the store; this one was not touched.",
        )


def _schema_version(connection: sqlite3.Connection) -> int:
    return _read_pragma(connection, "user_version")


def _read_pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
