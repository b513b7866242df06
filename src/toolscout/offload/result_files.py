"""The contract of the places where results are stored, and the names of what is stored there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Protocol

from ..catalog.tool import digest
from ..store.postgres_files import FileEntry
from .limits import OffloadLimits

PREFIX = "tool_"
"""How the names of all stored results begin."""

UNAVAILABLE = "the store does not answer"
"""What a model reads about a store that failed; the details are for operators."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_PLAIN_SESSION = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_DIGEST_SESSION = re.compile(r"~[a-z0-9_-]{1,64}")
_NAME = re.compile(PREFIX + r"[A-Za-z0-9_.-]{1,200}")
_MAX_TOOL_NAME = 50


class NoSuchFileError(ValueError):
    """A name that is not a stored result of this session; the text says why."""


class ResultTooLargeError(OSError):
    """A result is larger than the storage limit."""


@dataclass(frozen=True, slots=True)
class FileReference:
    """A stored result: its bare name, and its path below the folder."""

    # Not the absolute path: a model needs to know nothing about the machine's folders.
    filename: str
    relative_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResult:
    """A result to store; its pieces are made one by one and have `size` bytes together."""

    session: str
    tool: str
    extension: str
    size: int
    now: float
    pieces: Iterable[bytes]


class ResultFiles(Protocol):
    """The stored results of all sessions; a session can open only its own.

    Failures raise OSError or StoreError. The methods block.
    """

    def write(self, new: NewResult) -> FileReference:
        """Store a result under a new name, and delete the oldest ones that leave no room for it.

        ResultTooLargeError if there is never room. A failed write leaves nothing behind.
        """
        ...

    def open(self, session: str, filename: str) -> BinaryIO:
        """Open a result by its bare name or its relative path; it has a file descriptor."""
        ...

    def names(self, session: str) -> tuple[str, ...]:
        """The names of a session's results, newest first."""
        ...

    def sweep(self, now: float) -> int:
        """Delete results past their age, then the oldest above the size limit; return how many."""
        ...

    def forget(self, session: str) -> int:
        """Delete all results of a session; return how many."""
        ...

    def entries(self) -> Iterator[FileEntry]:
        """The results of all sessions, for copies."""
        ...

    def read(self, entry: FileEntry) -> BinaryIO | None:
        """Open one of the entries; None if it was deleted meanwhile."""
        ...

    def add(self, entry: FileEntry, pieces: Iterable[bytes]) -> bool:
        """Store an entry of another place under its own name; False if it is here already."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


def session_folder(session: str) -> str:
    """The folder of a session; no two sessions share one, whatever their ids look like."""
    if not session or _PLAIN_SESSION.fullmatch(session):
        return session
    # Other ids get a digest. A plain id never begins with a tilde, so no id can be chosen to
    # name the folder of another session.
    stem = _UNSAFE.sub("_", session)[:32].lower()
    return f"~{stem}_{digest(session, length=16)}"


def result_name(new: NewResult, count: int) -> str:
    """The name of a result; the count makes it unique among those of the same moment."""
    moment = datetime.fromtimestamp(new.now, UTC)
    nanoseconds = int(new.now % 1 * 1_000_000_000)
    safe = _UNSAFE.sub("_", new.tool)[:_MAX_TOOL_NAME] or "result"
    stamp = f"{moment:%Y%m%d_%H%M%S}_{nanoseconds:09d}_{count}"
    return f"{PREFIX}{stamp}_{safe}{new.extension}"


def check_filename(filename: str) -> None:
    """Raise NoSuchFileError for a name with characters that no place can look up."""
    # NUL, and half a surrogate pair, which is not UTF-8.
    if not filename.isprintable():
        raise NoSuchFileError("A filename cannot hold a control character.")


def is_result(entry: FileEntry) -> bool:
    """Whether an entry has names as they are made here, which lead out of no folder."""
    is_folder = (
        not entry.folder
        or _PLAIN_SESSION.fullmatch(entry.folder)
        or _DIGEST_SESSION.fullmatch(entry.folder)
    )
    return bool(is_folder and _NAME.fullmatch(entry.name))


def check_size(size: int, limits: OffloadLimits) -> None:
    """Raise ResultTooLargeError for a result for which there can never be room."""
    if size > min(limits.max_session_bytes, limits.max_total_bytes):
        raise ResultTooLargeError(f"{size:,} bytes are more than the storage limit")
