"""Stored logins as files of one machine, and the contract of the places for them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Protocol

from ...store.file_lock import hold_file_lock, hold_file_lock_async

_SUFFIX = ".json"


class GrantTexts(Protocol):
    """Encrypted logins by name; failures raise OSError or StoreError."""

    def names(self) -> Sequence[str]:
        """The names of all logins, sorted."""
        ...

    def read(self, name: str) -> bytes | None:
        """An encrypted login, or None if there is none."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace a login; no reader sees half of it."""
        ...

    def delete(self, name: str) -> bool:
        """Delete a login; whether there was one."""
        ...

    def set_aside(self, name: str) -> None:
        """Keep a login that cannot be read under another name; raises if others may read it."""
        ...

    def hold(self, name: str, *, timeout_seconds: float) -> AbstractContextManager[None]:
        """Keep all others from renewing a login until the block ends."""
        ...

    def hold_async(self, name: str, *, timeout_seconds: float) -> AbstractAsyncContextManager[None]:
        """The same for a block that waits for a response; other tasks run meanwhile."""
        ...

    def describe(self, name: str) -> str:
        """Where a login is, for people."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class GrantFiles:
    """One file for each login, in a folder that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> Sequence[str]:
        """The names of all files, without their suffix."""
        return sorted(path.stem for path in self._folder.glob(f"*{_SUFFIX}"))

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is none."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file atomically."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp creates the file with mode 0600, and renaming keeps it.
        handle, temporary = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(self._path(name))

    def delete(self, name: str) -> bool:
        """Delete a file; whether there was one."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def set_aside(self, name: str) -> None:
        """Give a file another suffix."""
        path = self._path(name)
        path.replace(path.with_suffix(".unreadable"))

    def hold(self, name: str, *, timeout_seconds: float) -> AbstractContextManager[None]:
        """Keep other threads and processes of this machine out."""
        return hold_file_lock(self._lock_path(name), timeout_seconds=timeout_seconds)

    def hold_async(self, name: str, *, timeout_seconds: float) -> AbstractAsyncContextManager[None]:
        """The same for a block that waits for a response."""
        return hold_file_lock_async(self._lock_path(name), timeout_seconds=timeout_seconds)

    def describe(self, name: str) -> str:
        """The name of the file."""
        return self._path(name).name

    def close(self) -> None:
        """Nothing is open between two uses."""

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    def _lock_path(self, name: str) -> Path:
        return self._folder.with_name("locks") / f"login-{name}.lock"
