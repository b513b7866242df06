"""Result files on disk: one folder per session, unique names, and expiry by age and size."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..store.postgres_files import FileEntry
from .limits import OffloadLimits
from .result_files import (
    PREFIX,
    FileReference,
    NewResult,
    NoSuchFileError,
    check_filename,
    check_size,
    is_result,
    result_name,
    session_folder,
)

# Zero where the platform lacks the flag, as on Windows.
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


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

    def write(self, new: NewResult) -> FileReference:
        """Store a result under a new name; a failed write leaves no file behind."""
        check_size(new.size, self._limits)
        self._make_room(new.session, new.size)
        home = self._session_folder(new.session)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, descriptor = self._create_file(home, new)
        _fill(path, descriptor, new.pieces, written=new.now)
        return FileReference(path.name, path.relative_to(self._root).as_posix())

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

    def names(self, session: str) -> tuple[str, ...]:
        """The names of a session's results, newest first."""
        files = sorted(self._files(self._session_folder(session)), key=_age_key, reverse=True)
        return tuple(file.path.name for file in files)

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

    def entries(self) -> Iterator[FileEntry]:
        """The results of all sessions, for copies."""
        for file in self._all_files():
            folder = file.path.parent.relative_to(self._root).as_posix()
            entry = FileEntry(
                "" if folder == "." else folder, file.path.name, file.size, file.written
            )
            if is_result(entry):
                yield entry

    def read(self, entry: FileEntry) -> BinaryIO | None:
        """Open one of the entries; None if it was deleted meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            return (self._root / entry.folder / entry.name).open("rb")
        return None

    def add(self, entry: FileEntry, pieces: Iterable[bytes]) -> bool:
        """Store an entry of another place under its own name; False if it is here already."""
        if not is_result(entry):
            return False
        path = self._root / entry.folder / entry.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = _create(path)
        except FileExistsError:
            return False
        _fill(path, descriptor, pieces, written=entry.written)
        return True

    def close(self) -> None:
        """Nothing is open between two uses."""

    def _make_room(self, session: str, size: int) -> None:
        limits = self._limits
        own = list(self._files(self._session_folder(session)))
        self._shrink(own, limits.max_session_bytes - size)
        self._shrink(self._all_files(), limits.max_total_bytes - size)

    def _session_folder(self, session: str) -> Path:
        return self._root / session_folder(session)

    def _create_file(self, home: Path, new: NewResult) -> tuple[Path, int]:
        # The counter continues until a name is free: two processes may share the folder.
        for count in self._counter:
            path = home / result_name(new, count)
            with contextlib.suppress(FileExistsError):
                return path, _create(path)
        raise AssertionError("the counter never ends")

    def _resolve(self, session: str, filename: str) -> Path:
        check_filename(filename)
        home = self._session_folder(session)
        requested = Path(filename)
        if len(requested.parts) > 1:
            path = requested if requested.is_absolute() else self._root / requested
        else:
            path = home / requested
        if not path.name.startswith(PREFIX):
            raise NoSuchFileError(f"Stored results have names that begin with {PREFIX!r}.")
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
                if entry.name.startswith(PREFIX) and entry.is_file(follow_symlinks=False):
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


def _create(path: Path) -> int:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    return os.open(path, flags | _NOFOLLOW, 0o600)


def _fill(path: Path, descriptor: int, pieces: Iterable[bytes], *, written: float) -> None:
    try:
        with os.fdopen(descriptor, "wb") as stream:
            for piece in pieces:
                stream.write(piece)
        # Expiry goes by the clock that was passed in, not by the file system's.
        os.utime(path, (written, written))
    except BaseException:
        _remove(path)
        raise
