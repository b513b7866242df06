"""Stored logins in a PostgreSQL store, for all gateways that use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from weakref import finalize

from ...errors import StoreError
from ...store.contract import Store, StoreLimits
from ...store.postgres import PostgresStore
from ...store.postgres_locks import PostgresLocks
from ...store.postgres_url import describe_url

SPACE = "oauth_logins"
"""The space of the store."""

# More logins than the servers and principals of any gateway.
_MAX_LOGINS = 1_000_000
# Each attempt fails only because another writer was successful.
_MAX_ATTEMPTS = 10


class GrantRecords:
    """One record for each login, encrypted with a key that every gateway needs.

    A login that was read before is used while the store does not answer.
    """

    def __init__(self, url: str) -> None:
        self._place = describe_url(url)
        self._store = PostgresStore(url, space=SPACE, limits=StoreLimits(cap=None))
        self._locks = PostgresLocks(url)
        self._last_read: dict[str, bytes] = {}
        # A toolbox of the library does not close its logins.
        self._finalizer = finalize(self, _close, self._store, self._locks)

    def names(self) -> Sequence[str]:
        """The names of all records."""
        return sorted(record.key for record in self._store.list(limit=_MAX_LOGINS))

    def read(self, name: str) -> bytes | None:
        """A record, or None if there is none."""
        try:
            record = self._store.get(name)
        except StoreError:
            if name not in self._last_read:
                raise
            return self._last_read[name]
        if record is None:
            self._last_read.pop(name, None)
            return None
        self._last_read[name] = record.text.encode()
        return self._last_read[name]

    def write(self, name: str, content: bytes) -> None:
        """Replace a record; of two writers at once, the last one counts."""
        for _ in range(_MAX_ATTEMPTS):
            known = self._store.get(name)
            if self._store.put(name, content.decode(), expected=known.version if known else 0):
                self._last_read[name] = content
                return
        raise StoreError("Other gateways are writing the same login.", hint="Try again.")

    def delete(self, name: str) -> bool:
        """Delete a record; whether there was one."""
        is_deleted = self._store.delete(name)
        self._last_read.pop(name, None)
        return is_deleted

    def set_aside(self, name: str) -> None:
        """Refuse: a login that this gateway cannot read may be in use at others."""
        raise StoreError(
            f"There is a login that this gateway cannot read ({self.describe(name)}).",
            hint="Give every gateway the same TOOLSCOUT_KEY, or delete the login with"
            " toolscout login SERVER --forget.",
        )

    @contextmanager
    def hold(self, name: str, *, timeout_seconds: float) -> Generator[None]:
        """Keep all gateways out."""
        del timeout_seconds  # the locks have their own
        with self._locks.hold(f"{SPACE}/{name}"):
            yield

    @asynccontextmanager
    async def hold_async(self, name: str, *, timeout_seconds: float) -> AsyncGenerator[None]:
        """The same for a block that waits for a response."""
        lock = self._locks.hold_async(f"{SPACE}/{name}", timeout_seconds=timeout_seconds)
        async with lock:
            yield

    def describe(self, name: str) -> str:
        """The record and its store."""
        return f"the record {name} of {SPACE} in {self._place}"

    def close(self) -> None:
        """Release the connections."""
        self._finalizer()


def _close(store: Store, locks: PostgresLocks) -> None:
    store.close()
    locks.close()
