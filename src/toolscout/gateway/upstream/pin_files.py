"""Where the ledgers of pins are kept as texts, and the variant with one file for each server."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from ...errors import StoreError
from ...store.file_lock import hold_file_lock

# Beside the pins of a server that no gateway has met, of which tools were revoked already.
_UNMET = ".unmet"
LOCK_TIMEOUT_SECONDS = 10.0
Stamp = tuple[int, int]
"""Identifies one version of a server's pins."""


class LedgerTexts(Protocol):
    """Ledgers as texts by label, which is `SERVER.KEY` or `SERVER`; failures raise StoreError."""

    def labels(self) -> Sequence[str]:
        """The labels of all ledgers, sorted."""
        ...

    def read(self, label: str) -> bytes | None:
        """The text of a ledger, or None if there is none."""
        ...

    def write(self, label: str, text: str, *, is_unmet: bool) -> None:
        """Replace a ledger as a whole; `is_unmet` if no gateway has met the server."""
        ...

    def delete(self, label: str) -> None:
        """Delete a ledger, if there is one."""
        ...

    def rename(self, before: str, after: str) -> None:
        """Give a ledger another label."""
        ...

    def is_met(self, label: str) -> bool:
        """Whether there is a ledger, of a server that a gateway has met; quick to answer."""
        ...

    def stamp(self, label: str) -> Stamp:
        """A value that changes with every write; (0, 0) if there is no ledger. It never waits."""
        ...

    @property
    def is_stamp_exact(self) -> bool:
        """Whether `stamp` shows a write of another process at once, and not after a moment."""
        ...

    def version(self, own: str, shared: str) -> Stamp:
        """A value that differs after every write of one of two ledgers; may wait for the store."""
        ...

    def write_lock(self, server: str) -> AbstractContextManager[None]:
        """Keep other threads and processes from writing the ledgers of a server name."""
        ...

    def describe(self, label: str) -> str:
        """Where a ledger is, for people."""
        ...

    def close(self) -> None:
        """Release connections, if there are any."""
        ...


class LedgerFiles:
    """One file for each ledger in a folder, safe to edit while a gateway runs."""

    def __init__(
        self, folder: str | Path, *, lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    ) -> None:
        self._folder = Path(folder)
        self._lock_timeout_seconds = lock_timeout_seconds

    def labels(self) -> Sequence[str]:
        """The labels of all files, sorted."""
        with contextlib.suppress(OSError):
            return sorted(p.name.removesuffix(".json") for p in self._folder.glob("*.json"))
        return []

    def read(self, label: str) -> bytes | None:
        """The content of a file, or None if there is none."""
        try:
            return self._path(label).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(
                f"The pins of {_server(label)!r} cannot be read: {error.strerror}.",
                hint=f"Check {self.describe(label)}.",
            ) from error

    def write(self, label: str, text: str, *, is_unmet: bool) -> None:
        """Replace a file atomically."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            # A rename replaces the file as a whole: a reader sees the old text or the new one.
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=".pins-")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            path = self._path(label)
            _set_unmet(path, is_unmet=is_unmet)
            Path(temporary).replace(path)
        except OSError as error:
            raise StoreError(
                f"The pins of {_server(label)!r} cannot be written: {error.strerror}.",
                hint=f"Check {self._folder}, and that its disk is not full.",
            ) from error

    def delete(self, label: str) -> None:
        """Delete a file, if there is one."""
        path = self._path(label)
        path.unlink(missing_ok=True)
        _set_unmet(path, is_unmet=False)

    def rename(self, before: str, after: str) -> None:
        """Rename a file."""
        try:
            self._path(before).rename(self._path(after))
        except OSError as error:
            raise StoreError(
                f"The pins of {_server(before)!r} cannot be renamed: {error.strerror}.",
                hint=f"Check {self._folder}.",
            ) from error

    def is_met(self, label: str) -> bool:
        """Whether there is a file, of a server that a gateway has met."""
        # By names alone: this is asked before a server starts, and a file may be slow to read.
        path = self._path(label)
        return path.exists() and not path.with_suffix(_UNMET).exists()

    def stamp(self, label: str) -> Stamp:
        """A value that changes whenever the file is written."""
        with contextlib.suppress(OSError):
            status = self._path(label).stat()
            # Two writes within one tick of the clock have the same time, but write() makes a new
            # file each time, and so another inode.
            return (status.st_mtime_ns, status.st_ino)
        return (0, 0)

    @property
    def is_stamp_exact(self) -> bool:
        """True: the file system is asked each time."""
        return True

    def version(self, own: str, shared: str) -> Stamp:
        """The stamp of the first file that exists."""
        stamp = self.stamp(own)
        return stamp if stamp != (0, 0) else self.stamp(shared)

    @contextmanager
    def write_lock(self, server: str) -> Generator[None]:
        """Keep other threads and processes from writing the files of a server name."""
        path = self._folder / f".{server}.lock"
        with hold_file_lock(path, timeout_seconds=self._lock_timeout_seconds):
            yield

    def describe(self, label: str) -> str:
        """The path of a file."""
        return str(self._path(label))

    def close(self) -> None:
        """No file stays open."""

    def _path(self, label: str) -> Path:
        return self._folder / f"{label}.json"


def _server(label: str) -> str:
    return label.partition(".")[0]


def _set_unmet(path: Path, *, is_unmet: bool) -> None:
    marker = path.with_suffix(_UNMET)
    if is_unmet:
        marker.touch(mode=0o600)
    else:
        marker.unlink(missing_ok=True)
