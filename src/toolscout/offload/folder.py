"""Result files on disk: one folder per session, unique names, and expiry by age and size."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from ..catalog.tool import digest
from .limits import OffloadLimits

_PREFIX = "tool_"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_PLAIN_SESSION = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_TOOL_NAME = 50
# Zero where the platform lacks the flag, as on Windows.
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class NoSuchFileError(ValueError):
    """A name that is not a stored result of this session; the text says why."""


class ResultTooLargeError(OSError):
    """A result is larger than the storage limit."""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A stored file, as a sweep sees it."""

    path: Path
    size: int
    written: float


class ResultFolder:
    """The stored results of all sessions; a session can open only its own."""

    def __init__(self, root: Path, limits: OffloadLimits) -> None:
        self._root = root
        self._limits = limits
        self._counter = itertools.count(1)

    def write(
        self, session: str, tool: str, pieces: Iterable[bytes], *, extension: str, now: float
    ) -> Path:
        """Store a result under a new name; a failed write leaves no file behind."""
        home = self._session_folder(session)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, descriptor = self._create_file(home, tool, extension, now)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                for piece in pieces:
                    stream.write(piece)
            # Expiry goes by the clock that was passed in, not by the file system's.
            os.utime(path, (now, now))
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return path

    def open(self, session: str, filename: str) -> BinaryIO:
        """Open a stored result by its bare name, or by its path below the folder."""
        path = self._resolve(session, filename)
        try:
            descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise NoSuchFileError(
                f"{filename!r} is not a stored result of this session."
            ) from error
        # Checked on the open file: another process could replace the path between check and use.
        stream = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            stream.close()
            raise NoSuchFileError(f"{filename!r} is not a file.")
        return stream

    def relative_path(self, path: Path) -> str:
        """The path relative to the folder, with forward slashes, as notices give it."""
        return path.relative_to(self._root).as_posix()

    def names(self, session: str) -> tuple[str, ...]:
        """The names of a session's results, newest first."""
        files = sorted(self._files(self._session_folder(session)), key=_age_key, reverse=True)
        return tuple(file.path.name for file in files)

    def make_room(self, session: str, size: int) -> None:
        """Delete the oldest results until this size fits; ResultTooLargeError if it never will."""
        limits = self._limits
        if size > min(limits.max_session_bytes, limits.max_total_bytes):
            raise ResultTooLargeError(f"{size:,} bytes are more than the storage limit")
        own = list(self._files(self._session_folder(session)))
        self._shrink(own, limits.max_session_bytes - size)
        self._shrink(self._all_files(), limits.max_total_bytes - size)

    def sweep(self, now: float) -> int:
        """Delete files past their age, then the oldest above the size limit; return how many."""
        files = self._all_files()
        expired = [f for f in files if now - f.written > self._limits.max_age_seconds]
        for file in expired:
            _remove(file.path)
        remaining = [f for f in files if f not in expired]
        removed = len(expired) + self._shrink(remaining, self._limits.max_total_bytes)
        for home in self._session_folders():
            with contextlib.suppress(OSError):  # rmdir refuses a folder that is not empty
                home.rmdir()
        return removed

    def forget(self, session: str) -> int:
        """Delete all results of a session; return how many."""
        home = self._session_folder(session)
        files = list(self._files(home))
        for file in files:
            _remove(file.path)
        if home != self._root:
            with contextlib.suppress(OSError):
                home.rmdir()
        return len(files)

    def _session_folder(self, session: str) -> Path:
        """The folder of a session; no two sessions share one, whatever their ids look like."""
        if not session:
            return self._root
        if _PLAIN_SESSION.fullmatch(session):
            return self._root / session
        # Other ids get a digest. A plain id never begins with a tilde, so no id can be chosen to
        # name the folder of another session.
        stem = _UNSAFE.sub("_", session)[:32].lower()
        return self._root / f"~{stem}_{digest(session, length=16)}"

    def _create_file(self, home: Path, tool: str, extension: str, now: float) -> tuple[Path, int]:
        moment = datetime.fromtimestamp(now, UTC)
        nanoseconds = int(now % 1 * 1_000_000_000)
        safe = _UNSAFE.sub("_", tool)[:_MAX_TOOL_NAME] or "result"
        # The counter continues until a name is free: two processes may share the folder.
        for count in self._counter:
            stamp = f"{moment:%Y%m%d_%H%M%S}_{nanoseconds:09d}_{count}"
            path = home / f"{_PREFIX}{stamp}_{safe}{extension}"
            with contextlib.suppress(FileExistsError):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
                return path, os.open(path, flags | _NOFOLLOW, 0o600)
        raise AssertionError("the counter never ends")

    def _resolve(self, session: str, filename: str) -> Path:
        if "\0" in filename:
            raise NoSuchFileError("A filename cannot hold a NUL character.")
        home = self._session_folder(session)
        requested = Path(filename)
        if len(requested.parts) > 1:
            path = requested if requested.is_absolute() else self._root / requested
        else:
            path = home / requested
        if not path.name.startswith(_PREFIX):
            raise NoSuchFileError(f"Stored results have names that begin with {_PREFIX!r}.")
        # The real path must be directly in the session's folder: neither `..` nor a symbolic link
        # may lead to another session's results or out of the folder.
        try:
            real = path.resolve(strict=True)
            is_own = real.parent == home.resolve(strict=True) and not path.is_symlink()
        except (OSError, RuntimeError) as error:
            raise NoSuchFileError(
                f"{filename!r} is not a stored result of this session."
            ) from error
        if not is_own:
            # The same message as for a missing file, so that it does not confirm names of other
            # sessions.
            raise NoSuchFileError(f"{filename!r} is not a stored result of this session.")
        return real

    def _session_folders(self) -> Iterator[Path]:
        with contextlib.suppress(OSError), os.scandir(self._root) as entries:
            yield from (Path(e.path) for e in entries if e.is_dir(follow_symlinks=False))

    def _all_files(self) -> list[ResultFile]:
        return [f for home in (self._root, *self._session_folders()) for f in self._files(home)]

    def _files(self, home: Path) -> Iterator[ResultFile]:
        """The files that this class wrote, by their prefix.

        Others are never touched, in case the folder is not one of ours.
        """
        with contextlib.suppress(OSError), os.scandir(home) as entries:
            for entry in entries:
                if entry.name.startswith(_PREFIX) and entry.is_file(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    yield ResultFile(Path(entry.path), info.st_size, info.st_mtime)

    def _shrink(self, files: list[ResultFile], max_bytes: int) -> int:
        excess = sum(f.size for f in files) - max_bytes
        removed = 0
        for file in sorted(files, key=_age_key):
            if excess <= 0:
                break
            _remove(file.path)
            excess -= file.size
            removed += 1
        return removed


def _age_key(file: ResultFile) -> tuple[float, str]:
    return file.written, file.path.name


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
