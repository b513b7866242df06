"""The total of saved tokens, to which several processes add: in a file, or in PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

from ...config import Config
from ...errors import StoreError
from ...store.contract import Store, StoreLimits
from ...store.factory import is_store_shared, open_store
from ...store.file_lock import hold_file_lock

SPACE = "savings"
"""The space of the store."""

OLD_FILE = "savings.json"
"""The file of version 0.1, whose total goes to the first configuration that is served."""

_KEY = "total"
_FIELD = "tokens_saved"
_LOCK_SECONDS = 2.0
# Each attempt fails only because another writer was successful.
_MAX_ATTEMPTS = 50
_MAX_WRITES = 64


class SavingsTotal(Protocol):
    """A number that only this process and others like it change; failures raise.

    After OSError or StoreError nothing counts as added: add it again later.
    """

    def read(self) -> int:
        """The total; 0 if there is none."""
        ...

    def add(self, tokens: int) -> int:
        """Add tokens, or subtract them, and return the total, which is never below 0."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


def open_total(config: Config, path: Path) -> SavingsTotal:
    """The total of one configuration, by the path of its file; in PostgreSQL, of all gateways."""
    if is_store_shared(config):
        return TotalRecord(open_store(config, space=SPACE, limits=StoreLimits(cap=None)))
    return TotalFile.of(config.state_folder, path)


def read_savings(config: Config, path: Path) -> int:
    """The total of one configuration; 0 if it cannot be read, since it is only a statistic."""
    with closing(open_total(config, path)) as total:
        try:
            return total.read()
        except StoreError:
            return 0


class TotalFile:
    """A total in a file, under a lock of all processes."""

    def __init__(self, path: Path, *, old: Path | None = None) -> None:
        self._path = path
        # Version 0.1 had one total for all configurations. The first one served gets it.
        self._old = old
        self._lock = path.parent.with_name("locks") / f"savings-{path.stem}.lock"

    @classmethod
    def of(cls, state_folder: Path, config: Path) -> TotalFile:
        """The total of one configuration."""
        key = hashlib.sha256(str(config.resolve()).encode()).hexdigest()[:16]
        return cls(state_folder / SPACE / f"{key}.json", old=state_folder / OLD_FILE)

    def read(self) -> int:
        """The total; 0 if there is none or the file cannot be read."""
        return read_total(self._path if self._old is None or self._path.exists() else self._old)

    def add(self, tokens: int) -> int:
        """Add tokens and replace the file as a whole."""
        with hold_file_lock(self._lock, timeout_seconds=_LOCK_SECONDS):
            is_first = self._old is not None and not self._path.exists()
            total = max(0, self.read() + tokens)
            write_total(self._path, total)
            if is_first and self._old is not None:
                self._old.unlink(missing_ok=True)
        return total

    def close(self) -> None:
        """Nothing is open between two uses."""


class _Attempt(NamedTuple):
    """A write of which nobody knows whether the store has done it."""

    id: str
    tokens: int


class TotalRecord:
    """A total in a store that gateways share; writes have ids, so that none counts twice."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unsure: _Attempt | None = None
        # What was written since the last call that returned.
        self._done = 0

    def read(self) -> int:
        """The total; 0 if there is none."""
        record = self._store.get(_KEY)
        return _parse(record.text)[0] if record else 0

    def add(self, tokens: int) -> int:
        """Add tokens; repeated until no other gateway wrote at the same time."""
        for _ in range(_MAX_ATTEMPTS):
            record = self._store.get(_KEY)
            total, writes = _parse(record.text) if record else (0, ())
            if self._unsure is not None and self._unsure.id in writes:
                # The store failed after it was written, and the caller adds the same again.
                self._done += self._unsure.tokens
            self._unsure = None
            attempt = _Attempt(uuid4().hex[:12], tokens - self._done)
            total = max(0, total + attempt.tokens)
            text = _render(total, [*writes, attempt.id][-_MAX_WRITES:])
            try:
                is_written = self._store.put(_KEY, text, expected=record.version if record else 0)
            except StoreError:
                self._unsure = attempt
                raise
            if is_written:
                self._done = 0
                return total
        raise StoreError("Too many gateways add savings at once.", hint="They are added later.")

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def read_total(path: Path) -> int:
    """The total in a file; 0 if it is missing or damaged."""
    try:
        return _parse(path.read_text(encoding="utf-8"))[0]
    except OSError:
        return 0


def write_total(path: Path, total: int) -> None:
    """Replace the total in a file; no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_render(total))
    Path(temporary).replace(path)


def _render(total: int, writes: Sequence[str] = ()) -> str:
    return json.dumps({_FIELD: total, **({"writes": writes} if writes else {})})


def _parse(text: str) -> tuple[int, tuple[str, ...]]:
    try:
        found = json.loads(text)
        return int(found[_FIELD]), tuple(found.get("writes", ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0, ()
