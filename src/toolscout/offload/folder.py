"""Where results lie on disk: one folder a session, names that never clash, and when they go."""

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

from ..catalog.names import digest
from .limits import OffloadLimits

_PREFIX = "tool_"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_PLAIN_SESSION = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NAME_CAP = 50
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


class NoSuchFile(ValueError):
    """A name that means no kept result of this session; the text says why."""


class ResultTooLarge(OSError):
    """A result is larger than everything that may be kept."""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file in the folder, as a sweep sees it."""

    path: Path
    size: int
    written: float


class ResultFolder:
    """The kept results of all sessions; a session reaches only its own."""

    def __init__(self, root: Path, limits: OffloadLimits) -> None:
        self._root = root
        self._limits = limits
        self._counter = itertools.count(1)

    def write(
        self, session: str, tool: str, pieces: Iterable[bytes], *, extension: str, now: float
    ) -> Path:
        """Keep a result under a new name; a write that fails leaves nothing behind."""
        home = self._session_folder(session)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, descriptor = self._create_file(home, tool, extension, now)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                for piece in pieces:
                    stream.write(piece)
            os.utime(path, (now, now))
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        return path

    def open(self, session: str, filename: str) -> BinaryIO:
        """Open a kept result by its bare name, or by its path under the folder."""
        path = self._resolve(session, filename)
        try:
            descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise NoSuchFile(f"{filename!r} is no kept result of this session.") from error
        stream = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            stream.close()
            raise NoSuchFile(f"{filename!r} is not a file.")
        return stream

    def relative_path(self, path: Path) -> str:
        """The path as a model may name it: relative to the folder, with forward slashes."""
        return path.relative_to(self._root).as_posix()

    def names(self, session: str) -> tuple[str, ...]:
        """What this session has kept, newest first."""
        kept = sorted(self._files(self._session_folder(session)), key=_age_key, reverse=True)
        return tuple(k.path.name for k in kept)

    def make_room(self, session: str, size: int) -> None:
        """Drop the oldest results until one more of this size fits; NoRoom if it never will."""
        limits = self._limits
        if size > min(limits.max_session_bytes, limits.max_total_bytes):
            raise ResultTooLarge(f"{size:,} bytes are more than may be kept at all")
        own = list(self._files(self._session_folder(session)))
        self._shrink(own, limits.max_session_bytes - size)
        self._shrink(self._all_files(), limits.max_total_bytes - size)

    def sweep(self, now: float) -> int:
        """Remove what is older than the limit, and the oldest of what is too much; say how many."""
        kept = self._all_files()
        old = [k for k in kept if now - k.written > self._limits.max_age_seconds]
        for file in old:
            _remove(file.path)
        left = [k for k in kept if k not in old]
        gone = len(old) + self._shrink(left, self._limits.max_total_bytes)
        for home in self._session_folders():
            with contextlib.suppress(OSError):
                home.rmdir()
        return gone

    def forget(self, session: str) -> int:
        """Remove all that a session has kept; say how many results that were."""
        home = self._session_folder(session)
        kept = list(self._files(home))
        for file in kept:
            _remove(file.path)
        if home != self._root:
            with contextlib.suppress(OSError):
                home.rmdir()
        return len(kept)

    def _session_folder(self, session: str) -> Path:
        """A session's own folder. No two sessions share one, whatever their ids look like."""
        if not session:
            return self._root
        if _PLAIN_SESSION.fullmatch(session):
            return self._root / session
        # A plain id never begins with a tilde, so a made-up one cannot meet another's folder.
        stem = _UNSAFE.sub("_", session)[:32].lower()
        return self._root / f"~{stem}_{digest(session, length=16)}"

    def _create_file(self, home: Path, tool: str, extension: str, now: float) -> tuple[Path, int]:
        moment = datetime.fromtimestamp(now, UTC)
        nanoseconds = int(now % 1 * 1_000_000_000)
        safe = _UNSAFE.sub("_", tool)[:_NAME_CAP] or "result"
        for count in self._counter:
            stamp = f"{moment:%Y%m%d_%H%M%S}_{nanoseconds:09d}_{count}"
            path = home / f"{_PREFIX}{stamp}_{safe}{extension}"
            with contextlib.suppress(FileExistsError):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
                return path, os.open(path, flags | _NOFOLLOW, 0o600)
        raise AssertionError("the counter never ends")

    def _resolve(self, session: str, filename: str) -> Path:
        if "\0" in filename:
            raise NoSuchFile("A filename cannot hold a NUL character.")
        home = self._session_folder(session)
        given = Path(filename)
        if len(given.parts) > 1:
            path = given if given.is_absolute() else self._root / given
        else:
            path = home / given
        if not path.name.startswith(_PREFIX):
            raise NoSuchFile(f"Kept results have names that begin with {_PREFIX!r}.")
        try:
            real = path.resolve(strict=True)
            is_own = real.parent == home.resolve(strict=True) and not path.is_symlink()
        except (OSError, RuntimeError) as error:
            raise NoSuchFile(f"{filename!r} is no kept result of this session.") from error
        if not is_own:
            # The same words as for a missing file: another session's names are not confirmed.
            raise NoSuchFile(f"{filename!r} is no kept result of this session.")
        return real

    def _session_folders(self) -> Iterator[Path]:
        with contextlib.suppress(OSError), os.scandir(self._root) as entries:
            yield from (Path(e.path) for e in entries if e.is_dir(follow_symlinks=False))

    def _all_files(self) -> list[ResultFile]:
        return [k for home in (self._root, *self._session_folders()) for k in self._files(home)]

    def _files(self, home: Path) -> Iterator[ResultFile]:
        """Only what this class wrote: a folder named by mistake loses nothing."""
        with contextlib.suppress(OSError), os.scandir(home) as entries:
            for entry in entries:
                if entry.name.startswith(_PREFIX) and entry.is_file(follow_symlinks=False):
                    facts = entry.stat(follow_symlinks=False)
                    yield ResultFile(Path(entry.path), facts.st_size, facts.st_mtime)

    def _shrink(self, kept: list[ResultFile], most: int) -> int:
        excess = sum(k.size for k in kept) - most
        gone = 0
        for file in sorted(kept, key=_age_key):
            if excess <= 0:
                break
            _remove(file.path)
            excess -= file.size
            gone += 1
        return gone


def _age_key(kept: ResultFile) -> tuple[float, str]:
    return kept.written, kept.path.name


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
