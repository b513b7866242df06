"""Files in PostgreSQL: bytes in pieces, by folder and name, with limits on their sizes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import BinaryIO

from .postgres import PostgresDatabase
from .postgres_connection import SqlConnection
from .postgres_pool import TIMEOUT_SECONDS

# A piece is one statement, with a deadline of its own: a large file may take longer than one use of
# the store, and a frozen server is noticed as soon as with a small one.
PIECE_BYTES = 1 << 20
_ENTRIES_AT_ONCE = 1_000
_DELETED_AT_ONCE = 100

_INSERT = """
    INSERT INTO toolscout_files (folder, name, bytes, written)
    VALUES (%(folder)s, %(name)s, %(bytes)s, %(written)s)
    ON CONFLICT (folder, name) DO NOTHING RETURNING sequence"""
_INSERT_PIECE = "INSERT INTO toolscout_file_pieces (file, number, data) VALUES (%s, %s, %s)"
_SELECT = "SELECT sequence, bytes FROM toolscout_files WHERE folder = %s AND name = %s"
_SELECT_PIECE = "SELECT data FROM toolscout_file_pieces WHERE file = %s AND number = %s"
_NAMES = """
    SELECT name FROM toolscout_files WHERE folder = %s
    ORDER BY written DESC, name DESC LIMIT %s"""
_ENTRIES = """
    SELECT sequence, folder, name, bytes, written FROM toolscout_files
    WHERE sequence > %s ORDER BY sequence LIMIT %s"""
_EVERYWHERE, _IN_FOLDER = "TRUE", "folder = %(folder)s"
_SUM = "SELECT coalesce(sum(bytes), 0)::bigint FROM toolscout_files WHERE {where}"
# The newest stay, as many as fit. Files that others delete at the same time are skipped: two
# gateways that waited for each other would be a deadlock.
_DELETE_OLDEST = """
    DELETE FROM toolscout_files WHERE sequence IN (
        SELECT sequence FROM toolscout_files WHERE sequence IN (
            SELECT sequence FROM (
                SELECT sequence, sum(bytes) OVER (ORDER BY written DESC, name DESC, sequence DESC)
                    AS taken
                FROM toolscout_files WHERE {where}
            ) AS files WHERE taken > %(max_bytes)s
        ) FOR UPDATE SKIP LOCKED
    )"""
_DELETE_SOME = """
    DELETE FROM toolscout_files WHERE sequence IN (
        SELECT sequence FROM toolscout_files WHERE {where}
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    )"""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A stored file: where it is, how many bytes it has, and when it was written."""

    folder: str
    name: str
    size: int
    written: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """How many bytes the files of one folder and all files may have."""

    max_folder_bytes: int
    max_total_bytes: int


class PostgresFiles:
    """Files that all gateways with this database share; a file is there completely or not at all.

    Gateways that write at the same time do not see each other's files yet, and may together exceed
    the limits until the next write.
    """

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url)

    def write(
        self, entry: FileEntry, pieces: Iterable[bytes], *, limits: FileLimits | None = None
    ) -> bool:
        """Store a new file, after deleting old ones that leave no room; False if it exists."""
        with self._database.use() as sql, sql.transaction():
            values = {"folder": entry.folder, "name": entry.name, "written": entry.written}
            row = sql.execute(_INSERT, {**values, "bytes": entry.size}).fetchone()
            if row is None:
                return False
            if limits is not None:
                # The new file is the newest one in most cases, but clocks differ.
                _shrink(sql, _IN_FOLDER, limits.max_folder_bytes, entry)
                _shrink(sql, _EVERYWHERE, limits.max_total_bytes, entry)
            for number, piece in enumerate(_split(pieces)):
                _renew_deadline(sql)
                sql.execute(_INSERT_PIECE, (row[0], number, piece))
            _renew_deadline(sql)
        return True

    def open(self, folder: str, name: str) -> BinaryIO | None:
        """A copy of a file without a name on this machine; None if there is no such file."""
        # A real file, since readers map it into memory or give it to another process.
        copy = TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            is_complete = self._read(folder, name, copy)
        except BaseException:
            copy.close()
            raise
        if not is_complete:
            copy.close()
            return None
        copy.seek(0)
        return copy

    def names(self, folder: str, *, limit: int = 100) -> tuple[str, ...]:
        """The names of a folder's files, newest first."""
        with self._database.use() as sql:
            return tuple(name for (name,) in sql.execute(_NAMES, (folder, limit)).fetchall())

    def entries(self) -> Iterator[FileEntry]:
        """All files, in the order of their writes."""
        after = 0
        while True:
            with self._database.use() as sql:
                rows = sql.execute(_ENTRIES, (after, _ENTRIES_AT_ONCE)).fetchall()
            yield from (FileEntry(*row[1:]) for row in rows)
            if not rows:
                return
            after = rows[-1][0]

    def delete(self, folder: str) -> int:
        """Delete the files of a folder; how many there were."""
        return self._delete(_IN_FOLDER, {"folder": folder})

    def expire(self, *, before: float) -> int:
        """Delete the files that were written before this time; how many there were."""
        return self._delete("written < %(before)s", {"before": before})

    def shrink(self, max_bytes: int) -> int:
        """Delete the oldest files until all have at most this size; how many were deleted."""
        with self._database.use() as sql:
            return _shrink(sql, _EVERYWHERE, max_bytes, None)

    def close(self) -> None:
        """Release the connections."""
        self._database.close()

    def _read(self, folder: str, name: str, copy: BinaryIO) -> bool:
        """Copy a file; whether it was there to its end."""
        with self._database.use() as sql:
            row = sql.execute(_SELECT, (folder, name)).fetchone()
            if row is None:
                return False
            number = 0
            while copy.tell() < row[1]:
                _renew_deadline(sql)
                piece = sql.execute(_SELECT_PIECE, (row[0], number)).fetchone()
                if piece is None:  # deleted meanwhile
                    return False
                copy.write(piece[0])
                number += 1
        return True

    def _delete(self, where: str, values: dict[str, object]) -> int:
        query = _DELETE_SOME.format(where=where)
        total = 0
        # In batches, each with a deadline of its own.
        while True:
            with self._database.use() as sql:
                deleted = sql.execute(query, {**values, "limit": _DELETED_AT_ONCE}).rowcount
            total += deleted
            if deleted < _DELETED_AT_ONCE:
                return total


def _shrink(sql: SqlConnection, where: str, max_bytes: int, new: FileEntry | None) -> int:
    """Delete the oldest of these files until all have at most this size, but never the new one."""
    values: dict[str, object] = {"folder": new.folder if new else "", "max_bytes": max_bytes}
    # The sum is read from an index; the order of all files is needed only if they are too large.
    (taken,) = sql.execute(_SUM.format(where=where), values).fetchone() or (0,)
    if taken <= max_bytes:
        return 0
    if new is not None:
        where = f"{where} AND NOT (folder = %(folder)s AND name = %(name)s)"
        values |= {"name": new.name, "max_bytes": max_bytes - new.size}
    return sql.execute(_DELETE_OLDEST.format(where=where), values).rowcount


def _split(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for start in range(0, len(piece), PIECE_BYTES):
            yield piece[start : start + PIECE_BYTES]


def _renew_deadline(sql: SqlConnection) -> None:
    sql.deadline = time.monotonic() + TIMEOUT_SECONDS
