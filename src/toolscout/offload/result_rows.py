"""Results in PostgreSQL, which every gateway with the database can read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from ..store.postgres_files import FileEntry, FileLimits, PostgresFiles
from .limits import OffloadLimits
from .result_files import (
    PREFIX,
    FileReference,
    NewResult,
    NoSuchFileError,
    check_filename,
    check_size,
    result_name,
    session_folder,
)


class ResultRows:
    """The stored results of all sessions at all gateways; a session can open only its own."""

    def __init__(self, files: PostgresFiles, limits: OffloadLimits) -> None:
        self._files = files
        self._limits = limits
        self._room = FileLimits(
            max_folder_bytes=limits.max_session_bytes, max_total_bytes=limits.max_total_bytes
        )
        self._counter = itertools.count(1)

    def write(self, new: NewResult) -> FileReference:
        """Store a result under a new name, and delete the oldest ones that leave no room for it."""
        check_size(new.size, self._limits)
        folder = session_folder(new.session)
        # The counter continues until a name is free: other gateways write at the same moment.
        for count in self._counter:
            entry = FileEntry(folder, result_name(new, count), new.size, new.now)
            if self._files.write(entry, new.pieces, limits=self._room):
                return FileReference(entry.name, f"{folder}/{entry.name}".lstrip("/"))
        raise AssertionError("the counter never ends")

    def open(self, session: str, filename: str) -> BinaryIO:
        """Open a result by its bare name or its relative path."""
        name = _resolve(session, filename)
        stream = self._files.open(session_folder(session), name)
        if stream is None:
            raise NoSuchFileError(f"{filename!r} is not a stored result of this session.")
        return stream

    def names(self, session: str) -> tuple[str, ...]:
        """The names of a session's results, newest first."""
        return self._files.names(session_folder(session))

    def sweep(self, now: float) -> int:
        """Delete results past their age, then the oldest above the size limit; return how many."""
        expired = self._files.expire(before=now - self._limits.max_age_seconds)
        return expired + self._files.shrink(self._limits.max_total_bytes)

    def forget(self, session: str) -> int:
        """Delete all results of a session; return how many."""
        return self._files.delete(session_folder(session))

    def entries(self) -> Iterator[FileEntry]:
        """The results of all sessions, for copies."""
        return self._files.entries()

    def read(self, entry: FileEntry) -> BinaryIO | None:
        """Open one of the entries; None if it was deleted meanwhile."""
        return self._files.open(entry.folder, entry.name)

    def add(self, entry: FileEntry, pieces: Iterable[bytes]) -> bool:
        """Store an entry of another place under its own name; False if it is here already."""
        return self._files.write(entry, pieces)

    def close(self) -> None:
        """Release the connections."""
        self._files.close()


def _resolve(session: str, filename: str) -> str:
    """The bare name in the session's own folder."""
    check_filename(filename)
    path = PurePosixPath(filename)
    if not path.name.startswith(PREFIX):
        raise NoSuchFileError(f"Stored results have names that begin with {PREFIX!r}.")
    is_bare = len(path.parts) == 1
    if not is_bare and path.parent != PurePosixPath(session_folder(session)):
        raise NoSuchFileError(f"{filename!r} is not a stored result of this session.")
    return path.name
